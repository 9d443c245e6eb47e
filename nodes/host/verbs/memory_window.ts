/**
 * Memory windows (`rocev2.md` §4.5): a key for a part of a region, without the firmware: binding is
 * a work request. Type 2 is bound by a post of `bind-mw` and invalidated by `local-invalidate` or a
 * peer's `send-invalidate`; type 1 by {@link bindMw}.
 */
import { refuseAccess, type WindowType } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { BindOperands } from "../../../fabric/wire/host_bus/wqe.ts";
import { failed, perform, refusePd, refuseStale, request, verbError } from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import type { Mw, MwBind, Pd, Qp, VerbError } from "./objects.ts";

/** The key with its variant (the low byte) incremented. */
export function incRkey(rkey: number): number {
  return ((rkey & ~0xff) | ((rkey + 1) & 0xff)) >>> 0;
}

/** ibv_alloc_mw: creates an unbound window. EINVAL for an unknown type. */
export function* allocMw(pd: Pd, type: WindowType): Steps<Mw | VerbError> {
  const gone = refusePd(pd);
  if (gone !== undefined) return gone;
  if (type !== 1 && type !== 2) {
    return verbError("EINVAL", `A window's type is 1 or 2: found ${JSON.stringify(type)}`);
  }
  const command = { op: "allocate-mw", type, pd: pd.handle } as const;
  const reply = yield* request(pd.device.cpu, "allocate-mw", command);
  if (failed(reply)) return reply;
  pd.uses.count++;
  const mw: Mw = { pd, type, rkey: reply.rkey, uses: { alive: true } };
  pd.device.state.windows.set(mw.uses, mw);
  return mw;
}

/** Deallocates the window, bound or not: its key becomes invalid. EINVAL the second time. */
export function* deallocMw(mw: Mw): Steps<VerbError | undefined> {
  const { device, epoch } = mw.pd;
  if (!mw.uses.alive) return verbError("EINVAL", "The memory window is gone already");
  const stale = refuseStale(device, epoch);
  if (stale !== undefined) return stale;
  // The card may reuse its index as soon as it has the command.
  mw.uses.alive = false;
  const wrong = yield* perform(device.cpu, { op: "deallocate-mw", rkey: mw.rkey });
  if (wrong !== undefined) {
    mw.uses.alive = true;
    return wrong;
  }
  device.state.windows.delete(mw.uses);
  mw.pd.uses.count--;
  return undefined;
}

/** @returns why the bind cannot be posted; the RNIC checks the rest (MW_BIND_ERR). */
export function refuseBind({ device: { state } }: Qp, bind: MwBind): string | undefined {
  const { mw, mr, rkey, access } = bind;
  const { device, epoch } = mw.pd;
  if (device.state !== state || mr.pd.device.state !== state) {
    return "The memory window or the region is of another card";
  }
  if (!mw.uses.alive || refuseStale(device, epoch)) return "The memory window is gone";
  const wrong = refuseAccess(access);
  if (wrong !== undefined) return wrong;
  return rkey >>> 8 === mw.rkey >>> 8 ? undefined : "A window's key keeps its index";
}

export function bindOperands({ rkey, mr, offset = 0, length, access }: MwBind): BindOperands {
  return {
    rkey,
    lkey: mr.lkey,
    va: BigInt(mr.address) + BigInt(offset),
    length: length ?? mr.length - offset,
    access,
  };
}
