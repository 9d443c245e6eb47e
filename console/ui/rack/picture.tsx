/** The picture of the rack: hosts with card and memory, switches, cables and what is on them. */
import { useComputed } from "@preact/signals";
import type { Node, Topology } from "../../api/rack.ts";
import { type Flow, flowKey, topology } from "../data/rack.ts";
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
import { deviceText, gaugesOf, hostText } from "./device_text.ts";
import { type Box, type CableLine, type HostBox, type Layout, layOut } from "./layout.ts";
import { RNIC_SUFFIX } from "../../../fabric/rack/plan/names.ts";
import { Zoomed } from "./zoom.tsx";

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

/** A box that can be selected; its class says whether it has power, and whether time waits for it. */
function Device(
  { name, label, box, children }: {
    readonly name: string;
    /** What the texts in the box do not say. */
    readonly label?: string;
    readonly box: Box;
    readonly children?: preact.ComponentChildren;
  },
) {
  const isOff = shownPower.value.get(name) === false;
  const what = { kind: "device" as const, name };
  const classes = [
    "device",
    isOff && "is-off",
    isSelected(what) && "is-selected",
    waitedFor.value.has(name) && "is-waited-for",
  ];
  return (
    <g
      class={classes.filter(Boolean).join(" ")}
      transform={`translate(${box.x} ${box.y})`}
      role="button"
      tabindex={0}
      {...(label !== undefined && { "aria-label": label })}
      aria-pressed={isSelected(what)}
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

function LargeHost(
  { node, at, card }: {
    readonly node: Node;
    readonly at: HostBox;
    readonly card: Node | undefined;
  },
) {
  const { box, cardBox } = at;
  const isOff = shownPower.value.get(node.name) === false;
  const gauges = gaugesOf(node, shownCounters.value.get(node.name), shownAt.value);
  const x = box.x + box.w / 2;
  return (
    <>
      <line class="bus" x1={x} y1={cardBox.y + cardBox.h} x2={x} y2={box.y} />
      {card !== undefined && <SmallDevice node={card} box={cardBox} />}
      <Device name={node.name} box={box}>
        <text class="name" x="12" y="21">{cut(node.name, 14)}</text>
        <text class="quiet" x={box.w - 12} y="21" text-anchor="end">
          {stateText(node.name) || hostText(node)}
        </text>
        {!isOff &&
          gauges.map(({ name, share, colour, figure }, i) => (
            <g
              key={name}
              transform={`translate(12 ${
                47 +
                gauges.slice(0, i).reduce((y, { share }) => y + (share === undefined ? 22 : 33), 0)
              })`}
            >
              <text class="quiet">{name}</text>
              <text class="num quiet" x={box.w - 24} text-anchor="end">{figure}</text>
              {share !== undefined && (
                <>
                  <rect class="trough" y="6" width={box.w - 24} height="6" rx="2" />
                  <rect
                    class={`fill-${colour}`}
                    y="6"
                    width={(box.w - 24) * share}
                    height="6"
                    rx="2"
                  />
                </>
              )}
            </g>
          ))}
        {isOff && (
          <>
            <text class="quiet" x="12" y="52">Caches and buffers are empty.</text>
            <text class="quiet" x="12" y="70">SCM keeps what it had.</text>
          </>
        )}
      </Device>
    </>
  );
}

/** A card or a switch. */
function SmallDevice({ node, box }: { readonly node: Node; readonly box: Box }) {
  const kind = node.kind === "rnic" ? "RNIC" : "switch";
  return (
    <Device name={node.name} box={box}>
      <text class={kind === "switch" ? "name far" : "name"} x="12" y="20">
        {cut(node.name, 18)}
      </text>
      <text class="quiet" x={box.w - 12} y="20" text-anchor="end">
        {stateText(node.name) || kind}
      </text>
      <text class="quiet" x="12" y="38">
        {deviceText(node, shownCounters.value.get(node.name))}
      </text>
    </Device>
  );
}

function Unit(
  { node, at, card }: {
    readonly node: Node;
    readonly at: HostBox;
    readonly card: Node | undefined;
  },
) {
  const { box, cardBox } = at;
  const counters = shownCounters.value.get(node.name) ?? {};
  const [cores] = gaugesOf(node, counters, shownAt.value);
  return (
    <>
      {card !== undefined && (
        <Device name={card.name} label={`RNIC ${card.name}`} box={cardBox}>
          <text class="quiet" x="8" y="21">{stateText(card.name) || "RNIC"}</text>
        </Device>
      )}
      <Device name={node.name} box={box}>
        <text class="name" x="8" y="21">{cut(node.name, 12)}</text>
        {stateText(node.name) === ""
          ? (
            <>
              <rect class="trough" x={box.w - 44} y="14" width="36" height="6" rx="2" />
              <rect
                class="fill-faint"
                x={box.w - 44}
                y="14"
                width={36 * (cores?.share ?? 0)}
                height="6"
                rx="2"
              />
            </>
          )
          : (
            <text class="quiet" x={box.w - 8} y="21" text-anchor="end">
              {cut(stateText(node.name), 10)}
            </text>
          )}
      </Device>
    </>
  );
}

/** 1.5 to 7: the share of its bandwidth that goes over a direction. */
function widthOf(flow: Flow | undefined, bitsPerSecond: number): number {
  const share = Math.min(1, (flow?.bitsPerSecond ?? 0) / bitsPerSecond);
  return share === 0 ? 1.5 : 2 + 5 * Math.sqrt(share);
}

function pathOf(points: CableLine["points"]): string {
  return points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x} ${y}`).join("");
}

function Cable(
  { line, rack, isLarge }: {
    readonly line: CableLine;
    readonly rack: Topology;
    readonly isLarge: boolean;
  },
) {
  const cable = rack.cables[line.index]!;
  const ways = [cable.a.node, cable.b.node].map((from) =>
    shownFlows.value.get(flowKey(line.index, from))
  );
  const most = Math.max(...ways.map((flow) => flow?.bitsPerSecond ?? 0));
  const faults = shownFaults.value.get(line.index) ?? [];
  const isCut = faults.some(({ action }) => action === "cut");
  const what = { kind: "cable" as const, name: line.name };
  const classes = [
    "cable",
    most > 0 && "is-moving",
    faults.length > 0 && "is-faulty",
    isCut && "is-cut",
    isSelected(what) && "is-selected",
  ];
  const d = pathOf(line.points), [x, y] = line.label;
  const width = Math.max(...ways.map((flow) => widthOf(flow, cable.bitsPerSecond)));
  const isAtCard = isLarge && [cable.a.node, cable.b.node].some((end) => end.endsWith(RNIC_SUFFIX));
  const text = [...new Set(faults.map(({ action }) => action))].join(", ");
  const shown = text !== "" ? text : isAtCard && most > 0 ? bitRate(most) : "";
  return (
    <g
      class={classes.filter(Boolean).join(" ")}
      role="button"
      tabindex={0}
      aria-label={`cable ${line.name} ${shown}`}
      aria-pressed={isSelected(what)}
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
      {shown !== "" && <text class="num" x={x} y={y}>{shown}</text>}
    </g>
  );
}

/** The piece at the card, whichever end that is. */
function lastPiece({ points, index }: CableLine, rack: Topology): CableLine["points"] {
  return rack.cables[index]!.a.node.endsWith(RNIC_SUFFIX) ? points.slice(0, 2) : points.slice(-2);
}

/** The point at a share of the way along a cable. */
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

/** The way along a cable between two shares of it, with the bends that lie between them. */
function partOf(points: CableLine["points"], from: number, to: number): CableLine["points"] {
  const ways = [0];
  for (const [i, [x, y]] of points.slice(1).entries()) {
    ways.push(ways[i]! + Math.hypot(x - points[i]![0], y - points[i]![1]));
  }
  const whole = ways.at(-1)!;
  const bends = points.filter((_, i) => ways[i]! > from * whole && ways[i]! < to * whole);
  return [pointAt(points, from), ...bends, pointAt(points, to)];
}

/** Frames on a cable at a past instant: from where its first bit is to where its last bit is. */
function Frames({ line, rack }: { readonly line: CableLine; readonly rack: Topology }) {
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
          card={at.card === undefined ? undefined : nodes.get(at.card)}
        />
      ))}
    </>
  );
}

/** Where the selected device is drawn. */
function boxOf({ hosts, switches }: Layout): Box | undefined {
  const what = selection.value;
  if (what?.kind !== "device" && what?.kind !== "queue pair") return undefined;
  const name = what.kind === "device" ? what.name : what.device;
  const host = hosts.find((each) => each.host === name || each.card === name);
  return host?.box ?? switches.find((each) => each.name === name)?.box;
}

export function Picture() {
  const layout = useComputed(() => topology.value && layOut(topology.value));
  const rack = topology.value;
  if (rack === undefined || layout.value === undefined) return null;
  const { cables, width, height, isLarge } = layout.value;
  return (
    <Zoomed
      width={width}
      height={height}
      label={`The rack ${rack.scenario}`}
      focus={boxOf(layout.value)}
    >
      {cables.map((line) => <Cable key={line.index} line={line} rack={rack} isLarge={isLarge} />)}
      <Devices rack={rack} layout={layout.value} />
      {cables.map((line) => <Frames key={line.index} line={line} rack={rack} />)}
    </Zoomed>
  );
}
