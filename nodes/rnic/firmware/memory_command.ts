/** Commands about memory: regions and windows. */
import type { CommandOf, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import { addRegion, changeRegion, checkRegion, findRegion, freeKey } from "../dma/memory_region.ts";
import { addWindow, removeWindow } from "../dma/memory_window.ts";
import { coversQueueInformation, DONE, noSuch, refusal } from "./reply.ts";
import type { Region } from "../state/memory.ts";

export function registerMr(device: Device, { region: plan }: CommandOf<"register-mr">): RnicReply {
  const wrong = checkRegion(plan) ?? checkPlace(device, plan);
  if (wrong !== undefined) return refusal("EINVAL", `Cannot register region as ${wrong}`);
  const region = addRegion(device.regions, plan);
  if (region === undefined) return refusal("ENOMEM", `All ${LIMITS.regions} keys are taken`);
  return { status: "ok", op: "register-mr", lkey: region.key, rkey: region.key };
}

const IN_QUEUE_INFORMATION = "a page of it holds queue information, which no region may cover";

function checkPlace(
  device: Device,
  { pages, pageBytes: length }: { readonly pages: readonly number[]; readonly pageBytes: number },
): string | undefined {
  const covers = pages.some((address) => coversQueueInformation(device, { address, length }));
  return covers ? IN_QUEUE_INFORMATION : undefined;
}

/** The region of a key that no window is bound to (rxe: EINVAL), or the refusal. */
function freeRegion(device: Device, key: number): Region | RnicReply {
  const region = findRegion(device.regions, key);
  if (region === undefined || region.window !== undefined) return noSuch("region", key);
  if (region.windows === 0) return region;
  return refusal("EINVAL", `${region.windows} memory windows are bound to region ${key}`);
}

export function reregisterMr(
  device: Device,
  { key, change }: CommandOf<"reregister-mr">,
): RnicReply {
  const region = freeRegion(device, key);
  if ("status" in region) return region;
  const wrong = (change.place && checkPlace(device, change.place)) ??
    changeRegion(device.regions, region, change);
  return wrong === undefined ? DONE : refusal("EINVAL", `Cannot register region as ${wrong}`);
}

export function deregisterMr(device: Device, { key }: CommandOf<"deregister-mr">): RnicReply {
  const region = freeRegion(device, key);
  if ("status" in region) return region;
  // Nothing that is under way touches its memory any more.
  region.alive = false;
  freeKey(device.regions, key);
  return DONE;
}

export function allocateMw(device: Device, { type, pd }: CommandOf<"allocate-mw">): RnicReply {
  const window = addWindow(device.regions, { type, pd });
  if (window === undefined) return refusal("ENOMEM", `All ${LIMITS.regions} keys are taken`);
  return { status: "ok", op: "allocate-mw", rkey: window.key };
}

/** By its index: the key may have changed on the data path since the driver last looked. */
export function deallocateMw(device: Device, { rkey }: CommandOf<"deallocate-mw">): RnicReply {
  const window = device.regions.windows.get(rkey >>> 8);
  if (window === undefined) return noSuch("memory window", rkey);
  removeWindow(device.regions, window);
  return DONE;
}
