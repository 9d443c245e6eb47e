/**
 * The network of a rack: addresses, switches and cables. `routes.ts` adds the forwarding tables, the same
 * way for every shape: a shape only says which switches there are and what each port is joined to.
 */
import { PORTS } from "../../node.ts";
import type { Time } from "../../base/time.ts";
import {
  aggregationName,
  coreName,
  edgeName,
  leafName,
  rnicName,
  spineName,
  SWITCH_NAME,
} from "../plan/names.ts";
import type { CablePlan, Endpoint } from "../plan/plan.ts";
import {
  type CableKind,
  type NetworkCable,
  routed,
  type Shape,
  type SwitchShape,
} from "./routes.ts";

/** 10.0.0.0/16 and 02:00:00:00:00:00, which are locally administered. Hosts count from 1 in both. */
const SUBNET = 0x0a00_0000, MAC_BASE = 0x0200_0000_0000;

/** The IPv4 address of host number `host`, counted from 0. */
export function addressOf(host: number): number {
  return SUBNET + host + 1;
}

/** The MAC address of its RNIC. */
export function macOf(host: number): number {
  return MAC_BASE + host + 1;
}

/** Number of leaves and spines, and of cables between each leaf and each spine. */
export interface LeafSpine {
  readonly leaves: number;
  readonly spines: number;
  readonly cables: number;
}

/** Of switches with `k` ports each, k even (Al-Fares et al., SIGCOMM'08, §2.2). */
export interface FatTree {
  readonly k: number;
}

/** One end of a listed cable: a host or a switch, and of a switch the port, if one is given. */
export interface ListedEnd {
  readonly name: string;
  readonly port?: number;
}

/** A cable of a fabric that lists its cables; absent rate and latency: those of its kind of cable. */
export interface ListedCable extends Partial<CableKind> {
  readonly ends: readonly [ListedEnd, ListedEnd];
  /** Its place in the file's list: several cables may stand in one. */
  readonly item: number;
}

export interface ListedFabric {
  readonly switches: readonly string[];
  readonly cables: readonly ListedCable[];
}

export const TOPOLOGIES = ["star", "direct", "leaf-spine", "fat-tree", "explicit"] as const;

/** Its own rate and latency are those of hosts' cables. */
export interface NetworkOptions extends CableKind {
  readonly topology: typeof TOPOLOGIES[number];
  /** For `leaf-spine` only, and so on. */
  readonly leafSpine?: LeafSpine;
  readonly fatTree?: FatTree;
  readonly listed?: ListedFabric;
  /** Of cables between switches; absent: as of hosts'. */
  readonly uplinks?: CableKind;
  /** Of fabrics of several switches. */
  readonly convergencePs: Time;
}

export interface NetworkHost {
  readonly name: string;
  /** From 1; absent: the leaf with the fewest hosts. */
  readonly leaf?: number;
}

export interface Network {
  readonly switches: readonly SwitchShape[];
  readonly cables: readonly NetworkCable[];
}

/** The network of these hosts, in the order of their addresses; a scenario's checks have passed it. */
export function networkOf(options: NetworkOptions, hosts: readonly NetworkHost[]): Network {
  const shape = shapeOf(options, hosts);
  return {
    switches: routed(shape, {
      macs: new Map(hosts.map(({ name }, host) => [rnicName(name), macOf(host)])),
      convergencePs: options.convergencePs,
    }),
    cables: shape.cables,
  };
}

/** The same without routes, which take most of the time that a large network takes. */
export function shapeOf(options: NetworkOptions, hosts: readonly NetworkHost[]): Shape {
  const { topology, leafSpine, fatTree, listed } = options;
  if (topology === "direct") {
    const [a, b] = hosts.map(({ name }) => cardOf(name));
    const isPair = a !== undefined && b !== undefined;
    return { switches: [], cables: isPair ? [{ a, b, ...hostKind(options) }] : [], root: "" };
  }
  if (leafSpine !== undefined) return leafSpineShape(leafSpine, options, hosts);
  if (fatTree !== undefined) return fatTreeShape(fatTree, options, hosts);
  if (listed !== undefined) return listedShape(listed, options, hosts);
  return {
    switches: [{ name: SWITCH_NAME, ports: hosts.length }],
    cables: hosts.map(({ name }, port) => ({
      a: cardOf(name),
      b: { node: SWITCH_NAME, port },
      ...hostKind(options),
    })),
    root: SWITCH_NAME,
  };
}

function cardOf(host: string): Endpoint {
  return { node: rnicName(host), port: PORTS.rnicNetwork };
}

function hostKind({ latencyPs, bitsPerSecond }: NetworkOptions): CableKind {
  return { latencyPs, bitsPerSecond };
}

function uplinkKind(options: NetworkOptions): CableKind {
  return options.uplinks ?? hostKind(options);
}

/** All cables of a rack by their ends: each host's bus, then the network. */
export function cableEnds(
  hosts: readonly { readonly name: string }[],
  network: Pick<Network, "cables">,
): Pick<CablePlan, "kind" | "a" | "b">[] {
  return [
    ...hosts.map(({ name }) => ({ kind: "bus" as const, ...busEnds(name) })),
    ...network.cables.map(({ a, b }) => ({ kind: "network" as const, a, b })),
  ];
}

/** The ends of a host's bus. */
export function busEnds(host: string): { readonly a: Endpoint; readonly b: Endpoint } {
  return {
    a: { node: host, port: PORTS.hostBus },
    b: { node: rnicName(host), port: PORTS.rnicBus },
  };
}

/** Names of the switches of a network. */
export function switchNames({ topology, leafSpine, fatTree, listed }: NetworkOptions): string[] {
  if (topology === "direct") return [];
  if (leafSpine !== undefined) {
    return [
      ...upTo(leafSpine.leaves).map((leaf) => leafName(leaf)),
      ...upTo(leafSpine.spines).map((spine) => spineName(spine)),
    ];
  }
  if (fatTree !== undefined) {
    const { edges, cores } = fatTreeSizes(fatTree);
    return [
      ...upTo(edges).map((edge) => edgeName(edge)),
      ...upTo(edges).map((aggregation) => aggregationName(aggregation)),
      ...upTo(cores).map((core) => coreName(core)),
    ];
  }
  return listed === undefined ? [SWITCH_NAME] : [...listed.switches];
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

/** The hosts of each leaf: as configured, else on the leaf with the fewest hosts. */
function hostsOfLeaves(hosts: readonly NetworkHost[], leaves: number): string[][] {
  const own = upTo(leaves).map((): string[] => []);
  const counts = new Array<number>(leaves).fill(0);
  for (const { leaf } of hosts) {
    if (leaf !== undefined && leaf <= leaves) counts[leaf - 1]!++;
  }
  for (const { name, leaf } of hosts) {
    if (leaf !== undefined) {
      own[Math.min(leaf, leaves) - 1]!.push(name);
      continue;
    }
    const least = counts.indexOf(Math.min(...counts));
    counts[least]!++;
    own[least]!.push(name);
  }
  return own;
}

/** Cables of hosts, which have the first ports of their leaf, in the order of the hosts. */
function hostCables(
  hosts: readonly NetworkHost[],
  { leaves, nameOf, kind }: {
    readonly leaves: readonly (readonly string[])[];
    readonly nameOf: (leaf: number) => string;
    readonly kind: CableKind;
  },
): NetworkCable[] {
  const ends = new Map(
    leaves.flatMap((own, leaf) =>
      own.map((host, port) => [host, { node: nameOf(leaf), port }] as const)
    ),
  );
  return hosts.flatMap(({ name }) => {
    const b = ends.get(name);
    return b === undefined ? [] : [{ a: cardOf(name), b, ...kind }];
  });
}

/** A leaf has its hosts' ports first, then one for each cable to each spine. */
function leafSpineShape(
  { leaves, spines, cables }: LeafSpine,
  options: NetworkOptions,
  hosts: readonly NetworkHost[],
): Shape {
  const hostsOf = hostsOfLeaves(hosts, leaves);
  const kind = uplinkKind(options);
  const trunks = upTo(leaves).flatMap((leaf) =>
    upTo(spines).flatMap((spine) =>
      upTo(cables).map((cable) => ({
        a: { node: leafName(leaf), port: hostsOf[leaf]!.length + spine * cables + cable },
        b: { node: spineName(spine), port: leaf * cables + cable },
        ...kind,
      }))
    )
  );
  return {
    switches: [
      ...upTo(leaves).map((leaf) => ({
        name: leafName(leaf),
        ports: hostsOf[leaf]!.length + spines * cables,
      })),
      ...upTo(spines).map((spine) => ({ name: spineName(spine), ports: leaves * cables })),
    ],
    cables: [
      ...hostCables(hosts, { leaves: hostsOf, nameOf: leafName, kind: hostKind(options) }),
      ...trunks,
    ],
    root: spineName(0),
  };
}

/** Of a fat tree: hosts of an edge switch, pods, edge switches (as many as aggregation switches), cores, hosts. */
export function fatTreeSizes({ k }: FatTree): {
  readonly half: number;
  readonly edges: number;
  readonly cores: number;
  readonly hosts: number;
} {
  const half = k / 2;
  return { half, edges: k * half, cores: half * half, hosts: k * half * half };
}

/**
 * k pods, each of k/2 edge and k/2 aggregation switches, every one joined to every other; (k/2)² core
 * switches, each joined to one aggregation switch of each pod: aggregation switches of the same place
 * in their pods have the same cores, in strides of k/2 (Al-Fares et al., SIGCOMM'08, §2.2).
 *
 * Lower ports lead downwards. Switches are counted through all pods: pod p, from 1, has the edge and
 * aggregation switches (p − 1)·k/2 + 1 to p·k/2.
 */
function fatTreeShape(
  fatTree: FatTree,
  options: NetworkOptions,
  hosts: readonly NetworkHost[],
): Shape {
  const { k } = fatTree;
  const { half, edges, cores } = fatTreeSizes(fatTree);
  const kind = uplinkKind(options);
  const hostsOf = hostsOfLeaves(hosts, edges).map((own) => own.slice(0, half));
  const inPods = upTo(edges).flatMap((edge) =>
    upTo(half).map((place) => ({
      a: { node: edgeName(edge), port: half + place },
      b: { node: aggregationName(edge - edge % half + place), port: edge % half },
      ...kind,
    }))
  );
  const toCores = upTo(edges).flatMap((aggregation) =>
    upTo(half).map((stride) => ({
      a: { node: aggregationName(aggregation), port: half + stride },
      b: {
        node: coreName(aggregation % half * half + stride),
        port: Math.floor(aggregation / half),
      },
      ...kind,
    }))
  );
  return {
    switches: [
      ...upTo(edges).map((edge) => ({ name: edgeName(edge), ports: k })),
      ...upTo(edges).map((each) => ({ name: aggregationName(each), ports: k })),
      ...upTo(cores).map((core) => ({ name: coreName(core), ports: k })),
    ],
    cables: [
      ...hostCables(hosts, { leaves: hostsOf, nameOf: edgeName, kind: hostKind(options) }),
      ...inPods,
      ...toCores,
    ],
    root: coreName(0),
  };
}

/** Switches and cables as the scenario lists them. A cable without a given port takes the lowest free one. */
function listedShape(
  { switches, cables }: ListedFabric,
  options: NetworkOptions,
  hosts: readonly NetworkHost[],
): Shape {
  const isHost = new Set(hosts.map(({ name }) => name));
  const used = new Map(switches.map((name) => [name, new Set<number>()]));
  for (const { ends } of cables) {
    for (const { name, port } of ends) if (port !== undefined) used.get(name)?.add(port);
  }
  const free = new Map<string, number>();
  const endOf = ({ name, port }: ListedEnd): Endpoint | undefined => {
    if (isHost.has(name)) return cardOf(name);
    const taken = used.get(name);
    if (taken === undefined || port !== undefined) {
      return taken === undefined ? undefined : { node: name, port: port! };
    }
    let lowest = free.get(name) ?? 0;
    while (taken.has(lowest)) lowest++;
    taken.add(lowest);
    free.set(name, lowest + 1);
    return { node: name, port: lowest };
  };
  const joined = cables.flatMap(({ ends: [one, other], latencyPs, bitsPerSecond }) => {
    // A card is end `a`, whichever way the cable was written.
    const [near, far] = isHost.has(other.name) ? [other, one] : [one, other];
    const a = endOf(near), b = endOf(far);
    if (a === undefined || b === undefined) return [];
    const kind = isHost.has(near.name) ? hostKind(options) : uplinkKind(options);
    return [{
      a,
      b,
      latencyPs: latencyPs ?? kind.latencyPs,
      bitsPerSecond: bitsPerSecond ?? kind.bitsPerSecond,
    }];
  });
  return {
    switches: switches.map((name) => ({ name, ports: Math.max(0, ...used.get(name)!) + 1 })),
    cables: joined,
    root: switches[0] ?? SWITCH_NAME,
  };
}
