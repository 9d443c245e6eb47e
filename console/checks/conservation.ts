/**
 * P-41, last part: nothing comes out of a cable that was not put into it, and nothing gets lost in a cable
 * that is whole. Judged by frames at both ends of each, where they were recorded.
 */
import type { Checker, RunRecord } from "./run_record.ts";
import { type Finding, FINDINGS_MAX } from "./finding.ts";

export const conservation: Checker = {
  name: "frames-are-conserved",
  promise:
    "A frame that arrives over a cable was sent over it, in this order and once, unchanged " +
    "unless a fault of the cable did it; a cable without faults between living nodes loses none; a " +
    "switch passes on only what it has received.",
  looked: ({ wire }) =>
    wire === undefined ? "frames were not recorded" : `${wire.frames} ends of frames' ways`,
  subjects: ({ wire }) => wire?.frames ?? 0,
  without: "no frame was seen on a cable",
  check: checkConservation,
};

function checkConservation(run: RunRecord): Finding[] {
  const { wire } = run;
  if (wire === undefined) return [];
  const findings = [...wire.findings];
  for (const { direction, from, to, sentAt, dueAt } of wire.unreceived()) {
    if (findings.length >= FINDINGS_MAX) break;
    if (dueAt >= (run.until ?? Infinity)) continue;
    const text = `${to} never receives what ${from} sent at ${sentAt} ps (${direction})`;
    findings.push({ text, time: sentAt });
  }
  return findings;
}
