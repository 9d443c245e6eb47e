import type { CommandOf, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import { ACCESS, type RegionPlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  addNullRegion,
  addRegion,
  changeRegion,
  checkRegion,
  findRegion,
  freeKey,
  pageCount,
} from "../dma/memory_region.ts";
import { addWindow, removeWindow } from "../dma/memory_window.ts";
import { resumeMapped } from "../paging/memory_waits.ts";
import { mapPages, refusePages, unmapPages } from "../paging/page_requests.ts";
import { dropTable, holdTable, memoryNeeded } from "../paging/translation_cache.ts";
import { ENTRIES_PER_LINE } from "../state/translation_table.ts";
import { coversQueueInformation } from "../queues/queue_information.ts";
import { relocateReadBacks } from "../verify/read_back.ts";
import { DONE, noSuch, refusal } from "../state/reply.ts";
import type { Region } from "../state/memory.ts";

export function registerMr(device: Device, { region: plan }: CommandOf<"register-mr">): RnicReply {
  const wrong = checkRegion(plan) ?? checkPlace(device, plan);
  if (wrong !== undefined) return refusal("EINVAL", `Cannot register region as ${wrong}`);
  const wanting = wantedMemory(device, plan);
  if (wanting !== undefined) return wanting;
  const region = addRegion(device.regions, plan);
  if (region === undefined) return refusal("ENOMEM", `All ${LIMITS.regions} keys are taken`);
  holdTable(device, region.table);
  return { status: "ok", op: "register-mr", lkey: region.key, rkey: region.key };
}

export function allocateNullMr(device: Device, { pd }: CommandOf<"allocate-null-mr">): RnicReply {
  const region = addNullRegion(device.regions, pd);
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

function wantedMemory({ paging }: Device, place: NonNullable<RegionPlace>): RnicReply | undefined {
  const bytes = memoryNeeded(paging, Math.ceil(pageCount(place) / ENTRIES_PER_LINE));
  return bytes === 0 ? undefined : { status: "ok", op: "memory-needed", bytes };
}

type RegionPlace = RegionPlan | CommandOf<"reregister-mr">["change"]["place"];

export function giveMemory(
  { paging: { memory } }: Device,
  { address, length }: CommandOf<"give-memory">,
): RnicReply {
  memory.next = address;
  memory.end = address + length;
  return DONE;
}

/**
 * @returns the region, or the refusal; also while a window is bound to it (rxe: EINVAL).
 */
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
  if (region.isNull) {
    return refusal("EINVAL", `Region ${key} is null: it cannot be registered anew`);
  }
  const { place } = change;
  if (place !== undefined && place.length > 0 && place.pageBytes > 0) {
    const wanting = wantedMemory(device, place);
    if (wanting !== undefined) return wanting;
  }
  const wrong = (place && checkPlace(device, place)) ??
    changeRegion(device.regions, region, change);
  if (wrong !== undefined) return refusal("EINVAL", `Cannot register region as ${wrong}`);
  if (place !== undefined) {
    dropTable(device, region.table);
    holdTable(device, findRegion(device.regions, key)!.table);
  }
  resumeMapped(device);
  return DONE;
}

export function deregisterMr(device: Device, { key }: CommandOf<"deregister-mr">): RnicReply {
  const region = freeRegion(device, key);
  if ("status" in region) return region;
  region.alive = false;
  freeKey(device.regions, key);
  dropTable(device, region.table);
  // Waiting accesses fail as late ones do.
  resumeMapped(device);
  return DONE;
}

function pagedRegion(
  device: Device,
  { key, first, count }: { readonly key: number; readonly first: number; readonly count: number },
): Region | RnicReply {
  const region = findRegion(device.regions, key);
  if (region === undefined || region.window !== undefined) return noSuch("region", key);
  if ((region.access & ACCESS.onDemand) === 0) {
    return refusal("EINVAL", `Region ${key} is pinned: its pages neither come nor go`);
  }
  if (count > 0 && first + count <= region.pages.length) return region;
  const range = `[${first}, ${first + count})`;
  return refusal("EINVAL", `Pages ${range} must be of the region's ${region.pages.length}`);
}

export function mapPagesOf(device: Device, command: CommandOf<"map-pages">): RnicReply {
  const { key, first, pages, writable } = command;
  const region = pagedRegion(device, { key, first, count: pages.length });
  if ("status" in region) return region;
  if (writable && (region.access & ACCESS.localWrite) === 0) {
    return refusal("EINVAL", `Region ${key} cannot be written, neither can its pages`);
  }
  const wrong = checkPlace(device, { pages, pageBytes: region.pageBytes });
  if (wrong !== undefined) {
    refusePages(device, region, { first, count: pages.length });
    return refusal("EINVAL", `Cannot map pages of region ${key} as ${wrong}`);
  }
  mapPages(device, region, { first, pages, writable });
  relocateReadBacks(device, region.table);
  return DONE;
}

/** The answer is "later" until no access is under way. */
export function invalidatePages(
  device: Device,
  command: CommandOf<"invalidate-pages">,
  id: number,
): RnicReply | "later" {
  const region = pagedRegion(device, command);
  if ("status" in region) return region;
  const frames = unmapPages(device, region, command);
  const { table, pageBytes } = region;
  relocateReadBacks(device, table);
  device.paging.invalidations.push({ id, frames, pageBytes });
  return "later";
}

export function allocateMw(device: Device, { type, pd }: CommandOf<"allocate-mw">): RnicReply {
  const window = addWindow(device.regions, { type, pd });
  if (window === undefined) return refusal("ENOMEM", `All ${LIMITS.regions} keys are taken`);
  return { status: "ok", op: "allocate-mw", rkey: window.key };
}

/** The key may have changed on the data path since the driver last looked. */
export function deallocateMw(device: Device, { rkey }: CommandOf<"deallocate-mw">): RnicReply {
  const window = device.regions.windows.get(rkey >>> 8);
  if (window === undefined) return noSuch("memory window", rkey);
  removeWindow(device.regions, window);
  return DONE;
}
