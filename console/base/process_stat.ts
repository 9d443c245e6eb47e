/** Fields of `/proc/PID/stat` (`man 5 proc_pid_stat`). */

/**
 * Linux reports times of processes in hundredths of a second, whatever its own clock does
 * (`USER_HZ`).
 */
const TICK_MS = 10;
/** Places in the result of {@link statOf}: fields 3, 14 and 15. */
const STATE = 0, UTIME = 11, STIME = 12;

/** From the state, field 3, on; undefined where the process has ended. */
export function statOf(pid: number): readonly string[] | undefined {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    // The name before the state stands in brackets and may hold anything.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch (error) {
    // Without this check, a missing permission would look like a missing process.
    if (error instanceof Deno.errors.NotCapable) throw error;
    return undefined;
  }
}

/**
 * Of all threads, which a busy machine does not make longer; undefined where the process has ended.
 */
export function processorMs(pid: number): number | undefined {
  const fields = statOf(pid);
  return fields && (Number(fields[UTIME]) + Number(fields[STIME])) * TICK_MS;
}

/**
 * The main thread waits for something other than the processor or a disk; false where it has ended
 * or is stopped.
 */
export function isAsleep(pid: number): boolean {
  return statOf(pid)?.[STATE] === "S";
}

/**
 * Whatever the command line: a process that has just been started has none for a while. A zombie
 * has ended.
 */
export function isAlive(pid: number | null): boolean {
  const state = pid === null ? undefined : statOf(pid)?.[STATE];
  return state !== undefined && !/[ZX]/.test(state);
}
