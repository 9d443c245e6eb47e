/** Addresses, switches and cables of a rack. */
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

/** 10.0.0.0/16, and locally administered MAC addresses. RNICs count from 1 in both. */
const SUBNET = 0x0a00_0000, MAC_BASE = 0x0200_0000_0000;

export function addressOf(rnic: number): number {
  return SUBNET + rnic + 1;
}

export function macOf(rnic: number): number {
  return MAC_BASE + rnic + 1;
}

export interface LeafSpine {
  readonly leaves: number;
  readonly spines: number;
  readonly cables: number;
}

/** Of switches with `k` ports each, k even (Al-Fares et al., SIGCOMM'08, §2.2). */
export interface FatTree {
  readonly k: number;
}

/** A host (its first RNIC), an RNIC, or a switch with an optional port. */
export interface ListedEnd {
  readonly name: string;
  readonly port?: number;
}

export interface ListedCable extends Partial<CableKind> {
  readonly ends: readonly [ListedEnd, ListedEnd];
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
  readonly leafSpine?: LeafSpine;
  readonly fatTree?: FatTree;
  readonly listed?: ListedFabric;
  readonly uplinks?: CableKind;
  readonly convergencePs: Time;
}

export interface NetworkHost {
  readonly name: string;
  /** Absent: one. */
  readonly nics?: number;
  /** From 1, of all its RNICs or of each; absent: the leaf with the fewest. */
  readonly leaf?: number | readonly number[];
}

export interface NetworkRnic {
  readonly name: string;
  readonly host: string;
  readonly index: number;
  readonly leaf?: number;
}

/**
 * In the order of addresses: the hosts' first RNICs, then the further ones, so that an additional
 * RNIC of a host changes no other host's address.
 */
export function rnicsOf(hosts: readonly NetworkHost[]): NetworkRnic[] {
  const each = hosts.map((host): NetworkRnic[] =>
    Array.from({ length: host.nics ?? 1 }, (_, index) => {
      const leaf = typeof host.leaf === "number" ? host.leaf : host.leaf?.[index];
      const name = rnicName(host.name, index);
      return { name, host: host.name, index, ...(leaf !== undefined && { leaf }) };
    })
  );
  return [...each.map(([first]) => first!), ...each.flatMap(([, ...others]) => others)];
}

export interface Network {
  readonly switches: readonly SwitchShape[];
  readonly cables: readonly NetworkCable[];
}

export function networkOf(options: NetworkOptions, hosts: readonly NetworkHost[]): Network {
  const shape = shapeOf(options, hosts);
  return {
    switches: routed(shape, {
      macs: new Map(rnicsOf(hosts).map(({ name }, rnic) => [name, macOf(rnic)])),
      convergencePs: options.convergencePs,
    }),
    cables: shape.cables,
  };
}

/** Without routes, which take most of the time in a large network. */
export function shapeOf(options: NetworkOptions, hosts: readonly NetworkHost[]): Shape {
  const { topology, leafSpine, fatTree, listed } = options;
  const rnics = rnicsOf(hosts);
  if (topology === "direct") {
    const [a, b] = rnics.map(({ name }) => portOf(name));
    const isPair = a !== undefined && b !== undefined;
    return { switches: [], cables: isPair ? [{ a, b, ...hostKind(options) }] : [], root: "" };
  }
  if (leafSpine !== undefined) return leafSpineShape(leafSpine, options, rnics);
  if (fatTree !== undefined) return fatTreeShape(fatTree, options, rnics);
  if (listed !== undefined) return listedShape(listed, options, rnics);
  return {
    switches: [{ name: SWITCH_NAME, ports: rnics.length }],
    cables: rnics.map(({ name }, port) => ({
      a: portOf(name),
      b: { node: SWITCH_NAME, port },
      ...hostKind(options),
    })),
    root: SWITCH_NAME,
  };
}

function portOf(rnic: string): Endpoint {
  return { node: rnic, port: PORTS.rnicNetwork };
}

function hostKind({ latencyPs, bitsPerSecond }: NetworkOptions): CableKind {
  return { latencyPs, bitsPerSecond };
}

function uplinkKind(options: NetworkOptions): CableKind {
  return options.uplinks ?? hostKind(options);
}

export function cableEnds(
  hosts: readonly NetworkHost[],
  network: Pick<Network, "cables">,
): Pick<CablePlan, "kind" | "a" | "b">[] {
  return [
    ...rnicsOf(hosts).map((rnic) => ({ kind: "bus" as const, ...busEnds(rnic) })),
    ...network.cables.map(({ a, b }) => ({ kind: "network" as const, a, b })),
  ];
}

export function busEnds(
  { host, name, index }: NetworkRnic,
): { readonly a: Endpoint; readonly b: Endpoint } {
  return {
    a: { node: host, port: PORTS.hostBus + index },
    b: { node: name, port: PORTS.rnicBus },
  };
}

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

function rnicsOfLeaves(rnics: readonly NetworkRnic[], leaves: number): string[][] {
  const own = upTo(leaves).map((): string[] => []);
  const counts = new Array<number>(leaves).fill(0);
  for (const { leaf } of rnics) {
    if (leaf !== undefined && leaf <= leaves) counts[leaf - 1]!++;
  }
  for (const { name, leaf } of rnics) {
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

/** RNICs have the first ports of their leaf, in order. */
function rnicCables(
  rnics: readonly NetworkRnic[],
  { leaves, nameOf, kind }: {
    readonly leaves: readonly (readonly string[])[];
    readonly nameOf: (leaf: number) => string;
    readonly kind: CableKind;
  },
): NetworkCable[] {
  const ends = new Map(
    leaves.flatMap((own, leaf) =>
      own.map((rnic, port) => [rnic, { node: nameOf(leaf), port }] as const)
    ),
  );
  return rnics.flatMap(({ name }) => {
    const b = ends.get(name);
    return b === undefined ? [] : [{ a: portOf(name), b, ...kind }];
  });
}

/** RNICs' ports first, then one for each cable to each spine. */
function leafSpineShape(
  { leaves, spines, cables }: LeafSpine,
  options: NetworkOptions,
  rnics: readonly NetworkRnic[],
): Shape {
  const rnicsAt = rnicsOfLeaves(rnics, leaves);
  const kind = uplinkKind(options);
  const trunks = upTo(leaves).flatMap((leaf) =>
    upTo(spines).flatMap((spine) =>
      upTo(cables).map((cable) => ({
        a: { node: leafName(leaf), port: rnicsAt[leaf]!.length + spine * cables + cable },
        b: { node: spineName(spine), port: leaf * cables + cable },
        ...kind,
      }))
    )
  );
  return {
    switches: [
      ...upTo(leaves).map((leaf) => ({
        name: leafName(leaf),
        ports: rnicsAt[leaf]!.length + spines * cables,
      })),
      ...upTo(spines).map((spine) => ({ name: spineName(spine), ports: leaves * cables })),
    ],
    cables: [
      ...rnicCables(rnics, { leaves: rnicsAt, nameOf: leafName, kind: hostKind(options) }),
      ...trunks,
    ],
    root: spineName(0),
  };
}

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
 * k pods, each of k/2 edge and k/2 aggregation switches, every one joined to every other; (k/2)²
 * core switches, each joined to one aggregation switch of each pod, in strides of k/2 (Al-Fares et
 * al., SIGCOMM'08, §2.2).
 *
 * Lower ports lead downwards. Switches are counted through all pods.
 */
function fatTreeShape(
  fatTree: FatTree,
  options: NetworkOptions,
  rnics: readonly NetworkRnic[],
): Shape {
  const { k } = fatTree;
  const { half, edges, cores } = fatTreeSizes(fatTree);
  const kind = uplinkKind(options);
  const rnicsAt = rnicsOfLeaves(rnics, edges).map((own) => own.slice(0, half));
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
      ...rnicCables(rnics, { leaves: rnicsAt, nameOf: edgeName, kind: hostKind(options) }),
      ...inPods,
      ...toCores,
    ],
    root: coreName(0),
  };
}

export function rnicsByEnd(
  rnics: readonly Pick<NetworkRnic, "name" | "host" | "index">[],
): ReadonlyMap<string, string> {
  return new Map(
    rnics.flatMap(({ name, host, index }) => [
      [name, name] as const,
      ...(index === 0 ? [[host, name] as const] : []),
    ]),
  );
}

function listedShape(
  { switches, cables }: ListedFabric,
  options: NetworkOptions,
  rnics: readonly NetworkRnic[],
): Shape {
  const rnicOf = rnicsByEnd(rnics);
  const used = new Map(switches.map((name) => [name, new Set<number>()]));
  for (const { ends } of cables) {
    for (const { name, port } of ends) if (port !== undefined) used.get(name)?.add(port);
  }
  const free = new Map<string, number>();
  const endOf = ({ name, port }: ListedEnd): Endpoint | undefined => {
    const rnic = rnicOf.get(name);
    if (rnic !== undefined) return portOf(rnic);
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
    // A card is end `a`, in either notation of the cable.
    const [near, far] = rnicOf.has(other.name) ? [other, one] : [one, other];
    const a = endOf(near), b = endOf(far);
    if (a === undefined || b === undefined) return [];
    const kind = rnicOf.has(near.name) ? hostKind(options) : uplinkKind(options);
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
