/**
 * Memory windows (`rocev2.md` §4.5): parts of regions, given and taken back on the data path. Type
 * 1 is bound by the verb and open to all queue pairs of its domain; type 2 is bound by a WQE, open
 * to that queue pair only, and must be unbound first. A bound window is a region over its parent's
 * pages, so key checks and address translation do not distinguish it.
 */
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { BindOperands } from "../../../fabric/wire/host_bus/wqe.ts";
import { findRegion, freeKey, takeKey } from "./memory_region.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { Region, RegionTable, Window } from "../state/memory.ts";
import type { Device } from "../state/device.ts";

export function addWindow(
  table: RegionTable,
  plan: Pick<Window, "type" | "pd">,
): Window | undefined {
  const key = takeKey(table);
  if (key === undefined) return undefined;
  const window: Window = { ...plan, key, binding: undefined };
  table.windows.set(key >>> 8, window);
  return window;
}

export function removeWindow(table: RegionTable, window: Window): void {
  unbind(table, window);
  table.windows.delete(window.key >>> 8);
  freeKey(table, window.key);
}

/**
 * Requests under way find the new range if the key is the same (rxe). @returns whether it was
 * legal; otherwise nothing has changed (MW_BIND_ERR).
 */
export function bindWindow(table: RegionTable, qp: QueuePair, operands: BindOperands): boolean {
  const { rkey, lkey, length } = operands;
  const window = table.windows.get(rkey >>> 8);
  if (window === undefined || window.pd !== qp.pd) return false;
  // A bind of type 1 to no bytes unbinds it.
  if (window.type === 1 && length === 0) {
    unbind(table, window);
    window.key = rkey;
    return true;
  }
  const parent = findRegion(table, lkey);
  if (parent === undefined || !isBindable(window, { parent, qp, operands })) return false;
  unbind(table, window);
  window.key = rkey;
  const range = rangeOf(window, { parent, operands });
  window.binding = { range, parent, qpn: qp.qpn };
  parent.windows++;
  table.slots[rkey >>> 8] = range;
  return true;
}

const REMOTE_CHANGE = ACCESS.remoteWrite | ACCESS.remoteAtomic;
const FLUSHES = ACCESS.flushGlobal | ACCESS.flushPersistent;
const GRANTABLE = REMOTE_CHANGE | ACCESS.remoteRead | FLUSHES | ACCESS.zeroBased;
/**
 * Accepted, but no window grants it (rxe, mlx5): programs pass a window the rights of its region.
 */
const IGNORED = ACCESS.localWrite;

function isBindable(
  window: Window,
  bind: {
    readonly parent: Region;
    readonly qp: QueuePair;
    readonly operands: BindOperands;
  },
): boolean {
  const { parent, qp, operands } = bind;
  const { va, length, access } = operands;
  if (window.type === 2 && window.binding !== undefined) return false;
  if (window.type === 1 && (access & ACCESS.zeroBased) !== 0) return false;
  if (parent.window !== undefined || parent.pd !== qp.pd) return false;
  if ((parent.access & ACCESS.mwBind) === 0 || (access & ~(GRANTABLE | IGNORED)) !== 0) {
    return false;
  }
  if ((access & REMOTE_CHANGE) !== 0 && (parent.access & ACCESS.localWrite) === 0) return false;
  if ((access & FLUSHES & ~parent.access) !== 0) return false;
  const offset = va - BigInt(parent.va);
  return length > 0 && offset >= 0n && offset + BigInt(length) <= BigInt(parent.length);
}

function rangeOf(
  window: Window,
  bind: { readonly parent: Region; readonly operands: BindOperands },
): Region {
  const { parent, operands } = bind;
  const start = Number(operands.va);
  const isZeroBased = (operands.access & ACCESS.zeroBased) !== 0;
  return {
    ...parent,
    pd: window.pd,
    va: isZeroBased ? 0 : start,
    length: operands.length,
    // P-22: the region decides, whatever the key.
    access: (operands.access & ~IGNORED) | (parent.access & ACCESS.remoteWritePersistence),
    pageBase: isZeroBased ? parent.pageBase - start : parent.pageBase,
    key: window.key,
    alive: true,
    windows: 0,
    window,
  };
}

/** The host programs' address for a peer's `va`; it differs in a zero-based window only. */
export function hostAddress(region: Region | undefined, va: number): number {
  const parent = region?.window?.binding?.parent;
  return region === undefined || parent === undefined ? va : va - region.pageBase + parent.pageBase;
}

function unbind(table: RegionTable, window: Window): void {
  const { binding } = window;
  if (binding === undefined) return;
  binding.range.alive = false;
  binding.parent.windows--;
  window.binding = undefined;
  table.slots[window.key >>> 8] = undefined;
}

export function unbindWindowsOf(table: RegionTable, qp: QueuePair): void {
  for (const window of table.windows.values()) {
    if (window.type === 2 && window.binding?.qpn === qp.qpn) unbind(table, window);
  }
}

/**
 * SEND WITH INVALIDATE and LOCAL_INV: unbinds a type 2 window that this queue pair has bound. A region of `ibv_reg_mr`
 * cannot be invalidated (as in Linux; IBA allows it for fast registrations only, which verbs of user space do not make).
 * @returns whether it was done.
 */
export function invalidateKey({ regions }: Device, qp: QueuePair, key: number): boolean {
  const window = regions.windows.get(key >>> 8);
  if (window?.key !== key || window.type !== 2) return false;
  if (window.binding?.qpn !== qp.qpn || window.pd !== qp.pd) return false;
  unbind(regions, window);
  return true;
}
