/**
 * Both RNICs' lines about hints (document 001_, figure 6: 608 to 612), one for each work element that a hint names:
 * a line has the PSN that the element's request will have, and so belongs to its ladder. Their names are those of
 * `fabric/trace/mechanism_steps.ts`.
 */
import type { TraceStep } from "../../../fabric/node.ts";
import type { MechanismWord } from "../../../fabric/trace/mechanism_steps.ts";
import type { HintEntry, HintGroup, HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { HINT_KINDS, type HintReason } from "../../../fabric/wire/roce/hint_eth.ts";
import type { Device } from "../state/device.ts";
import type { Word } from "./state/hint_state.ts";
import type { WantedPage } from "../state/paging_state.ts";
import { packetsOf, psnAdd, psnDistance } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { RecvWqe } from "../state/responder_state.ts";
import { type Pages, pagesOfLine, pagesText, rangesOf } from "../trace/page_trace.ts";
import { trace } from "../trace/trace.ts";

/** `READ of 65536 B at VA 0x1000, rkey 0x100`; `4 SENDs`. */
function elementText({ operation, messages, length, va, rkey }: HintEntry): string {
  const name = operation.toUpperCase();
  if (operation === "send") return messages === 1 ? `1 ${name}` : `${messages} ${name}s`;
  return `${name} of ${length} B at VA 0x${va.toString(16)}, rkey 0x${rkey.toString(16)}`;
}

function kindsText(kinds: number): string {
  const names = Object.entries(HINT_KINDS).flatMap(([name, bit]) => (kinds & bit) ? [name] : []);
  return names.length === 0 ? "no kind" : names.join(", ");
}

/** Of several messages in one element at least one packet each: the responder knows no more of untagged ones. */
function psnsOf({ sequence: psn, messages }: HintEntry): Pick<TraceStep, "psn" | "lastPsn"> {
  return messages > 1 ? { psn, lastPsn: psnAdd(psn, messages - 1) } : { psn };
}

/** The last PSN of SENDs that are counted in one element, which their requester knows. */
function lastPsnIn(
  { requester: { work, nextPsn }, attributes: { pathMtu } }: QueuePair,
  { sequence, messages }: HintEntry,
): number {
  let psn = nextPsn, last = psnAdd(sequence, messages - 1), left = messages;
  for (let number = work.first; number < work.end && left > 0; number++) {
    const each = work.at(number)!;
    if (each.plan.wire === "none") continue;
    const first = each.started ? each.firstPsn : psn;
    const packets = packetsOf(each.length, pathMtu);
    if (!each.started) psn = psnAdd(psn, packets);
    if (each.plan.wire !== "send" || psnDistance(sequence, first) < 0) continue;
    last = psnAdd(first, packets - 1);
    left--;
  }
  return last;
}

function traceElement(
  device: Device,
  { qp, entry, inbound }: {
    readonly qp: QueuePair;
    readonly entry: HintEntry;
    readonly inbound: boolean;
  },
  line: Omit<TraceStep, "step"> & { readonly step: MechanismWord },
): void {
  trace(device, qp, { ...psnsOf(entry), ...line, ...(inbound && { inbound }) });
}

/** A hint leaves: by itself, or in another packet, as `how` says. */
export function traceHintOut(device: Device, message: HintMessage, how: string): void {
  if (!device.out.tracing || message.type !== "announce") return;
  const { sequence: hint, groups } = message;
  for (const { sourceQpn, entries } of groups) {
    const qp = device.queuePairs.get(sourceQpn);
    if (qp === undefined) continue;
    for (const entry of entries) {
      const text = `hint ${hint} ${how}: ${elementText(entry)}, for ${kindsText(entry.kinds)}`;
      const line = { step: "hint-out", text, hint } as const;
      const all = entry.messages > 1 && { lastPsn: lastPsnIn(qp, entry) };
      traceElement(device, { qp, entry, inbound: false }, { ...line, ...all });
    }
  }
}

/** A hint has come, by `carrier`. */
export function traceHintIn(device: Device, carrier: QueuePair, message: HintMessage): void {
  if (!device.out.tracing) return;
  for (const group of message.groups) {
    const qp = targetOf(device, carrier, group);
    for (const entry of group.entries) {
      const text = `hint ${message.sequence}: ${elementText(entry)}`;
      traceElement(device, { qp, entry, inbound: true }, { step: "hint-in", text });
    }
  }
}

/** The queue pair of a group, where its peer has one of that number: else that of the packet. */
function targetOf(device: Device, carrier: QueuePair, group: HintGroup): QueuePair {
  const target = device.queuePairs.get(group.destQpn);
  return target?.attributes.destQpn === group.sourceQpn ? target : carrier;
}

/** H-20: a decision for an element. */
export function traceDecision(
  device: Device,
  { qp, entry }: { readonly qp: QueuePair; readonly entry: HintEntry },
  decided: Pick<TraceStep, "text" | "queue" | "pages">,
): void {
  const text = `${elementText(entry)}: ${decided.text}`;
  const line = { step: "hint-decision", ...decided, text } as const;
  traceElement(device, { qp, entry, inbound: true }, line);
}

/** H-20: a line of translations is not on the chip. */
export function traceTranslationDecision(
  device: Device,
  about: { readonly qp: QueuePair; readonly entry: HintEntry },
  place: Parameters<typeof pagesOfLine>[0],
): void {
  const range = pagesOfLine(place);
  const text = `translations of ${pagesText(range)} are read`;
  traceDecision(device, about, { text, ...placeOf(range) });
}

/** H-20: the decision for an element, without reads that have begun at once and are traced already. */
export function traceDecided(
  device: Device,
  about: { readonly qp: QueuePair; readonly entry: HintEntry },
  decided: {
    readonly pages: readonly WantedPage[];
    readonly reason: HintReason;
    readonly isRead: boolean;
    readonly word?: Word | undefined;
    readonly receiver?: QueuePair | undefined;
  },
): void {
  const { pages, reason, isRead, word, receiver } = decided;
  const [range, ...others] = rangesOf(pages);
  const words = range === undefined ? [] : [awayText(range)];
  if (receiver !== undefined) words.push("receives are set aside for them");
  if (word !== undefined && !isRead) words.push("its word is there, or coming");
  if (reason !== "none") words.push(`not ${words.length > 0 ? "all " : ""}prepared: ${reason}`);
  if (words.length === 0 && isRead) return;
  const text = words.length === 0 ? "all is there, nothing is done" : words.join("; ");
  traceDecision(device, about, { text, ...placeOf(range) });
  for (const other of others) {
    traceDecision(device, about, { text: awayText(other), ...placeOf(other) });
  }
}

function awayText(range: Pages): string {
  return `${pagesText(range)} ${range.to - range.from === 1 ? "is" : "are"} away, and brought in`;
}

function placeOf(range: Pages | undefined): Pick<TraceStep, "pages"> {
  return range === undefined ? {} : { pages: [range.key, range.from, range.to] };
}

/** H-22: an element's answer leaves. */
export function traceHintAnswer(
  device: Device,
  carrier: QueuePair,
  answered: {
    readonly sequence: number;
    readonly group: HintGroup;
    readonly reason: HintReason;
  },
): void {
  const { sequence, group, reason } = answered;
  const qp = targetOf(device, carrier, group);
  const word = reason === "none" ? "prepared" : `not prepared: ${reason}`;
  for (const entry of group.entries) {
    const text = `hint ${sequence}: ${word}`;
    traceElement(device, { qp, entry, inbound: true }, { step: "hint-answer", text });
  }
}

/** H-22: the answer to a hint of this card has come. */
export function traceHintAnswered(
  device: Device,
  carrier: QueuePair,
  { sequence: hint, type, reason }: HintMessage,
): void {
  const text = `hint ${hint}: ${type === "prepared" ? "prepared" : `not prepared: ${reason}`}`;
  trace(device, carrier, { step: "hint-answered", text, hint });
}

/** H-21: a receive is set aside, for whichever SEND takes it. `pages`: those of its memory that are absent. */
export function traceReceiveAhead(
  device: Device,
  qp: QueuePair,
  { recv: { position }, pages }: {
    readonly recv: RecvWqe;
    readonly pages: readonly WantedPage[];
  },
): void {
  const text = `RECV WQE at ${position}`;
  const line = { step: "receive-ahead", recvs: [position] } as const;
  const ranges = rangesOf(pages);
  if (ranges.length === 0) trace(device, qp, { ...line, text });
  for (const range of ranges) {
    trace(device, qp, { ...line, text: `${text}: ${awayText(range)}`, ...placeOf(range) });
  }
}
