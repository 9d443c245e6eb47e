/**
 * The cost of queues for a card. A row for each number of queue pairs that `many-queues` has
 * measured; where that does not run, one for each card whose queues are of interest.
 */
import type { QueueCachePlan, QueuePlan, QueueStore } from "../../fabric/rack/plan/queue_plan.ts";
import { CACHED_QUEUES, QUEUE_PLAN } from "../../fabric/rack/plan/queue_plan.ts";
import { rnicName } from "../../fabric/rack/plan/names.ts";
import type { HostPlan, RnicPlan } from "../../fabric/rack/plan/plan.ts";
import {
  fieldBytes,
  layOut,
  PLACEMENTS,
  recordBytes,
} from "../../fabric/wire/host_bus/queue_placement.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { isMapping } from "../../fabric/base/mapping.ts";
import type { ManyQueuesResult, ManyQueuesRow } from "../../nodes/host/programs/many_queues.ts";
import { countersOf, type Reported, reportsOf } from "../rack/run_variant.ts";
import type { Prepared } from "../rack/prepare.ts";
import { type Column, columnsOf, type Latencies, latencyColumns, tableText } from "./table.ts";

export interface QueueRow {
  readonly variant: string;
  readonly node: string;
  readonly scheme: QueuePlan["scheme"];
  readonly placement: string;
  readonly layout: string;
  /** Of queue information. */
  readonly store: QueueStore;
  /** `64, oldest`: entries of the card's cache, and what makes room in it. */
  readonly cache: string;
  /** Queue pairs that had messages; of a card's row those that it had at the end. */
  readonly qps: number;
  readonly doorbells: number;
  readonly dmaReadsPerDoorbell: number;
  readonly cacheHits: number;
  readonly cacheMisses: number;
  readonly cacheEvictions: number;
  /**
   * Doorbells handled with a pointer older than the one stored when they rang; null: not counted.
   */
  readonly stalePointers: number | null;
  /** In memory: of one queue, and of all that the card has room for. */
  readonly queueBytes: number;
  /**
   * For a write pointer: its own words, in the classic scheme those of its address as well.
   */
  readonly pointerBytes: number;
  readonly storeBytes: number;
  /** Of messages of the host's programs; null where no program, or more than one, reports them. */
  readonly latencyPs: Latencies | null;
  readonly messagesPerSecond: number | null;
  readonly throughputBps: number | null;
}

type Card =
  & { readonly name: string; readonly host: string }
  & Pick<HostPlan, "queues">
  & Pick<RnicPlan, "queueCache">
  & {
    readonly queuePlan?: QueuePlan;
  };

/** None for a run without queues of interest. */
export function queueRows(
  { label: variant, plan }: Pick<Prepared, "label" | "plan">,
  outcome: Reported,
): QueueRow[] {
  const cards = plan.nodes.flatMap((node): Card[] => {
    if (node.kind !== "rnic") return [];
    const host = plan.nodes.find(({ name }) => name === node.config.host);
    return host?.kind === "host"
      ? [{ ...node.config, name: node.name, queues: host.config.queues }]
      : [];
  });
  const results = reportsOf(outcome).filter(({ topic }) => topic === "result");
  const many = results.flatMap(({ node, value }) => {
    if (!isManyQueues(value)) return [];
    const { rnic = rnicName(node) } = value, card = cards.find(({ name }) => name === rnic);
    if (card === undefined) return [];
    return value.rows.map((row) => ({
      ...ofCard(variant, card),
      ...ofProgram(row, value.messageBytes),
    }));
  });
  if (many.length > 0) return many;
  return cards.flatMap((card): QueueRow[] => {
    const { name } = card;
    const counters = countersOf(outcome.finals, name);
    if (counters === undefined || !isOfInterest(card, counters)) return [];
    const { doorbells = 0, doorbellReads = 0, stalePointers } = counters;
    return [{
      ...ofCard(variant, card),
      qps: counters["queuePairs"] ?? 0,
      doorbells,
      dmaReadsPerDoorbell: perDoorbell(doorbellReads, doorbells),
      cacheHits: counters["cacheHits"] ?? 0,
      cacheMisses: counters["cacheMisses"] ?? 0,
      cacheEvictions: counters["cacheEvictions"] ?? 0,
      stalePointers: stalePointers ?? null,
      ...saidBy(results.filter(({ node }) => node === card.host).map(({ value }) => value)),
    }];
  });
}

/** The scenario speaks of queues, or the card's cache was too small for them. */
function isOfInterest(
  { queuePlan, queueCache }: Card,
  { cacheEvictions = 0, stalePointers = 0 }: Readonly<Record<string, number>>,
): boolean {
  const { entries, evict, amount } = queueCache;
  const isUsual = entries === CACHED_QUEUES && evict === "oldest" && amount === 1;
  return queuePlan !== undefined || !isUsual || cacheEvictions > 0 || stalePointers > 0;
}

function isManyQueues(value: unknown): value is ManyQueuesResult {
  return isMapping(value) && value["program"] === "many-queues" && Array.isArray(value["rows"]);
}

/** The whole result stands in the table of queues. */
export function isInQueueTable({ value }: { readonly value: unknown }): boolean {
  return isManyQueues(value) && value.status === "done";
}

function ofCard(variant: string, { name, queues, queueCache, queuePlan = QUEUE_PLAN }: Card) {
  const { scheme, placement, layout } = queuePlan;
  const store: QueueStore = queuePlan.store ?? "host";
  const queueBytes = recordBytes(layOut(placement, layout));
  return {
    variant,
    node: name,
    scheme,
    placement: nameOf(placement),
    layout,
    store,
    cache: cacheText(queueCache),
    queueBytes,
    pointerBytes: fieldBytes("hostPointer") +
      (scheme === "classic" ? fieldBytes("indexAddress") : 0),
    storeBytes: queues * queueBytes,
  };
}

function nameOf(placement: QueuePlan["placement"]): string {
  const text = JSON.stringify(placement);
  const found = Object.entries(PLACEMENTS).find(([, rule]) => JSON.stringify(rule) === text);
  return found === undefined ? "own" : found[0];
}

function cacheText({ entries, evict, amount }: QueueCachePlan): string {
  switch (evict) {
    case "oldest":
      return entries === 0 ? "none" : `${entries}, oldest`;
    case "several-oldest":
      return `${entries}, oldest ${amount}`;
    case "older-than":
      return `${entries}, older than ${formatTime(amount)}`;
    case "random":
      return `${entries}, random ${amount}`;
  }
}

function ofProgram(row: ManyQueuesRow, messageBytes: number) {
  const { qps, dmaReadsPerDoorbell, latencyPs, messagesPerSecond, counters } = row;
  return {
    qps,
    doorbells: counters.doorbells ?? 0,
    dmaReadsPerDoorbell,
    cacheHits: counters.cacheHits ?? 0,
    cacheMisses: counters.cacheMisses ?? 0,
    cacheEvictions: counters.cacheEvictions ?? 0,
    stalePointers: counters.stalePointers ?? null,
    latencyPs,
    messagesPerSecond,
    throughputBps: messagesPerSecond * messageBytes * 8,
  };
}

function perDoorbell(reads: number, doorbells: number): number {
  return doorbells === 0 ? 0 : reads / doorbells;
}

function saidBy(
  values: readonly unknown[],
): Pick<QueueRow, "latencyPs" | "messagesPerSecond" | "throughputBps"> {
  const latencies = values.flatMap((value) =>
    isMapping(value) && isMapping(value["latencyPs"]) ? [value["latencyPs"]] : []
  );
  const rates = values.flatMap((value) => {
    const rate = isMapping(value) ? value["throughputBps"] : undefined;
    return typeof rate === "number" ? [rate] : [];
  });
  return {
    latencyPs: latencies.length === 1 ? latencies[0] as unknown as Latencies : null,
    messagesPerSecond: null,
    throughputBps: rates.length === 0 ? null : rates.reduce((sum, rate) => sum + rate, 0),
  };
}

/** A row for each number of queue pairs, or for each card. */
export function queueTable(rows: readonly QueueRow[]): string {
  const isSeveral = (value: (row: QueueRow) => unknown) => new Set(rows.map(value)).size > 1;
  const has = (name: keyof QueueRow) => rows.some((row) => row[name] !== null);
  return tableText(
    columnsOf<QueueRow>(
      isSeveral(({ variant }) => variant) && { title: "run", value: ({ variant }) => variant },
      { title: "card", value: ({ node }) => node },
      { title: "scheme", value: ({ scheme }) => scheme },
      { title: "placement", value: ({ placement }) => placement },
      isSeveral(({ layout }) => layout) && { title: "layout", value: ({ layout }) => layout },
      rows.some(({ store }) => store !== "host") &&
        { title: "store", value: ({ store }) => store },
      { title: "cache", value: ({ cache }) => cache },
      { title: "QPs", value: ({ qps }) => qps },
      { title: "doorbells", value: ({ doorbells }) => doorbells },
      rounded("reads each", ({ dmaReadsPerDoorbell }) => dmaReadsPerDoorbell),
      { title: "hits", value: ({ cacheHits }) => cacheHits },
      { title: "misses", value: ({ cacheMisses }) => cacheMisses },
      { title: "evictions", value: ({ cacheEvictions }) => cacheEvictions },
      has("stalePointers") && { title: "stale", value: ({ stalePointers }) => stalePointers },
      { title: "B/queue", value: ({ queueBytes }) => queueBytes },
      isSeveral(({ pointerBytes }) => pointerBytes) &&
        { title: "B/pointer", value: ({ pointerBytes }) => pointerBytes },
      has("messagesPerSecond") &&
        rounded("M msg/s", ({ messagesPerSecond: rate }) => rate === null ? null : rate / 1e6),
      has("throughputBps") &&
        rounded("Gb/s", ({ throughputBps: rate }) => rate === null ? null : rate / 1e9),
      ...(has("latencyPs")
        ? latencyColumns<QueueRow>(({ latencyPs }) => latencyPs ?? undefined)
        : []),
    ),
    rows,
  );
}

function rounded(title: string, value: (row: QueueRow) => number | null): Column<QueueRow> {
  const text = (row: QueueRow) => value(row)?.toFixed(2) ?? "";
  return { title, value, text };
}
