/**
 * Where the time of accesses to shared regions has passed (C-11), of a traced run. The parts are
 * those of the ladders (`fabric/trace/access_costs.ts`), so a row's modules are its mean.
 */
import { formatTime, type Time } from "../../fabric/base/time.ts";
import { ACCESS_MODULES, type AccessModule } from "../../fabric/trace/access_modules.ts";
import { accessesOf, accessLadderOf } from "../../fabric/trace/access_ladder.ts";
import { readTrace, type TraceLine } from "../../fabric/trace/trace.ts";
import type { Prepared } from "../rack/prepare.ts";
import { columnsOf, tableText } from "./table.ts";

export interface ModuleRow {
  readonly variant: string;
  readonly region: string;
  /** `far load`, `home store` …; atomics are stores. */
  readonly access: string;
  readonly accesses: number;
  readonly meanPs: Time;
  /** Means over all of them: 0 where none has passed there. */
  readonly modulesPs: Readonly<Record<AccessModule, Time>>;
}

/** By region and access; none where nothing was traced. */
export function moduleRows(
  { label: variant, plan }: Pick<Prepared, "label" | "plan">,
  lines: readonly TraceLine[],
): ModuleRow[] {
  const names = new Map(
    plan.nodes.flatMap((node) =>
      node.kind === "host" ? (node.config.shared ?? []).map(({ id, name }) => [id, name]) : []
    ),
  );
  if (names.size === 0) return [];
  const trace = readTrace(lines, plan);
  const sums = new Map<string, { count: number; readonly ps: Map<AccessModule, Time> }>();
  for (const operation of accessesOf(trace)) {
    const { costs } = accessLadderOf(trace, operation);
    if (costs === undefined) continue;
    const [side, op] = trace.lines[operation.from]!.step.split("-") as [string, string];
    const key = `${names.get(operation.shared![0])}\n${side === "home" ? side : "far"} ${op}`;
    const sum = sums.get(key) ?? { count: 0, ps: new Map() };
    sums.set(key, sum);
    sum.count++;
    for (const { module, ps } of costs) sum.ps.set(module, (sum.ps.get(module) ?? 0) + ps);
  }
  return [...sums].toSorted(([one], [other]) => one < other ? -1 : 1).map(
    ([key, { count, ps }]) => {
      const [region, access] = key.split("\n") as [string, string];
      const total = [...ps.values()].reduce((sum, each) => sum + each, 0);
      const means = ACCESS_MODULES.map((
        module,
      ) => [module, Math.round((ps.get(module) ?? 0) / count)]);
      return {
        ...{ variant, region, access, accesses: count, meanPs: Math.round(total / count) },
        modulesPs: Object.fromEntries(means),
      };
    },
  );
}

/** Modules in which no time has passed have no column. */
export function moduleTable(rows: readonly ModuleRow[]): string {
  const hasVariants = new Set(rows.map(({ variant }) => variant)).size > 1;
  const used = ACCESS_MODULES.filter((module) =>
    rows.some(({ modulesPs }) => modulesPs[module] > 0)
  );
  return tableText(
    columnsOf<ModuleRow>(
      hasVariants && { title: "run", value: ({ variant }) => variant },
      { title: "region", value: ({ region }) => region },
      { title: "access", value: ({ access }) => access },
      { title: "accesses", value: ({ accesses }) => accesses },
      { title: "mean", value: ({ meanPs }) => meanPs, text: ({ meanPs }) => formatTime(meanPs) },
      ...used.map((module) => ({
        title: module,
        value: ({ modulesPs }: ModuleRow) => modulesPs[module],
        text: ({ modulesPs }: ModuleRow) => {
          return modulesPs[module] === 0 ? "" : formatTime(modulesPs[module]);
        },
      })),
    ),
    rows,
  );
}
