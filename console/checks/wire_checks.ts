/** Rules for the frames of a run, judged by the {@link WireLedger} where frames were recorded. */
import { rnicName } from "../../fabric/rack/plan/names.ts";
import {
  type Checker,
  checkerOf,
  type CheckSteps,
  inSteps,
  mostOf,
  type RunRecord,
} from "./run_record.ts";
import type { Time } from "../../fabric/base/time.ts";
import { countOf, type Finding } from "./finding.ts";
import { firstPlace } from "./values.ts";
import type { WireLedger } from "./wire_ledger.ts";

/** P-41, last part: frames at both ends of each cable are compared. */
export const conservation = checkerOf({
  name: "frames-are-conserved",
  promise:
    "A frame that arrives over a cable was sent over it, in this order and once, unchanged " +
    "unless a fault of the cable did it; a cable without faults between living nodes loses none; a " +
    "switch passes on only what it has received; a card receives what it sends to its own address.",
  looked: lookedAt(({ frames }) => `${frames} ends of frames' ways`),
  subjects: ({ wire }) => wire?.frames ?? 0,
  without: "no frame was seen on a cable",
  steps: checkConservation,
});

export const answersInOrder = checkerOf({
  name: "answers-in-order",
  promise:
    "A responder answers what has come, in the order of the requests: no ACK, READ response or other " +
    "answer passes one before it, no MSN runs back, and no NAK asks for what has been confirmed.",
  looked: lookedAt(({ answers }) => countOf(answers, "answer")),
  subjects: ({ wire }) => wire?.answers ?? 0,
  without: "no responder has sent an answer",
  steps: checkAnswers,
});

/** Under any faults of the cable. */
export const lineRate = checkerOf({
  name: "ports-keep-their-rate",
  promise:
    "A port sends, and receives, one frame after the other at the rate of its cable, also where the cable " +
    "delays, doubles or reorders them.",
  looked: lookedAt(({ timed }) => countOf(timed, "frame at a port", "frames at ports")),
  subjects: ({ wire }) => wire?.timed ?? 0,
  without: "no frame was sent or received",
  // deno-lint-ignore require-yield
  *steps(run) {
    return run.wire?.overlapping.slice(0, mostOf(run)) ?? [];
  },
});

function lookedAt(textOf: (wire: WireLedger) => string): Checker["looked"] {
  return ({ wire }) => wire === undefined ? "frames were not recorded" : textOf(wire);
}

/** No frame shows a program's settings of its queue pairs; its notes do. */
function* checkAnswers(run: RunRecord): CheckSteps {
  const { wire, notes } = run;
  if (wire === undefined) return [];
  const { doubts } = wire;
  const set = new Map<string, Time[]>();
  const add = (key: string, time: Time) => {
    const known = set.get(key);
    if (known === undefined) set.set(key, [time]);
    else known.push(time);
  };
  yield* inSteps(doubts.length === 0 ? [] : notes, ({ time, node, note }) => {
    if (note.kind !== "connects") return;
    const queuePair = `${rnicName(node, note.rnic)} ${note.qpn}`;
    add(queuePair, time);
    add(`${queuePair} ${note.rqPsn}`, time);
  });
  const unsettled: Finding[] = [];
  yield* inSteps(doubts, ({ rnic, unless: { qpn, rqPsn, since }, time: before, text }) => {
    const times = set.get(`${rnic} ${qpn}${rqPsn === undefined ? "" : ` ${rqPsn}`}`) ?? [];
    const first = times[firstPlace(times.length, (i) => times[i]! > since)];
    if (first === undefined || first > before) {
      unsettled.push({ text, at: { node: rnic, time: before } });
    }
  });
  return [...wire.outOfOrder, ...unsettled].slice(0, mostOf(run));
}

function* checkConservation(run: RunRecord): CheckSteps {
  const { wire, until = Infinity } = run, most = mostOf(run);
  if (wire === undefined) return [];
  const findings = wire.unexplained.slice(0, most);
  yield* inSteps(wire.unreceived(), ({ direction: { name, from, to }, sentAt, dueAt }) => {
    if (findings.length >= most) return "stop";
    if (dueAt >= until) return undefined;
    const text = `${to.node} never receives what ${from.node} sent at ${sentAt} ps (${name})`;
    findings.push({ text, at: { node: from.node, time: sentAt } });
    return undefined;
  });
  yield* inSteps(wire.unlooped(), ({ name, sentAt, dueAt }) => {
    if (findings.length >= most) return "stop";
    if (dueAt >= until) return undefined;
    const text = `${name} never receives what it sent to itself at ${sentAt} ps`;
    findings.push({ text, at: { node: name, time: sentAt } });
    return undefined;
  });
  return findings;
}
