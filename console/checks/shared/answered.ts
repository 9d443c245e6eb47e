/**
 * C-10, no answer is lost: each access to a shared region ends within the scenario's bound, whatever fails elsewhere,
 * and an access fails with a loss only where that loss is reported by range.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { countOf, type Finding, nodeTime } from "../finding.ts";
import { lifeAt } from "../lives.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { checkerOf, type CheckSteps, inSteps, mostOf, type RunRecord } from "../run_record.ts";
import { firstPlace } from "../values.ts";
import {
  type Access,
  hadPower,
  type Region,
  scmOf,
  sharedAccessSteps,
  usesRegions,
} from "./accesses.ts";
import { type FaultSpan, faultSpans, firstFault } from "./faults.ts";

export const answered = checkerOf({
  name: "every-access-is-answered",
  promise:
    "Each access to a shared region ends within the region's bound while its host has power; bytes are lost " +
    "only by a fault, and each loss that an access was told of is reported by range.",
  looked: (run) => countOf(accessesIn(run), "access", "accesses"),
  subjects: accessesIn,
  concerns: usesRegions,
  without: "no program accessed a shared region",
  steps: checkAnswers,
});

/** Those of cards for verbs have no bound, and no program receives their result. */
function accessesIn({ notes }: RunRecord): number {
  return notes.filter(({ note }) => note.kind === "access" && note.dma !== true).length;
}

function* checkAnswers(run: RunRecord): CheckSteps {
  const { regions, wrong } = yield* sharedAccessSteps(run.notes);
  const findings: Finding[] = [...wrong], most = mostOf(run);
  const faultAt = firstFault(run);
  for (const region of regions.values()) {
    const known = new KnownOfRegion(run, region);
    yield* inSteps(region.accesses, (access) => {
      if (findings.length >= most) return "stop";
      if (access.note.dma === true) return undefined;
      const text = lateText(run, region, access) ??
        lossText(run, region, { access, faultAt, known });
      if (text === undefined) return undefined;
      const at = nodeTime(access.ended?.at ?? access.began);
      findings.push({ text, at, ...scmOf(region, access.note) });
      return undefined;
    });
    for (const { at, note } of region.losses) {
      if (at.time >= faultAt) continue;
      const text =
        `${at.node}: bytes of ${note.region} are lost at ${at.time} ps, before any fault`;
      const [first] = note.ranges;
      findings.push({ text, at: nodeTime(at), ...(first && scmOf(region, first)) });
    }
  }
  return findings.slice(0, most);
}

class KnownOfRegion {
  readonly #run: RunRecord;
  readonly #region: Region;
  readonly #spans = new Map<string, readonly FaultSpan[]>();
  #done: ReadonlyMap<string, readonly Access[]> | undefined;
  #lost: { readonly offset: number; readonly end: number }[] | undefined;

  constructor(run: RunRecord, region: Region) {
    this.#run = run;
    this.#region = region;
  }

  spansOf(node: string): readonly FaultSpan[] {
    const { home } = this.#region.record;
    let spans = this.#spans.get(node);
    if (spans === undefined) {
      spans = faultSpans(this.#run, node === home ? undefined : { host: node, home });
      this.#spans.set(node, spans);
    }
    return spans;
  }

  lastDone({ node, began: { order } }: Access): Access | undefined {
    this.#done ??= Map.groupBy(
      this.#region.accesses.filter(({ ended }) => ended?.note.result === "done"),
      (access) => access.node,
    );
    const own = this.#done.get(node) ?? [];
    return own[firstPlace(own.length, (i) => own[i]!.began.order >= order) - 1];
  }

  /**
   * One report names all bytes of an access; of a flush's lines, those of one: its answer does not
   * say which.
   */
  isReported({ offset, length }: Pick<Access["note"], "offset" | "length">): boolean {
    const lost = this.#lost ??= this.#lostRanges();
    const end = offset + length;
    for (let from = offset; from < end;) {
      const to = Math.min(end, from - from % LINE_BYTES + LINE_BYTES);
      const before = lost[firstPlace(lost.length, (i) => lost[i]!.offset > from) - 1];
      if (before !== undefined && before.end >= to) return true;
      from = to;
    }
    return false;
  }

  #lostRanges() {
    let end = 0;
    return this.#region.losses.flatMap(({ note: { ranges } }) => ranges)
      .toSorted((x, y) => x.offset - y.offset)
      .map(({ offset, length }) => ({ offset, end: end = Math.max(end, offset + length) }));
  }
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
  { access, faultAt, known }: {
    readonly access: Access;
    readonly faultAt: Time;
    readonly known: KnownOfRegion;
  },
): string | undefined {
  const { name, ended, note: { offset } } = access;
  if (ended === undefined) return undefined;
  if (ended.note.result === "done" || ended.note.result === "refused") return undefined;
  const { at: { time }, note: { result } } = ended;
  if (time < faultAt) return `${name} ended as ${result} at ${time} ps, before any fault`;
  if (result === "fenced") return fenceText(region, access, known);
  if (known.isReported(access.note) || run.until !== undefined) return undefined;
  if (mayBeUnreported(run, region, access)) return undefined;
  return `${name} was told that bytes of ${access.note.region} at 0x${
    offset.toString(16)
  } are lost, and no report names them`;
}

/**
 * A far host is fenced by what parts it from home, and by nothing that fails elsewhere (decision
 * 13). A card that has nothing of home's has no lease: only its next access finds that home has had
 * another life.
 */
function fenceText(
  { record: { home, answerWithinPs } }: Region,
  access: Access,
  known: KnownOfRegion,
): string | undefined {
  const { name, node, began, ended } = access;
  const { time } = ended!.at;
  const since = Math.min(began.time, known.lastDone(access)?.began.time ?? 0) - answerWithinPs;
  if (known.spansOf(node).some(({ from, to }) => from <= time && to >= since)) return undefined;
  const where = node === home ? "" : ` between ${node} and ${home}`;
  return `${name} ended as fenced at ${time} ps, without a fault${where} since ${since} ps`;
}

/**
 * Home reports, or the host of the card that had the bytes, unless it fails before the report is
 * due.
 */
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
