import { BTH_BYTES, readBth } from "../wire/roce/bth.ts";
import { frameBth } from "../wire/roce/frame_peek.ts";
import { OPCODE } from "../wire/roce/opcode.ts";
import { viewOf } from "../base/slab.ts";
import { BTH_AT } from "../wire/roce/packet.ts";

/** From the BTH to the addresses before it: IPv4's, and the low 32 bits of a GRH's GIDs. */
const IPV4_BEFORE = { source: 16, destination: 12 } as const;
const GIDS_BEFORE = { source: 20, destination: 4 } as const;

export interface BthPeek {
  readonly source: number;
  readonly destination: number;
  readonly opcode: number;
  readonly destQpn: number;
  readonly psn: number;
  readonly syndrome: number | undefined;
}

/** Undefined for a frame that is not RoCE. Ignores the ICRC. */
export function peekBth(frame: Uint8Array<ArrayBuffer>): BthPeek | undefined {
  const at = frameBth(frame);
  if (at < 0 || frame.length < at + BTH_BYTES) return undefined;
  const view = viewOf(frame);
  const { opcode, destQpn, psn } = readBth(view, at);
  const isAck = opcode === OPCODE["RC ACKNOWLEDGE"] && frame.length > at + BTH_BYTES;
  const syndrome = isAck ? view.getUint8(at + BTH_BYTES) : undefined;
  const before = at === BTH_AT ? IPV4_BEFORE : GIDS_BEFORE;
  const source = view.getUint32(at - before.source);
  const destination = view.getUint32(at - before.destination);
  return { source, destination, opcode, destQpn, psn, syndrome };
}
