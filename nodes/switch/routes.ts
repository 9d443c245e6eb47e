/**
 * Withdrawals between neighbouring switches: addresses to which a switch has lost every path, the part of a routing
 * protocol that static routes need. A switch that has lost its last cable to a leaf tells its other trunks, and
 * revokes it when a cable is restored. The receiver applies it `convergencePs` later: detection, processing and
 * programming of tables (choice: BGP with BFD takes milliseconds to seconds, a hardware failover microseconds). Where
 * it then has no path left, it sends a withdrawal of its own.
 *
 * A message has all that its sender has for this neighbour, so each replaces the previous one. A neighbour on the way
 * to an address is not told of it: it would not send it back (split horizon, RFC 2453 §3.4.3).
 */
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import type { OwnFrame } from "./snooping.ts";

/** The nearest bridge's group address (IEEE 802.1AB §7.1); source address 0. */
const DESTINATION = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/** IEEE Std 802, local experimental EtherType 1. */
const ETHERTYPE = 0x88b5;
const COUNT_AT = 14;
const MACS_AT = 16;
const MAC_BYTES = 6;

interface Withdrawn {
  readonly macs: ReadonlySet<number>;
  readonly at: Time;
}

export interface Routes {
  readonly groups: NonNullable<SwitchPlan["multipath"]>;
  readonly trunks: readonly number[];
  readonly convergencePs: Time;
  readonly withdrawn: Map<number, readonly Withdrawn[]>;
  /** Addresses last told to each trunk; none while its cable is down. */
  readonly told: Map<number, readonly number[]>;
}

interface Now {
  readonly now: Time;
  readonly isUp: (port: number) => boolean;
}

export function createRoutes(plan: SwitchPlan): Routes {
  const groups = plan.multipath ?? [];
  const trunks = [...new Set(groups.flatMap(([, ports]) => ports))];
  return {
    groups,
    trunks,
    convergencePs: plan.convergencePs ?? 0,
    withdrawn: new Map(),
    told: new Map(),
  };
}

export function isWithdrawn(routes: Routes, port: number, to: { mac: number; now: Time }): boolean {
  const withdrawals = routes.withdrawn.get(port);
  if (withdrawals === undefined) return false;
  return withdrawals[lastInEffect(withdrawals, to.now)]?.macs.has(to.mac) ?? false;
}

function lastInEffect(withdrawals: readonly Withdrawn[], now: Time): number {
  return withdrawals.findLastIndex(({ at }) => at <= now);
}

export function forgetNeighbour(routes: Routes, port: number): void {
  routes.withdrawn.delete(port);
  routes.told.delete(port);
}

export function withdrawals(routes: Routes, at: Now): OwnFrame[] {
  return changes(routes, at).map(({ port, macs }) => {
    routes.told.set(port, macs);
    return { port, bytes: encodeWithdrawal(macs) };
  });
}

/** When a withdrawal comes into effect and nothing else changes; NEVER without one. */
export function nextWithdrawalAt(routes: Routes, { now, isUp }: Now): Time {
  const pending = [...routes.withdrawn.values()].flat().map(({ at }) => at)
    .filter((at) => at > now).sort((x, y) => x - y);
  return pending.find((at) => changes(routes, { now: at, isUp }).length > 0) ?? NEVER;
}

function changes(routes: Routes, at: Now): { readonly port: number; readonly macs: number[] }[] {
  const { groups, trunks, told } = routes;
  if (trunks.every(at.isUp) && routes.withdrawn.size === 0 && told.size === 0) return [];
  const lost = groups.map(([macs, ports]) => {
    const up = ports.filter(at.isUp);
    const isLost = (mac: number) =>
      up.every((port) => isWithdrawn(routes, port, { mac, now: at.now }));
    return { ports, macs: macs.filter(isLost) };
  });
  return trunks.filter(at.isUp).flatMap((port) => {
    const macs = lost.flatMap((group) => group.ports.includes(port) ? [] : group.macs);
    return isSame(macs, told.get(port) ?? []) ? [] : [{ port, macs }];
  });
}

function isSame(some: readonly number[], others: readonly number[]): boolean {
  return some.length === others.length && some.every((each, i) => each === others[i]);
}

/** @returns false where the frame is no withdrawal. */
export function takeWithdrawal(
  routes: Routes,
  from: { readonly port: number; readonly now: Time },
  bytes: Uint8Array,
): boolean {
  const { port, now } = from;
  const macs = decodeWithdrawal(bytes);
  if (macs === undefined || !routes.trunks.includes(port)) return false;
  const withdrawals = routes.withdrawn.get(port) ?? [];
  const rest = withdrawals.slice(Math.max(0, lastInEffect(withdrawals, now)));
  const newest = { macs: new Set(macs), at: now + routes.convergencePs };
  routes.withdrawn.set(port, [...rest, newest]);
  return true;
}

function encodeWithdrawal(macs: readonly number[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(MACS_AT + MAC_BYTES * macs.length);
  const view = new DataView(bytes.buffer);
  bytes.set(DESTINATION);
  view.setUint16(12, ETHERTYPE);
  view.setUint16(COUNT_AT, macs.length);
  macs.forEach((mac, i) => {
    view.setUint16(MACS_AT + MAC_BYTES * i, Math.floor(mac / 2 ** 32));
    view.setUint32(MACS_AT + MAC_BYTES * i + 2, mac % 2 ** 32);
  });
  return bytes;
}

function decodeWithdrawal(bytes: Uint8Array): number[] | undefined {
  if (bytes.length < MACS_AT || DESTINATION.some((byte, i) => bytes[i] !== byte)) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const count = view.getUint16(COUNT_AT);
  if (view.getUint16(12) !== ETHERTYPE || bytes.length < MACS_AT + MAC_BYTES * count) {
    return undefined;
  }
  return Array.from({ length: count }, (_, i) => {
    const at = MACS_AT + MAC_BYTES * i;
    return view.getUint16(at) * 2 ** 32 + view.getUint32(at + 2);
  });
}
