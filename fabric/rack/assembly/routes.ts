/**
 * Forwarding tables of any network of switches: to each host over all shortest ways, by hops, of
 * which ECMP takes one for each flow; flooded frames over a spanning tree. A frame comes one hop
 * nearer at every switch, so no choice of ways, and no outage, makes a loop.
 */
import type { Time } from "../../base/time.ts";
import type { CablePlan, Endpoint, SwitchPlan } from "../plan/plan.ts";

export type CableKind = Pick<CablePlan, "latencyPs" | "bitsPerSecond">;

export interface NetworkCable extends CableKind {
  readonly a: Endpoint;
  readonly b: Endpoint;
}

/** Without routes. */
export interface Shape {
  readonly switches: readonly { readonly name: string; readonly ports: number }[];
  readonly cables: readonly NetworkCable[];
  readonly root: string;
}

export interface SwitchShape
  extends Pick<SwitchPlan, "ports" | "forwarding" | "multipath" | "flood" | "convergencePs"> {
  readonly name: string;
}

interface Port {
  readonly port: number;
  readonly mac?: number;
  readonly to?: number;
  readonly farPort: number;
}

export function routed(
  { switches, cables, root }: Shape,
  of: { readonly macs: ReadonlyMap<string, number>; readonly convergencePs: Time },
): SwitchShape[] {
  const indexes = new Map(switches.map(({ name }, i) => [name, i]));
  const ports = portsOf(cables, { indexes, macs: of.macs });
  if (switches.length === 0) return [];
  if (switches.length === 1) return [single(switches[0]!, ports[0]!)];
  const trees = floodTree(ports, indexes.get(root)!);
  const homes = homesOf(ports);
  const hops = new Map(
    [...new Set(homes.values())].map((home) => [home, hopsTo(home, ports)] as const),
  );
  return switches.map(({ name, ports: count }, i): SwitchShape => ({
    name,
    ports: count,
    forwarding: ports[i]!.flatMap(({ port, mac }) => mac === undefined ? [] : [[mac, port]]),
    multipath: groupsOf(i, { ports, macs: of.macs, homes, hops }),
    flood: trees[i]!,
    convergencePs: of.convergencePs,
  }));
}

function single(
  { name, ports: count }: Shape["switches"][number],
  ports: readonly Port[],
): SwitchShape {
  return {
    name,
    ports: count,
    forwarding: ports.flatMap(({ port, mac }) => mac === undefined ? [] : [[mac, port]]),
    ...(ports.length < count && { flood: ports.map(({ port }) => port) }),
  };
}

function portsOf(
  cables: readonly NetworkCable[],
  { indexes, macs }: {
    readonly indexes: ReadonlyMap<string, number>;
    readonly macs: ReadonlyMap<string, number>;
  },
): Port[][] {
  const ports = Array.from(indexes, (): Port[] => []);
  for (const { a, b } of cables) {
    for (const [near, far] of [[a, b], [b, a]] as const) {
      const own = indexes.get(near.node), mac = macs.get(far.node), to = indexes.get(far.node);
      if (own === undefined) continue;
      ports[own]!.push({
        port: near.port,
        farPort: far.port,
        ...(mac !== undefined && { mac }),
        ...(to !== undefined && { to }),
      });
    }
  }
  for (const own of ports) own.sort((x, y) => x.port - y.port);
  return ports;
}

function homesOf(ports: readonly (readonly Port[])[]): Map<number, number> {
  return new Map(
    ports.flatMap((own, i) => own.flatMap(({ mac }) => mac === undefined ? [] : [[mac, i]])),
  );
}

function hopsTo(home: number, ports: readonly (readonly Port[])[]): Int32Array {
  const hops = new Int32Array(ports.length).fill(-1);
  hops[home] = 0;
  const open = [home];
  for (const at of open) {
    for (const { to } of ports[at]!) {
      if (to === undefined || hops[to]! >= 0) continue;
      hops[to] = hops[at]! + 1;
      open.push(to);
    }
  }
  return hops;
}

/**
 * Groups by ports, in their order, with addresses in the order of the hosts. Trunks that lead to
 * none are a group without addresses.
 */
function groupsOf(
  at: number,
  { ports, macs, homes, hops }: {
    readonly ports: readonly (readonly Port[])[];
    readonly macs: ReadonlyMap<string, number>;
    readonly homes: ReadonlyMap<number, number>;
    readonly hops: ReadonlyMap<number, Int32Array>;
  },
): [macs: number[], ports: number[]][] {
  const trunks = ports[at]!.filter(({ to }) => to !== undefined);
  const waysTo = new Map<number, string>();
  const groups = new Map<string, [macs: number[], ports: number[]]>();
  for (const mac of macs.values()) {
    const home = homes.get(mac);
    if (home === undefined || home === at) continue;
    let key = waysTo.get(home);
    if (key === undefined) {
      const left = hops.get(home)!;
      const ways = trunks.filter(({ to }) => left[at]! > 0 && left[to!] === left[at]! - 1)
        .map(({ port }) => port);
      waysTo.set(home, key = ways.join());
      if (!groups.has(key)) groups.set(key, [[], ways]);
    }
    groups.get(key)![0].push(mac);
  }
  groups.delete("");
  const inUse = new Set([...groups.values()].flatMap(([, own]) => own));
  const idle = trunks.map(({ port }) => port).filter((port) => !inUse.has(port));
  const ordered = [...groups.values()].sort(([, x], [, y]) => x[0]! - y[0]! || x.length - y.length);
  return idle.length > 0 ? [...ordered, [[], idle]] : ordered;
}

/** Breadth-first from the root, over the lowest ports first, without branches that have no host. */
function floodTree(ports: readonly (readonly Port[])[], root: number): number[][] {
  const up = new Map<number, { readonly parent: number; readonly way: Port }>();
  const order = [root];
  const isKnown = new Set(order);
  for (const at of order) {
    for (const way of ports[at]!) {
      const { to } = way;
      if (to === undefined || isKnown.has(to)) continue;
      isKnown.add(to);
      up.set(to, { parent: at, way });
      order.push(to);
    }
  }
  const tree = ports.map((own) => own.flatMap(({ port, mac }) => mac === undefined ? [] : [port]));
  for (const at of order.toReversed()) {
    const its = up.get(at);
    if (its === undefined || tree[at]!.length === 0) continue;
    tree[its.parent]!.push(its.way.port);
    tree[at]!.push(its.way.farPort);
  }
  return tree.map((own) => own.sort((x, y) => x - y));
}
