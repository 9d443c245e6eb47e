/**
 * The process table of a running rack. A process number is trusted only if its process was started
 * for that very directory.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { jsonIfThere, writeWhole } from "../base/files.ts";

export interface ProcessEntry {
  readonly name: string;
  readonly kind: "supervisor" | "nats" | "timekeeper" | "partition";
  readonly pid: number | null;
  readonly nodes: readonly string[];
}

const FILE = "processes.json";

/** Atomic: a reader never sees a part of the table. */
export function writeProcesses(directory: string, entries: readonly ProcessEntry[]): void {
  writeWhole(`${directory}/${FILE}`, JSON.stringify(entries, null, 1));
}

/** Empty where there is no table. @throws DamagedFileError */
export function readProcesses(directory: string): ProcessEntry[] {
  return jsonIfThere<ProcessEntry[]>(`${directory}/${FILE}`, Array.isArray) ?? [];
}

export interface FoundProcess {
  readonly pid: number;
  readonly kind: ProcessEntry["kind"];
  readonly directory: string;
}

const MODULES: readonly (readonly [suffix: string, kind: ProcessEntry["kind"]])[] = [
  ["/console/rack/supervise.ts", "supervisor"],
  ["/fabric/clock/timekeeper_main.ts", "timekeeper"],
  ["/nodes/main.ts", "partition"],
];

/** On this machine, started for a directory below `folder`. */
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

function wordsOf(pid: number): string[] {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
  } catch (error) {
    // Without this check, a missing permission would look like a missing process.
    if (error instanceof Deno.errors.NotCapable) throw error;
    // It has ended or is ending.
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

/** Resident memory; 0 where the process has ended. */
export function residentBytes(pid: number): number {
  try {
    const match = /^VmRSS:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Memory with its part of shared memory; 0 where the process has ended. */
export function proportionalBytes(pid: number): number {
  try {
    const match = /^Pss:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/smaps_rollup`));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** False: the process has ended. */
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
 * SIGTERM to all, SIGKILL to those that remain after `graceMs`; returns their number when all have
 * ended.
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
