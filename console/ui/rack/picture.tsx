/**
 * Elements are made once for a topology. Changes are bound to them as signals of visible values,
 * rounded: an unchanged figure touches no element.
 */
import { type ReadonlySignal, useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Node, Topology } from "../../api/rack.ts";
import { flowKey, topology } from "../data/rack.ts";
import {
  inFlight,
  shownAt,
  shownCounters,
  shownFaults,
  shownFlows,
  shownPower,
  waitedFor,
} from "../data/shown.ts";
import { bitRate, cut } from "../figures.ts";
import { isSelected, select, selection } from "../state.ts";
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
          : <Gauges gauges={gauges} width={box.w - 24} />}
      </Device>
    </>
  );
}

interface GaugesProps {
  readonly gauges: ReadonlySignal<readonly Gauge[]>;
  readonly width: number;
}

function Gauges({ gauges, width }: GaugesProps) {
  let y = 47;
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
        <text class="name" x="8" y="21">{cut(node.name, 12)}</text>
        <Load node={node} box={box} />
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
  const state = useComputed(() => cut(stateText(node.name), 10));
  const filled = useComputed(() =>
    halves(36 * busyShare(node, shownCounters.value.get(node.name), shownAt.value))
  );
  return state.value === ""
    ? <Bar x={box.w - 44} y={14} width={36} filled={filled} colour="faint" />
    : <text class="quiet" x={box.w - 8} y="21" text-anchor="end">{state}</text>;
}

function widthOf(flowing: number, bitsPerSecond: number): number {
  const share = Math.min(1, flowing / bitsPerSecond);
  return share === 0 ? 1.5 : halves(2 + 5 * Math.sqrt(share));
}

function pathOf(points: CableLine["points"]): string {
  return points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x} ${y}`).join("");
}

interface CableProps {
  readonly line: CableLine;
  readonly rack: Topology;
}

function Cable({ line, rack, isLarge }: CableProps & { readonly isLarge: boolean }) {
  const cable = rack.cables[line.index]!, ends = [cable.a.node, cable.b.node];
  const ways = ends.map((from) => flowKey(line.index, from));
  const isAtCard = isLarge && ends.some((end) => hostOfRnic(end) !== undefined);
  const what = { kind: "cable" as const, name: line.name };
  const isPressed = useComputed(() => isSelected(what));
  const most = useComputed(() =>
    Math.max(...ways.map((way) => shownFlows.value.get(way)?.bitsPerSecond ?? 0))
  );
  const width = useComputed(() => widthOf(most.value, cable.bitsPerSecond));
  const faults = useComputed(() => {
    const all = shownFaults.value.get(line.index) ?? [];
    return [...new Set(all.map(({ action }) => action))].join(", ");
  });
  const classes = useComputed(() =>
    classText(
      "cable",
      most.value > 0 && "is-moving",
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
      {isLarge || line.points.length < 5 ? <path class="wire" d={d} stroke-width={width} /> : (
        <>
          {/* Many share the way down a column: only its last piece is a cable's own. */}
          <path class="trunk" d={d} />
          <path class="wire" d={pathOf(lastPiece(line, rack))} stroke-width={width} />
        </>
      )}
      <CableText text={text} at={line.label} />
    </g>
  );
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

function lastPiece({ points, index }: CableLine, rack: Topology): CableLine["points"] {
  const isFirst = hostOfRnic(rack.cables[index]!.a.node) !== undefined;
  return isFirst ? points.slice(0, 2) : points.slice(-2);
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

export function Picture() {
  const rack = topology.value;
  // A device or cable is bound to its figures once.
  return rack === undefined ? null : <Drawn key={rack} rack={rack} />;
}

function Drawn({ rack }: { readonly rack: Topology }) {
  const layout = useMemo(() => layOut(rack), []);
  const focus = useComputed(() => boxOf(layout));
  const { cables, width, height, isLarge } = layout;
  return (
    <Zoomed width={width} height={height} label={`The rack ${rack.scenario}`} focus={focus.value}>
      {cables.map((line) => <Cable key={line.index} line={line} rack={rack} isLarge={isLarge} />)}
      <Devices rack={rack} layout={layout} />
      <Frames lines={cables} rack={rack} />
    </Zoomed>
  );
}
