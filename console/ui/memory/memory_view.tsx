import { computed, signal, useSignalEffect } from "@preact/signals";
import type { Loss, MemoryMap, MemoryView } from "../../api/replay.ts";
import { livePs, useLive } from "../data/live.ts";
import { topology, variant } from "../data/rack.ts";
import { pathOf, Reader } from "../data/reading.ts";
import { WhichKeeps } from "../explore/which_keeps.tsx";
import { Empty, Loading } from "../frame/empty.tsx";
import { bytes, count, plural, sentence, time } from "../figures.ts";
import { go, hrefOf, instant, lookAt, place, run, select, selection } from "../state.ts";
import type { View } from "../view.ts";
import { MapCanvas } from "./canvas.tsx";
import { LineDetail } from "./line_detail.tsx";
import { Overview, PARTS, type Range } from "./overview.tsx";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { countsOf, leftOf, type LineState, LOOKS, mapOf, STATES } from "./memory_map.ts";

const memory = new Reader<MemoryView>(), loss = new Reader<Loss>();
/** The written stretch, and the chosen part of one with more lines than are shown. */
const wholeMap = new Reader<MemoryMap>(), partMap = new Reader<MemoryMap>();
const detail = new Reader<MemoryView>();

const showsLeft = signal(false);
const CELLS_PX = [2, 4, 8, 16, 24, 40] as const;
const zoom = signal(3);

const hosts = computed(() =>
  (topology.value?.nodes ?? []).flatMap(({ kind, name }) => kind === "host" ? [name] : [])
);

const host = computed(() => {
  const what = selection.value;
  if (what?.kind === "line") return what.host;
  const named = what?.kind === "device" ? what.name : undefined;
  const own = topology.value?.nodes.find(({ name }) => name === named)?.host ?? named;
  const all = hosts.value;
  return [own, place.value.more["host"], writtenTo.value].find((name) =>
    name !== undefined && all.includes(name)
  ) ?? all[0];
});

const writtenTo = computed(() =>
  (topology.value?.programs ?? []).map(({ options }) => options["to"]).find((to) =>
    typeof to === "string"
  ) as string | undefined
);

const stretch = computed(() => {
  const { from, to } = place.value.more;
  return from === undefined || to === undefined
    ? undefined
    : { from: Number(from), to: Number(to) };
});

const mapped = computed((): { readonly whole?: Range; readonly part?: Range } => {
  const view = memory.value;
  if (view === undefined || view.touched.length === 0) return {};
  const shown = shownRange(view), whole = touchedAround(view, shown);
  if (view.moreLines === 0 && whole.to - whole.from <= LINES_MAX * LINE_BYTES) return {};
  const isPart = shown.from !== whole.from || shown.to !== whole.to;
  return { whole, ...(isPart && view.moreLines > 0 && { part: shown }) };
});

/** Of `GET /runs/{run}/memory`. */
const LINES_MAX = 4_096;

function readMaps(): void {
  const id = run.value, of = host.value, { whole, part } = mapped.value;
  if (id === undefined || of === undefined) return;
  const query = { host: of, variant: variant.value, at: instant.value ?? livePs.value };
  for (const [reader, range] of [[wholeMap, whole], [partMap, part]] as const) {
    if (range === undefined) continue;
    const key = `${id} ${variant.value} ${of} ${range.from} ${range.to}`;
    void reader.read(pathOf(["runs", id, "memory-map"], { ...query, ...range, parts: PARTS }), key);
  }
}

function readAll(): void {
  const id = run.value, of = host.value;
  if (id === undefined || of === undefined) return;
  const at = instant.value ?? livePs.value;
  const key = `${id} ${variant.value} ${of}`, range = stretch.value;
  void memory.read(
    pathOf(["runs", id, "memory"], { host: of, variant: variant.value, at, ...range }),
    key,
  );
  void loss.read(pathOf(["runs", id, "loss"], { variant: variant.value, at, nodes: of }), key);
  const what = selection.value;
  if (what?.kind !== "line") return;
  const line = { from: what.address, to: what.address + LINE_BYTES, bytes: true };
  void detail.read(
    pathOf(["runs", id, "memory"], { host: of, variant: variant.value, at, ...line }),
    `${key} ${what.address}`,
  );
}

function Page() {
  useLive();
  useSignalEffect(readAll);
  useSignalEffect(readMaps);
  if (run.value === undefined) {
    return (
      <Empty
        title="No run is chosen"
        act={<a class="button" href={hrefOf({ view: "runs" })}>Choose a run</a>}
      >
        This view shows where each line of a host's memory is: on its way, in a cache, or durable;
        what has been promised of it; and what a power cut would lose.
      </Empty>
    );
  }
  if (memory.trouble !== undefined) {
    return (
      <Empty
        title="No memory to show"
        act={<a class="button" href={hrefOf({ view: "runs" })}>Choose another run</a>}
      >
        {memory.trouble}.
      </Empty>
    );
  }
  const view = memory.value;
  if (view === undefined) return <Loading what="the memory" />;
  return (
    <>
      <Head view={view} />
      {view.touched.length === 0
        ? (
          <Empty
            isPart
            title="Nothing is written"
            act={<a class="button" href={hrefOf({ view: "operation" })}>Show operations</a>}
          >
            No program writes to the SCM of {view.host}{" "}
            in this run. As soon as one does, its lines are here.
          </Empty>
        )
        : <Map view={view} />}
    </>
  );
}

function Head({ view }: { readonly view: MemoryView }) {
  return (
    <>
      <h1>
        Memory of {view.host}
        <small>
          SCM · {view.domain.toUpperCase()}
          {view.hasPower ? "" : " · without power"} · at <span class="num">{time(view.at)}</span>
        </small>
      </h1>
      <CutNote view={view} />
    </>
  );
}

function CutNote({ view }: { readonly view: MemoryView }) {
  const found = loss.value;
  if (found === undefined) {
    return (
      <p class="note quiet">{loss.trouble ?? "What a power cut would lose is being asked …"}</p>
    );
  }
  const text = sentence(found.text);
  const [, head = "", rest = text] = /^((?:A|The) power cut of .+? at \S+\s\S+)(.*)$/s.exec(text) ??
    [];
  const isSafe = found.lostBytes === 0 && found.broken.length === 0;
  const isLost = found.broken.length > 0 || (found.happened && !isSafe);
  return (
    <div
      class={`note row apart ${isLost ? "refused" : isSafe ? "is-safe" : "would-lose"}`}
      data-testid="cut"
    >
      <p>
        <strong
          class={isLost ? "is-lost" : isSafe ? "is-durable" : "is-volatile"}
        >
          {head}
        </strong>
        {rest}.
        <Earlier view={view} />
      </p>
      <div class="acts">
        {found.happened
          ? (
            <>
              <button type="button" onClick={() => lookAt(found.at)}>
                Show the instant before
              </button>
              {found.lostBytes > 0 && <WhichKeeps host={view.host} />}
            </>
          )
          : (
            <>
              <button
                type="button"
                aria-pressed={showsLeft.value}
                onClick={() => showsLeft.value = !showsLeft.value}
              >
                Show what it would leave
              </button>
              <a class="button" href={cutHref(view)}>Cut here, in the explorer</a>
            </>
          )}
      </div>
    </div>
  );
}

/** What earlier power failures have taken, of a host that has power again. */
function Earlier({ view: { hasPower, cut } }: { readonly view: MemoryView }) {
  if (!hasPower || cut === undefined || cut.lines === 0) return null;
  return (
    <>
      {" "}
      <span class="is-lost">
        {plural(cut.lines, "line")} lost by its power cut at{" "}
        <button type="button" class="link" onClick={() => lookAt(cut.at)}>{time(cut.at)}</button>
      </span>{" "}
      {cut.lines === 1 ? "has" : "have"} not been written since.
    </>
  );
}

function cutHref({ host, at }: MemoryView): string {
  return hrefOf({ view: "explore", more: { cut: host, atPs: String(at) } });
}

function shownRange({ touched }: MemoryView): Range {
  if (stretch.value !== undefined) return stretch.value;
  const longest = touched.reduce((x, y) => y[1] - y[0] > x[1] - x[0] ? y : x);
  return { from: longest[0], to: longest[1] };
}

function touchedAround({ touched }: MemoryView, range: Range): Range {
  const found = touched.find(([from, to]) => range.from >= from && range.from < to);
  return found === undefined ? range : { from: found[0], to: found[1] };
}

function drawnRange(view: MemoryView): Range {
  const range = shownRange(view), last = view.lines.at(-1);
  return view.moreLines > 0 && last !== undefined
    ? { from: range.from, to: last.at + LINE_BYTES }
    : range;
}

function Map({ view }: { readonly view: MemoryView }) {
  const { from, to } = drawnRange(view), { whole, part } = mapped.value;
  const map = mapOf(view, from, to), left = { ...map, codes: map.codes.map(leftOf) };
  // Without power there is nothing that a cut could take.
  const shown = showsLeft.value && view.hasPower ? left : map;
  const what = selection.value;
  const selected = what?.kind === "line" && what.host === view.host
    ? (what.address - map.from) / LINE_BYTES
    : undefined;
  const counts = countsOf(shown);
  const cellPx = CELLS_PX[zoom.value]!;
  return (
    <>
      <div class="row apart">
        <Stretches view={view} />
        <div class="row">
          {hosts.value.length > 1 && (
            <select
              aria-label="Host"
              value={view.host}
              onChange={({ currentTarget }) =>
                go({ select: undefined, more: { host: currentTarget.value } })}
            >
              {hosts.value.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          )}
          <button
            type="button"
            aria-label="Smaller cells"
            disabled={zoom.value === 0}
            onClick={() => zoom.value--}
          >
            −
          </button>
          <button
            type="button"
            aria-label="Larger cells"
            disabled={zoom.value === CELLS_PX.length - 1}
            onClick={() => zoom.value++}
          >
            +
          </button>
        </div>
      </div>
      {whole !== undefined && wholeMap.value !== undefined && (
        <Overview map={wholeMap.value} shown={part ?? { from, to }} />
      )}
      {part !== undefined && partMap.value !== undefined && (
        <Overview map={partMap.value} shown={{ from, to }} />
      )}
      <MapCanvas
        map={shown}
        cellPx={cellPx}
        selected={selected !== undefined && selected >= 0 && selected < map.codes.length
          ? selected
          : undefined}
        onSelect={(index) =>
          select({ kind: "line", host: view.host, address: map.from + index * LINE_BYTES })}
        label={`${plural(map.codes.length, "line")} of ${view.host}: arrows move the selection`}
      />
      <Legend view={view} counts={counts} />
      {view.moreLines > 0 && (
        <p class="quiet">
          {count(view.moreLines)}{" "}
          more lines are written behind these: choose a part above to see them.
        </p>
      )}
    </>
  );
}

const BUTTONS_MAX = 4;

function Stretches({ view }: { readonly view: MemoryView }) {
  const now = touchedAround(view, shownRange(view)), { touched } = view;
  const choose = (at: number) => {
    const [from, to] = touched.find(([from]) => from === at)!;
    go({ more: { host: view.host, from: String(from), to: String(to) } });
  };
  const textOf = ([from, to]: readonly [number, number]) =>
    `0x${from.toString(16)}, ${bytes(to - from)}`;
  if (touched.length > BUTTONS_MAX) {
    return (
      <select
        aria-label="Stretches of memory that are written"
        value={String(now.from)}
        onChange={({ currentTarget }) => choose(Number(currentTarget.value))}
      >
        {touched.map((each) => (
          <option key={each[0]} value={String(each[0])}>{textOf(each)}</option>
        ))}
      </select>
    );
  }
  return (
    <div class="row" role="group" aria-label="Stretches of memory that are written">
      {touched.map((each) => (
        <button
          key={each[0]}
          type="button"
          class="num"
          aria-pressed={now.from === each[0]}
          onClick={() => choose(each[0])}
        >
          {textOf(each)}
        </button>
      ))}
    </div>
  );
}

function Legend(
  { view, counts }: {
    readonly view: MemoryView;
    readonly counts: ReturnType<typeof countsOf>;
  },
) {
  const states = STATES.filter((state): state is LineState => (counts.get(state) ?? 0) > 0);
  const promised = counts.get("promised") ?? 0, broken = counts.get("broken") ?? 0;
  return (
    <ul class="legend">
      {states.map((state) => {
        const { tone, letter, words } = LOOKS[state];
        const isQuiet = state === "medium" ? "is-quiet" : "";
        return (
          <li key={state}>
            <i class={`key of-${tone} ${isQuiet}`} aria-hidden="true">{letter}</i>
            <span class="num">{count(counts.get(state)!)}</span> {words}
          </li>
        );
      })}
      {promised > 0 && (
        <li>
          <i class="key bar of-durable" aria-hidden="true" />
          <span class="num">{count(promised)}</span> promised to survive
        </li>
      )}
      {broken > 0 && (
        <li class="is-lost">
          <i class="key bar of-lost" aria-hidden="true" />
          <span class="num">{count(broken)}</span> promised, and{" "}
          {view.hasPower ? "a power cut now would break it" : "the power cut broke it"}
        </li>
      )}
    </ul>
  );
}

export const MEMORY: View = {
  title: "Memory",
  icon: "M3 3h14v14H3zM3 8h14M3 12h14M8 3v14M12 3v14",
  Page,
  side: (what) => {
    const view = memory.value;
    if (what.kind !== "line" || view === undefined) return undefined;
    return <LineDetail view={view} address={what.address} detail={detail.value} />;
  },
  keys: [
    {
      key: "l",
      what: "what a power cut would leave",
      act: () => showsLeft.value = !showsLeft.value,
    },
    {
      key: "+",
      what: "larger cells",
      act: () => zoom.value = Math.min(CELLS_PX.length - 1, zoom.value + 1),
    },
    { key: "-", what: "smaller cells", act: () => zoom.value = Math.max(0, zoom.value - 1) },
  ],
};
