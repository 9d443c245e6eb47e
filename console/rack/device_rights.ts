/**
 * The rights of a device's process, as flags of Deno. It gives most of them up before it loads a
 * user's program (`giveUpRights` of `nodes/files.ts`).
 */
import { DEVICE_WRITES, LANE_WRITES } from "../../nodes/files.ts";
import { NATIVE_FOLDER } from "../../nodes/native_ports.ts";
import { RECORDED_FOLDER } from "../../nodes/native_records.ts";
import { v8Flags } from "../base/v8_flags.ts";

/** One device allocates little: the small young generation saves 4 MB per process. */
export const SMALL_HEAP = "--max-semi-space-size=1";

const LANES_HEAP = "--max-semi-space-size=8";

/**
 * What a process with native programs may do besides: a shell makes their pipes and starts them, so it may do what
 * the user may.
 */
export const NATIVE_RIGHTS = {
  writes: [NATIVE_FOLDER, RECORDED_FOLDER],
  flags: ["--allow-run=sh"],
} as const;

/** In a run's directory, what devices leave there: others may read it over the bus. */
export const LEFT_BY_DEVICES: readonly string[] = [...LANE_WRITES, ...NATIVE_RIGHTS.writes]
  // Of all hosts, for the chaos test.
  .filter((part) => part !== "settled.jsonl");

/**
 * @param hosts `host:port` of each server of the bus.
 * @param options.directory of the run; the process runs in it where it is absent.
 * @param options.isNative one of its hosts has native programs.
 */
export function deviceRights(
  hosts: readonly string[],
  { directory = ".", isNative = false }: {
    readonly directory?: string;
    readonly isNative?: boolean;
  } = {},
): string[] {
  return rightsTo(hosts, {
    heap: SMALL_HEAP,
    writes: pathsIn(directory, writesOf(DEVICE_WRITES, isNative)),
    isNative,
  });
}

function writesOf(writes: readonly string[], isNative: boolean): readonly string[] {
  return isNative ? [...writes, ...NATIVE_RIGHTS.writes] : writes;
}

/**
 * Rights of a process with several racks.
 * @param hosts `host:port` of each server of the bus.
 * @param options.directories of the racks, below that in which the process runs.
 * @param options.isNative see {@link deviceRights}.
 */
export function laneRights(
  hosts: readonly string[],
  { directories, isNative = false }: {
    readonly directories: readonly string[];
    readonly isNative?: boolean;
  },
): string[] {
  const parts = writesOf(LANE_WRITES, isNative);
  const writes = directories.flatMap((directory) => pathsIn(directory, parts));
  return rightsTo(hosts, { heap: LANES_HEAP, writes, isNative });
}

function pathsIn(directory: string, parts: readonly string[]): string[] {
  return parts.map((part) => `${directory}/${part}`);
}

function rightsTo(
  hosts: readonly string[],
  { heap, writes, isNative }: {
    readonly heap: string;
    readonly writes: readonly string[];
    readonly isNative: boolean;
  },
): string[] {
  return [
    v8Flags(heap),
    "--cached-only",
    "--deny-import",
    `--allow-net=${hosts.join(",")}`,
    "--allow-read",
    `--allow-write=${writes.join(",")}`,
    "--allow-env",
    "--allow-sys",
    ...(isNative ? NATIVE_RIGHTS.flags : []),
  ];
}
