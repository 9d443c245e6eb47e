import type { HoldPlan, WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import { formatTime } from "../../fabric/base/time.ts";
import {
  disturbedTexts,
  framesText,
  interleavingsText,
  leftText,
  pointsText,
  slackText,
  stallsText,
  verdictWords,
} from "../api/explore_text.ts";
import type { Prepared } from "../rack/prepare.ts";
import { columnsOf, tableText } from "../reports/table.ts";
import type {
  BytePlace,
  Counterexample,
  ExploreProgress,
  NativeSeen,
  PlacedBytes,
  Verdict,
} from "./types.ts";
import { countOf } from "../checks/finding.ts";

export interface Explored extends Pick<Prepared, "label" | "variant"> {
  readonly verdict: Verdict;
  readonly command: string | null;
  readonly faults: string | null;
}

export function exploredDocument(
  { scenario, seed, explored, input }: {
    readonly scenario: string;
    readonly seed: number;
    readonly explored: readonly Explored[];
    readonly input: string | undefined;
  },
) {
  const runs = explored.map(({ label, verdict, command, faults, variant: { method, ddio } }) => {
    return { variant: label, method, ddio, ...verdict, command, faults };
  });
  return { scenario, seed, runs, ...(input !== undefined && { input }) };
}

/** One line on each variant, and all of its counterexample. */
export function exploredText(all: readonly Explored[]): string {
  return all.flatMap(({ label, verdict, command }) => {
    const { counterexample } = verdict;
    const head = `${verdictWords(verdict).padEnd(9)} ${label}: ${countsText(verdict)}`;
    if (counterexample === null) return [head];
    return [head, "", counterexampleText(counterexample, command), ""];
  }).join("\n").trimEnd();
}

function countsText(verdict: Verdict): string {
  const { hosts, instants, continuations, bounded, wallMs, perSecond, why } = verdict;
  const { writes, promises, exhaustive, judgedBy, paths, again } = verdict;
  const runs = countOf(continuations, "run");
  const interleavings = verdict.interleavings && interleavingsText(verdict.interleavings);
  const isFound = verdict.counterexample?.holds !== undefined;
  const judged = judgedBy.length > 0 ? [`judged by ${judgedBy.join(", ")}`] : [];
  if (interleavings !== undefined && instants === 0 && (isFound || hosts.length === 0)) {
    return [
      interleavings,
      ...(isFound ? [] : [leftText(verdict.interleavings!)]),
      `${(wallMs / 1_000).toFixed(2)} s`,
      ...judged,
      ...(why === undefined ? [] : [`not all: ${why}`]),
    ].join("; ");
  }
  if (verdict.native !== undefined) return nativeText(verdict, verdict.native);
  const more = `more choices than were tried at ${countOf(bounded, "instant")}`;
  const parts = [
    pointsText(verdict),
    `${runs}, ${(wallMs / 1_000).toFixed(2)} s, ${perSecond}/s`,
    `${countOf(writes, "write")}, ${promises} promised`,
    ...(paths > 0 ? [`memory read in ${countOf(paths, "way")}`] : []),
    ...(again.cut > 0 ? [`cut again during ${countOf(again.cut, "recovery", "recoveries")}`] : []),
    ...judged,
    ...(exhaustive ? ["all choices at all instants"] : []),
    ...(bounded > 0 ? [more] : []),
    ...(interleavings === undefined ? [] : [interleavings, leftText(verdict.interleavings!)]),
    ...(verdict.stalls === undefined ? [] : [stallsText(verdict.stalls)]),
    ...(verdict.frames === undefined ? [] : [framesText(verdict.frames)]),
    ...(verdict.slack === undefined ? [] : [slackText(verdict.slack)]),
    ...(why === undefined ? [] : [verdict.verdict === "partial" ? `not all: ${why}` : why]),
  ];
  return parts.join("; ");
}

function nativeText(verdict: Verdict, { images, steps, flushes }: NativeSeen): string {
  const { wallMs, promises, exhaustive, judgedBy, why, again } = verdict;
  const inOneStep = steps === 0 ? "" : `, ${countOf(steps, "time")} of several cache lines`;
  return [
    pointsText(verdict),
    `one run; a recovery on each of ${countOf(images, "distinct image")}, ${
      (wallMs / 1_000).toFixed(2)
    } s`,
    `${promises} promised`,
    ...(again.cut > 0 ? [`cut again during ${countOf(again.cut, "recovery", "recoveries")}`] : []),
    ...(judgedBy.length > 0 ? [`judged by ${judgedBy.join(", ")}`] : []),
    ...(exhaustive ? ["all choices at all instants"] : []),
    `not tried: other interleavings of the programs, and orders of what one stores between two calls${inOneStep}`,
    ...(flushes > 0
      ? [`up to ${countOf(flushes, "flush", "flushes")} in their code are not seen`]
      : []),
    ...(why === undefined ? [] : [verdict.verdict === "partial" ? `not all: ${why}` : why]),
  ].join("; ");
}

/** `12 runs of interleavings, 40 crash points`. */
export function progressText({ crashPoints, runs }: ExploreProgress): string {
  return [
    ...(runs === undefined ? [] : [countOf(runs, "run of interleavings", "runs of interleavings")]),
    ...(runs === undefined || crashPoints > 0 ? [countOf(crashPoints, "crash point")] : []),
  ].join(", ");
}

function holdText({ by, step, number, until }: HoldPlan): string {
  const what = step === "store"
    ? `store ${number} of ${by} stays in its core's buffer`
    : `${by} stops before its access ${number}`;
  return `${what} until ${until} ps (${formatTime(until)})`;
}

function counterexampleText(counterexample: Counterexample, command: string | null): string {
  const { hosts, atPs, found, checker, promised, places, writebacks, again, ladder, holds } =
    counterexample;
  const { printed } = counterexample, disturbed = disturbedTexts(counterexample);
  const sections = [
    ...(disturbed.length === 0 ? [] : [`What differs from the plain run:\n${indented(disturbed)}`]),
    disturbed.length > 0 && hosts.length === 0
      ? "It fails without a power failure."
      : holds === undefined
      ? `The power of ${hosts.join(", ")} fails at ${atPs} ps (${formatTime(atPs)}).`
      : `Programs interleave so, without a power failure:\n${indented(holds.map(holdText))}`,
    ...(again === undefined ? [] : [againText(again)]),
    `${checker}: ${found}`,
    ...(promised.length > 0 ? [`What had been promised:\n${indented(promised)}`] : []),
    ...(printed === undefined ? [] : [printedText(printed)]),
    ...(places.length > 0 ? [`Where the bytes were:\n${placesTable(places)}`] : []),
    ...(writebacks.length > 0
      ? [
        `What had got to memory early:\n${indented(writebacks.map(earlyText))}`,
      ]
      : []),
    ...(ladder === ""
      ? []
      : [`${holds === undefined ? "The operation" : "Accesses to regions"}:\n${ladder}`]),
    ...(command === null ? [] : [`To see it again:\n  ${command}`]),
  ];
  return sections.join("\n\n");
}

function earlyText({ at, node, from, to, buffered, data }: WritebackPlan): string {
  const holder = data !== undefined
    ? "a core was storing it"
    : buffered
    ? "the I/O controller was about to write it"
    : "the cache had it";
  return `0x${from.toString(16)} to 0x${to.toString(16)} of ${node}, as ${holder} at ${at} ps`;
}

function printedText(lines: readonly string[]): string {
  if (lines.length === 0) return "Recovery has printed nothing.";
  return `What recovery has printed:\n${indented(lines)}`;
}

function againText(again: number): string {
  const done = countOf(again, "thing");
  return `It fails again when recovery has done ${done} to its memory, and recovery begins anew.`;
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}`).join("\n");
}

const PLACES: Readonly<Record<BytePlace, string>> = {
  "not there yet": "not at the host yet: network or RNIC",
  "remote cache": "in the cache of another host's card",
  "local cache": "in the local cache of the card",
  bus: "on the bus",
  iio: "in the I/O controller's buffer",
  llc: "dirty in the cache",
  memory: "in memory: write queue or medium",
};

function placesTable(places: readonly PlacedBytes[]): string {
  return tableText(
    columnsOf<PlacedBytes>(
      { title: "host", value: ({ host }) => host },
      {
        title: "bytes",
        value: ({ from, to }) => `0x${from.toString(16)} to 0x${to.toString(16)}`,
      },
      { title: "of", value: ({ id, by }) => `write ${id} of ${by}` },
      { title: "were", value: ({ place }) => PLACES[place] },
      { title: "survived", value: ({ survived }) => survived ? "yes" : "no" },
    ),
    places,
  );
}
