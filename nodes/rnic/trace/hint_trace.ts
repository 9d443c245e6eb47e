/**
 * Both RNICs' lines about hints (document 001_, figure 6: 608 to 612), one for each work element that a hint names: a
 * line has the PSN that the element's request will have, and so belongs to its ladder. Their names are those of
 * `fabric/trace/mechanism_steps.ts`.
 */
import type { TraceStep } from "../../../fabric/node.ts";
import type { MechanismWord } from "../../../fabric/trace/mechanism_steps.ts";
import type { HintEntry, HintGroup, HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { HINT_KINDS, type HintReason } from "../../../fabric/wire/roce/hint_eth.ts";
import type { Device } from "../state/device.ts";
import type { Word } from "../state/hints/hint_state.ts";
import type { WantedPage } from "../state/paging_state.ts";
import { psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { MemorySegment } from "../state/memory.ts";
import type { RecvWqe } from "../state/responder_state.ts";
import { pagesOfLine, pagesText, rangeOf } from "./page_trace.ts";
import { trace } from "./trace.ts";

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

/** Of several messages in one element at least one packet each: of untagged ones no more is known. */
function psnsOf({ sequence: psn, messages }: HintEntry): Pick<TraceStep, "psn" | "lastPsn"> {
  return messages > 1 ? { psn, lastPsn: psnAdd(psn, messages - 1) } : { psn };
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
  trace(device, qp, { ...line, ...psnsOf(entry), ...(inbound && { inbound }) });
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
      traceElement(device, { qp, entry, inbound: false }, { step: "hint-out", text, hint });
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

/** The queue pair that a group is about, where its peer has one of that number: else whose packet it came in. */
function targetOf(device: Device, carrier: QueuePair, group: HintGroup): QueuePair {
  const target = device.queuePairs.get(group.destQpn);
  return target?.attributes.destQpn === group.sourceQpn ? target : carrier;
}

/** H-20: what is decided for an element. */
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
  const { key, from, to } = pagesOfLine(place);
  const text = `translations of ${pagesText({ key, from, to })} are read`;
  traceDecision(device, about, { text, pages: [key, from, to] });
}

/** H-20: what is decided for an element beside what is read at once, which has been said. */
export function traceDecided(
  device: Device,
  about: { readonly qp: QueuePair; readonly entry: HintEntry },
  decided: {
    /** Away, and brought in. */
    readonly pages: readonly WantedPage[];
    readonly reason: HintReason;
    readonly isRead: boolean;
    readonly word: Word | undefined;
    readonly receiver: QueuePair | undefined;
  },
): void {
  const { pages, reason, isRead, word, receiver } = decided;
  const words: string[] = [];
  const range = rangeOf(pages);
  if (range !== undefined) {
    words.push(`${pages.length} of ${pagesText(range)} are away, and brought in`);
  }
  if (receiver !== undefined) words.push("receives are set aside for them");
  if (word !== undefined && !isRead) words.push("its word is there, or coming");
  if (reason !== "none") words.push(`not ${words.length > 0 ? "all " : ""}prepared: ${reason}`);
  if (words.length === 0 && isRead) return;
  const text = words.length === 0 ? "all is there, nothing is done" : words.join("; ");
  const where = range && { pages: [range.key, range.from, range.to] as const };
  traceDecision(device, about, { text, ...where });
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

/** H-21: a receive is set aside, for whichever SEND takes it. */
export function traceReceiveAhead(
  device: Device,
  qp: QueuePair,
  { recv: { position }, segments = [] }: {
    readonly recv: RecvWqe;
    readonly segments?: readonly MemorySegment[] | undefined;
  },
): void {
  const away = segments.flatMap(
    ({ region: { table, pageBase, pageBytes, isNull }, va, length }) => {
      if (isNull || table.demand === undefined) return [];
      const from = Math.floor((va - pageBase) / pageBytes);
      const last = Math.floor((va + length - 1 - pageBase) / pageBytes);
      return [{ key: table.key, from, to: last + 1 }];
    },
  );
  const names = away.map((pages) => `, ${pagesText(pages)}`).join("");
  const [pages] = away;
  trace(device, qp, {
    step: "receive-ahead",
    text: `RECV WQE at ${position}${names}`,
    recvs: [position],
    ...(pages !== undefined && { pages: [pages.key, pages.from, pages.to] }),
  });
}
