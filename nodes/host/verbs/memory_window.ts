/**
 * Memory windows: `ibv_alloc_mw`, `ibv_bind_mw`, `ibv_inc_rkey`, `ibv_dealloc_mw` (`rocev2.md` §4.5). A
 * window gives a part of a region away under a key of its own, without the firmware: binding is a work
 * request. Type 2 is bound by a post of `bind-mw` and taken back by `local-invalidate` or a peer's
 * `send-invalidate`; type 1 by {@link bindMw}.
 */
import { refuseAccess, type WindowType } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { BindOperands } from "../../../fabric/wire/host_bus/wqe.ts";
import { expectReply, failed, refuseStale, type VerbError, verbError } from "./device.ts";
import { type Access, accessBits, type Mr, type Pd } from "./memory_region.ts";
import { type PostError, postSend } from "./post.ts";
import type { Steps } from "../cpu/program.ts";
import type { Qp } from "./queue_pair.ts";

export interface Mw {
  readonly pd: Pd;
  readonly type: WindowType;
  /** Of the newest binding; what is posted to bind it has changed it at once. */
  rkey: number;
  readonly uses: { alive: boolean };
}

/** ibv_mw_bind_info: which part of a region, and what a peer may do there. */
export interface MwBindInfo {
  readonly mr: Mr;
  /** Within the region; its beginning by default. */
  readonly offset?: number;
  /** Bytes; up to the region's end by default. 0 unbinds a window of type 1. */
  readonly length?: number;
  /** Remote rights; `zeroBased`: the window's addresses count from 0 (type 2). */
  readonly access: readonly Access[];
}

/** What a `bind-mw` request binds: window, key (its index with another variant), range. */
export interface MwBind extends MwBindInfo {
  readonly mw: Mw;
  readonly rkey: number;
}

/** The key with its variant, the low byte, one further. */
export function incRkey(rkey: number): number {
  return ((rkey & ~0xff) | ((rkey + 1) & 0xff)) >>> 0;
}

/** Makes a window that is not bound. */
export function* allocMw(pd: Pd, type: WindowType): Steps<Mw | VerbError> {
  const stale = refuseStale(pd.device, pd.epoch);
  if (stale !== undefined) return stale;
  if (!pd.uses.alive) return verbError("EINVAL", "The protection domain is gone");
  const reply = expectReply(
    "allocate-mw",
    yield* pd.device.cpu.command({ op: "allocate-mw", type, pd: pd.handle }),
  );
  if (failed(reply)) return reply;
  pd.uses.count++;
  return { pd, type, rkey: reply.rkey, uses: { alive: true } };
}

/** Takes the window back, bound or not: its key opens nothing any more. EINVAL the second time. */
export function* deallocMw(mw: Mw): Steps<VerbError | undefined> {
  const { device, epoch } = mw.pd;
  if (!mw.uses.alive) return verbError("EINVAL", "The memory window is gone already");
  const stale = refuseStale(device, epoch);
  if (stale !== undefined) return stale;
  const { rkey } = mw;
  const reply = expectReply("done", yield* device.cpu.command({ op: "deallocate-mw", rkey }));
  if (failed(reply)) return reply;
  mw.uses.alive = false;
  mw.pd.uses.count--;
  return undefined;
}

/** Why a bind cannot be posted; the rest is the RNIC's to find (MW_BIND_ERR). */
export function refuseBind(bind: MwBind): string | undefined {
  const { mw, rkey, access } = bind;
  const { device, epoch } = mw.pd;
  if (!mw.uses.alive || refuseStale(device, epoch)) return "The memory window is gone";
  const wrong = refuseAccess(accessBits(access));
  if (wrong !== undefined) return wrong;
  return rkey >>> 8 === mw.rkey >>> 8 ? undefined : "A window's key keeps its index";
}

/** The WQE's operands. */
export function bindOperands({ rkey, mr, offset = 0, length, access }: MwBind): BindOperands {
  return {
    rkey,
    lkey: mr.lkey,
    va: BigInt(mr.address) + BigInt(offset),
    length: length ?? mr.length - offset,
    access: accessBits(access),
  };
}

export interface BindOptions extends MwBindInfo {
  readonly wrId?: number;
  readonly signaled?: boolean;
}

/**
 * Binds a window of type 1 under a new key, or to nothing (`length` 0), by a work request of the queue
 * pair: the key is good for what is posted afterwards. EINVAL for a window of type 2.
 */
export function* bindMw(qp: Qp, mw: Mw, options: BindOptions): Steps<PostError | undefined> {
  if (mw.type !== 1) return { ...verbError("EINVAL", "Type 2 is bound by a post"), bad: 0 };
  const { wrId = 0, signaled = true, ...info } = options;
  const bind = { ...info, mw, rkey: incRkey(mw.rkey) };
  return yield* postSend(qp, { opcode: "bind-mw", wrId, signaled, bind });
}
