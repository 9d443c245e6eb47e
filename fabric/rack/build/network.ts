/**
 * The network of a rack: addresses, switches, cables and forwarding tables. Routes are static and of equal
 * length; ECMP picks one of several; flooded frames use a spanning tree.
 */
import { PORTS } from "../../node.ts";
import type { Time } from "../../base/time.ts";
import { leafName, rnicName, spineName, SWITCH_NAME } from "../plan/names.ts";
import type { CablePlan, Endpoint, SwitchPlan } from "../plan/plan.ts";

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
  readonly convergencePs: Time;
}

export interface NetworkOptions {
  readonly topology: "star" | "direct" | "leaf-spine";
  /** For `leaf-spine` only. */
  readonly leafSpine?: LeafSpine;
}

export interface NetworkHost {
  readonly name: string;
  /** From 1; absent: the leaf with the fewest hosts. */
  readonly leaf?: number;
}

export interface SwitchShape
  extends Pick<SwitchPlan, "ports" | "forwarding" | "multipath" | "flood" | "convergencePs"> {
  readonly name: string;
}

export interface Network {
  readonly switches: readonly SwitchShape[];
  readonly cables: readonly Pick<CablePlan, "a" | "b">[];
}

/** The network of these hosts, in the order of their addresses. */
export function networkOf(options: NetworkOptions, hosts: readonly NetworkHost[]): Network {
  const ends = hosts.map(({ name }): Endpoint => ({
    node: rnicName(name),
    port: PORTS.rnicNetwork,
  }));
  if (options.topology === "direct") {
    const [a, b] = ends;
    return { switches: [], cables: a === undefined || b === undefined ? [] : [{ a, b }] };
  }
  if (options.leafSpine !== undefined) return leafSpine(options.leafSpine, hosts);
  const forwarding = ends.map((_, port) => [macOf(port), port] as const);
  return {
    switches: [{ name: SWITCH_NAME, ports: hosts.length, forwarding }],
    cables: ends.map((a, port) => ({ a, b: { node: SWITCH_NAME, port } })),
  };
}

/** All cables of a rack by their ends: each host's bus, then the network. */
export function cableEnds(
  hosts: readonly { readonly name: string }[],
  network: Network,
): Pick<CablePlan, "kind" | "a" | "b">[] {
  return [
    ...hosts.map(({ name }) => ({
      kind: "bus" as const,
      a: { node: name, port: PORTS.hostBus },
      b: { node: rnicName(name), port: PORTS.rnicBus },
    })),
    ...network.cables.map((ends) => ({ kind: "network" as const, ...ends })),
  ];
}

/** Names of the switches of a network. */
export function switchNames({ topology, leafSpine }: NetworkOptions): string[] {
  if (topology === "direct") return [];
  if (leafSpine === undefined) return [SWITCH_NAME];
  return [
    ...upTo(leafSpine.leaves).map((leaf) => leafName(leaf)),
    ...upTo(leafSpine.spines).map((spine) => spineName(spine)),
  ];
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

/** The leaf of each host, from 0: as configured, else the leaf with the fewest hosts. */
function leavesOf(hosts: readonly NetworkHost[], leaves: number): number[] {
  const counts = new Array<number>(leaves).fill(0);
  for (const { leaf } of hosts) {
    if (leaf !== undefined && leaf <= leaves) counts[leaf - 1]!++;
  }
  return hosts.map(({ leaf }) => {
    if (leaf !== undefined) return Math.min(leaf, leaves) - 1;
    const least = counts.indexOf(Math.min(...counts));
    counts[least]!++;
    return least;
  });
}

/**
 * A leaf has its hosts' ports first, then one for each cable to each spine. Flooded frames use the
 * first cable of each leaf to the first spine.
 */
function leafSpine(options: LeafSpine, hosts: readonly NetworkHost[]): Network {
  const { leaves, spines, cables, convergencePs } = options;
  const leafOf = leavesOf(hosts, leaves);
  const hostsOf = upTo(leaves).map((leaf) =>
    hosts.flatMap((_, host) => leafOf[host] === leaf ? [host] : [])
  );
  const uplink = (leaf: number, spine: number, cable: number) =>
    hostsOf[leaf]!.length + spine * cables + cable;
  const downlinks = (leaf: number) => upTo(cables).map((cable) => leaf * cables + cable);
  const leafSwitches = upTo(leaves).map((leaf): SwitchShape => {
    const own = hostsOf[leaf]!;
    const others = hosts.flatMap((_, host) => leafOf[host] === leaf ? [] : [macOf(host)]);
    return {
      name: leafName(leaf),
      ports: own.length + spines * cables,
      forwarding: own.map((host, port) => [macOf(host), port] as const),
      multipath: [[others, upTo(spines * cables).map((i) => own.length + i)]],
      flood: upTo(own.length + 1),
      convergencePs,
    };
  });
  const spineSwitches = upTo(spines).map((spine): SwitchShape => ({
    name: spineName(spine),
    ports: leaves * cables,
    forwarding: [],
    multipath: upTo(leaves).map((leaf) => [hostsOf[leaf]!.map(macOf), downlinks(leaf)] as const),
    convergencePs,
    flood: spine === 0 ? upTo(leaves).map((leaf) => leaf * cables) : [],
  }));
  const hostCables = hosts.map(({ name }, host) => ({
    a: { node: rnicName(name), port: PORTS.rnicNetwork },
    b: { node: leafName(leafOf[host]!), port: hostsOf[leafOf[host]!]!.indexOf(host) },
  }));
  const trunks = upTo(leaves).flatMap((leaf) =>
    upTo(spines).flatMap((spine) =>
      upTo(cables).map((cable) => ({
        a: { node: leafName(leaf), port: uplink(leaf, spine, cable) },
        b: { node: spineName(spine), port: downlinks(leaf)[cable]! },
      }))
    )
  );
  return { switches: [...leafSwitches, ...spineSwitches], cables: [...hostCables, ...trunks] };
}
