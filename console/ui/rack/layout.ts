/**
 * The picture's plane has units of its own (a pixel at zoom 1): a rack for each switch that has
 * hosts, and above these a row of switches for each hop that they are away from hosts. A rack of a
 * few hosts is drawn large, with card and memory apart; one of many is a stack of units.
 */
import type { Topology } from "../../api/rack.ts";
import { isLeafName } from "../../../fabric/rack/plan/names.ts";

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

export interface HostBox {
  readonly host: string;
  readonly box: Box;
  /** Side by side; in a unit one over the other, as their cables come from the side. */
  readonly cards: readonly { readonly name: string; readonly box: Box }[];
}

interface Placed extends Pick<HostBox, "host" | "box"> {
  readonly cardBox: Box;
}

export interface CableLine {
  readonly index: number;
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  readonly label: readonly [x: number, y: number];
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly isLarge: boolean;
  readonly hosts: readonly HostBox[];
  readonly switches: readonly { readonly name: string; readonly box: Box }[];
  readonly cables: readonly CableLine[];
}

const LARGE_HOSTS_MAX = 8;

const LARGE = { w: 248, host: 168, card: 52, bus: 16, gap: 32 };
const UNIT = { w: 216, h: 34, gap: 6, gutter: 20, card: 64, columns: 28 };
const SWITCH = { w: 216, h: 50, gap: 28 };
const RISE = 76;
const MARGIN = 8;
const ASPECT = 1.7;

type Shape = Pick<Topology, "nodes" | "cables">;

interface Group {
  readonly leaf: string | undefined;
  readonly hosts: readonly string[];
}

function groupsOf({ nodes, cables }: Shape): Group[] {
  const kinds = new Map(nodes.map(({ name, kind }) => [name, kind]));
  const hostOf = new Map(nodes.flatMap(({ name, host }) => host === null ? [] : [[name, host]]));
  const leaves = new Map<string, string>();
  for (const { kind, a, b } of cables) {
    if (kind !== "network") continue;
    for (const [near, far] of [[a.node, b.node], [b.node, a.node]] as const) {
      const host = hostOf.get(near);
      if (host !== undefined && kinds.get(far) === "switch" && !leaves.has(host)) {
        leaves.set(host, far);
      }
    }
  }
  const groups = new Map<string | undefined, string[]>();
  for (const { name, kind } of nodes) {
    if (kind === "switch" && isLeafName(name) && !groups.has(name)) groups.set(name, []);
    if (kind !== "host") continue;
    const leaf = leaves.get(name), own = groups.get(leaf);
    if (own === undefined) groups.set(leaf, [name]);
    else own.push(name);
  }
  const ordered = [...groups].map(([leaf, hosts]) => ({ leaf, hosts: hosts.sort(byNumber) }));
  return ordered.sort((x, y) => byNumber(x.leaf ?? "", y.leaf ?? ""));
}

const BY_NUMBER = new Intl.Collator("en", { numeric: true });

/** `leaf2` before `leaf10`. */
export function byNumber(x: string, y: string): number {
  return BY_NUMBER.compare(x, y);
}

function largeGroup(group: Group, at: { x: number; y: number }) {
  const hosts = group.hosts.map((host, i) => {
    const x = at.x + i * (LARGE.w + LARGE.gap);
    const cardBox = { x: x + 20, y: at.y, w: LARGE.w - 40, h: LARGE.card };
    const box = { x, y: at.y + LARGE.card + LARGE.bus, w: LARGE.w, h: LARGE.host };
    return { host, box, cardBox };
  });
  const w = Math.max(SWITCH.w, group.hosts.length * (LARGE.w + LARGE.gap) - LARGE.gap);
  return { hosts, w, h: LARGE.card + LARGE.bus + LARGE.host };
}

function unitGroup(group: Group, at: { x: number; y: number; rows: number }) {
  const hosts = group.hosts.map((host, i) => {
    const column = Math.floor(i / at.rows), row = i % at.rows;
    const x = at.x + column * (UNIT.w + UNIT.columns) + UNIT.gutter;
    const y = at.y + row * (UNIT.h + UNIT.gap);
    const cardBox = { x, y, w: UNIT.card, h: UNIT.h };
    const box = { x: x + UNIT.card, y, w: UNIT.w - UNIT.gutter - UNIT.card, h: UNIT.h };
    return { host, box, cardBox };
  });
  const columns = Math.ceil(group.hosts.length / at.rows);
  const w = Math.max(SWITCH.w, columns * UNIT.w + (columns - 1) * UNIT.columns);
  return { hosts, w, h: Math.min(at.rows, group.hosts.length) * (UNIT.h + UNIT.gap) };
}

/** Of a stack, so that the picture has about the shape of the view. */
function rowsFor(groups: readonly Group[]): number {
  const most = Math.max(1, ...groups.map(({ hosts }) => hosts.length));
  const column = UNIT.w + UNIT.columns, row = UNIT.h + UNIT.gap;
  for (let rows = 4; rows < most; rows++) {
    const columns = groups.reduce((sum, { hosts }) => sum + Math.ceil(hosts.length / rows), 0);
    if (columns * column <= ASPECT * (rows * row + 2 * RISE)) return rows;
  }
  return most;
}

export function layOut(shape: Shape): Layout {
  const { nodes, cables } = shape;
  const groups = groupsOf(shape);
  const isLarge = groups.reduce((sum, { hosts }) => sum + hosts.length, 0) <= LARGE_HOSTS_MAX;
  const leaves = groups.flatMap(({ leaf }) => leaf ?? []);
  const rowsAbove = rowsOf(shape, leaves);
  const topY = MARGIN + (hasLanes(cables, rowsAbove.at(-1) ?? leaves) ? LANES : 0);
  const leafY = topY + rowsAbove.length * (SWITCH.h + RISE);
  const hasLeaves = groups.some(({ leaf }) => leaf !== undefined);
  const hostY = hasLeaves ? leafY + SWITCH.h + RISE : leafY;
  const rows = rowsFor(groups);
  const switches: { name: string; box: Box }[] = [], hosts: Placed[] = [];
  let x = MARGIN, height = hostY;
  for (const group of groups) {
    const placed = isLarge
      ? largeGroup(group, { x, y: hostY })
      : unitGroup(group, { x, y: hostY, rows });
    hosts.push(...placed.hosts);
    if (group.leaf !== undefined) {
      const box = { x: x + (placed.w - SWITCH.w) / 2, y: leafY, w: SWITCH.w, h: SWITCH.h };
      switches.push({ name: group.leaf, box });
    }
    height = Math.max(height, hostY + placed.h);
    x += placed.w + (isLarge ? 2 * LARGE.gap : UNIT.columns + SWITCH.gap);
  }
  const most = Math.max(0, ...rowsAbove.map((row) => row.length));
  const width = Math.max(
    x - (isLarge ? 2 * LARGE.gap : UNIT.columns + SWITCH.gap) + MARGIN,
    SWITCH.w + 2 * MARGIN,
    most * (SWITCH.w + SWITCH.gap),
  );
  for (const [row, names] of rowsAbove.entries()) {
    const span = width / names.length, y = leafY - (row + 1) * (SWITCH.h + RISE);
    switches.push(...names.map((name, i) => ({
      name,
      box: { x: (i + 0.5) * span - SWITCH.w / 2, y, w: SWITCH.w, h: SWITCH.h },
    })));
  }
  const cardsOf = Map.groupBy(nodes, ({ host }) => host);
  const withCards = hosts.map(({ host, box, cardBox }): HostBox => {
    const names = (cardsOf.get(host) ?? []).map(({ name }) => name).sort(byNumber);
    const boxes = isLarge ? sideBySide(cardBox, names.length) : stacked(cardBox, names.length);
    return { host, box, cards: names.map((name, i) => ({ name, box: boxes[i]! })) };
  });
  const boxes = new Map<string, Box>([
    ...switches.map(({ name, box }) => [name, box] as const),
    ...withCards.flatMap(({ cards }) => cards.map(({ name, box }) => [name, box] as const)),
  ]);
  return {
    width,
    height: height + MARGIN,
    isLarge,
    hosts: withCards,
    switches,
    cables: cableLines(cables, { boxes, isLarge }),
  };
}

function sideBySide({ x, y, w, h }: Box, count: number): Box[] {
  const room = Math.min(8, w / 16), width = (w - room * (count - 1)) / count;
  return Array.from({ length: count }, (_, i) => ({ x: x + i * (width + room), y, w: width, h }));
}

function stacked({ x, y, w, h }: Box, count: number): Box[] {
  return Array.from({ length: count }, (_, i) => ({ x, y: y + i * h / count, w, h: h / count }));
}

function rowsOf({ nodes, cables }: Shape, leaves: readonly string[]): string[][] {
  const isSwitch = new Set(nodes.flatMap(({ name, kind }) => kind === "switch" ? [name] : []));
  const neighbours = new Map<string, string[]>();
  for (const { a, b } of cables) {
    for (const [near, far] of [[a.node, b.node], [b.node, a.node]] as const) {
      if (!isSwitch.has(near) || !isSwitch.has(far)) continue;
      const own = neighbours.get(near);
      if (own === undefined) neighbours.set(near, [far]);
      else own.push(far);
    }
  }
  const left = new Set([...isSwitch].filter((name) => !leaves.includes(name)));
  const rows: string[][] = [];
  for (let below = leaves; left.size > 0;) {
    const next = new Set(
      below.flatMap((name) => neighbours.get(name) ?? [])
        .filter((name) => left.has(name)),
    );
    // Switches without cables stand on top.
    const row = [...next.size > 0 ? next : left].sort(byNumber);
    for (const name of row) left.delete(name);
    rows.push(row);
    below = row;
  }
  return rows;
}

const LANES = RISE - 24;

function hasLanes(cables: Shape["cables"], row: readonly string[]): boolean {
  const names = new Set(row);
  return cables.some(({ a, b }) => names.has(a.node) && names.has(b.node));
}

function cableLines(
  cables: Shape["cables"],
  { boxes, isLarge }: { readonly boxes: ReadonlyMap<string, Box>; readonly isLarge: boolean },
): CableLine[] {
  const ports = portsOf(cables, boxes);
  const levels = levelsOf(cables, { boxes, ports });
  const lanes = lanesOf(cables, { boxes, ports });
  return cables.flatMap(({ kind, name, a, b }, index): CableLine[] => {
    const [from, to] = [boxes.get(a.node), boxes.get(b.node)];
    if (kind !== "network" || from === undefined || to === undefined) return [];
    const isDown = from.y < to.y;
    const [upper, lower] = isDown ? [a, b] : [b, a];
    const [top, bottom] = isDown ? [from, to] : [to, from];
    if (isBeside(from, to)) {
      const points = lane({
        y: from.y,
        fromX: ports.get(`${index} ${a.node}`)!,
        toX: ports.get(`${index} ${b.node}`)!,
        rise: lanes.get(index)!,
      });
      const [, [leftX, y], [rightX]] = points;
      return [{ index, name, points, label: [(leftX + rightX) / 2, y - 4] as const }];
    }
    const points = line({
      top,
      bottom,
      topX: ports.get(`${index} ${upper.node}`)!,
      bottomX: ports.get(`${index} ${lower.node}`)!,
      isUnit: !isLarge && bottom.h <= UNIT.h,
      level: levels.get(index),
    });
    const [x, y] = points.at(-1)!;
    return [{
      index,
      name,
      points: isDown ? points : points.toReversed(),
      label: from.y === to.y
        ? [(points[0]![0] + x) / 2, y - 12]
        : [x + (bottom.h <= UNIT.h ? 4 : 8), y - (bottom.h <= UNIT.h ? 21 : 12)],
    }];
  });
}

function isBeside(one: Box, other: Box): boolean {
  return one.y === other.y && one.h === SWITCH.h && other.h === SWITCH.h;
}

type Points = [[number, number], [number, number], [number, number], [number, number]];

function lane(
  { y, fromX, toX, rise }: {
    readonly y: number;
    readonly fromX: number;
    readonly toX: number;
    readonly rise: number;
  },
): Points {
  return [[fromX, y], [fromX, y - rise], [toX, y - rise], [toX, y]];
}

function lanesOf(
  cables: Shape["cables"],
  { boxes, ports }: {
    readonly boxes: ReadonlyMap<string, Box>;
    readonly ports: ReadonlyMap<string, number>;
  },
): Map<number, number> {
  const byRow = new Map<number, { readonly index: number; readonly length: number }[]>();
  for (const [index, { kind, a, b }] of cables.entries()) {
    const [from, to] = [boxes.get(a.node), boxes.get(b.node)];
    if (kind !== "network" || from === undefined || to === undefined) continue;
    if (!isBeside(from, to)) continue;
    const length = Math.abs(ports.get(`${index} ${a.node}`)! - ports.get(`${index} ${b.node}`)!);
    const own = byRow.get(from.y);
    if (own === undefined) byRow.set(from.y, [{ index, length }]);
    else own.push({ index, length });
  }
  const lanes = new Map<number, number>();
  for (const row of byRow.values()) {
    const step = Math.min(10, (LANES - 16) / row.length);
    row.sort((x, y) => x.length - y.length).forEach(({ index }, i) => {
      lanes.set(index, 12 + i * step);
    });
  }
  return lanes;
}

function portsOf(cables: Shape["cables"], boxes: ReadonlyMap<string, Box>): Map<string, number> {
  const at = new Map<string, { readonly index: number; readonly to: Box }[]>();
  for (const [index, { kind, a, b }] of cables.entries()) {
    if (kind !== "network") continue;
    for (const [near, far] of [[a.node, b.node], [b.node, a.node]] as const) {
      const to = boxes.get(far);
      if (to === undefined) continue;
      const own = at.get(near);
      if (own === undefined) at.set(near, [{ index, to }]);
      else own.push({ index, to });
    }
  }
  const ports = new Map<string, number>();
  for (const [node, ends] of at) {
    const box = boxes.get(node);
    if (box === undefined) continue;
    // Cables upwards and downwards leave on two sides.
    for (
      const side of [
        ends.filter(({ to }) => to.y < box.y || isBeside(to, box)),
        ends.filter(({ to }) => to.y >= box.y && !isBeside(to, box)),
      ]
    ) {
      const sorted = side.sort((x, y) => x.to.x - y.to.x || x.index - y.index);
      sorted.forEach(({ index }, i) => {
        ports.set(`${index} ${node}`, box.x + box.w * (i + 1) / (side.length + 1));
      });
    }
  }
  return ports;
}

function line(
  { top, bottom, topX, bottomX, isUnit, level }: {
    readonly top: Box;
    readonly bottom: Box;
    readonly topX: number;
    readonly bottomX: number;
    readonly isUnit: boolean;
    readonly level: number | undefined;
  },
): [number, number][] {
  if (top.y === bottom.y) {
    const y = top.y + top.h / 2;
    const [left, right] = top.x < bottom.x ? [top, bottom] : [bottom, top];
    const ends: [number, number][] = [[left.x + left.w, y], [right.x, y]];
    return top.x < bottom.x ? ends : ends.toReversed();
  }
  const from = top.y + top.h;
  if (isUnit) {
    // Down the gutter of its column, and into the unit from the left.
    const x = bottom.x - UNIT.gutter / 2, middle = from + RISE / 2;
    const y = bottom.y + bottom.h / 2;
    return [[topX, from], [topX, middle], [x, middle], [x, y], [bottom.x, y]];
  }
  if (level === undefined || topX === bottomX) return [[topX, from], [bottomX, bottom.y]];
  const y = from + level;
  return [[topX, from], [topX, y], [bottomX, y], [bottomX, bottom.y]];
}

/**
 * How far below its switch a cable to a card turns aside: the outermost first, so that none crosses
 * another. Cables between switches go straight.
 */
function levelsOf(
  cables: Shape["cables"],
  { boxes, ports }: {
    readonly boxes: ReadonlyMap<string, Box>;
    readonly ports: ReadonlyMap<string, number>;
  },
): Map<number, number> {
  const bySwitch = new Map<string, { readonly index: number; readonly aside: number }[]>();
  for (const [index, { kind, a, b }] of cables.entries()) {
    const [from, to] = [boxes.get(a.node), boxes.get(b.node)];
    if (kind !== "network" || from === undefined || to === undefined || from.y === to.y) continue;
    const [upper, lower, box] = from.y < to.y ? [a.node, b.node, to] : [b.node, a.node, from];
    if (box.h === SWITCH.h) continue;
    const aside = ports.get(`${index} ${lower}`)! - ports.get(`${index} ${upper}`)!;
    const own = bySwitch.get(upper);
    if (own === undefined) bySwitch.set(upper, [{ index, aside }]);
    else own.push({ index, aside });
  }
  const levels = new Map<number, number>();
  for (const all of bySwitch.values()) {
    for (
      const side of [
        all.filter(({ aside }) => aside < 0),
        all.filter(({ aside }) => aside >= 0),
      ]
    ) {
      const sorted = side.sort((x, y) => Math.abs(y.aside) - Math.abs(x.aside));
      const step = Math.min(12, (RISE - 44) / sorted.length);
      sorted.forEach(({ index }, i) => levels.set(index, 16 + i * step));
    }
  }
  return levels;
}
