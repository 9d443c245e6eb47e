/**
 * C-10, no answer is lost: each access to a shared region ends within the scenario's bound, whatever fails elsewhere,
 * and an access is told of a loss only where that loss is reported by range.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { countOf, type Finding, FINDINGS_MAX } from "../finding.ts";
import { lifeAt } from "../lives.ts";
import { LINE_BYTES } from "./line_content.ts";
import type { Checker, RunRecord } from "../run_record.ts";
import { type Access, hadPower, type Region, sharedAccesses, usesRegions } from "./accesses.ts";
import { faultSpans, firstFault } from "./faults.ts";

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

/** Accesses of programs: what cards do for verbs has no bound, and no program is told. */
export function accessesIn({ notes }: RunRecord): number {
  return notes.filter(({ note }) => note.kind === "access" && note.dma !== true).length;
}

function checkAnswers(run: RunRecord): Finding[] {
  const { regions, wrong } = sharedAccesses(run.notes);
  const texts = [...wrong];
  const faultAt = firstFault(run);
  for (const region of regions.values()) {
    for (const access of region.accesses) {
      if (texts.length >= FINDINGS_MAX) break;
      if (access.note.dma === true) continue;
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
  region: Region,
  { access, faultAt }: { readonly access: Access; readonly faultAt: Time },
): string | undefined {
  const { name, ended, note: { offset } } = access;
  if (ended === undefined) return undefined;
  // Its program asks for the region anew, and is told that it is refused.
  if (ended.note.result === "done" || ended.note.result === "refused") return undefined;
  const { at: { time }, note: { result } } = ended;
  if (time < faultAt) return `${name} ended as ${result} at ${time} ps, before any fault`;
  if (result === "fenced") return fenceText(run, region, access);
  const isReported = region.losses.some(({ note: { ranges } }) =>
    ranges.some((range) => covers(range, access.note))
  );
  if (isReported || mayBeUnreported(run, region, access) || run.until !== undefined) {
    return undefined;
  }
  return `${name} was told that bytes of ${access.note.region} at 0x${
    offset.toString(16)
  } are lost, and no report names them`;
}

/**
 * A far host is fenced by what parts it from home (decision 13), and by nothing that fails elsewhere. A card that has
 * nothing of home's has no lease: only its next access finds that home has had another life meanwhile.
 */
function fenceText(
  run: RunRecord,
  { accesses, record: { home, answerWithinPs } }: Region,
  { name, node, began, ended }: Access,
): string | undefined {
  const pair = node === home ? undefined : { host: node, home };
  const { time } = ended!.at;
  const lastDone = accesses.findLast((each) =>
    each.node === node && each.began.order < began.order && each.ended?.note.result === "done"
  );
  const since = Math.min(began.time, lastDone?.began.time ?? 0) - answerWithinPs;
  if (faultSpans(run, pair).some(({ from, to }) => from <= time && to >= since)) return undefined;
  const where = pair === undefined ? "" : ` between ${node} and ${home}`;
  return `${name} ended as fenced at ${time} ps, without a fault${where} since ${since} ps`;
}

/** Whether all bytes of an access are in the range; of a flush's lines, those of one: its answer does not say which. */
function covers(
  range: { readonly offset: number; readonly length: number },
  { offset, length }: Pick<Access["note"], "offset" | "length">,
): boolean {
  const end = offset + length, rangeEnd = range.offset + range.length;
  for (let from = offset; from < end;) {
    const to = Math.min(end, from - from % LINE_BYTES + LINE_BYTES);
    if (range.offset <= from && rangeEnd >= to) return true;
    from = to;
  }
  return false;
}

/** The report is made by home, or by the host of the card that had the bytes: not by one that fails before it is due. */
function mayBeUnreported(
  run: RunRecord,
  { record: { home, answerWithinPs } }: Region,
  { node, began, ended }: Access,
): boolean {
  return [home, node].some((each) => {
    const life = run.lives.get(each)?.[Math.max(0, lifeAt(run, each, began.time))];
    return life === undefined || life.to <= ended!.at.time + answerWithinPs;
  });
}
