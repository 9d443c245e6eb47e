/**
 * Elements are made once for a topology. Changes are bound to them as signals of visible values,
 * rounded: an unchanged figure touches no element.
 */
import { type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Cable, Node, Topology } from "../../api/rack.ts";
import { flowKey, topology } from "../data/rack.ts";
import {
  inFlight,
  queuedBytes,
  shownAt,
  shownCounters,
  shownFaults,
  shownFlows,
  shownPower,
  waitedFor,
} from "../data/shown.ts";
import { bitRate, bytes, cut, percent, plural } from "../figures.ts";
import { isSelected, select, selection } from "../state.ts";
import { hostWords, isAtWork, shortWords, shownActivities, wrapped } from "./activity.ts";
import {
  busText,
  busyShare,
  deviceText,
  type Gauge,
  gaugesOf,
  hostText,
  isCoherent,
} from "./device_text.ts";
import { type Box, type CableLine, type HostBox, type Layout, layOut } from "./layout.ts";
import { hostOfRnic, indexOfRnic } from "../../../fabric/rack/plan/names.ts";
import { Zoomed } from "./zoom.tsx";

/** To half a unit of the drawing: a smaller change is invisible. */
function halves(value: number): number {
  return Math.round(2 * value) / 2;
}

function classText(...classes: readonly (string | false)[]): string {
  return classes.filter(Boolean).join(" ");
}

function choose(what: Parameters<typeof select>[0]) {
  return {
    onClick: () => select(what),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      select(what);
    },
  };
}

function Device(
  { name, label, box, children }: {
    readonly name: string;
    readonly label?: string;
    readonly box: Box;
    readonly children?: preact.ComponentChildren;
  },
) {
  const what = { kind: "device" as const, name };
  const isPressed = useComputed(() => isSelected(what));
  const classes = useComputed(() =>
    classText(
      "device",
      shownPower.value.get(name) === false && "is-off",
      isPressed.value && "is-selected",
      waitedFor.value.has(name) && "is-waited-for",
    )
  );
  return (
    <g
      class={classes}
      transform={`translate(${box.x} ${box.y})`}
      role="button"
      tabindex={0}
      {...(label !== undefined && { "aria-label": label })}
      aria-pressed={isPressed}
      data-device={name}
      {...choose(what)}
    >
      <rect width={box.w} height={box.h} rx="4" />
      {children}
    </g>
  );
}

function stateText(name: string): string {
  if (shownPower.value.get(name) === false) return "off";
  return waitedFor.value.has(name) ? "time waits for it" : "";
}

interface CardAt {
  readonly card: Node;
  readonly box: Box;
}

function LargeHost(
  { node, at, cards }: {
    readonly node: Node;
    readonly at: HostBox;
    readonly cards: readonly CardAt[];
  },
) {
  const { box } = at;
  const isOff = useComputed(() => shownPower.value.get(node.name) === false);
  const words = useComputed(() => wrapped(hostWords(node.name), WORDS_LETTERS, 2));
  const state = useComputed(() => stateText(node.name) || hostText(node));
  const gauges = useComputed(() =>
    gaugesOf(node, shownCounters.value.get(node.name), shownAt.value)
  );
  return (
    <>
      {cards.map(({ card, box: its }) => (
        <g key={card.name}>
          <line
            class={isCoherent(node) ? "bus coherent" : "bus"}
            x1={its.x + its.w / 2}
            y1={its.y + its.h}
            x2={its.x + its.w / 2}
            y2={box.y}
          >
            <title>{busText(node)}</title>
          </line>
          <SmallDevice node={card} box={its} />
        </g>
      ))}
      <Device name={node.name} box={box}>
        <text class="name" x="12" y="21">{cut(node.name, 14)}</text>
        <text class="quiet" x={box.w - 12} y="21" text-anchor="end">{state}</text>
        {isOff.value
          ? (
            <>
              <text class="quiet" x="12" y="52">Caches and buffers are empty.</text>
              <text class="quiet" x="12" y="70">SCM keeps what it had.</text>
            </>
          )
          : (
            <>
              {[0, 1].map((line) => (
                <Words
                  key={line}
                  host={node.name}
                  words={words}
                  line={line}
                />
              ))}
              <Gauges gauges={gauges} width={box.w - 24} />
            </>
          )}
      </Device>
    </>
  );
}

/** Of 11 px, in a large host. */
const WORDS_LETTERS = 36;

/** A host that only serves is no news. */
function wordsClass(host: string): ReadonlySignal<string> {
  return useComputed(() => isAtWork(host) ? "words" : "words is-idle");
}

function Words(
  { host, words, line }: {
    readonly host: string;
    readonly words: ReadonlySignal<readonly string[]>;
    readonly line: number;
  },
) {
  const text = useComputed(() => words.value[line] ?? "");
  return <text class={wordsClass(host)} x="12" y={41 + 15 * line}>{text}</text>;
}

interface GaugesProps {
  readonly gauges: ReadonlySignal<readonly Gauge[]>;
  readonly width: number;
}

function Gauges({ gauges, width }: GaugesProps) {
  let y = 82;
  return (
    <>
      {gauges.peek().map(({ name, share }, index) => {
        const top = y;
        y += share === undefined ? 22 : 33;
        return (
          <g key={name} transform={`translate(12 ${top})`}>
            <OneGauge gauges={gauges} index={index} width={width} />
          </g>
        );
      })}
    </>
  );
}

function OneGauge({ gauges, index, width }: GaugesProps & { readonly index: number }) {
  const figure = useComputed(() => gauges.value[index]!.figure);
  const filled = useComputed(() => halves(width * (gauges.value[index]!.share ?? 0)));
  const { name, share, colour } = gauges.peek()[index]!;
  return (
    <>
      <text class="quiet">{name}</text>
      <text class="num quiet" x={width} text-anchor="end">{figure}</text>
      {share !== undefined && <Bar width={width} filled={filled} colour={colour} y={6} />}
    </>
  );
}

function Bar(
  { x, y, width, filled, colour }: {
    readonly x?: number;
    readonly y: number;
    readonly width: number;
    readonly filled: ReadonlySignal<number>;
    readonly colour: Gauge["colour"];
  },
) {
  const place = { ...(x !== undefined && { x }), y, height: "6", rx: "2" };
  return (
    <>
      <rect class="trough" {...place} width={width} />
      <rect class={`fill-${colour}`} {...place} width={filled} />
    </>
  );
}

function SmallDevice({ node, box }: { readonly node: Node; readonly box: Box }) {
  const kind = node.kind === "rnic" ? "RNIC" : "switch";
  // Each of several RNICs has a part of the room: its name, and a mark if it is off.
  const isNarrow = box.w < NARROW;
  const state = useComputed(() => stateText(node.name) || (isNarrow ? "" : kind));
  const text = useComputed(() => deviceText(node, shownCounters.value.get(node.name)));
  const letters = Math.max(1, Math.floor(box.w / LETTER) - (isNarrow ? 2 : 0));
  return (
    <Device name={node.name} {...(isNarrow && { label: `RNIC ${node.name}` })} box={box}>
      <text class={kind === "switch" ? "name far" : "name"} x={isNarrow ? "6" : "12"} y="20">
        {isNarrow && box.w < LETTERS_LEAST * LETTER
          ? `${(indexOfRnic(node.name) ?? 0) + 1}`
          : cut(node.name, Math.min(18, letters))}
      </text>
      {isNarrow ? <text class="quiet" x="6" y="38">{state}</text> : (
        <>
          <text class="quiet" x={box.w - 12} y="20" text-anchor="end">{state}</text>
          <text class="quiet" x="12" y="38">{text}</text>
        </>
      )}
    </Device>
  );
}

/**
 * Narrower devices have their name alone; `LETTER`: a letter's width; fewer than `LETTERS_LEAST`
 * are not shown.
 */
const NARROW = 140, LETTER = 8, LETTERS_LEAST = 8;

function Unit(
  { node, at: { box }, cards }: {
    readonly node: Node;
    readonly at: HostBox;
    readonly cards: readonly CardAt[];
  },
) {
  return (
    <>
      {cards.map(({ card, box: its }) => (
        <UnitCard key={card.name} name={card.name} box={its} isOnly={cards.length === 1} />
      ))}
      <Device name={node.name} box={box}>
        <text class="name" x="8" y="15">{cut(node.name, 12)}</text>
        <Load node={node} box={box} />
        <UnitWords name={node.name} />
      </Device>
    </>
  );
}

const LINE = 14;

function UnitCard(
  { name, box, isOnly }: { readonly name: string; readonly box: Box; readonly isOnly: boolean },
) {
  const state = useComputed(() =>
    isOnly ? stateText(name) || "RNIC" : `${(indexOfRnic(name) ?? 0) + 1}`
  );
  return (
    <Device name={name} label={`RNIC ${name}`} box={box}>
      {box.h < LINE ? null : <text class="quiet" x="8" y={box.h / 2 + 4}>{state}</text>}
    </Device>
  );
}

function Load({ node, box }: { readonly node: Node; readonly box: Box }) {
  const state = useComputed(() =>
    waitedFor.value.has(node.name) ? "waited for" : stateText(node.name)
  );
  const filled = useComputed(() =>
    halves(36 * busyShare(node, shownCounters.value.get(node.name), shownAt.value))
  );
  return state.value === ""
    ? <Bar x={box.w - 44} y={8} width={36} filled={filled} colour="faint" />
    : <text class="quiet" x={box.w - 8} y="15" text-anchor="end">{state}</text>;
}

const UNIT_LETTERS = 20;

/** The first clause has room; all of it is in the title. */
function UnitWords({ name }: { readonly name: string }) {
  const all = useComputed(() => hostWords(name));
  const text = useComputed(() => wrapped(shortWords(all.value), UNIT_LETTERS, 1)[0]!);
  return (
    <>
      <text class={wordsClass(name)} x="8" y="28">{text}</text>
      <title>{all}</title>
    </>
  );
}

/** From here on a cable is what others wait for. */
const BUSY_SHARE = 0.8;

function widthOf(share: number): number {
  return share === 0 ? 1.5 : halves(2 + 5 * Math.sqrt(Math.min(1, share)));
}

function pathOf(points: CableLine["points"]): string {
  return points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x} ${y}`).join("");
}

interface CableProps {
  readonly line: CableLine;
  readonly rack: Topology;
}

function CableOf({ line, rack, isLarge }: CableProps & { readonly isLarge: boolean }) {
  const cable = rack.cables[line.index]!, ends = [cable.a.node, cable.b.node];
  const ways = ends.map((from) => flowKey(line.index, from));
  const isAtCard = isLarge && ends.some((end) => hostOfRnic(end) !== undefined);
  const what = { kind: "cable" as const, name: line.name };
  const isPressed = useComputed(() => isSelected(what));
  const most = useComputed(() =>
    Math.max(...ways.map((way) => shownFlows.value.get(way)?.bitsPerSecond ?? 0))
  );
  const share = useComputed(() => most.value / cable.bitsPerSecond);
  const width = useComputed(() => widthOf(share.value));
  const faults = useComputed(() => {
    const all = shownFaults.value.get(line.index) ?? [];
    return [...new Set(all.map(({ action }) => action))].join(", ");
  });
  const classes = useComputed(() =>
    classText(
      "cable",
      most.value > 0 && "is-moving",
      share.value > BUSY_SHARE && "is-busy",
      faults.value !== "" && "is-faulty",
      faults.value.split(", ").includes("cut") && "is-cut",
      isPressed.value && "is-selected",
    )
  );
  const text = useComputed(() =>
    faults.value !== "" ? faults.value : isAtCard && most.value > 0 ? bitRate(most.value) : ""
  );
  const label = useComputed(() => `cable ${line.name} ${text.value}`);
  const d = pathOf(line.points);
  return (
    <g
      class={classes}
      role="button"
      tabindex={0}
      aria-label={label}
      aria-pressed={isPressed}
      data-cable={line.name}
      {...choose(what)}
    >
      <path class="touch" d={d} />
      {line.own === line.points ? <path class="wire" d={d} stroke-width={width} /> : (
        <>
          {/* Many share the way down a column: only its last piece is a cable's own. */}
          <path class="trunk" d={d} />
          <path class="wire" d={pathOf(line.own)} stroke-width={width} />
        </>
      )}
      {[cable.a, cable.b].map((end) => <Queue key={end.node} end={end} line={line} rack={rack} />)}
      <CableText text={text} at={line.label} />
    </g>
  );
}

/** Of the switch at this end: what waits to leave over the cable. */
function Queue(
  { end, line, rack }: CableProps & { readonly end: Cable["a"] },
) {
  const node = rack.nodes.find(({ name }) => name === end.node)!;
  const filled = useComputed(() => queuePx(queuedBytes(end), node));
  const title = useComputed(() => `${bytes(queuedBytes(end))} wait in ${end.node}`);
  if (node.kind !== "switch") return null;
  const isFirst = rack.cables[line.index]!.a === end;
  const [[x, y], [, nextY]] = isFirst
    ? [line.points[0]!, line.points[1]!]
    : [line.points.at(-1)!, line.points.at(-2)!];
  const isDown = nextY >= y;
  return (
    <g transform={`translate(${x + 5} ${y})${isDown ? "" : " scale(1 -1)"}`}>
      <title>{title}</title>
      <rect class="queued" width="6" height={filled} />
    </g>
  );
}

const QUEUE_PX = 28, QUEUE_LEAST = 3;

/** By the root, so that the first kilobytes are seen, and a full queue still is the longest. */
function queuePx(queued: number, { config }: Node): number {
  if (queued === 0) return 0;
  const most = Number(config["queueBytes"] ?? 0) || 1 << 20;
  return halves(QUEUE_LEAST + (QUEUE_PX - QUEUE_LEAST) * Math.sqrt(Math.min(1, queued / most)));
}

function CableText(
  { text, at: [x, y] }: {
    readonly text: ReadonlySignal<string>;
    readonly at: CableLine["label"];
  },
) {
  const isThere = useComputed(() => text.value !== "");
  return isThere.value ? <text class="num" x={x} y={y}>{text}</text> : null;
}

function pointAt(points: CableLine["points"], share: number): readonly [number, number] {
  const lengths = points.slice(1).map(([x, y], i) =>
    Math.hypot(x - points[i]![0], y - points[i]![1])
  );
  let rest = share * lengths.reduce((sum, each) => sum + each, 0);
  for (const [i, length] of lengths.entries()) {
    if (rest <= length || i === lengths.length - 1) {
      const [x, y] = points[i]!,
        [toX, toY] = points[i + 1]!,
        part = length === 0 ? 0 : rest / length;
      return [x + (toX - x) * part, y + (toY - y) * part];
    }
    rest -= length;
  }
  return points.at(-1)!;
}

function partOf(points: CableLine["points"], from: number, to: number): CableLine["points"] {
  const ways = [0];
  for (const [i, [x, y]] of points.slice(1).entries()) {
    ways.push(ways[i]! + Math.hypot(x - points[i]![0], y - points[i]![1]));
  }
  const whole = ways.at(-1)!;
  const bends = points.filter((_, i) => ways[i]! > from * whole && ways[i]! < to * whole);
  return [pointAt(points, from), ...bends, pointAt(points, to)];
}

function Frames({ lines, rack }: { readonly lines: Layout["cables"]; readonly rack: Topology }) {
  const all = inFlight.value;
  if (all.size === 0) return null;
  return <>{lines.map((line) => <FramesOf key={line.index} line={line} rack={rack} />)}</>;
}

function FramesOf({ line, rack }: CableProps) {
  const cable = rack.cables[line.index]!, at = shownAt.value;
  return (
    <>
      {[cable.a.node, cable.b.node].flatMap((from) =>
        (inFlight.value.get(flowKey(line.index, from)) ?? []).map(
          ({ startPs, endPs, text, effect }, i) => {
            const share = (ps: number) => Math.max(0, Math.min(1, (at - ps) / cable.latencyPs));
            const points = from === cable.a.node ? line.points : line.points.toReversed();
            const [headX, headY] = pointAt(points, share(startPs));
            return (
              <g
                key={`${from} ${i}`}
                class={`in-flight ${effect === undefined ? "" : "is-faulty"}`}
              >
                <title>{text}</title>
                <path d={pathOf(partOf(points, share(endPs), share(startPs)))} />
                <circle cx={headX} cy={headY} r="4" />
              </g>
            );
          },
        )
      )}
    </>
  );
}

const WAITS_ALL = 4;

/**
 * From a host to each host that owes it answers: in a row of a few from all of them, else from the
 * selected one.
 */
function Waits({ layout: { hosts, isLarge, isOneRow } }: { readonly layout: Layout }) {
  const all = shownActivities.value;
  if (all === undefined) return null;
  const chosen = chosenHost();
  const isAll = isLarge && isOneRow && hosts.length <= WAITS_ALL;
  const boxes = new Map(hosts.map(({ host, box }) => [host, box]));
  const arcs = hosts.filter(({ host }) => isAll || host === chosen).flatMap(({ host, box }) =>
    [...all.get(host)?.owedBy ?? []].flatMap(([far, requests]) => {
      const to = boxes.get(far);
      return to === undefined || far === host ? [] : [{ host, far, requests, box, to }];
    })
  );
  return (
    <>
      {arcs.map(({ host, far, requests, box, to }) => {
        const text = `${host} waits for ${far}: ${plural(requests, "request")} without an answer`;
        const { d, label: [x, y] } = arc(box, to);
        return (
          <g key={`${host} ${far}`} class="waits" data-waits={`${host} ${far}`}>
            <title>{text}</title>
            <path d={d} />
            {isAll && <text class="num" x={x} y={y} text-anchor="middle">{text}</text>}
          </g>
        );
      })}
    </>
  );
}

const ARC_DEEP = 30, ARROW = 5, ASIDE = 18;

/** Below both boxes; two hosts that wait for each other have two. */
function arc(
  from: Box,
  to: Box,
): { readonly d: string; readonly label: readonly [number, number] } {
  const side = from.x < to.x || (from.x === to.x && from.y < to.y) ? 1 : -1;
  const x = from.x + from.w / 2 + side * ASIDE, toX = to.x + to.w / 2 - side * ASIDE;
  const y = from.y + from.h, toY = to.y + to.h;
  const deep = Math.max(y, toY) + (side > 0 ? ARC_DEEP : ARC_DEEP + 14);
  return {
    d: `M${x} ${y}C${x} ${deep} ${toX} ${deep} ${toX} ${toY + ARROW}` +
      `M${toX - ARROW} ${toY + 2 * ARROW}L${toX} ${toY + 1}L${toX + ARROW} ${toY + 2 * ARROW}`,
    label: [(x + toX) / 2, deep - (side > 0 ? -4 : -10)],
  };
}

function chosenHost(): string | undefined {
  const what = selection.value;
  if (what?.kind === "line") return what.host;
  const name = what?.kind === "device" ? what.name : what?.kind === "queue pair" ? what.device : "";
  return hostOfRnic(name) ?? (name || undefined);
}

function Devices({ rack, layout }: { readonly rack: Topology; readonly layout: Layout }) {
  const nodes = new Map(rack.nodes.map((node) => [node.name, node]));
  const Host = layout.isLarge ? LargeHost : Unit;
  return (
    <>
      {layout.switches.map(({ name, box }) => (
        <SmallDevice key={name} node={nodes.get(name)!} box={box} />
      ))}
      {layout.hosts.map((at) => (
        <Host
          key={at.host}
          node={nodes.get(at.host)!}
          at={at}
          cards={at.cards.flatMap(({ name, box }) => {
            const card = nodes.get(name);
            return card === undefined ? [] : [{ card, box }];
          })}
        />
      ))}
    </>
  );
}

function boxOf({ hosts, switches }: Layout): Box | undefined {
  const what = selection.value;
  if (what?.kind !== "device" && what?.kind !== "queue pair") return undefined;
  const name = what.kind === "device" ? what.name : what.device;
  const host = hosts.find((each) =>
    each.host === name || each.cards.some((card) => card.name === name)
  );
  return host?.box ?? switches.find((each) => each.name === name)?.box;
}

function Key({ class: name, d, text }: {
  readonly class: string;
  readonly d: string;
  readonly text: string;
}) {
  return (
    <li>
      <svg viewBox="0 0 26 12" aria-hidden="true">
        <g class={name}>
          <path class="wire" d={d} />
        </g>
      </svg>
      {text}
    </li>
  );
}

function Legend() {
  return (
    <ul
      class="picture-legend"
      aria-label="Legend"
      title="A cable is the wider, the more of its rate is used"
    >
      <Key class="of-cable" d="M1 6h24" text="idle" />
      <Key class="of-cable is-moving" d="M1 6h24" text="in use" />
      <Key class="of-cable is-busy" d="M1 6h24" text={`over ${percent(BUSY_SHARE)}`} />
      <li>
        <svg viewBox="0 0 26 12" aria-hidden="true">
          <rect class="queued" x="10" width="6" height="12" />
        </svg>
        queue
      </li>
      <li>
        <svg viewBox="0 0 26 12" aria-hidden="true">
          <g class="of-frame">
            <path d="M2 6h20" />
            <circle cx="20" cy="6" r="4" />
          </g>
        </svg>
        frame
      </li>
      <Key class="waits" d="M2 3C6 12 20 12 24 3" text="waits for" />
      <Key class="of-cable is-faulty is-cut" d="M1 6h24" text="fault" />
    </ul>
  );
}

export function Picture() {
  const rack = topology.value;
  const frame = useRef<HTMLDivElement>(null);
  const room = useSignal<Room>({ w: 0, h: 0 });
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      // Devices change their places only where the room is another one.
      const inSteps = (px: number) => Math.max(1, Math.floor(px / ROOM_STEP)) * ROOM_STEP;
      const next = { w: inSteps(width), h: inSteps(height - BELOW_PX) }, known = room.peek();
      if (next.w !== known.w || next.h !== known.h) room.value = next;
    });
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={frame} class="room">
      {/* A device or cable is bound to its figures once. */}
      {rack !== undefined && room.value.w > 0 && (
        <Drawn key={rack} rack={rack} w={room.value.w} h={room.value.h} />
      )}
    </div>
  );
}

interface Room {
  readonly w: number;
  readonly h: number;
}

/** `BELOW_PX`: the legend and the buttons of the zoom. */
const ROOM_STEP = 24, BELOW_PX = 40;

function Drawn({ rack, w, h }: Room & { readonly rack: Topology }) {
  const layout = useMemo(() => layOut(rack, { w, h }), [w, h]);
  const focus = useComputed(() => boxOf(layout));
  const { cables, width, height, isLarge } = layout;
  return (
    <Zoomed
      width={width}
      height={height}
      label={`The rack ${rack.scenario}`}
      focus={focus.value}
      legend={<Legend />}
    >
      {cables.map((line) => <CableOf key={line.index} line={line} rack={rack} isLarge={isLarge} />)}
      <Devices rack={rack} layout={layout} />
      <Waits layout={layout} />
      <Frames lines={cables} rack={rack} />
    </Zoomed>
  );
}
