/**
 * C-10, no answer is lost: each access to a shared region ends within the scenario's bound, whatever fails elsewhere,
 * and an access is told of a loss only where that loss is reported by range.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { countOf, type Finding, FINDINGS_MAX } from "../finding.ts";
import { lifeAt } from "../lives.ts";
import type { Checker, RunRecord } from "../run_record.ts";
import { type Access, hadPower, type Region, sharedAccesses, usesRegions } from "./accesses.ts";
import { firstFault } from "./faults.ts";

export const answered: Checker = {
  name: "every-access-is-answered",
  promise:
    "Each access to a shared region ends within the region's bound while its host has power; bytes are lost " +
    "only by a fault, and each loss that an access was told of is reported by range.",
  looked: (run) => countOf(accessesIn(run), "access", "accesses"),
  subjects: accessesIn,
  concerns: usesRegions,
  without: "no program accessed a shared region",
  check: checkAnswers,
};

export function accessesIn({ notes }: RunRecord): number {
  return notes.filter(({ note }) => note.kind === "access").length;
}

function checkAnswers(run: RunRecord): Finding[] {
  const { regions, wrong } = sharedAccesses(run.notes);
  const texts = [...wrong];
  const faultAt = firstFault(run);
  for (const region of regions.values()) {
    for (const access of region.accesses) {
      if (texts.length >= FINDINGS_MAX) break;
      const text = lateText(run, region, access) ?? lossText(run, region, { access, faultAt });
      if (text !== undefined) texts.push(text);
    }
    for (const { at, note } of region.losses) {
      if (at.time >= faultAt) continue;
      texts.push(`${at.node}: bytes of ${note.region} are lost at ${at.time} ps, before any fault`);
    }
  }
  return texts.slice(0, FINDINGS_MAX).map((text) => ({ text }));
}

function lateText(
  run: RunRecord,
  { record: { answerWithinPs } }: Region,
  { name, node, note, began, ended }: Access,
): string | undefined {
  const dueAt: Time = began.time + answerWithinPs;
  const place = `${name} at 0x${note.offset.toString(16)} of ${note.region}`;
  if (ended !== undefined) {
    if (ended.at.time <= dueAt) return undefined;
    const took = ended.at.time - began.time;
    return `${place} took ${took} ps, and the bound is ${answerWithinPs} ps`;
  }
  const isCutOff = run.until !== undefined && run.until <= dueAt;
  if (isCutOff || !hadPower(run, { node, from: began.time, to: dueAt })) return undefined;
  return `${place} began at ${began.time} ps and was not answered by ${dueAt} ps`;
}

function lossText(
  run: RunRecord,
  { losses, record: { home } }: Region,
  { access, faultAt }: { readonly access: Access; readonly faultAt: Time },
): string | undefined {
  const { name, ended, note: { region, offset, length } } = access;
  if (ended === undefined || ended.note.result === "done") return undefined;
  const { time } = ended.at;
  if (time < faultAt) {
    return `${name} ended as ${ended.note.result} at ${time} ps, before any fault`;
  }
  if (ended.note.result === "fenced") return undefined;
  const isReported = losses.some(({ note: { ranges } }) =>
    ranges.some((range) => range.offset < offset + length && range.offset + range.length > offset)
  );
  // The report is made by home, or by the host of the card that had the bytes: not by one that fails before.
  const hasFailed = [home, access.node].some((node) => {
    const life = run.lives.get(node)?.[Math.max(0, lifeAt(run, node, access.began.time))];
    return life === undefined || life.to !== Infinity;
  });
  if (isReported || hasFailed || run.until !== undefined) return undefined;
  return `${name} was told that bytes of ${region} at 0x${
    offset.toString(16)
  } are lost, and no report names them`;
}
