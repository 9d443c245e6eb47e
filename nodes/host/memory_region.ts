/** Protection domains and memory regions: `ibv_alloc_pd`, `ibv_reg_mr` and their opposites. */
import { ACCESS } from "../../fabric/wire/rnic_command.ts";
import {
  type Device,
  expectReply,
  failed,
  refuseStale,
  type VerbError,
  verbError,
} from "./device.ts";
import type { Buffer, Steps } from "./program.ts";

/** ibv_access_flags by name. */
export type Access = keyof typeof ACCESS;

export interface Pd {
  readonly device: Device;
  readonly handle: number;
  readonly epoch: number;
  /** Regions and queue pairs that live in it. */
  readonly uses: { count: number; alive: boolean };
}

export interface Mr {
  readonly pd: Pd;
  /** First byte, in the program's and (as VA) in the peer's view. */
  readonly address: number;
  readonly length: number;
  readonly lkey: number;
  readonly rkey: number;
  /** By {@link ACCESS}'s numbers. */
  readonly access: number;
}

export interface RegionOptions {
  readonly access: readonly Access[];
  /** A part of the buffer; all of it by default. */
  readonly offset?: number;
  readonly length?: number;
}

/** ACCESS bits of the flags named. */
export function accessBits(flags: readonly Access[]): number {
  let bits = 0;
  for (const flag of flags) bits |= ACCESS[flag];
  return bits;
}

export function allocPd(device: Device): Pd {
  const { state } = device;
  return { device, handle: state.nextPd++, epoch: state.epoch, uses: { count: 0, alive: true } };
}

/** EBUSY while a region or queue pair lives in it, EINVAL the second time. */
export function deallocPd(pd: Pd): VerbError | undefined {
  if (!pd.uses.alive) return verbError("EINVAL", "The protection domain is gone already");
  if (pd.uses.count > 0) {
    return verbError("EBUSY", `The protection domain has ${pd.uses.count} users`);
  }
  pd.uses.alive = false;
  return undefined;
}

/** ibv_reg_mr's rules (`rocev2.md` §4.5) and P-22's; undefined where the request obeys them. */
function checkRegion(
  pd: Pd,
  buffer: Buffer,
  region: { readonly offset: number; readonly length: number; readonly access: number },
): VerbError | undefined {
  const { offset, length, access } = region;
  if (!pd.uses.alive) return verbError("EINVAL", "The protection domain is gone");
  if (!(length > 0) || !(offset >= 0) || offset + length > buffer.length) {
    return verbError(
      "EINVAL",
      `Region [${offset}, ${offset + length}) must lie in a buffer of ${buffer.length} B`,
    );
  }
  const remoteChange = ACCESS.remoteWrite | ACCESS.remoteAtomic;
  if ((access & remoteChange) !== 0 && (access & ACCESS.localWrite) === 0) {
    return verbError("EINVAL", "Remote write or atomic access needs local write access");
  }
  if ((access & ACCESS.remoteWritePersistence) !== 0) {
    if ((access & ACCESS.remoteWrite) === 0) {
      return verbError("EINVAL", "Remote write persistence needs remote write access");
    }
    if (!isScm(pd.device, buffer)) {
      return verbError(
        "EINVAL",
        "Remote write persistence is granted on storage class memory only",
      );
    }
  }
  return undefined;
}

function isScm(device: Device, buffer: Buffer): boolean {
  const scm = device.cpu.scm;
  return buffer.address >= scm.address &&
    buffer.address + buffer.length <= scm.address + scm.length;
}

/**
 * Registers (a part of) a buffer at processor and RNIC alike (P-22): page table VA → PA, first VA,
 * length, access flags.
 */
export function* regMr(
  pd: Pd,
  buffer: Buffer,
  options: RegionOptions,
): Steps<Mr | VerbError> {
  const offset = options.offset ?? 0;
  const length = options.length ?? buffer.length - offset;
  const access = accessBits(options.access);
  const wrong = refuseStale(pd.device, pd.epoch) ??
    checkRegion(pd, buffer, { offset, length, access });
  if (wrong !== undefined) return wrong;
  const va = buffer.address + offset;
  const { pageBytes } = buffer;
  const base = buffer.address - buffer.address % pageBytes;
  const first = Math.floor((va - base) / pageBytes);
  const last = Math.floor((va + length - 1 - base) / pageBytes);
  const pages = buffer.pages.slice(first, last + 1);
  const region = { pd: pd.handle, va, length, access, pageBytes, pages };
  const reply = expectReply(
    "register-mr",
    yield* pd.device.cpu.command({ op: "register-mr", region }),
  );
  if (failed(reply)) return reply;
  pd.uses.count++;
  return { pd, address: va, length, lkey: reply.lkey, rkey: reply.rkey, access };
}

/** Takes the region back: later accesses by its keys are refused. */
export function* deregMr(mr: Mr): Steps<VerbError | undefined> {
  const stale = refuseStale(mr.pd.device, mr.pd.epoch);
  if (stale !== undefined) return stale;
  const reply = expectReply(
    "done",
    yield* mr.pd.device.cpu.command({ op: "deregister-mr", key: mr.lkey }),
  );
  if (failed(reply)) return reply;
  mr.pd.uses.count--;
  return undefined;
}
