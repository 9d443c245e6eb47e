/**
 * Withdrawals between neighbouring switches: addresses to which a switch has lost every path. This
 * is the part of a routing protocol that static routes need. A switch that has lost its last cable
 * to a leaf sends a withdrawal over its other trunks, and revokes it when a cable is restored; the
 * receiver applies it `convergencePs` later, which models detection, processing and programming of
 * tables (choice: BGP with BFD takes milliseconds to seconds, a hardware failover microseconds).
 *
 * A message has its sender's complete state, so each replaces the previous one.
 */
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { OwnFrame } from "./snooping.ts";

/**
 * The nearest bridge's group address, which is never forwarded (IEEE 802.1AB §7.1); source address
 * 0.
 */
const DESTINATION = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/** For private experiments (IEEE Std 802, local experimental EtherType 1). */
const ETHERTYPE = 0x88b5;
const COUNT_AT = 14;
const MACS_AT = 16;
const MAC_BYTES = 6;

/** Addresses that a neighbour cannot reach: in effect from `at` on, until the next withdrawal. */
interface Withdrawn {
  readonly macs: ReadonlySet<number>;
  readonly at: Time;
}

export interface Routes {
  readonly groups: NonNullable<SwitchPlan["multipath"]>;
  /** Ports that lead to switches. */
  readonly trunks: readonly number[];
  readonly convergencePs: Time;
  /** By port, oldest first: the last withdrawal in effect, and pending ones. */
  readonly withdrawn: Map<number, readonly Withdrawn[]>;
}

export function createRoutes(plan: SwitchPlan): Routes {
  const groups = plan.multipath ?? [];
  const trunks = [...new Set(groups.flatMap(([, ports]) => ports))];
  return { groups, trunks, convergencePs: plan.convergencePs ?? 0, withdrawn: new Map() };
}

/** Whether a withdrawal of the address by the neighbour at `port` is in effect. */
export function isWithdrawn(routes: Routes, port: number, to: { mac: number; now: Time }): boolean {
  const withdrawals = routes.withdrawn.get(port);
  if (withdrawals === undefined) return false;
  return withdrawals[lastInEffect(withdrawals, to.now)]?.macs.has(to.mac) ?? false;
}

/** Its index; −1 where none is in effect yet. */
function lastInEffect(withdrawals: readonly Withdrawn[], now: Time): number {
  return withdrawals.findLastIndex(({ at }) => at <= now);
}

/**
 * The link at `port` went down or came up: the messages for the neighbours.
 * @param isUp of every port, after the change.
 */
export function changeRoutes(
  routes: Routes,
  change: { readonly port: number; readonly up: boolean },
  isUp: (port: number) => boolean,
): OwnFrame[] {
  const { port, up } = change;
  routes.withdrawn.delete(port);
  const mine = routes.groups.filter(([, ports]) => ports.includes(port));
  const isChanged = mine.some(([, ports]) => !ports.some((each) => each !== port && isUp(each)));
  const audience = isChanged ? routes.trunks : up ? [port] : [];
  return audience.filter(isUp).flatMap((to) => {
    const lost = routes.groups.filter(([, ports]) => !ports.includes(to) && !ports.some(isUp));
    // A neighbour whose link came up has an empty table.
    if (lost.length === 0 && to === port) return [];
    return [{ port: to, bytes: encodeWithdrawal(lost.flatMap(([macs]) => macs)) }];
  });
}

/**
 * Processes a message of the neighbour at `port`. @returns false where the frame is no such
 * message.
 */
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
