/** A remark on a captured frame; it may refer to another frame by that frame's number. */

/** A frame of a capture. Its number, from 1 as in Wireshark, is assigned when it is written. */
export interface FrameMark {
  number?: number;
}

export interface Remark {
  /** `retransmission of`, where `about` follows; else the whole text. */
  readonly text: string;
  /** A frame that is written earlier than the one with the remark. */
  readonly about?: FrameMark;
}

/** `retransmission of frame 12` */
export function remarkText({ text, about }: Remark): string {
  return about === undefined ? text : `${text} frame ${about.number}`;
}
