/**
 * The cost of memory that computers share (C-11). The programs are those of
 * `scripts/scenarios/coherent_*.yaml`: each computer reports its own part; a row is for all
 * computers of a memory.
 */
import { formatTime, type Time } from "../../fabric/base/time.ts";
import { isMapping } from "../../fabric/base/mapping.ts";
import { type ModuleRow, moduleTable } from "./module_report.ts";
import { type PlacementRow, placementText } from "./placement_report.ts";
import { type Column, columnsOf, tableText } from "./table.ts";

/** In ps. */
export interface SharedLatency {
  readonly count: number;
  readonly median: Time;
  readonly p99: Time;
  readonly max: Time;
  readonly mean: Time;
}

interface OfMemory {
  readonly variant: string;
  readonly card: string;
  readonly placement: string;
}

/** Of two computers; the far one makes `farPercent` of a hundred accesses. */
export interface AccessRow extends OfMemory {
  readonly farPercent: number;
  /** Among several with this share and with other lines and stores, from 0. */
  readonly draw: number;
  /** Null where the computer has made none. */
  readonly homeLoadPs: SharedLatency | null;
  readonly homeStorePs: SharedLatency | null;
  readonly farLoadPs: SharedLatency | null;
  readonly farStorePs: SharedLatency | null;
  readonly accesses: number;
  readonly meanPs: Time;
  readonly busMessagesPerAccess: number;
  readonly networkMessagesPerAccess: number;
  /** Of the far computer's accesses, by the cache of a card; null where cards keep none. */
  readonly hitRate: number | null;
}

export interface SharedQueueRow extends OfMemory {
  /** `far to home`, `home to far`. */
  readonly way: string;
  /** `paced`: each message alone; `at once`: as fast as there is room. */
  readonly load: string;
  readonly messages: number;
  /** From the store to the load that finds it. */
  readonly latencyPs: SharedLatency;
  readonly messagesPerSecond: number;
  readonly looksPerMessage: number;
  readonly busMessagesPerMessage: number;
  readonly networkMessagesPerMessage: number;
}

export interface LockRow extends OfMemory {
  readonly node: string;
  readonly side: string;
  readonly sections: number;
  /** From the request to the lock's grant. */
  readonly latencyPs: SharedLatency;
  readonly sectionsPerSecond: number;
  readonly looksPerSection: number;
  /** Of all of the lock's computers, over all of their sections. */
  readonly busMessagesPerSection: number;
  readonly networkMessagesPerSection: number;
}

export interface CostRow extends OfMemory {
  readonly access: string;
  /** The preceding access to the line: `nothing`, `its own load`, `home's store` … */
  readonly after: string;
  readonly tookPs: Time;
  readonly busMessages: number;
  readonly networkMessages: number;
}

/**
 * Up to `fromPercent` one placement costs less in every draw, from `toPercent` on another one;
 * between them draws differ, or nothing was measured.
 */
export interface Crossover {
  readonly variant: string;
  /** Null where no share has the one, or the other, throughout. */
  readonly fromPercent: number | null;
  readonly toPercent: number | null;
  /** The placement that costs less below the range, and the one above it. */
  readonly below: "local" | "remote";
  readonly above: "local" | "remote";
  readonly draws: number;
}

export interface SharedReport {
  /** Of each shared region, with any programs; none of PCIe cards alone. */
  readonly placements: readonly PlacementRow[];
  /** Of a traced run; else none. */
  readonly modules: readonly ModuleRow[];
  readonly costs: readonly CostRow[];
  readonly accesses: readonly AccessRow[];
  readonly queues: readonly SharedQueueRow[];
  readonly locks: readonly LockRow[];
  readonly crossovers: readonly Crossover[];
}

interface Told {
  readonly program: "shared";
  readonly workload: "cost" | "access" | "queue" | "lock";
  readonly card: string;
  readonly placement: string;
  readonly side: string;
  readonly busMessages: number;
  readonly networkMessages: number;
  readonly access?: string;
  readonly after?: string;
  readonly tookPs?: Time;
  readonly farPercent?: number;
  readonly draw?: number;
  readonly loadPs?: SharedLatency;
  readonly storePs?: SharedLatency;
  readonly hits?: number;
  readonly asked?: number;
  readonly way?: string;
  readonly load?: string;
  readonly messages?: number;
  readonly sections?: number;
  readonly looks?: number;
  readonly latencyPs?: SharedLatency;
  readonly messagesPerSecond?: number;
  readonly sectionsPerSecond?: number;
}

interface Part {
  readonly node: string;
  readonly told: Told;
}

/** The result belongs to these tables. */
export function isInSharedTable({ value }: { readonly value: unknown }): boolean {
  return isMapping(value) && value["program"] === "shared" &&
    typeof value["workload"] === "string" && typeof value["busMessages"] === "number";
}

/** Of one variant; undefined for a run without shared regions and such programs. */
export function sharedReport(
  variant: string,
  { reports, placements = [], modules = [] }: {
    readonly reports: readonly {
      readonly node: string;
      readonly topic: string;
      readonly value: unknown;
    }[];
    readonly placements?: readonly PlacementRow[];
    readonly modules?: readonly ModuleRow[];
  },
): SharedReport | undefined {
  const parts = reports.flatMap(({ node, topic, value }): Part[] =>
    topic === "result" && isInSharedTable({ value }) ? [{ node, told: value as Told }] : []
  );
  if (parts.length === 0 && placements.length === 0) return undefined;
  const groups = (workload: Told["workload"], ...by: readonly (keyof Told)[]) => {
    const own = parts.filter(({ told }) => told.workload === workload);
    const key = ({ told }: Part) =>
      ["card", "placement", ...by].map((name) => told[name as "card"]);
    return [...Map.groupBy(own, (part) => key(part).join(" ")).values()];
  };
  const accesses = groups("access", "farPercent", "draw").map((group) => accessRow(variant, group))
    .toSorted(byMemoryAndShare);
  return {
    placements,
    modules,
    costs: groups("cost", "access", "after").flatMap((group) => costRow(variant, group))
      .toSorted(byAccess),
    accesses,
    queues: groups("queue", "way", "load").flatMap((group) => queueRow(variant, group)),
    locks: groups("lock").flatMap((group) => lockRows(variant, group)),
    crossovers: crossoversOf(accesses),
  };
}

/** Of all variants; undefined for none. */
export function joinedReport(reports: readonly SharedReport[]): SharedReport | undefined {
  if (reports.length === 0) return undefined;
  return {
    placements: reports.flatMap(({ placements }) => placements),
    modules: reports.flatMap(({ modules }) => modules),
    costs: reports.flatMap(({ costs }) => costs),
    accesses: reports.flatMap(({ accesses }) => accesses),
    queues: reports.flatMap(({ queues }) => queues),
    locks: reports.flatMap(({ locks }) => locks),
    crossovers: reports.flatMap(({ crossovers }) => crossovers),
  };
}

function memoryOf(variant: string, [{ told: { card, placement } }]: readonly [Part, ...Part[]]) {
  return { variant, card, placement };
}

function sumOf(parts: readonly Part[], name: keyof Told): number {
  return parts.reduce((sum, { told }) => sum + Number(told[name] ?? 0), 0);
}

function costRow(variant: string, parts: readonly Part[]): CostRow[] {
  const { access = "", after = "", tookPs } =
    parts.find(({ told }) => told.tookPs !== undefined)?.told ?? {};
  if (tookPs === undefined) return [];
  const busMessages = sumOf(parts, "busMessages"),
    networkMessages = sumOf(parts, "networkMessages");
  return [{
    ...memoryOf(variant, parts as [Part]),
    ...{ access, after, tookPs, busMessages, networkMessages },
  }];
}

function byAccess(one: CostRow, other: CostRow): number {
  const [first, second] = [one, other].map(({ access, after }) => `${access} ${after}`);
  return first === second ? 0 : first! < second! ? -1 : 1;
}

function accessRow(variant: string, parts: readonly Part[]): AccessRow {
  const of = (side: string, name: "loadPs" | "storePs") =>
    parts.find(({ told }) => told.side === side && told[name] !== undefined)?.told[name] ?? null;
  const latencies = {
    homeLoadPs: of("home", "loadPs"),
    homeStorePs: of("home", "storePs"),
    farLoadPs: of("far", "loadPs"),
    farStorePs: of("far", "storePs"),
  };
  const all = Object.values(latencies).filter((each) => each !== null);
  const accesses = all.reduce((sum, { count }) => sum + count, 0);
  const spentPs = all.reduce((sum, { count, mean }) => sum + count * mean, 0);
  const asked = sumOf(parts, "asked");
  return {
    ...memoryOf(variant, parts as [Part]),
    farPercent: parts[0]!.told.farPercent ?? 0,
    draw: parts[0]!.told.draw ?? 0,
    ...latencies,
    accesses,
    meanPs: accesses === 0 ? 0 : Math.round(spentPs / accesses),
    busMessagesPerAccess: over(sumOf(parts, "busMessages"), accesses),
    networkMessagesPerAccess: over(sumOf(parts, "networkMessages"), accesses),
    hitRate: asked === 0 ? null : over(sumOf(parts, "hits"), asked),
  };
}

function byMemoryAndShare(one: AccessRow, other: AccessRow): number {
  const [first, second] = [one, other].map(({ card, placement }) => `${card} ${placement}`);
  if (first !== second) return first! < second! ? -1 : 1;
  return one.farPercent - other.farPercent || one.draw - other.draw;
}

function queueRow(variant: string, parts: readonly Part[]): SharedQueueRow[] {
  const { latencyPs, messagesPerSecond, way, load, messages } =
    parts.find(({ told }) => told.latencyPs !== undefined)?.told ?? {};
  if (latencyPs === undefined || !messages || messagesPerSecond === undefined) return [];
  return [{
    ...memoryOf(variant, parts as [Part]),
    ...{ way: way ?? "", load: load ?? "", messages, latencyPs, messagesPerSecond },
    looksPerMessage: over(sumOf(parts, "looks"), messages),
    busMessagesPerMessage: over(sumOf(parts, "busMessages"), messages),
    networkMessagesPerMessage: over(sumOf(parts, "networkMessages"), messages),
  }];
}

function lockRows(variant: string, parts: readonly Part[]): LockRow[] {
  const all = sumOf(parts, "sections");
  return parts.flatMap(({ node, told }): LockRow[] => {
    const { side, sections = 0, latencyPs, sectionsPerSecond, looks = 0 } = told;
    if (latencyPs === undefined || sectionsPerSecond === undefined) return [];
    return [{
      ...memoryOf(variant, parts as [Part]),
      ...{ node, side, sections, latencyPs, sectionsPerSecond },
      looksPerSection: over(looks, sections),
      busMessagesPerSection: over(sumOf(parts, "busMessages"), all),
      networkMessagesPerSection: over(sumOf(parts, "networkMessages"), all),
    }];
  });
}

function over(count: number, of: number): number {
  return of === 0 ? 0 : Math.round(1000 * count / of) / 1000;
}

/**
 * Ranges of measured shares in which `local` and `remote` change places as the cheaper one (C-04):
 * nothing is drawn between them. None where one costs less throughout.
 */
function crossoversOf(rows: readonly AccessRow[]): Crossover[] {
  const variants = new Set(rows.map(({ variant }) => variant));
  return [...variants].flatMap((variant): Crossover[] => {
    const of = (placement: string) =>
      rows.filter((row) => row.variant === variant && row.placement === placement);
    const remote = of("remote");
    // By share: how much more `remote` costs than `local` in each draw. Equal costs do not count.
    const shares = Map.groupBy(
      of("local").flatMap(({ farPercent, draw, meanPs }) => {
        const other = remote.find((row) => row.farPercent === farPercent && row.draw === draw);
        const more = other === undefined ? 0 : other.meanPs - meanPs;
        return more === 0 ? [] : [{ farPercent, cheaper: more > 0 ? "local" : "remote" } as const];
      }),
      ({ farPercent }) => farPercent,
    );
    const sorted = [...shares].toSorted(([one], [other]) => one - other);
    const all = sorted.flatMap(([, draws]) => draws.map(({ cheaper }) => cheaper));
    const below = all[0], above = all.at(-1);
    if (below === undefined || above === undefined || new Set(all).size === 1) return [];
    const isOnly = (place: string) => ([, draws]: typeof sorted[number]) =>
      draws.every(({ cheaper }) => cheaper === place);
    const end = sorted.findIndex((each) => !isOnly(below)(each));
    const begin = sorted.findLastIndex((each) => !isOnly(above)(each)) + 1;
    return [{
      variant,
      fromPercent: sorted[end - 1]?.[0] ?? null,
      toPercent: sorted[begin]?.[0] ?? null,
      below,
      above,
      draws: Math.max(...sorted.map(([, draws]) => draws.length)),
    }];
  });
}

function crossoverText(
  { variant, fromPercent, toPercent, below, above, draws }: Crossover,
): string {
  const of = draws === 1 ? "" : ` in all ${draws} draws`;
  const low = fromPercent === null
    ? `${below} costs less at no share throughout`
    : `up to ${fromPercent} % of far accesses placement ${below} costs less${of}`;
  const high = toPercent === null
    ? `${above} at none from there on`
    : `from ${toPercent} % on ${above}`;
  return `${variant}: ${low}, ${high}; between them nothing is claimed`;
}

/** A table of each workload, and a line for each crossover. */
export function sharedTables(report: SharedReport): string[] {
  const { placements, modules, costs, accesses, queues, locks, crossovers } = report;
  return [
    ...(costs.length > 0 ? [costTable(costs)] : []),
    ...(accesses.length > 0 ? [accessTable(accesses)] : []),
    ...crossovers.map(crossoverText),
    ...(queues.length > 0 ? [queueTable(queues)] : []),
    ...(locks.length > 0 ? [lockTable(locks)] : []),
    ...placementText(placements),
    ...(modules.length > 0 ? [moduleTable(modules)] : []),
  ];
}

function memoryColumns<Row extends OfMemory>(rows: readonly Row[]): readonly Column<Row>[] {
  const hasVariants = new Set(rows.map(({ variant }) => variant)).size > 1;
  return columnsOf<Row>(
    hasVariants && { title: "run", value: ({ variant }) => variant },
    { title: "card", value: ({ card }) => card },
    { title: "copy", value: ({ placement }) => placement },
  );
}

function time<Row>(
  title: string,
  ps: (row: Row) => Time | undefined,
): Column<Row> {
  const text = (row: Row) => {
    const found = ps(row);
    return found === undefined ? "" : formatTime(found);
  };
  return { title, value: ps, text };
}

function count<Row>(title: string, value: (row: Row) => number): Column<Row> {
  return { title, value, text: (row) => value(row).toFixed(2) };
}

function costTable(rows: readonly CostRow[]): string {
  const columns = columnsOf<CostRow>(
    { title: "access", value: ({ access }) => access },
    { title: "after", value: ({ after }) => after },
    ...memoryColumns(rows),
    time("took", ({ tookPs }) => tookPs),
    { title: "bus", value: ({ busMessages }) => busMessages },
    { title: "network", value: ({ networkMessages }) => networkMessages },
  );
  return tableText(columns, rows);
}

/** Columns are medians; the mean is of all accesses. */
function accessTable(rows: readonly AccessRow[]): string {
  const hasHits = rows.some(({ hitRate }) => hitRate !== null);
  const hits = ({ hitRate }: AccessRow) =>
    hitRate === null ? "" : `${(100 * hitRate).toFixed(1)} %`;
  const columns = columnsOf<AccessRow>(
    { title: "far", value: (row) => row.farPercent, text: (row) => `${row.farPercent} %` },
    rows.some(({ draw }) => draw > 0) && { title: "draw", value: ({ draw }) => draw },
    time("home load", ({ homeLoadPs }) => homeLoadPs?.median),
    time("home store", ({ homeStorePs }) => homeStorePs?.median),
    time("far load", ({ farLoadPs }) => farLoadPs?.median),
    time("far store", ({ farStorePs }) => farStorePs?.median),
    time("mean", ({ meanPs }) => meanPs),
    count("bus", (row) => row.busMessagesPerAccess),
    count("network", (row) => row.networkMessagesPerAccess),
    hasHits && { title: "hits", value: hits, text: hits },
  );
  return tableText([...memoryColumns(rows), ...columns], rows);
}

function queueTable(rows: readonly SharedQueueRow[]): string {
  const columns = columnsOf<SharedQueueRow>(
    { title: "way", value: ({ way }) => way },
    { title: "load", value: ({ load }) => load },
    { title: "messages", value: ({ messages }) => messages },
    time("median", ({ latencyPs }) => latencyPs.median),
    time("p99", ({ latencyPs }) => latencyPs.p99),
    count("M/s", (row) => row.messagesPerSecond / 1e6),
    count("looks", (row) => row.looksPerMessage),
    count("bus", (row) => row.busMessagesPerMessage),
    count("network", (row) => row.networkMessagesPerMessage),
  );
  return tableText([...memoryColumns(rows), ...columns], rows);
}

function lockTable(rows: readonly LockRow[]): string {
  const columns = columnsOf<LockRow>(
    { title: "by", value: ({ node }) => node },
    { title: "sections", value: ({ sections }) => sections },
    time("median", ({ latencyPs }) => latencyPs.median),
    time("p99", ({ latencyPs }) => latencyPs.p99),
    count("k/s", (row) => row.sectionsPerSecond / 1e3),
    count("looks", (row) => row.looksPerSection),
    count("bus", (row) => row.busMessagesPerSection),
    count("network", (row) => row.networkMessagesPerSection),
  );
  return tableText([...memoryColumns(rows), ...columns], rows);
}
