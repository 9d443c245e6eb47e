/**
 * The picture's plane has units of its own (a pixel at zoom 1): a rack for each switch that has
 * hosts, and above these a row of switches for each hop that they are away from hosts. A rack of a
 * few hosts is drawn large, with card and memory apart; one of many is a stack of units. Of all
 * arrangements, the one is taken that is largest in the room that there is.
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
  /** Where it shares its way with others: the piece that is its own. */
  readonly own: readonly (readonly [x: number, y: number])[];
  readonly label: readonly [x: number, y: number];
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly isLarge: boolean;
  /** All hosts stand side by side. */
  readonly isOneRow: boolean;
  readonly hosts: readonly HostBox[];
  readonly switches: readonly { readonly name: string; readonly box: Box }[];
  readonly cables: readonly CableLine[];
}

const LARGE_HOSTS_MAX = 8;

const LARGE = { w: 248, host: 204, card: 52, bus: 16, gap: 32, rowGap: 48 };
const UNIT = { w: 216, h: 34, gap: 6, gutter: 20, card: 64, columns: 28 };
const SWITCH = { w: 216, h: 50, gap: 28, least: 84 };
const RISE = 76;
const MARGIN = 8;
const ASPECT = 1.7;
/** Below the hosts, for who waits for whom. */
const BELOW = 56;
/** A cable turns so far above what it leads to. */
const TURN = 22;
/** At a smaller scale figures of a host cannot be read: see `zoom.tsx`. */
const LARGE_SCALE_LEAST = 0.72;

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

/** How hosts stand: a choice for all groups. */
interface Arrangement {
  readonly isLarge: boolean;
  /** Of hosts in a group: large ones from left to right, units from top to bottom. */
  readonly rows: number;
  /** Rows of groups, one below the other. */
  readonly bands: number;
}

interface Size {
  readonly w: number;
  readonly h: number;
}

function sizeOf({ hosts }: Group, { isLarge, rows }: Arrangement): Size {
  const along = Math.ceil(hosts.length / rows);
  if (isLarge) {
    const filled = Math.ceil(hosts.length / Math.max(1, along)),
      high = LARGE.card + LARGE.bus +
        LARGE.host;
    return {
      w: Math.max(SWITCH.w, along * (LARGE.w + LARGE.gap) - LARGE.gap),
      h: hosts.length === 0 ? 0 : filled * high + (filled - 1) * LARGE.rowGap,
    };
  }
  return {
    w: Math.max(SWITCH.w, along * UNIT.w + (along - 1) * UNIT.columns),
    h: Math.min(rows, hosts.length) * (UNIT.h + UNIT.gap),
  };
}

/** Columns of groups are as wide as their widest one: cables go down between them. */
function gridOf(groups: readonly Group[], arrangement: Arrangement) {
  const { isLarge, bands } = arrangement;
  const sizes = groups.map((group) => sizeOf(group, arrangement));
  const columns = Math.ceil(groups.length / bands);
  const gap = isLarge ? 2 * LARGE.gap : UNIT.columns + SWITCH.gap;
  const left = MARGIN + (bands > 1 || (isLarge && arrangement.rows > 1) ? gap / 2 : 0);
  const widths = Array.from(
    { length: columns },
    (_, column) => Math.max(0, ...sizes.filter((_, i) => i % columns === column).map(({ w }) => w)),
  );
  const heights = Array.from(
    { length: bands },
    (_, band) =>
      Math.max(0, ...sizes.slice(band * columns, (band + 1) * columns).map(({ h }) => h)),
  );
  const x = widths.map((_, i) => widths.slice(0, i).reduce((sum, w) => sum + w + gap, left));
  const width = (x.at(-1) ?? left) + (widths.at(-1) ?? 0) + MARGIN;
  return { sizes, columns, gap, x, widths, heights, width };
}

function placeGroup(
  { hosts }: Group,
  { x: left, y: top, isLarge, rows }: Arrangement & { readonly x: number; readonly y: number },
): Placed[] {
  if (!isLarge) {
    return hosts.map((host, i) => {
      const column = Math.floor(i / rows), row = i % rows;
      const x = left + column * (UNIT.w + UNIT.columns) + UNIT.gutter;
      const y = top + row * (UNIT.h + UNIT.gap);
      const cardBox = { x, y, w: UNIT.card, h: UNIT.h };
      const box = { x: x + UNIT.card, y, w: UNIT.w - UNIT.gutter - UNIT.card, h: UNIT.h };
      return { host, box, cardBox };
    });
  }
  const along = Math.ceil(hosts.length / rows);
  return hosts.map((host, i) => {
    const x = left + (i % along) * (LARGE.w + LARGE.gap);
    const y = top +
      Math.floor(i / along) * (LARGE.card + LARGE.bus + LARGE.host + LARGE.rowGap);
    const cardBox = { x: x + 20, y, w: LARGE.w - 40, h: LARGE.card };
    const box = { x, y: y + LARGE.card + LARGE.bus, w: LARGE.w, h: LARGE.host };
    return { host, box, cardBox };
  });
}

/** In the plane's units per pixel of the room; the greatest is best. */
function scaleIn(room: Size, { w, h }: Size): number {
  return Math.min(room.w / w, room.h / h);
}

/**
 * @param room in pixels; undefined: as if there were all that is wanted.
 * @param parts.isTree cables of a group lead to its own switch, and those of its switch to the row above.
 */
function arrange(
  groups: readonly Group[],
  { room, hosts, isTree, sizeWith }: {
    readonly room: Size | undefined;
    readonly hosts: number;
    readonly isTree: boolean;
    readonly sizeWith: (arrangement: Arrangement) => Size;
  },
): Arrangement {
  const isFew = hosts <= LARGE_HOSTS_MAX;
  if (room === undefined) {
    return { isLarge: isFew, rows: isFew ? 1 : rowsFor(groups), bands: 1 };
  }
  const most = Math.max(1, ...groups.map((group) => group.hosts.length));
  const best = (isLarge: boolean, mostRows: number) => {
    let found: Arrangement = { isLarge, rows: 1, bands: 1 }, scale = 0;
    for (let bands = 1; bands <= (isTree ? groups.length : 1); bands++) {
      for (let rows = 1; rows <= mostRows; rows++) {
        const next = { isLarge, rows, bands }, its = scaleIn(room, sizeWith(next));
        // Of nearly equal ones, the simpler.
        if (its > 1.05 * scale) [found, scale] = [next, its];
      }
    }
    return { found, scale };
  };
  const units = best(false, most);
  if (!isFew) return units.found;
  const large = best(true, isTree ? most : 1);
  return large.scale >= LARGE_SCALE_LEAST || large.scale >= units.scale ? large.found : units.found;
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

/** @param room of the view, in pixels; absent: of a width that suits the rack. */
export function layOut(shape: Shape, room?: Size): Layout {
  const { nodes, cables } = shape;
  const groups = groupsOf(shape);
  const leaves = groups.flatMap(({ leaf }) => leaf ?? []);
  const rowsAbove = rowsOf(shape, leaves);
  const topY = MARGIN + (hasLanes(cables, rowsAbove.at(-1) ?? leaves) ? LANES : 0);
  const hasLeaves = groups.some(({ leaf }) => leaf !== undefined);
  const leafHigh = hasLeaves ? SWITCH.h + RISE : 0;
  const most = Math.max(0, ...rowsAbove.map((row) => row.length));
  const leastSwitch = room === undefined ? SWITCH.w : SWITCH.least;
  const leafY = topY + rowsAbove.length * (SWITCH.h + RISE);
  const measure = (arrangement: Arrangement) => {
    const grid = gridOf(groups, arrangement);
    const width = Math.max(
      grid.width,
      SWITCH.w + 2 * MARGIN,
      most * (leastSwitch + (room === undefined ? SWITCH.gap : SWITCH.gap / 2)),
    );
    const bands = grid.heights.map((h) => leafHigh + h);
    const height = leafY + bands.reduce((sum, h) => sum + h, 0) +
      (bands.length - 1) * RISE / 2 + MARGIN + (arrangement.isLarge && room ? BELOW : 0);
    return { grid, width, height, bands };
  };
  const arrangement = arrange(groups, {
    room,
    hosts: groups.reduce((sum, { hosts }) => sum + hosts.length, 0),
    isTree: isTree(shape, { groups, above: rowsAbove[0] ?? [] }),
    sizeWith: (each) => {
      const { width: w, height: h } = measure(each);
      return { w, h };
    },
  });
  const { isLarge } = arrangement;
  const { grid, width, height, bands } = measure(arrangement);
  const switches: { name: string; box: Box }[] = [], hosts: Placed[] = [];
  const detours = new Map<string, number>();
  // A narrower picture stands in the middle below wider rows of switches.
  const left = Math.max(0, (width - grid.width) / 2);
  for (const [i, group] of groups.entries()) {
    const column = i % grid.columns, band = Math.floor(i / grid.columns), own = grid.sizes[i]!.w;
    const x = left + grid.x[column]! + (grid.widths[column]! - own) / 2;
    const y = leafY + bands.slice(0, band).reduce((sum, h) => sum + h + RISE / 2, 0);
    hosts.push(...placeGroup(group, { ...arrangement, x, y: y + leafHigh }));
    if (group.leaf === undefined) continue;
    const box = { x: x + (own - SWITCH.w) / 2, y, w: SWITCH.w, h: SWITCH.h };
    switches.push({ name: group.leaf, box });
    if (arrangement.bands > 1) detours.set(group.leaf, left + grid.x[column]! - grid.gap / 2);
  }
  for (const [row, names] of rowsAbove.entries()) {
    const span = width / names.length, y = leafY - (row + 1) * (SWITCH.h + RISE);
    const w = Math.min(SWITCH.w, span - SWITCH.gap / 2);
    switches.push(...names.map((name, i) => ({
      name,
      box: { x: (i + 0.5) * span - w / 2, y, w, h: SWITCH.h },
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
  // Cards that stand below other hosts: their cables come down beside these.
  const firstY = leafHigh + Math.min(...switches.map(({ box }) => box.y), leafY);
  if (isLarge && arrangement.rows > 1) {
    for (const { cards, box } of withCards) {
      if (cards[0] === undefined || cards[0].box.y <= firstY) continue;
      for (const { name } of cards) detours.set(name, box.x - LARGE.gap / 2);
    }
  }
  return {
    width,
    height,
    isLarge,
    isOneRow: new Set(hosts.map(({ box }) => box.y)).size <= 1,
    hosts: withCards,
    switches,
    cables: cableLines(cables, { boxes, isLarge, detours }),
  };
}

/** Cables of hosts lead to their own group's switch, and those of this one up to the row above. */
function isTree(
  { nodes, cables }: Shape,
  { groups, above }: { readonly groups: readonly Group[]; readonly above: readonly string[] },
): boolean {
  const hostOf = new Map(nodes.map(({ name, host }) => [name, host ?? name]));
  const leafOf = new Map(groups.flatMap(({ leaf, hosts }) => hosts.map((host) => [host, leaf])));
  const leaves = new Set(groups.flatMap(({ leaf }) => leaf ?? [])), upper = new Set(above);
  return groups.every(({ leaf }) => leaf !== undefined) &&
    cables.every(({ kind, a, b }) => {
      if (kind !== "network") return true;
      return [[a.node, b.node], [b.node, a.node]].every(([near, far]) => {
        const own = leafOf.get(hostOf.get(near!)!);
        if (own !== undefined) return far === own;
        return !leaves.has(near!) || upper.has(far!) || leafOf.get(hostOf.get(far!)!) === near;
      });
    });
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
  { boxes, isLarge, detours }: {
    readonly boxes: ReadonlyMap<string, Box>;
    readonly isLarge: boolean;
    /** Of devices that stand below others: where cables from above go down. */
    readonly detours: ReadonlyMap<string, number>;
  },
): CableLine[] {
  const ports = portsOf(cables, boxes);
  const levels = levelsOf(cables, { boxes, ports, detours });
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
      return [{ index, name, points, own: points, label: [(leftX + rightX) / 2, y - 4] as const }];
    }
    const points = line({
      top,
      bottom,
      topX: ports.get(`${index} ${upper.node}`)!,
      bottomX: ports.get(`${index} ${lower.node}`)!,
      isUnit: !isLarge && bottom.h <= UNIT.h,
      level: levels.get(index),
      detourX: detours.get(lower.node),
    });
    const [x, y] = points.at(-1)!;
    // Many share the way down a column: only the last piece is a cable's own.
    const isShared = points.length > 4;
    const fromA = isDown ? points : points.toReversed();
    return [{
      index,
      name,
      points: fromA,
      own: isShared ? points.slice(-2) : fromA,
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
  { top, bottom, topX, bottomX, isUnit, level, detourX }: {
    readonly top: Box;
    readonly bottom: Box;
    readonly topX: number;
    readonly bottomX: number;
    readonly isUnit: boolean;
    readonly level: number | undefined;
    readonly detourX: number | undefined;
  },
): [number, number][] {
  if (top.y === bottom.y) {
    const y = top.y + top.h / 2;
    const [left, right] = top.x < bottom.x ? [top, bottom] : [bottom, top];
    const ends: [number, number][] = [[left.x + left.w, y], [right.x, y]];
    return top.x < bottom.x ? ends : ends.toReversed();
  }
  const from = top.y + top.h;
  if (detourX !== undefined) {
    const y = from + (level ?? RISE / 2), turnY = bottom.y - TURN;
    return [[topX, from], [topX, y], [detourX, y], [detourX, turnY], [bottomX, turnY], [
      bottomX,
      bottom.y,
    ]];
  }
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
  { boxes, ports, detours }: {
    readonly boxes: ReadonlyMap<string, Box>;
    readonly ports: ReadonlyMap<string, number>;
    readonly detours: ReadonlyMap<string, number>;
  },
): Map<number, number> {
  const bySwitch = new Map<string, { readonly index: number; readonly aside: number }[]>();
  for (const [index, { kind, a, b }] of cables.entries()) {
    const [from, to] = [boxes.get(a.node), boxes.get(b.node)];
    if (kind !== "network" || from === undefined || to === undefined || from.y === to.y) continue;
    const [upper, lower, box] = from.y < to.y ? [a.node, b.node, to] : [b.node, a.node, from];
    if (box.h === SWITCH.h) continue;
    const aside = (detours.get(lower) ?? ports.get(`${index} ${lower}`)!) -
      ports.get(`${index} ${upper}`)!;
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
