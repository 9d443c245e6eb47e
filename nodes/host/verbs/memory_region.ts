/** Protection domains and memory regions: `ibv_alloc_pd`, `ibv_reg_mr` and their opposites. */
import {
  ACCESS,
  refuseAccess,
  type RegionChange,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { failed, inTime, perform, refusePd, refuseStale, request, verbError } from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import type { Access, Device, Mr, Pd, VerbError } from "./objects.ts";
import type { Buffer } from "../memory/address_map.ts";

export interface RegionOptions {
  readonly access: readonly Access[];
  /** A part of the buffer; all of it by default. */
  readonly offset?: number;
  readonly length?: number;
  /** ibv_reg_mr_iova: another address of its first byte, with the same offset in a page. */
  readonly iova?: number;
}

/** ACCESS bits of the given flags. */
export function accessBits(flags: readonly Access[]): number {
  let bits = 0;
  for (const flag of flags) bits |= ACCESS[flag];
  return bits;
}

export function allocPd(device: Device): Pd {
  const { state } = device;
  const handle = state.nextPd++;
  const pd: Pd = { device, handle, epoch: state.epoch, uses: { count: 0, alive: true } };
  state.pds.set(handle, pd);
  return pd;
}

/** EBUSY while it is used, EINVAL the second time, ENOENT after the RNIC's failure. */
export function deallocPd(pd: Pd): VerbError | undefined {
  if (!pd.uses.alive) return verbError("EINVAL", "The protection domain is gone already");
  const stale = refuseStale(pd.device, pd.epoch);
  if (stale !== undefined) return stale;
  if (pd.uses.count > 0) {
    return verbError("EBUSY", `The protection domain has ${pd.uses.count} users`);
  }
  pd.uses.alive = false;
  pd.device.state.pds.delete(pd.handle);
  return undefined;
}

/** Rights by which a peer relies on persistence: on SCM only (P-22; FLUSH: §4.5, as rxe). */
const PERSISTENCE = ACCESS.remoteWritePersistence | ACCESS.flushPersistent;

/** ibv_reg_mr's rules (`rocev2.md` §4.5) and P-22's; undefined where the request is valid. */
function checkRegion(
  pd: Pd,
  buffer: Buffer,
  region: { readonly offset: number; readonly length: number; readonly access: number },
): VerbError | undefined {
  const { offset, length, access } = region;
  const gone = refusePd(pd);
  if (gone !== undefined) return gone;
  if (!(length > 0) || !(offset >= 0) || offset + length > buffer.length) {
    return verbError(
      "EINVAL",
      `Region [${offset}, ${offset + length}) must lie in a buffer of ${buffer.length} B`,
    );
  }
  const wrong = checkRights(access);
  if (wrong !== undefined) return wrong;
  const place = { address: buffer.address + offset, length };
  if ((access & PERSISTENCE) !== 0 && !isScm(pd.device, place)) {
    return verbError("EINVAL", "Persistence is granted on storage class memory only");
  }
  return undefined;
}

function checkRights(access: number): VerbError | undefined {
  const wrong = refuseAccess(access);
  if (wrong !== undefined) return verbError("EINVAL", wrong);
  const remoteChange = ACCESS.remoteWrite | ACCESS.remoteAtomic;
  if ((access & remoteChange) !== 0 && (access & ACCESS.localWrite) === 0) {
    return verbError("EINVAL", "Remote write or atomic access needs local write access");
  }
  if ((access & ACCESS.remoteWritePersistence) !== 0 && (access & ACCESS.remoteWrite) === 0) {
    return verbError("EINVAL", "Remote write persistence needs remote write access");
  }
  return undefined;
}

function isScm(device: Device, place: Pick<Buffer, "address" | "length">): boolean {
  const { scm } = device.cpu;
  return place.address >= scm.address && place.address + place.length <= scm.address + scm.length;
}

/**
 * Registers (a part of) a buffer at CPU and RNIC (P-22): page table VA → PA, first VA, length,
 * access flags, and whether it is persistent memory, which the RNIC cannot detect.
 */
export function* regMr(
  pd: Pd,
  buffer: Buffer,
  options: RegionOptions,
): Steps<Mr | VerbError> {
  const offset = options.offset ?? 0;
  const length = options.length ?? buffer.length - offset;
  const access = accessBits(options.access);
  const wrong = checkRegion(pd, buffer, { offset, length, access });
  if (wrong !== undefined) return wrong;
  const place = placeOf(pd.device, { buffer, offset, length, iova: options.iova });
  if (failed(place)) return place;
  const region = { pd: pd.handle, access, ...place };
  const answer = yield* request(pd.device.cpu, "register-mr", { op: "register-mr", region });
  const reply = inTime(answer, pd.device, pd.epoch);
  if (failed(reply)) return reply;
  pd.uses.count++;
  const { lkey, rkey } = reply;
  const mr: Mr = { pd, address: place.va, length, lkey, rkey, access };
  pd.device.state.regions.set(lkey, mr);
  return mr;
}

/** Page table, first address, length and kind of memory of a part of a buffer. */
function placeOf(
  device: Device,
  part: {
    readonly buffer: Buffer;
    readonly offset: number;
    readonly length: number;
    readonly iova: number | undefined;
  },
): NonNullable<RegionChange["place"]> | VerbError {
  const { buffer, offset, length } = part;
  const start = buffer.address + offset;
  const { pageBytes } = buffer;
  const base = buffer.address - buffer.address % pageBytes;
  const va = part.iova ?? start;
  if (!Number.isSafeInteger(va + length) || va < 0 || va % pageBytes !== start % pageBytes) {
    return verbError("EINVAL", `The address must lie in its page as ${start} does: it is ${va}`);
  }
  const first = Math.floor((start - base) / pageBytes);
  const last = Math.floor((start + length - 1 - base) / pageBytes);
  const persistent = isScm(device, { address: start, length });
  return { va, length, pageBytes, pages: buffer.pages.slice(first, last + 1), persistent };
}

/** The changes of a re-registration; absent members stay. */
export interface Reregistration {
  /** IBV_REREG_MR_CHANGE_TRANSLATION: (a part of) this buffer instead. */
  readonly place?: {
    readonly buffer: Buffer;
    readonly offset?: number;
    readonly length?: number;
  };
  /** IBV_REREG_MR_CHANGE_PD. */
  readonly pd?: Pd;
  /** IBV_REREG_MR_CHANGE_ACCESS. */
  readonly access?: readonly Access[];
}

/**
 * Changes memory, domain or rights of a region; its keys stay. Outstanding accesses with the old
 * rights fail like later ones. EINVAL where windows are bound to it, or the result would be
 * invalid: the region is then unchanged.
 */
export function* reregMr(mr: Mr, change: Reregistration): Steps<VerbError | undefined> {
  const { device } = mr.pd;
  const pd = change.pd ?? mr.pd;
  const access = change.access === undefined ? mr.access : accessBits(change.access);
  const gone = refuseStale(device, mr.pd.epoch) ?? refusePd(pd);
  if (gone !== undefined) return gone;
  const place = change.place === undefined ? undefined : placeAnew(pd, change.place, access);
  if (place !== undefined && failed(place)) return place;
  const wrong = checkRights(access);
  if (wrong !== undefined) return wrong;
  if (place === undefined && (access & ~mr.access & PERSISTENCE) !== 0) {
    return verbError("EINVAL", "Persistence is granted with the memory only");
  }
  const changes = { pd: pd.handle, access, ...(place !== undefined && { place }) };
  const refused = yield* perform(device.cpu, {
    op: "reregister-mr",
    key: mr.lkey,
    change: changes,
  });
  if (refused !== undefined) return refused;
  mr.pd.uses.count--;
  pd.uses.count++;
  Object.assign(mr, { pd, access });
  if (place !== undefined) Object.assign(mr, { address: place.va, length: place.length });
  return undefined;
}

function placeAnew(
  pd: Pd,
  place: NonNullable<Reregistration["place"]>,
  access: number,
): NonNullable<RegionChange["place"]> | VerbError {
  const { buffer, offset = 0, length = buffer.length - offset } = place;
  return checkRegion(pd, buffer, { offset, length, access }) ??
    placeOf(pd.device, { buffer, offset, length, iova: undefined });
}

export interface Advice {
  readonly pd: Pd;
  readonly sges: readonly Sge[];
  /** `prefetchWrite` needs local write access. */
  readonly advice: "prefetch" | "prefetchWrite" | "prefetchNoFault";
}

/**
 * ibv_advise_mr. Registered memory is pinned (there is no on-demand paging), so the advice has no
 * effect. ENOENT for an unknown key, EFAULT for a range outside its region, EINVAL for another
 * domain's region, EPERM for write advice on read-only memory.
 */
export function adviseMr({ pd, sges, advice }: Advice): VerbError | undefined {
  if (sges.length === 0) return verbError("EINVAL", "Advice is about memory: none is named");
  for (const { address, length, lkey } of sges) {
    const mr = pd.device.state.regions.get(lkey);
    if (mr === undefined) return verbError("ENOENT", `There is no region ${lkey}`);
    if (mr.pd.handle !== pd.handle) return verbError("EINVAL", "The region is another domain's");
    if (address < mr.address || address + length > mr.address + mr.length) {
      return verbError(
        "EFAULT",
        `[${address}, ${address + length}) lies outside of region ${lkey}`,
      );
    }
    if (advice === "prefetchWrite" && (mr.access & ACCESS.localWrite) === 0) {
      return verbError("EPERM", `Region ${lkey} cannot be written`);
    }
  }
  return undefined;
}

/** Deregisters the region: later accesses with its keys are refused. */
export function* deregMr(mr: Mr): Steps<VerbError | undefined> {
  const { device, epoch } = mr.pd;
  const stale = refuseStale(device, epoch);
  if (stale !== undefined) return stale;
  const command = { op: "deregister-mr", key: mr.lkey } as const;
  const reply = inTime(yield* request(device.cpu, "done", command), device, epoch);
  if (failed(reply)) return reply;
  mr.pd.uses.count--;
  device.state.regions.delete(mr.lkey);
  return undefined;
}

/** The protection domain with this handle, bound to this context. ENOENT where there is none. */
export function importPd(device: Device, handle: number): Pd | VerbError {
  const pd = device.state.pds.get(handle);
  if (pd === undefined) return verbError("ENOENT", `There is no protection domain ${handle}`);
  return { ...pd, device };
}

/** The domain's region with this key, bound to the importing context's domain. */
export function importMr(pd: Pd, lkey: number): Mr | VerbError {
  const mr = pd.device.state.regions.get(lkey);
  if (mr === undefined || mr.pd.handle !== pd.handle) {
    return verbError("ENOENT", `The protection domain has no region ${lkey}`);
  }
  return { ...mr, pd };
}
