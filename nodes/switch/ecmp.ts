/**
 * Equal-cost multipath (RFC 2991): one of several ports to an address, by a hash of the 5-tuple, of which RoCEv2 leaves
 * the UDP source port free (`rocev2.md` §1.1). A flow keeps its port, as RC treats reordered packets as losses. Each
 * switch hashes with its own seed, so that a tier does not select alike (polarisation).
 *
 * A port is excluded whose link is down, or that `routes.ts` knows as withdrawn.
 */
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { frameDestination } from "../../fabric/wire/roce/frame_peek.ts";

/** Offsets after an Ethernet header, without IP options. */
const PROTOCOL_AT = 23;
const TUPLE_AT = 26;
const TUPLE_END = 38;

export interface Multipath {
  readonly ports: ReadonlyMap<number, readonly number[]>;
  readonly seed: number;
}

/** @returns undefined where every address has a single path. */
export function createMultipath(
  name: string,
  plan: SwitchPlan,
  options: { readonly seed: number },
): Multipath | undefined {
  if (plan.multipath === undefined) return undefined;
  const ports = plan.multipath.flatMap(([macs, ways]) => macs.map((mac) => [mac, ways] as const));
  return { ports: new Map(ports), seed: rngFor(options.seed, `ecmp/${name}`).next() };
}

/**
 * Chooses among usable ports; among all where none is usable. @returns undefined where no port
 * leads there.
 */
export function choosePort(
  { ports, seed }: Multipath,
  bytes: Uint8Array,
  isUp: (port: number) => boolean,
): number | undefined {
  const ways = ports.get(frameDestination(bytes));
  if (ways === undefined || ways.length === 0) return undefined;
  let best = ways[0]!, bestWeight = -1;
  const hash = flowHash(bytes, seed);
  for (const port of ways) {
    if (!isUp(port)) continue;
    // Rendezvous hashing (Thaler and Ravishankar, IEEE/ACM ToN 1998; RFC 2991): only flows of a
    // port that goes down move, and they return to it.
    const weight = mix(hash, port + 1);
    if (weight > bestWeight) [best, bestWeight] = [port, weight];
  }
  return best;
}

/**
 * The hash has 32 bits and is not negative; it is of both MAC addresses where there is no 5-tuple.
 */
export function flowHash(bytes: Uint8Array, seed: number): number {
  const isIpv4 = bytes[12] === 8 && bytes[13] === 0 && bytes.length >= TUPLE_END;
  let hash = mix(seed, isIpv4 ? bytes[PROTOCOL_AT]! : 0);
  const [from, to] = isIpv4 ? [TUPLE_AT, TUPLE_END] : [0, 12];
  for (let at = from; at < to; at += 4) {
    const word = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) |
      bytes[at + 3]!;
    hash = mix(hash, word);
  }
  return hash;
}

function mix(x: number, y: number): number {
  let h = x ^ Math.imul(y, 0x9e3779b1);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
