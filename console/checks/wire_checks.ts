/** What the frames of a run must keep to, judged by the {@link WireLedger} where frames were recorded. */
import type { Checker, RunRecord } from "./run_record.ts";
import type { Time } from "../../fabric/base/time.ts";
import { countOf, type Finding, FINDINGS_MAX } from "./finding.ts";
import type { WireLedger } from "./wire_ledger.ts";

/** P-41, last part: frames at both ends of each cable are compared. */
export const conservation: Checker = {
  name: "frames-are-conserved",
  promise:
    "A frame that arrives over a cable was sent over it, in this order and once, unchanged " +
    "unless a fault of the cable did it; a cable without faults between living nodes loses none; a " +
    "switch passes on only what it has received; a card receives what it sends to its own address.",
  looked: lookedAt(({ frames }) => `${frames} ends of frames' ways`),
  subjects: ({ wire }) => wire?.frames ?? 0,
  without: "no frame was seen on a cable",
  check: checkConservation,
};

/** Judged at the network ports of all RNICs: see `answer_order.ts`. */
export const answersInOrder: Checker = {
  name: "answers-in-order",
  promise:
    "A responder answers what has come, in the order of the requests: no ACK, READ response or other " +
    "answer passes one before it, no MSN runs back, and no NAK asks for what has been confirmed.",
  looked: lookedAt(({ answers }) => countOf(answers, "answer")),
  subjects: ({ wire }) => wire?.answers ?? 0,
  without: "no responder has sent an answer",
  check: checkAnswers,
};

/** At a port no two frames overlap in time, whatever faults of the cable have done to them. */
export const lineRate: Checker = {
  name: "ports-keep-their-rate",
  promise:
    "A port sends, and receives, one frame after the other at the rate of its cable, also where the cable " +
    "delays, doubles or reorders them.",
  looked: lookedAt(({ timed }) => countOf(timed, "frame at a port", "frames at ports")),
  subjects: ({ wire }) => wire?.timed ?? 0,
  without: "no frame was sent or received",
  check: ({ wire }) => [...wire?.overlapping ?? []],
};

function lookedAt(textOf: (wire: WireLedger) => string): Checker["looked"] {
  return ({ wire }) => wire === undefined ? "frames were not recorded" : textOf(wire);
}

/** What a program set for its queue pairs, no frame says: its notes do. */
function checkAnswers({ wire, notes }: RunRecord): Finding[] {
  if (wire === undefined) return [];
  const set = new Map<string, { readonly time: Time; readonly rqPsn: number }[]>();
  for (const { time, node, note } of wire.doubts.length === 0 ? [] : notes) {
    if (note.kind !== "connects") continue;
    const key = `${node} ${note.qpn}`;
    const known = set.get(key);
    if (known === undefined) set.set(key, [{ time, rqPsn: note.rqPsn }]);
    else known.push({ time, rqPsn: note.rqPsn });
  }
  const unsettled = wire.doubts.filter(({ host, unless, time: before }) =>
    set.get(`${host} ${unless.qpn}`)?.some(({ time, rqPsn }) =>
      time > unless.since && time <= before && (unless.rqPsn ?? rqPsn) === rqPsn
    ) !== true
  );
  return [...wire.outOfOrder, ...unsettled.map(({ text }) => ({ text }))].slice(0, FINDINGS_MAX);
}

function checkConservation({ wire, until = Infinity }: RunRecord): Finding[] {
  if (wire === undefined) return [];
  const findings = [...wire.unexplained];
  for (const { direction: { name, from, to }, sentAt, dueAt } of wire.unreceived()) {
    if (findings.length >= FINDINGS_MAX) break;
    if (dueAt >= until) continue;
    const text = `${to.node} never receives what ${from.node} sent at ${sentAt} ps (${name})`;
    findings.push({ text });
  }
  for (const { name, sentAt, dueAt } of wire.unlooped()) {
    if (findings.length >= FINDINGS_MAX) break;
    if (dueAt >= until) continue;
    findings.push({ text: `${name} never receives what it sent to itself at ${sentAt} ps` });
  }
  return findings;
}
