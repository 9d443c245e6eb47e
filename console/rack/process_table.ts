/**
 * The process table of a running rack, a file in its run directory. Commands use it to list
 * processes, and to end them where the supervisor has ended. A process number is trusted only if
 * its process was started for that very directory.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { jsonIfThere, writeWhole } from "../base/files.ts";

export interface ProcessEntry {
  readonly name: string;
  readonly kind: "supervisor" | "nats" | "timekeeper" | "partition";
  /** Null while it has no process. */
  readonly pid: number | null;
  readonly nodes: readonly string[];
}

const FILE = "processes.json";

/** Writes the table atomically, so that a reader never sees a part of it. */
export function writeProcesses(directory: string, entries: readonly ProcessEntry[]): void {
  writeWhole(`${directory}/${FILE}`, JSON.stringify(entries, null, 1));
}

/** The last written table; empty where there is none. @throws DamagedFileError */
export function readProcesses(directory: string): ProcessEntry[] {
  return jsonIfThere<ProcessEntry[]>(`${directory}/${FILE}`, Array.isArray) ?? [];
}

/** A process of a run, as its command line says. */
export interface FoundProcess {
  readonly pid: number;
  readonly kind: ProcessEntry["kind"];
  /** The directory of its run, or of a variant of it; it may have been deleted. */
  readonly directory: string;
}

const MODULES: readonly (readonly [suffix: string, kind: ProcessEntry["kind"]])[] = [
  ["/console/rack/supervise.ts", "supervisor"],
  ["/fabric/clock/timekeeper_main.ts", "timekeeper"],
  ["/nodes/main.ts", "partition"],
];

/** All processes on this machine that were started for a directory below `folder`. */
export function findProcesses(folder: string): FoundProcess[] {
  const found: FoundProcess[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const words = wordsOf(Number(name));
    const at = words.findIndex((word) => word.startsWith(`${folder}/`));
    const file = words[at] ?? "", before = words[at - 1] ?? "";
    const kind = file.endsWith("/nats-server.conf") && before === "-c"
      ? "nats"
      : file.endsWith("/run.json")
      ? MODULES.find(([suffix]) => before.endsWith(suffix))?.[1]
      : undefined;
    if (kind === undefined) continue;
    found.push({ pid: Number(name), kind, directory: file.slice(0, file.lastIndexOf("/")) });
  }
  return found;
}

/** The command line of a process; empty where it has ended. */
function wordsOf(pid: number): string[] {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
  } catch (error) {
    // Without this check, a missing permission would look like a missing process.
    if (error instanceof Deno.errors.NotCapable) throw error;
    // The process has ended or is ending.
    return [];
  }
}

/** The process exists and was started for this run directory. */
export function isProcessOf(directory: string, pid: number | null): boolean {
  if (pid === null) return false;
  const words = wordsOf(pid);
  return words.includes(`${directory}/run.json`) ||
    words.includes(`${directory}/nats-server.conf`);
}

/** Resident memory in bytes; 0 where the process has ended. */
export function residentBytes(pid: number): number {
  try {
    const match = /^VmRSS:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Memory in bytes, with its part of shared memory; 0 where the process has ended. */
export function proportionalBytes(pid: number): number {
  try {
    const match = /^Pss:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/smaps_rollup`));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Sends a signal to a process of this run. @returns false where it has ended. */
export function signalProcess(
  directory: string,
  pid: number | null,
  signal: Deno.Signal = "SIGKILL",
): boolean {
  if (!isProcessOf(directory, pid)) return false;
  try {
    Deno.kill(pid!, signal);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

const LOOK_AGAIN_MS = 20;

/**
 * Sends SIGTERM to all, SIGKILL to those that remain after `graceMs`; returns when all have ended.
 * @returns how many there were.
 */
export async function endProcesses(
  directory: string,
  options: {
    readonly entries: readonly { readonly pid: number | null }[];
    readonly graceMs: number;
  },
): Promise<number> {
  const pids = options.entries.map(({ pid }) => pid).filter((pid) => isProcessOf(directory, pid));
  for (const pid of pids) signalProcess(directory, pid, "SIGTERM");
  const deadline = Date.now() + options.graceMs;
  let left = pids;
  while (left.length > 0) {
    if (Date.now() >= deadline) { for (const pid of left) signalProcess(directory, pid); }
    await sleep(LOOK_AGAIN_MS);
    left = left.filter((pid) => isProcessOf(directory, pid));
  }
  return pids.length;
}
