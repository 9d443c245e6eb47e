/** Brings what a run has left on other machines into its folder on this one. */
import { filesVerb, USERS } from "../../../fabric/bus/access.ts";
import type { Bus } from "../../../fabric/bus/bus.ts";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { forEachAtOnce } from "../../base/at_once.ts";
import { RackError } from "../../base/rack_error.ts";
import { RemoteFiles, type RemoteOptions } from "./remote_files.ts";

export interface CollectOptions extends Pick<RemoteOptions, "signal" | "goneMs" | "isShared"> {
  readonly runFile: Pick<RunFile, "run" | "partitions" | "elsewhere">;
  readonly directory: string;
  /** Of the files' paths below the run's directory; default: all. */
  readonly wants?: (name: string) => boolean;
  readonly onProgress?: (title: string, share: number) => void;
}

/** The timekeeper's record, of which a kept run is replayed. @throws RackError */
export async function collectRecord(
  bus: Bus,
  { runFile: { run }, directory, wants, ...options }: CollectOptions,
): Promise<void> {
  const owner = `the timekeeper of ${run}`, verb = filesVerb(USERS.timekeeper);
  const files = new RemoteFiles(bus, { ...options, run, verb, owner });
  await files.mirror(directory, wants && { wants });
}

const AT_ONCE = 4;

/** Who has what the devices leave: their parents, and the supervisor of all others. */
export function sourcesOf({ partitions, elsewhere = [] }: CollectOptions["runFile"]): string[] {
  return elsewhere.length < partitions.length ? [...elsewhere, USERS.supervisor] : [...elsewhere];
}

/**
 * SCM, records, logs and outputs of the devices whose parents are elsewhere.
 * @throws RackError that names each device of which something is missing, when all others are here.
 */
export async function collectDevices(bus: Bus, options: CollectOptions): Promise<void> {
  await collectFiles(bus, { ...options, sources: options.runFile.elsewhere ?? [] });
}

/** @param options.sources users of `access.ts` who serve files. @throws as {@link collectDevices} */
export async function collectFiles(
  bus: Bus,
  { runFile: { run }, directory, sources, wants, onProgress, ...options }: CollectOptions & {
    readonly sources: readonly string[];
  },
): Promise<void> {
  const problems: string[] = [];
  let done = 0;
  await forEachAtOnce(sources, async (name) => {
    const files = new RemoteFiles(bus, { ...options, run, verb: filesVerb(name), owner: name });
    try {
      await files.mirror(directory, wants && { wants });
    } catch (error) {
      if (!(error instanceof RackError)) throw error;
      problems.push(error.message);
    }
    onProgress?.(`${run}: files of ${name}`, ++done / sources.length);
  }, { atOnce: AT_ONCE });
  if (problems.length > 0) throw new RackError(problems.sort().join("\n"));
}
