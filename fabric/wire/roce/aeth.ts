import { formatTime } from "../../base/time.ts";
import type { HeaderOf } from "../../base/fields.ts";

export const AETH_FIELDS = [
  ["syndrome", 8],
  ["msn", 24],
] as const;
export type Aeth = HeaderOf<typeof AETH_FIELDS>;

export function readAeth(view: DataView, at: number): Aeth {
  const word = view.getUint32(at);
  return { syndrome: word >>> 24, msn: word & 0xff_ffff };
}

export function writeAeth(view: DataView, at: number, header: Aeth): void {
  view.setUint32(at, (header.syndrome << 24) | header.msn);
}

export const NAK_SYNDROMES = {
  "psn-sequence-error": 0x60,
  "invalid-request": 0x61,
  "remote-access-error": 0x62,
  "remote-operational-error": 0x63,
  "invalid-rd-request": 0x64,
} as const;
export type NakCode = keyof typeof NAK_SYNDROMES;

/** Of an ACK without receive credits. */
export const ACK_SYNDROME = 0x1f;

/** A receiver ignores `reserved` values. */
export type Syndrome =
  | { readonly kind: "ack"; readonly creditCode: number }
  | { readonly kind: "rnr-nak"; readonly timerCode: number }
  | { readonly kind: "nak"; readonly code: NakCode }
  | { readonly kind: "reserved" };

const NAK_CODES = new Map<number, NakCode>(
  Object.entries(NAK_SYNDROMES).map(([code, syndrome]) => [syndrome, code as NakCode]),
);
const RESERVED: Syndrome = { kind: "reserved" };

const SYNDROMES: readonly Syndrome[] = Array.from({ length: 256 }, (_, byte): Syndrome => {
  const low = byte & 0x1f;
  if (byte >> 5 === 0) return { kind: "ack", creditCode: low };
  if (byte >> 5 === 1) return { kind: "rnr-nak", timerCode: low };
  const code = NAK_CODES.get(byte);
  return code === undefined ? RESERVED : { kind: "nak", code };
});

export function parseSyndrome(syndrome: number): Syndrome {
  return SYNDROMES[syndrome] ?? RESERVED;
}

const NAK_TEXTS: Readonly<Record<NakCode, string>> = {
  "psn-sequence-error": "PSN sequence error",
  "invalid-request": "invalid request",
  "remote-access-error": "remote access error",
  "remote-operational-error": "remote operational error",
  "invalid-rd-request": "invalid RD request",
};

/** `NAK PSN sequence error`, `RNR NAK timer 640 us`; undefined for a syndrome that is not a NAK. */
export function nakText(byte: number): string | undefined {
  const syndrome = parseSyndrome(byte);
  if (syndrome.kind === "nak") return `NAK ${NAK_TEXTS[syndrome.code]}`;
  if (syndrome.kind !== "rnr-nak") return undefined;
  return `RNR NAK timer ${formatTime(rnrDelayPs(syndrome.timerCode))}`;
}

export function ackText(byte: number): string {
  const syndrome = parseSyndrome(byte);
  if (syndrome.kind !== "ack") return "reserved";
  const credits = CREDITS[syndrome.creditCode];
  return credits === undefined ? "ACK" : `ACK, ${credits} credits`;
}

export function rnrSyndrome(timerCode: number): number {
  return 0x20 | (timerCode & 0x1f);
}

/** Of timer codes 0…31, in units of 10 µs. Code 0 is the longest. */
// deno-fmt-ignore
const RNR_TENS_OF_US = [
  65536, 1, 2, 3, 4, 6, 8, 12,
  16, 24, 32, 48, 64, 96, 128, 192,
  256, 384, 512, 768, 1024, 1536, 2048, 3072,
  4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
] as const;

/** Minimum delay of a requester after an RNR NAK, in ps. */
export function rnrDelayPs(timerCode: number): number {
  return RNR_TENS_OF_US[timerCode & 0x1f]! * 10_000_000;
}

/** Receive WQEs for credit codes 0…30; 31 sets no limit (§3.2). */
export const CREDITS: readonly number[] = [0, 1, 2, 3, 4].concat(
  Array.from({ length: 26 }, (_, i) => (i % 2 === 0 ? 6 : 8) * 2 ** Math.floor(i / 2)),
);

/**
 * For this number of posted receive WQEs: the largest credit code that does not exceed it;
 * undefined: unknown.
 */
export function ackSyndrome(receives: number | undefined): number {
  if (receives === undefined) return ACK_SYNDROME;
  let code = 0;
  while (code + 1 < CREDITS.length && CREDITS[code + 1]! <= receives) code++;
  return code;
}

/** `msn=7`; preceded by a NAK's name where the opcode is not an ACK. */
export function describeAeth({ syndrome, msn }: Aeth, operation: string): string {
  const words = [`msn=${msn}`];
  const nak = nakText(syndrome);
  if (nak !== undefined && operation !== "acknowledge") words.unshift(nak);
  if (parseSyndrome(syndrome).kind === "reserved") {
    words.unshift(`syndrome=0x${syndrome.toString(16)}`);
  }
  return words.join(" ");
}
