/**
 * Further contexts of one RNIC, and what they share: `ibv_open_device` once more, `ibv_import_pd`,
 * `ibv_import_mr`. Contexts differ in their privileges and in who holds an object; the objects are the
 * RNIC's, so keys are the same in all of them. The emulator's programs have one address space, so there
 * is no file descriptor to hand over: handles are enough.
 */
import { type Device, type VerbError, verbError } from "./device.ts";
import type { Mr, Pd } from "./memory_region.ts";

/** Another context on the device, over the same core, without privileges that the first may have. */
export function openContext(device: Device): Device {
  return { cpu: device.cpu, state: device.state, verbs: device.verbs };
}

/** The protection domain with this handle, as this context's. ENOENT where there is none. */
export function importPd(device: Device, handle: number): Pd | VerbError {
  const pd = device.state.pds.get(handle);
  if (pd === undefined) return verbError("ENOENT", `There is no protection domain ${handle}`);
  return { ...pd, device };
}

/** The domain's region with this key, as that of the importing context's domain. */
export function importMr(pd: Pd, lkey: number): Mr | VerbError {
  const mr = pd.device.state.regions.get(lkey);
  if (mr === undefined || mr.pd.handle !== pd.handle) {
    return verbError("ENOENT", `The protection domain has no region ${lkey}`);
  }
  return { ...mr, pd };
}
