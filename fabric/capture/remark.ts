/** What a capture says of a frame besides its step: another frame it speaks of by that one's number. */

/** A frame of a capture. Its number, counted from 1 as Wireshark does, is known when it is written. */
export interface FrameMark {
  number?: number;
}

export interface Remark {
  /** `retransmission of`, where `about` follows; else all of it. */
  readonly text: string;
  /** A frame that is written before the one that the remark is on. */
  readonly about?: FrameMark;
}

/** `retransmission of frame 12` */
export function remarkText({ text, about }: Remark): string {
  return about === undefined ? text : `${text} frame ${about.number}`;
}
