import { json, saveAs } from "../frame/save.ts";
import { useSignalEffect } from "@preact/signals";
import type { LadderDocument } from "../../api/operations.ts";
import type { OperationRow, Operations } from "../../api/replay.ts";
import { livePs, useLive } from "../data/live.ts";
import { topology, trouble as rackTrouble, variant, variants } from "../data/rack.ts";
import { pathOf, Reader } from "../data/reading.ts";
import { Empty, Loading } from "../frame/empty.tsx";
import { Choice } from "../frame/filters.tsx";
import { count, roughTime, time, wordsOfVariant } from "../figures.ts";
import { changeMore, go, hrefOf, instant, place, run, select, selection } from "../state.ts";
import type { View } from "../view.ts";
import { StepDetail } from "./frame_detail.tsx";
import { EventList } from "./event_list.tsx";
import { Ladders } from "./ladder.tsx";
import { OperationList } from "./operation_list.tsx";

const list = new Reader<Operations>();
const here = new Reader<LadderDocument>(), there = new Reader<LadderDocument>();

const LISTED = 200;

interface More {
  readonly number?: string;
  readonly with?: string;
  readonly step?: string;
  readonly other?: string;
  readonly on?: string;
  /** Absent: a ladder. */
  readonly show?: Shows;
}

/** What the view has beside ladders. */
const SHOWS = { list: "All operations", events: "Events" } as const;
type Shows = keyof typeof SHOWS;

function more(): More {
  return place.value.more;
}

function change(to: { readonly [K in keyof More]: More[K] | undefined }): void {
  changeMore(to);
}

function numberNow(): number {
  const what = selection.value, { number } = more();
  if (number !== undefined) return Number(number);
  return what?.kind === "operation" ? what.number : list.value?.operations[0]?.index ?? 0;
}

function choose(number: number): void {
  change({ number: String(number), step: undefined, other: undefined });
  if (selection.value?.kind === "operation") select(undefined);
}

function readAll(): void {
  const id = run.value;
  if (id === undefined) return;
  // With the topology it is known which variant is meant.
  if (topology.value === undefined) return;
  const { with: other, on } = more(), of = variant.value, at = instant.value;
  // From the instant on: an operation under way there stands first.
  void list.read(
    pathOf(["runs", id, "operations"], { variant: of, on, from: at, most: LISTED }),
    id,
    livePs.value,
  );
  if (list.value === undefined) return;
  const number = numberNow();
  const isChosen = more().number !== undefined || selection.value?.kind === "operation";
  if (list.value.operations.length === 0 && !isChosen) return;
  void here.read(pathOf(["runs", id, "ladder"], { variant: of, index: number }), id, livePs.value);
  if (other !== undefined) {
    void there.read(pathOf(["runs", id, "ladder"], { variant: other, index: number }), id);
  }
}

function Page() {
  useLive();
  useSignalEffect(readAll);
  if (run.value === undefined) {
    return (
      <Empty
        title="No run is chosen"
        act={<a class="button" href={hrefOf({ view: "runs" })}>Choose a run</a>}
      >
        This view shows one operation step by step: devices as columns, the documents' step numbers,
        and the bytes of each frame.
      </Empty>
    );
  }
  const trouble = rackTrouble.value ?? list.trouble ?? here.trouble;
  if (trouble !== undefined) {
    return (
      <Empty
        title="No operation to show"
        act={<a class="button" href={hrefOf({ view: "runs" })}>Choose another run</a>}
      >
        {trouble}.
      </Empty>
    );
  }
  const { show } = more();
  if (show !== undefined && show in SHOWS) {
    return (
      <>
        <h1>{SHOWS[show]}</h1>
        <Tabs />
        {show === "list" ? <OperationList /> : <EventList />}
      </>
    );
  }
  const known = list.value;
  if (known === undefined) return <Loading what="the operations of the run" />;
  if (known.operations.length === 0 && here.value === undefined) {
    return (
      <Empty
        title="No operation has begun"
        act={instant.value === undefined
          ? <a class="button" href={hrefOf({ view: "rack" })}>Show the rack</a>
          : <button type="button" onClick={() => go({ at: undefined })}>Show now</button>}
      >
        As soon as a program posts a work request, its ladder is here.
      </Empty>
    );
  }
  return (
    <>
      <Head known={known} />
      <Shown />
    </>
  );
}

function Tabs() {
  const { show } = more(), ways = [undefined, ...Object.keys(SHOWS)] as (Shows | undefined)[];
  return (
    <nav class="row" aria-label="Operations and events">
      {ways.map((way) => (
        <a
          key={way ?? ""}
          class="button"
          href={hrefOf({ more: way === undefined ? {} : { show: way } })}
          aria-current={way === show ? "page" : undefined}
        >
          {way === undefined ? "Ladder" : SHOWS[way]}
        </a>
      ))}
    </nav>
  );
}

function Head({ known }: { readonly known: Operations }) {
  const ladder = here.value, number = numberNow();
  const { with: other, on } = more(), all = variants.value, of = variant.value;
  const row = known.operations.find(({ index }) => index === number);
  const words = Object.fromEntries(all.map((each) => [each, wordsOfVariant(each)]));
  return (
    <>
      <h1>
        {ladder === undefined ? "Operation" : titleOf(ladder)}
        {ladder !== undefined && (
          <small>
            {ladder.operation.connection} · begins at{" "}
            <span class="num">{time(ladder.operation.startPs)}</span>
          </small>
        )}
      </h1>
      <Tabs />
      <div class="row end">
        <label>
          Operation
          <span class="row">
            <button
              type="button"
              aria-label="The operation before"
              disabled={number === 0}
              onClick={() => choose(number - 1)}
            >
              ‹
            </button>
            <select
              aria-label="Operation"
              value={String(number)}
              onChange={({ currentTarget }) => choose(Number(currentTarget.value))}
            >
              {row === undefined && <option value={String(number)}>{number}</option>}
              {known.operations.map((each) => (
                <option key={each.index} value={String(each.index)}>{rowText(each)}</option>
              ))}
            </select>
            <button
              type="button"
              aria-label="The next operation"
              onClick={() => choose(number + 1)}
            >
              ›
            </button>
          </span>
        </label>
        {all.length > 1 && (
          <>
            <Choice
              label="Method"
              value={of ?? ""}
              all={all}
              words={words}
              none={null}
              onChoose={(each) => go({ variant: each })}
            />
            <Choice
              label="Compare with"
              value={other ?? ""}
              all={all.filter((each) => each !== of)}
              words={words}
              none="nothing"
              onChoose={(each) =>
                change({ with: each === "" ? undefined : each, other: undefined })}
            />
          </>
        )}
        {on !== undefined && (
          <button type="button" onClick={() => change({ on: undefined })}>All hosts</button>
        )}
        {more().step === undefined && more().other === undefined && (
          <span class="quiet">Select a step, or press j: its frame is decoded beside it.</span>
        )}
        {ladder !== undefined && (
          <button
            type="button"
            onClick={() => saveAs(`operation-${number}.json`, json(ladder))}
          >
            Save as JSON
          </button>
        )}
        {known.more > 0 && <span class="quiet">{count(known.more)} more begin later</span>}
      </div>
    </>
  );
}

function rowText({ index, node, step, text, startPs, endPs }: OperationRow): string {
  return `${index}  ${node}: ${step}, ${text.slice(0, 48)}, ${roughTime(endPs - startPs)}`;
}

function titleOf({ operation, figure }: LadderDocument): string {
  const of = figure === null ? "" : `, figure ${figure}`;
  return `Operation ${operation.number} of ${operation.node}${of}`;
}

function Shown() {
  const ladder = here.value, { with: other, step, other: otherStep } = more();
  if (ladder === undefined) return <Loading what="the ladder" />;
  const beside = other === undefined ? undefined : there.value;
  const lacking = other === undefined ? undefined : there.trouble;
  const now = instant.value;
  return (
    <>
      {lacking !== undefined && <p class="note refused">{wordsOfVariant(other!)}: {lacking}</p>}
      <div class="scroll ladder-scroll" tabIndex={0}>
        <Ladders
          instant={now}
          shown={[
            {
              ladder,
              selected: step === undefined ? undefined : Number(step),
              onSelect: (row) => selectStep({ step: String(row), other: undefined }),
            },
            ...(beside === undefined ? [] : [{
              ladder: beside,
              selected: otherStep === undefined ? undefined : Number(otherStep),
              onSelect: (row: number) => selectStep({ other: String(row), step: undefined }),
            }]),
          ]}
          {...(beside !== undefined && {
            title: (each: LadderDocument) => (
              <>
                {wordsOfVariant(each.variant)}
                <small>{roughTime(durationOf(each))}</small>
              </>
            ),
          })}
        />
      </div>
      <div class="promises">
        <PromiseNote ladder={ladder} isNamed={beside !== undefined} />
        {beside !== undefined && <PromiseNote ladder={beside} isNamed />}
      </div>
    </>
  );
}

function selectStep(
  to: { readonly step: string | undefined; readonly other: string | undefined },
): void {
  change(to);
  select({ kind: "operation", number: numberNow() });
}

/** From the post to the program's last knowledge. */
function durationOf({ conclusion }: LadderDocument): number {
  return conclusion.sincePs;
}

function PromiseNote(
  { ladder, isNamed }: { readonly ladder: LadderDocument; readonly isNamed: boolean },
) {
  const { promise, variant } = ladder;
  const isPromised = / is promised that /.test(promise);
  return (
    <p class={`note ${isPromised ? "is-safe" : "would-lose"}`}>
      <strong class={isPromised ? "is-durable" : "is-volatile"}>
        {isPromised ? "Promised" : "Not promised"}
      </strong>
      {isNamed && ` by ${wordsOfVariant(variant)}`}: {promise}
    </p>
  );
}

function move(by: 1 | -1): void {
  const { step, other } = more();
  const ladder = other === undefined ? here.value : there.value;
  if (ladder === undefined) return;
  const row = Math.max(
    0,
    Math.min(ladder.rows.length - 1, Number(other ?? step ?? (by > 0 ? -1 : 1)) + by),
  );
  selectStep(other === undefined ? { step: String(row), other } : { step, other: String(row) });
}

export const OPERATION: View = {
  title: "Operation",
  icon: "M4 2v16M16 2v16M4 6l12 3M16 13L4 16",
  Page,
  side: (what) => {
    const { step, other } = more();
    const ladder = other === undefined ? here.value : there.value, row = other ?? step;
    if (what.kind !== "operation" || ladder === undefined) return undefined;
    if (row === undefined) {
      return <p class="quiet">Select a step to see its frame, field by field.</p>;
    }
    return <StepDetail ladder={ladder} index={Number(row)} />;
  },
  keys: [
    { key: "j", what: "the next step", act: () => move(1) },
    { key: "k", what: "the step before", act: () => move(-1) },
    { key: "]", what: "the next operation", act: () => choose(numberNow() + 1) },
    { key: "[", what: "the operation before", act: () => choose(Math.max(0, numberNow() - 1)) },
  ],
};
