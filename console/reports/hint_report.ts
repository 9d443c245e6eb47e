/**
 * The benefit of hints (H-30). A row for each workload that programs of hints have measured
 * (`scripts/scenarios/hints_measured.ts`); where none runs, one for each card that takes part in
 * hints.
 */
import { rnicName } from "../../fabric/rack/plan/names.ts";
import type { HintPlan } from "../../fabric/rack/plan/hint_plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { isMapping } from "../../fabric/base/mapping.ts";
import type { Prepared } from "../rack/prepare.ts";
import { countersOf, type Reported, reportsOf } from "../rack/run_variant.ts";
import { columnsOf, type Latencies, tableText, timeColumn } from "./table.ts";

type Counters = Readonly<Record<string, number>>;

export interface HintRow {
  readonly variant: string;
  /** The card whose requests are announced, or a card with its totals. */
  readonly node: string;
  /** Null in a card's row. */
  readonly workload: string | null;
  /**
   * When requests follow their hint (H-06): `at once`, `after 600us`, `after the ACK`; `no hints`.
   */
  readonly send: string;
  /** H-07; null for a card without hints. */
  readonly encoding: HintPlan["encoding"] | null;
  /** The carrier of hints: each queue pair's own, or the carrier of all, of RC or UC (H-08). */
  readonly by: HintWay | null;
  /** Operations; null where no program reports them. */
  readonly messages: number | null;
  readonly failed: number | null;
  /** Accesses to absent pages at the responder; null where no server reports them. */
  readonly faults: number | null;
  readonly rnrNaks: number | null;
  /** Contexts and translations that were not on the chip when they were needed. */
  readonly misses: number | null;
  readonly latencyPs: Pick<Latencies, "median" | "p99"> | null;
  /** The message's extra time compared to its repetition; null: not measured. */
  readonly stallPs: Time | null;
  /** Of requests, behind their hints (H-06). */
  readonly heldPs: Time;
  /** Pages, contexts and lines of translations that hints have had fetched. */
  readonly useful: number | null;
  readonly late: number | null;
  readonly wasted: number | null;
  /** Faults and misses on announced elements, by the element's place in the hint. */
  readonly faultsFirst: number | null;
  readonly faultsBehindFirst: number | null;
  readonly missesFirst: number | null;
  readonly missesBehindFirst: number | null;
  readonly hints: number;
  readonly hintBytes: number;
  /** Of the bytes that the requester's card has sent. */
  readonly overhead: number;
}

type HintWay = HintPlan["transport"] | "uc-carrier";

interface Card {
  readonly name: string;
  readonly host: string;
  readonly hints?: HintPlan;
}

/** A client's report on a workload. Its server's counters of the same time are a {@link Served}. */
export interface Measured {
  readonly program: "hints";
  readonly workload: string;
  readonly to: string;
  readonly by?: "own" | "carrier" | "uc-carrier";
  readonly messages: number;
  readonly failed: number;
  readonly latencyPs: Pick<Latencies, "median" | "p99">;
  readonly stallPs?: Time;
  readonly heldPs: Time;
  readonly hintsSent: number;
  readonly hintBytesOut: number;
  readonly bytesOut: number;
}

/** Counters of a server's card: the n-th of a client belongs to its n-th workload. */
export interface Served {
  readonly program: "hints";
  readonly client: string;
  readonly counters: Counters;
}

/** None for a run without hints. */
export function hintRows(
  { label: variant, plan }: Pick<Prepared, "label" | "plan">,
  outcome: Reported,
): HintRow[] {
  const cards = plan.nodes.flatMap((node): Card[] =>
    node.kind === "rnic" ? [{ ...node.config, name: node.name }] : []
  );
  if (cards.every(({ hints }) => hints === undefined)) return [];
  const results = reportsOf(outcome).filter(({ topic }) => topic === "result");
  const served = results.filter(({ value }) => isServed(value)).map(({ node, value }) => ({
    node,
    ...value as Served,
  }));
  const measured = results.flatMap(({ node, value }): HintRow[] => {
    // Workloads use their hosts' first RNICs.
    const card = cards.find(({ name }) => name === rnicName(node));
    if (!isMeasured(value) || card === undefined) return [];
    const place = served.findIndex((each) => each.node === value.to && each.client === node);
    const counters = place < 0 ? undefined : served.splice(place, 1)[0]!.counters;
    return [ofWorkload(value, { variant, card, counters })];
  });
  if (measured.length > 0) return measured;
  return cards.flatMap((card): HintRow[] => {
    if (card.hints === undefined) return [];
    const { name } = card;
    const counters = countersOf(outcome.finals, name);
    if (counters === undefined) return [];
    const values = results.filter(({ node }) => node === card.host).map(({ value }) => value);
    return [{
      variant,
      node: name,
      workload: null,
      send: sendText(card.hints),
      encoding: card.hints.encoding,
      by: null,
      messages: null,
      failed: null,
      latencyPs: onlyLatencies(values),
      stallPs: null,
      ...asRequester(counters),
      ...asResponder(counters),
    }];
  });
}

function isMeasured(value: unknown): value is Measured {
  return isMapping(value) && value["program"] === "hints" &&
    typeof value["workload"] === "string" && isMapping(value["latencyPs"]);
}

function isServed(value: unknown): value is Served {
  return isMapping(value) && value["program"] === "hints" &&
    typeof value["client"] === "string" && isMapping(value["counters"]);
}

/** The whole result stands in the table of hints. */
export function isInHintTable({ value }: { readonly value: unknown }): boolean {
  return isMeasured(value) || isServed(value);
}

function ofWorkload(
  value: Measured,
  { variant, card, counters }: {
    readonly variant: string;
    readonly card: Card;
    readonly counters: Counters | undefined;
  },
): HintRow {
  const { workload, by = "own", messages, failed, latencyPs, stallPs = null } = value;
  const { hintsSent, hintBytesOut, bytesOut, heldPs } = value;
  return {
    variant,
    node: card.name,
    workload,
    send: sendText(card.hints),
    encoding: card.hints?.encoding ?? null,
    by: hintsSent === 0 ? null : wayOf(card.hints, by),
    messages,
    failed,
    latencyPs,
    stallPs,
    ...asRequester({ hintsSent, hintBytesOut, bytesOut, hintHoldPs: heldPs }),
    ...(counters === undefined ? UNSAID : asResponder(counters)),
  };
}

function sendText(hints: HintPlan | undefined): string {
  if (hints === undefined) return "no hints";
  switch (hints.follow) {
    case "at-once":
      return "at once";
    case "delay":
      return `after ${formatTime(hints.delayPs)}`;
    case "agreed":
      return "as agreed";
    case "after-ack":
      return "after the ACK";
  }
}

function wayOf(hints: HintPlan | undefined, by: NonNullable<Measured["by"]>): HintWay {
  const { transport = "own" } = hints ?? {};
  return transport === "own" || transport === "carrier" ? by : transport;
}

function asRequester(
  { hintsSent = 0, hintBytesOut = 0, bytesOut = 0, hintHoldPs = 0 }: Counters,
): Pick<HintRow, "heldPs" | "hints" | "hintBytes" | "overhead"> {
  const overhead = bytesOut === 0 ? 0 : hintBytesOut / bytesOut;
  return { heldPs: hintHoldPs, hints: hintsSent, hintBytes: hintBytesOut, overhead };
}

const UNSAID = {
  faults: null,
  rnrNaks: null,
  misses: null,
  useful: null,
  late: null,
  wasted: null,
  faultsFirst: null,
  faultsBehindFirst: null,
  missesFirst: null,
  missesBehindFirst: null,
} as const;

function asResponder(counters: Counters) {
  const sum = (...names: readonly string[]) =>
    names.reduce((all, name) => all + (counters[name] ?? 0), 0);
  const faultsLate = sum("hintPagesLate"), missesLate = sum("hintLinesLate", "hintContextsLate");
  const faultsBehindFirst = sum("hintPagesLateBehindFirst");
  const missesBehindFirst = sum("hintMissesBehindFirst");
  return {
    // Page requests for hints are events at the driver, of no access.
    faults: sum("pageFaults", "pageFaultsMerged") - sum("hintPageRequests"),
    rnrNaks: sum("rnrNaksOut"),
    misses: sum("translationMisses", "contextMisses"),
    useful: sum("hintPagesUseful", "hintLinesUseful", "hintContextsUseful"),
    late: faultsLate + missesLate,
    wasted: sum("hintPagesWasted", "hintLinesWasted", "hintContextsWasted"),
    faultsFirst: faultsLate - faultsBehindFirst,
    faultsBehindFirst,
    missesFirst: missesLate - missesBehindFirst,
    missesBehindFirst,
  };
}

function onlyLatencies(values: readonly unknown[]): HintRow["latencyPs"] {
  const all = values.flatMap((value) =>
    isMapping(value) && isMapping(value["latencyPs"]) ? [value["latencyPs"]] : []
  );
  return all.length === 1 ? all[0] as unknown as Latencies : null;
}

/**
 * A row for each workload, or for each card. `late pages`, `late entries` (contexts, lines of
 * translations): of the first element of a hint, and of later ones. `bytes`: share of hints in the
 * bytes that the card has sent.
 */
export function hintTable(rows: readonly HintRow[]): string {
  const isSeveral = (value: (row: HintRow) => unknown) => new Set(rows.map(value)).size > 1;
  const says = (name: keyof HintRow) => rows.some((row) => row[name] !== null);
  const counts = (...names: readonly (keyof HintRow)[]) =>
    rows.some((row) => names.some((name) => (row[name] ?? 0) !== 0));
  const places = (first: number | null, later: number | null) =>
    first === null ? null : `${first} + ${later}`;
  return tableText(
    columnsOf<HintRow>(
      isSeveral(({ variant }) => variant) && { title: "run", value: ({ variant }) => variant },
      { title: "card", value: ({ node }) => node },
      says("workload") && { title: "workload", value: ({ workload }) => workload },
      { title: "requests", value: ({ send }) => send },
      says("encoding") && { title: "encoding", value: ({ encoding }) => encoding },
      says("by") && { title: "by", value: ({ by }) => by },
      says("messages") && { title: "messages", value: ({ messages }) => messages },
      says("failed") && { title: "failed", value: ({ failed }) => failed },
      says("faults") && { title: "faults", value: ({ faults }) => faults },
      says("rnrNaks") && { title: "RNR", value: ({ rnrNaks }) => rnrNaks },
      says("misses") && { title: "misses", value: ({ misses }) => misses },
      says("latencyPs") && timeColumn("median", ({ latencyPs }) => latencyPs?.median),
      says("latencyPs") && timeColumn("p99", ({ latencyPs }) => latencyPs?.p99),
      says("stallPs") && timeColumn("stall", ({ stallPs }) => stallPs ?? undefined),
      counts("heldPs") && timeColumn("held", ({ heldPs }) => heldPs),
      says("useful") && { title: "useful", value: ({ useful }) => useful },
      says("late") && { title: "late", value: ({ late }) => late },
      says("wasted") && { title: "wasted", value: ({ wasted }) => wasted },
      counts("faultsFirst", "faultsBehindFirst") && {
        title: "late pages",
        value: ({ faultsFirst, faultsBehindFirst }) => places(faultsFirst, faultsBehindFirst),
      },
      counts("missesFirst", "missesBehindFirst") && {
        title: "late entries",
        value: ({ missesFirst, missesBehindFirst }) => places(missesFirst, missesBehindFirst),
      },
      { title: "hints", value: ({ hints }) => hints },
      {
        title: "bytes",
        value: ({ overhead }) => overhead,
        text: ({ overhead }) => `${(100 * overhead).toFixed(2)} %`,
      },
    ),
    rows,
  );
}
