import type { ExploreResult } from "../../api/jobs.ts";
import { plural } from "../figures.ts";
import {
  framesText,
  interleavingsText,
  leftText,
  pointsText,
  slackText,
  stallsText,
} from "../../api/explore_text.ts";

type Explored = ExploreResult["runs"][number];

const KEPT: Readonly<Record<Explored["judgedBy"][number], string>> = {
  promises: "every promise is kept",
  check: "the protocol's check holds",
  operations: "its operations are durably linearizable",
  robustness: "recovery reads what strict persistency could leave",
  recovery: "recovery finds what native programs had promised",
};

/** `180 crash points at 12 instants of server, judged by check, all choices at all instants`. */
export function countsText(
  {
    crashPoints,
    instants,
    hosts,
    judgedBy,
    exhaustive,
    interleavings,
    counterexample,
    stalls,
    frames,
    slack,
  }: Pick<
    Explored,
    | "crashPoints"
    | "instants"
    | "hosts"
    | "judgedBy"
    | "exhaustive"
    | "interleavings"
    | "counterexample"
    | "stalls"
    | "frames"
    | "slack"
  >,
): string {
  return [
    // With interleavings alone no power was cut.
    ...(instants > 0 || interleavings === undefined
      ? [pointsText({ crashPoints, instants, hosts }, plural)]
      : []),
    ...(interleavings === undefined ? [] : [interleavingsText(interleavings)]),
    // Behind an interleaving that breaks something, none is looked for.
    ...(interleavings === undefined || counterexample?.holds !== undefined
      ? []
      : [leftText(interleavings)]),
    ...(judgedBy.length > 0 ? [`judged by ${judgedBy.join(", ")}`] : []),
    ...(exhaustive ? ["all choices at all instants"] : []),
    ...(stalls === undefined ? [] : [stallsText(stalls)]),
    ...(frames === undefined ? [] : [framesText(frames)]),
    ...(slack === undefined ? [] : [slackText(slack)]),
  ].join(", ");
}

/** Without counterexample: `Every promise is kept at each instant that was tried.` */
export function keptText(
  { judgedBy, instants, interleavings }: Pick<
    Explored,
    "judgedBy" | "instants" | "interleavings"
  >,
): string {
  const kept = judgedBy.length > 0 ? judgedBy : ["promises" as const];
  const where = [
    ...(instants > 0 || interleavings === undefined ? ["at each instant"] : []),
    ...(interleavings === undefined ? [] : ["in each interleaving"]),
  ];
  const text = `${kept.map((by) => KEPT[by]).join(" and ")} ${where.join(" and ")} that was tried.`;
  return text[0]!.toUpperCase() + text.slice(1);
}
