import {
  detachHint,
  type HintEntry,
  type HintGroup,
  type HintMessage,
  hintOf,
} from "../wire/roce/hint.ts";
import { HINT_KINDS, type HintPart } from "../wire/roce/hint_eth.ts";
import type { RocePacket } from "../wire/roce/packet.ts";

/** Of a hint packet, or one that another packet carries (H-07). */
export function describeHintOf(packet: RocePacket): string | undefined {
  const message = hintOf(packet);
  if (message !== undefined) return describeHint(message);
  if (packet.hintEth !== undefined) return "hint malformed";
  if (packet.bth.reserved7 === 0) return undefined;
  const carried = detachHint(packet);
  if (carried?.message !== undefined) {
    const { message, packet: { payload } } = carried;
    return `beside=${payload.length} ${describeHint(message)}`;
  }
  return carried?.range && `hint ${describeEntry(carried.range)}`;
}

function describeHint(message: HintMessage): string {
  const { type, sequence, reason, answer, groups, kinds } = message;
  return [
    `hint ${type} sequence=${sequence}`,
    ...(reason === "none" ? [] : [`reason=${reason}`]),
    ...(answer ? ["answer"] : []),
    ...(groups.length === 0 ? [kindWords(kinds)] : groups.map(describeGroup)),
  ].join(" ");
}

function describeGroup({ sourceQpn, destQpn, entries }: HintGroup): string {
  const ends = `${hex(sourceQpn)}→${hex(destQpn)}`;
  return `[${[ends, ...entries.map(describeEntry)].join("; ")}]`;
}

function describeEntry(entry: HintEntry): string {
  const { kinds, operation, messages, sequence, rkey, length, va, objects, operands, parts = [] } =
    entry;
  return [
    kindWords(kinds),
    operation,
    ...(operation === "send"
      ? [`messages=${messages}`]
      : [`va=${hex(va)} rkey=${hex(rkey)} len=${length}`]),
    `psn=${sequence}`,
    ...(operands === undefined
      ? []
      : [`swapAdd=${hex(operands.swapAdd)} compare=${hex(operands.compare)}`]),
    ...(objects.length === 0
      ? []
      : [`objects=${objects.map((each, i) => hex(each) + describePart(parts[i])).join(",")}`]),
  ].join(" ");
}

function describePart(part: HintPart | undefined): string {
  return part === undefined ? "" : `[${part.offset}+${part.length}]`;
}

function kindWords(kinds: number): string {
  const words = Object.entries(HINT_KINDS).filter(([, bit]) => (kinds & bit) !== 0);
  return words.length === 0 ? "nothing" : words.map(([name]) => name).join("+");
}

function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}
