import {
  ACCESS,
  type CommandOf,
  refuseAccess,
  type RegionChange,
  type RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { assert } from "../../../fabric/base/assert.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import {
  allocated,
  contiguous,
  failed,
  inTime,
  perform,
  refusePd,
  refuseStale,
  request,
  verbError,
} from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import type { AccessFlags, AdviseFlags } from "./flags.ts";
import { IBV_ADVISE_MR_FLAG_FLUSH } from "./flags.ts";
import type { Device, Mr, Pd, VerbError } from "./objects.ts";
import { refusePdInUse } from "./query/users.ts";
import type { Buffer } from "../memory/address_map.ts";

/** H-01: a data transfer object that lies in a region. */
export interface RegionObject {
  /** The identity by which requests name it: 64 bits. */
  readonly identity: bigint;
  /** In bytes, from the region's first byte. */
  readonly offset: number;
  /** In bytes. */
  readonly length: number;
}

/** Options of `regMr`. */
export interface RegionOptions {
  /** IBV_ACCESS_… by `|`. */
  readonly access: AccessFlags;
  /** First byte of the region in the buffer; 0 by default. */
  readonly offset?: number;
  /** Bytes from `offset` on; to the end of the buffer by default. */
  readonly length?: number;
  /** Pins its memory, whatever the host's default is; not with IBV_ACCESS_ON_DEMAND. */
  readonly pin?: true;
  /** ibv_reg_mr_iova: another address for its first byte, with the same offset in a page. */
  readonly iova?: number;
  /** Objects that the card prepares for requests that cover them, where it gets hints. */
  readonly objects?: readonly RegionObject[];
}

/** ibv_alloc_pd: a protection domain without regions and queue pairs. */
export function allocPd(device: Device): Pd {
  const { state } = device;
  const handle = state.nextPd++;
  const pd: Pd = { device, handle, epoch: state.epoch, uses: { count: 0, alive: true } };
  state.pds.set(handle, pd);
  return pd;
}

/**
 * ibv_dealloc_pd. EBUSY while it is used, EINVAL the second time, ENOENT after the RNIC's failure.
 */
export function deallocPd(pd: Pd): VerbError | undefined {
  if (!pd.uses.alive) return verbError("EINVAL", "The protection domain is gone already");
  const stale = refuseStale(pd.device, pd.epoch);
  if (stale !== undefined) return stale;
  const used = refusePdInUse(pd);
  if (used !== undefined) return used;
  pd.uses.alive = false;
  pd.device.state.pds.delete(pd.handle);
  return undefined;
}

/** Only SCM can have these rights (P-22; FLUSH: §4.5, as in rxe). */
const PERSISTENCE = ACCESS.remoteWritePersistence | ACCESS.flushPersistent;

/** @returns undefined for a valid region (`rocev2.md` §4.5, P-22). */
function checkRegion(
  pd: Pd,
  buffer: Buffer,
  region: {
    readonly offset: number;
    readonly length: number;
    readonly access: number;
    readonly objects?: readonly RegionObject[] | undefined;
  },
): VerbError | undefined {
  const { offset, length, access, objects = [] } = region;
  const gone = refusePd(pd);
  if (gone !== undefined) return gone;
  if (!(length > 0) || !(offset >= 0) || offset + length > buffer.length) {
    return verbError(
      "EINVAL",
      `Region [${offset}, ${offset + length}) must lie in a buffer of ${buffer.length} B`,
    );
  }
  const outside = objects.find((each) =>
    !(each.length > 0) || !(each.offset >= 0) || each.offset + each.length > length ||
    each.identity < 0n || each.identity >= 1n << 64n
  );
  if (outside !== undefined) {
    const end = outside.offset + outside.length;
    return verbError(
      "EINVAL",
      `Object ${outside.identity} must have a name of 64 bits and lie in ${length} B: it is [${outside.offset}, ${end})`,
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
  if ((access & ACCESS.zeroBased) !== 0) {
    return verbError("EINVAL", "IBV_ACCESS_ZERO_BASED is for windows of type 2: expected iova");
  }
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
 * ibv_reg_mr: registers (a part of) a buffer at CPU and RNIC (P-22): page table VA → PA, first VA, length,
 * access flags, and whether it is persistent memory, which the RNIC cannot detect. EINVAL for a place outside the
 * buffer, unknown flags, remote write or atomic without local write, or persistence on DRAM; ENOMEM where the card has
 * no key left.
 *
 * @example A part of SCM
 * ```ts
 * import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, must } from "rackmesh";
 * import type { ProgramContext, Steps } from "rackmesh";
 *
 * export default function* register({ cpu, device }: ProgramContext): Steps<void> {
 *   const { allocPd, regMr, deregMr } = device.verbs;
 *   const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
 *   const log = must(yield* regMr(allocPd(device), cpu.scm, { offset: 4096, length: 8192, access }));
 *   cpu.log(`${log.length} B of SCM, rkey ${log.rkey}`);
 *   must(yield* deregMr(log));
 * }
 * ```
 */
export function* regMr(
  pd: Pd,
  buffer: Buffer,
  options: RegionOptions,
): Steps<Mr | VerbError> {
  const offset = options.offset ?? 0;
  const length = options.length ?? buffer.length - offset;
  const { paging } = pd.device.cpu;
  const byDefault = options.pin !== true && paging?.isPinnedByDefault === false;
  const access = options.access | (byDefault ? ACCESS.onDemand : 0);
  const isOnDemand = (access & ACCESS.onDemand) !== 0;
  if (isOnDemand && (paging === undefined || options.pin === true)) {
    return verbError("EINVAL", "Memory is either pinned or on demand, where the host has that");
  }
  const wrong = checkRegion(pd, buffer, { offset, length, access, objects: options.objects });
  if (wrong !== undefined) return wrong;
  const place = placeOf(pd.device, { buffer, offset, length, iova: options.iova, isOnDemand });
  if (failed(place)) return place;
  const objects = options.objects?.map(({ identity, offset, length }) => ({
    nameHigh: Number(identity >> 32n),
    nameLow: Number(identity & 0xffff_ffffn),
    va: place.va + offset,
    length,
  }));
  const region = { pd: pd.handle, access, ...place, ...(objects && { objects }) };
  const answer = yield* withMemory(pd.device, "register-mr", { op: "register-mr", region });
  const reply = inTime(answer, pd.device, pd.epoch);
  if (failed(reply)) return reply;
  pd.uses.count++;
  const { lkey, rkey } = reply;
  const range = { address: buffer.address + offset, length };
  if (isOnDemand) {
    const writable = (access & ACCESS.localWrite) !== 0;
    paging!.demand(lkey, buffer, { ...range, writable });
  } else {
    paging?.pin(lkey, range, place.pages);
  }
  const mr: Mr = {
    pd,
    address: place.va,
    length,
    lkey,
    rkey,
    access,
    memory: range.address,
    uses: { alive: true },
  };
  pd.device.state.regions.set(lkey, mr);
  return mr;
}

/** All addresses: more than any memory has. */
export const NULL_MR_BYTES = Number.MAX_SAFE_INTEGER;

/**
 * ibv_alloc_null_mr: a region without memory, for SGEs whose bytes do not matter. Writes to it are
 * discarded and reads give 0, without the bus; it contains every address. Only its lkey is valid:
 * `reregMr` is EINVAL, a bind MW_BIND_ERR, and a peer has no access. `deregMr` removes it.
 */
export function* allocNullMr(pd: Pd): Steps<Mr | VerbError> {
  const { device } = pd;
  const gone = refusePd(pd);
  if (gone !== undefined) return gone;
  const command = { op: "allocate-null-mr", pd: pd.handle } as const;
  const reply = inTime(yield* request(device.cpu, "register-mr", command), device, pd.epoch);
  if (failed(reply)) return reply;
  pd.uses.count++;
  const { lkey } = reply;
  const length = NULL_MR_BYTES;
  const access = ACCESS.localWrite;
  const keys = { lkey, rkey: 0, access };
  const mr: Mr = { pd, address: 0, length, ...keys, memory: 0, uses: { alive: true } };
  device.state.regions.set(lkey, mr);
  return mr;
}

/** The firmware may first need memory for its tables (mlx5: MANAGE_PAGES). */
function* withMemory<Op extends "register-mr" | "done">(
  device: Device,
  op: Op,
  command: CommandOf<"register-mr" | "reregister-mr">,
): Steps<Extract<RnicReply, { op: Op }> | VerbError> {
  const { cpu, state } = device;
  for (;;) {
    const reply = yield* cpu.command(command);
    if (reply.status === "error") return verbError(reply.errno, reply.reason);
    if (reply.op !== "memory-needed") {
      assert(reply.op === op, `The firmware answered ${reply.op} where ${op} was expected`);
      return reply as Extract<RnicReply, { op: Op }>;
    }
    const memory = allocated(() => cpu.paging!.allocateForCard(reply.bytes));
    if (failed(memory)) return memory;
    state.held.set(memory, memory.address);
    const give = { op: "give-memory", address: contiguous(memory), length: memory.length } as const;
    const refused = yield* perform(cpu, give);
    if (refused !== undefined) return refused;
  }
}

function placeOf(
  device: Device,
  part: {
    readonly buffer: Buffer;
    readonly offset: number;
    readonly length: number;
    readonly iova: number | undefined;
    readonly isOnDemand: boolean;
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
  if (part.isOnDemand) return { va, length, pageBytes, pages: [], persistent };
  const { paging } = device.cpu;
  const frames = paging?.frames(buffer, { address: start, length }) ?? buffer.pages;
  return { va, length, pageBytes, pages: frames.slice(first, last + 1), persistent };
}

/** The changes of a re-registration; absent members stay. */
export interface Reregistration {
  /** IBV_REREG_MR_CHANGE_TRANSLATION: (a part of) this buffer instead. */
  readonly place?: {
    readonly buffer: Buffer;
    readonly offset?: number;
    readonly length?: number;
    /** As of a registration. */
    readonly iova?: number;
  };
  /** IBV_REREG_MR_CHANGE_PD. */
  readonly pd?: Pd;
  /** IBV_REREG_MR_CHANGE_ACCESS. */
  readonly access?: AccessFlags;
}

/**
 * Changes memory, domain or rights of a region; its keys stay. Outstanding accesses with the old
 * rights fail like later ones. EINVAL without a change, while windows are bound to it, or where the
 * result would be invalid: the region is then unchanged.
 */
export function* reregMr(mr: Mr, change: Reregistration): Steps<VerbError | undefined> {
  const { device } = mr.pd;
  const pd = change.pd ?? mr.pd;
  const kept = mr.access & ACCESS.onDemand;
  const access = change.access === undefined ? mr.access : change.access | kept;
  if (pd.device.state !== device.state) {
    return verbError("EINVAL", "The protection domain is of another card than the region");
  }
  const gone = refuseMr(mr) ?? refusePd(pd);
  if (gone !== undefined) return gone;
  if (change.place === undefined && change.pd === undefined && change.access === undefined) {
    return verbError("EINVAL", "The change has nothing: expected place, pd or access");
  }
  const place = change.place === undefined ? undefined : placeAnew(pd, change.place, access);
  if (place !== undefined && failed(place)) return place;
  const wrong = checkRights(access);
  if (wrong !== undefined) return wrong;
  if (((access ^ mr.access) & ACCESS.onDemand) !== 0) {
    return verbError("EINVAL", "A region stays pinned, or on demand, as it was registered");
  }
  if (place !== undefined && (access & ACCESS.onDemand) !== 0) {
    return verbError("EINVAL", "An on-demand region keeps its memory");
  }
  if (place === undefined && (access & ~mr.access & PERSISTENCE) !== 0) {
    return verbError("EINVAL", "Persistence is granted with the memory only");
  }
  // Imports of the region show this record.
  const record = device.state.regions.get(mr.lkey) ?? mr;
  const changes = { pd: pd.handle, access, ...(place !== undefined && { place }) };
  const reply = yield* withMemory(device, "done", {
    op: "reregister-mr",
    key: mr.lkey,
    change: changes,
  });
  if (failed(reply)) return reply;
  if (change.place !== undefined) {
    const { buffer, offset = 0 } = change.place;
    const range = { address: buffer.address + offset, length: place!.length };
    device.cpu.paging?.pin(mr.lkey, range, place!.pages);
  }
  record.pd.uses.count--;
  pd.uses.count++;
  Object.assign(record, { pd: inContext(pd, record.pd.device), access });
  if (place !== undefined) {
    const { buffer, offset = 0 } = change.place!;
    const memory = buffer.address + offset;
    Object.assign(record, { address: place.va, memory, length: place.length });
  }
  return undefined;
}

function placeAnew(
  pd: Pd,
  place: NonNullable<Reregistration["place"]>,
  access: number,
): NonNullable<RegionChange["place"]> | VerbError {
  const { buffer, offset = 0, length = buffer.length - offset, iova } = place;
  return checkRegion(pd, buffer, { offset, length, access }) ??
    placeOf(pd.device, { buffer, offset, length, iova, isOnDemand: false });
}

/** Arguments of `adviseMr` (ibv_advise_mr). */
export interface Advice {
  /** The protection domain of the regions. */
  readonly pd: Pd;
  /** The ranges. */
  readonly sges: readonly Sge[];
  /**
   * `prefetch` makes pages present for reading, `prefetchWrite`, which needs local write access, for
   * writing too; `prefetchNoFault` maps only what is in memory.
   */
  readonly advice: "prefetch" | "prefetchWrite" | "prefetchNoFault";
  /** {@link IBV_ADVISE_MR_FLAG_FLUSH}, or none: 0 by default. */
  readonly flags?: AdviseFlags;
}

/**
 * ibv_advise_mr: brings in pages of on-demand regions and maps them for the card, before it asks.
 * Pinned memory needs no advice. ENOENT for an unknown key, EFAULT for a range outside its region,
 * EINVAL for another domain's region, EPERM for write advice on read-only memory.
 */
export function* adviseMr(request: Advice): Steps<VerbError | undefined> {
  const wrong = refuseAdvice(request);
  if (wrong !== undefined) return wrong;
  const { pd: { device: { cpu, state } }, sges, advice, flags = 0 } = request;
  const how = { write: advice === "prefetchWrite", fault: advice !== "prefetchNoFault" };
  const places = sges.flatMap(({ address, length, lkey: key }) => {
    const mr = state.regions.get(key)!;
    const isNeeded = (mr.access & ACCESS.onDemand) !== 0 && length > 0;
    return isNeeded ? [{ key, offset: address - mr.address, length }] : [];
  });
  if (places.length === 0) return undefined;
  const done = cpu.paging!.prefetch(places, how);
  if ((flags & IBV_ADVISE_MR_FLAG_FLUSH) !== 0) yield* cpu.waitSignal(done, NEVER);
  return undefined;
}

function refuseAdvice({ pd, sges, advice }: Advice): VerbError | undefined {
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

function refuseMr({ pd: { device, epoch }, uses, lkey }: Mr): VerbError | undefined {
  const stale = refuseStale(device, epoch);
  if (stale !== undefined || uses.alive) return stale;
  return verbError("EINVAL", `Region ${lkey} is gone already`);
}

/** Deregisters the region: later accesses with its keys are refused. EINVAL the second time. */
export function* deregMr(mr: Mr): Steps<VerbError | undefined> {
  const { device, epoch } = mr.pd;
  const gone = refuseMr(mr);
  if (gone !== undefined) return gone;
  const command = { op: "deregister-mr", key: mr.lkey } as const;
  const reply = inTime(yield* request(device.cpu, "done", command), device, epoch);
  if (failed(reply)) return reply;
  mr.uses.alive = false;
  mr.pd.uses.count--;
  device.state.regions.delete(mr.lkey);
  device.cpu.paging?.forget(mr.lkey);
  return undefined;
}

/** Arguments of `madvise`. */
export interface MemoryAdvice {
  /** From `cpu.allocate`, or `cpu.scm`. */
  readonly buffer: Buffer;
  /** First byte in the buffer; 0 by default. Whole pages count. */
  readonly offset?: number;
  /** Bytes from `offset` on; to the end of the buffer by default. */
  readonly length?: number;
  /**
   * MADV_DONTNEED: the pages' content is lost; they are zeros at the next access. MADV_PAGEOUT: it
   * is kept in slower memory. SCM is only unmapped from the card, with either advice.
   */
  readonly advice: "dontneed" | "pageout";
}

/**
 * madvise: gives up pages of a program's memory; returns at the end. The card stops using a page
 * before its frame is reused. EINVAL where part of it is pinned or lies outside the buffer.
 */
export function* madvise(
  { cpu }: Device,
  { buffer, offset = 0, length = buffer.length - offset, advice }: MemoryAdvice,
): Steps<VerbError | undefined> {
  if (!(offset >= 0) || !(length > 0) || offset + length > buffer.length) {
    const range = `[${offset}, ${offset + length})`;
    return verbError("EINVAL", `${range} must lie in a buffer of ${buffer.length} B`);
  }
  const range = { address: buffer.address + offset, length };
  const { paging } = cpu;
  if (paging === undefined || paging.isPinned(range)) {
    return verbError("EINVAL", "Memory that is registered as pinned stays where it is");
  }
  yield* cpu.waitSignal(paging.take(range, advice === "pageout"), NEVER);
  return undefined;
}

function inContext(pd: Pd, device: Device): Pd {
  return pd.device === device ? pd : { ...pd, device };
}

/** The protection domain with this handle, bound to this context. ENOENT for an unknown handle. */
export function importPd(device: Device, handle: number): Pd | VerbError {
  const pd = device.state.pds.get(handle);
  if (pd === undefined) return verbError("ENOENT", `There is no protection domain ${handle}`);
  return inContext(pd, device);
}

/**
 * The domain's region with this key, bound to the importing context's domain. It is the region
 * itself, not a copy: `reregMr` and `deregMr` of one affect the other.
 */
export function importMr(pd: Pd, lkey: number): Mr | VerbError {
  const mr = pd.device.state.regions.get(lkey);
  if (mr === undefined || mr.pd.handle !== pd.handle) {
    return verbError("ENOENT", `The protection domain has no region ${lkey}`);
  }
  return {
    get pd(): Pd {
      return mr.pd.handle === pd.handle ? pd : inContext(mr.pd, pd.device);
    },
    get address(): number {
      return mr.address;
    },
    get length(): number {
      return mr.length;
    },
    get memory(): number {
      return mr.memory;
    },
    get access(): number {
      return mr.access;
    },
    lkey,
    rkey: mr.rkey,
    uses: mr.uses,
  };
}
