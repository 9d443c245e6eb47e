/**
 * The rights of a device's process, as flags of Deno. It gives most of them up before it loads a
 * user's program (`giveUpRights` of `nodes/files.ts`).
 */
import { DEVICE_WRITES, LANE_WRITES } from "../../nodes/files.ts";
import { v8Flags } from "../base/v8_flags.ts";

const BUS_PORT = 4222;

/** One device allocates little: the small young generation saves 4 MB per process. */
export const SMALL_HEAP = "--max-semi-space-size=1";

const LANES_HEAP = "--max-semi-space-size=8";

/**
 * @param url of the bus.
 * @param directory of the run; default: the process runs in it.
 */
export function deviceRights(url: string, directory = "."): string[] {
  return rightsTo(url, { heap: SMALL_HEAP, writes: pathsIn(directory, DEVICE_WRITES) });
}

/**
 * Rights of a process with several racks.
 * @param url of the bus.
 * @param directories of the racks, below that in which the process runs.
 */
export function laneRights(url: string, directories: readonly string[]): string[] {
  const writes = directories.flatMap((directory) => pathsIn(directory, LANE_WRITES));
  return rightsTo(url, { heap: LANES_HEAP, writes });
}

function pathsIn(directory: string, parts: readonly string[]): string[] {
  return parts.map((part) => `${directory}/${part}`);
}

function rightsTo(
  url: string,
  { heap, writes }: { readonly heap: string; readonly writes: readonly string[] },
): string[] {
  // URL knows host and port of this scheme.
  const { hostname, port } = new URL(url.replace(/^\w+:/, "http:"));
  return [
    v8Flags(heap),
    "--cached-only",
    "--deny-import",
    `--allow-net=${hostname}:${port || BUS_PORT}`,
    "--allow-read",
    `--allow-write=${writes.join(",")}`,
    "--allow-env",
    "--allow-sys",
  ];
}
