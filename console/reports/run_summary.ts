import type { RunReport } from "./method_report.ts";
import { DamagedFileError, ifThere, isThere, jsonIfThere } from "../base/files.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { readRunFile } from "../rack/run_directory.ts";
import { SECRET_FILE } from "../scenarios/read_door.ts";

export interface RunSummary {
  readonly scenario: string | null;
  readonly seed: number | null;
  readonly digest: string | null;
  /** `none`: no report. */
  readonly verdict: ReportVerdict | "none";
  /** Of the report's rows, else of the plan's programs, each once. */
  readonly methods: readonly string[];
  readonly ddio: readonly string[];
}

/** `unchecked`: no check was possible for a variant, as nothing was done. */
export type ReportVerdict = "holds" | "fails" | "unchecked";

export function verdictOf(
  { checks, unchecked }: Pick<RunReport, "checks" | "unchecked">,
): ReportVerdict {
  if (!checks.every(({ holds }) => holds)) return "fails";
  return unchecked === undefined ? "holds" : "unchecked";
}

export const NOTHING_KNOWN: RunSummary = {
  ...{ scenario: null, seed: null, digest: null, verdict: "none" },
  ...{ methods: [], ddio: [] },
};

/** Run directories do not change when they have a report; `mtime`: of the report. */
const known = new Map<string, { readonly mtime: number; readonly summary: RunSummary }>();
const KNOWN_MAX = 1_000;

/** All null for a damaged run. */
export function summaryOf(path: string): RunSummary {
  const file = ifThere(() => Deno.statSync(`${path}/report.json`)) ??
    ifThere(() => Deno.statSync(`${path}/run.json`));
  const mtime = file?.mtime?.getTime() ?? 0;
  const before = known.get(path);
  if (before?.mtime === mtime) return before.summary;
  const summary = read(path);
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(path, { mtime, summary });
  return summary;
}

function read(path: string): RunSummary {
  try {
    const report = readReport(path);
    if (report !== undefined) {
      const { scenario, seed, digest, methods = [] } = report;
      const eachOnce = (values: readonly string[]) => [...new Set(values)].sort();
      return {
        ...{ scenario, seed, digest, verdict: verdictOf(report) },
        methods: eachOnce(methods.map(({ method }) => method)),
        ddio: eachOnce(methods.map(({ ddio }) => ddio)),
      };
    }
    const first = variantsOf(path)[0];
    const file = readRunFile(first === undefined ? path : `${path}/${first}`);
    if (file === undefined) return NOTHING_KNOWN;
    const { scenario, seed } = file.plan;
    return { ...NOTHING_KNOWN, scenario, seed, ...plannedIn(file.plan) };
  } catch (error) {
    if (error instanceof DamagedFileError) return NOTHING_KNOWN;
    throw error;
  }
}

/** What a rack that is up, or was taken down, was to do. */
function plannedIn({ nodes }: RackPlan): Pick<RunSummary, "methods" | "ddio"> {
  const methods = new Set<string>(), ddio = new Set<string>();
  for (const node of nodes) {
    if (node.kind !== "host") continue;
    for (const { options: { method, to } } of node.config.programs) {
      if (method === undefined) continue;
      methods.add(String(method));
      const responder = nodes.find(({ name }) => name === to);
      if (responder?.kind === "host") ddio.add(responder.config.ddio ? "on" : "off");
    }
  }
  return { methods: [...methods].sort(), ddio: [...ddio].sort() };
}

/** Of a run that has ended; undefined where it left none. @throws DamagedFileError */
export function readReport(path: string): RunReport | undefined {
  return jsonIfThere<RunReport>(
    `${path}/report.json`,
    ({ scenario, checks, digest }) =>
      typeof scenario === "string" && typeof digest === "string" && Array.isArray(checks),
  );
}

/** Empty where the run has one variant alone. */
export function variantsOf(path: string): string[] {
  if (isThere(`${path}/run.json`)) return [];
  return [...ifThere(() => [...Deno.readDirSync(path)]) ?? []]
    .filter(({ name, isDirectory }) => isDirectory && isThere(`${path}/${name}/run.json`))
    .map(({ name }) => name).sort();
}

/**
 * The folder of a run, or of one of its variants.
 * @param wanted its name, or its number from 1 in {@link variantsOf}; undefined or "": the first.
 * @throws Refusal where the run has no such variant.
 */
export function variantFolder({ id, path }: { id: string; path: string }, wanted = ""): string {
  const variants = variantsOf(path);
  const found = variants.find((name) => name === wanted) ??
    (wanted === "" ? variants[0] : /^\d+$/.test(wanted) ? variants[Number(wanted) - 1] : undefined);
  if (found !== undefined) return `${path}/${found}`;
  if (wanted === "") return path;
  const expected = variants.length === 0
    ? `none, as ${id} has one only`
    : `${oneOf(variants, wanted)}, or a number from 1 to ${variants.length}`;
  throw refusal("variant", { found: `"${wanted}"`, expected });
}

export interface RunFileRow {
  readonly path: string;
  readonly bytes: number;
  readonly kind: RunFileKind;
}

export type RunFileKind =
  | "report"
  | "capture"
  | "timeline"
  | "log"
  | "scenario"
  | "record"
  | "memory"
  | "other";

const KINDS: readonly (readonly [RegExp, RunFileKind])[] = [
  [/(^|\/)report\.json$/, "report"],
  [/\.pcapng$/, "capture"],
  [/perfetto\.json$/, "timeline"],
  [/\.log$/, "log"],
  [/(^|\/)(run\.json|scenario\.yaml)$/, "scenario"],
  [/\.jsonl$/, "record"],
  [/\.scm$/, "memory"],
];
const DEPTH_MAX = 4;

/** Regular files, by path. Links are none of ours. */
export function filesOf(path: string): RunFileRow[] {
  const rows: RunFileRow[] = [];
  collect(path, { prefix: "", depth: 0, rows });
  return rows.sort((x, y) => x.path < y.path ? -1 : 1);
}

function collect(
  root: string,
  { prefix, depth, rows }: { prefix: string; depth: number; rows: RunFileRow[] },
): void {
  for (const { name, isDirectory, isFile } of ifThere(() => [...Deno.readDirSync(root)]) ?? []) {
    const path = `${prefix}${name}`;
    if (isDirectory && depth < DEPTH_MAX) {
      collect(`${root}/${name}`, { prefix: `${path}/`, depth: depth + 1, rows });
    }
    if (!isFile || SECRET_FILE.test(path)) continue;
    const bytes = ifThere(() => Deno.statSync(`${root}/${name}`))?.size;
    if (bytes === undefined) continue;
    rows.push({ path, bytes, kind: KINDS.find(([pattern]) => pattern.test(path))?.[1] ?? "other" });
  }
}
