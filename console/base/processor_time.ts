/** What another process does with a processor: its time, which a busy machine does not make longer. */

/** Linux tells times of processes in hundredths of a second, whatever its own clock does (`USER_HZ`). */
const TICK_MS = 10;
/** `man 5 proc_pid_stat`: fields 14 and 15, counted behind the name in parentheses, which is field 2. */
const UTIME = 11, STIME = 12;

/** Field 3. */
const STATE = 0;

/** What all threads of a process have used, in ms; undefined where it has ended. */
export function processorMs(pid: number): number | undefined {
  const fields = fieldsOf(pid);
  return fields && (Number(fields[UTIME]) + Number(fields[STIME])) * TICK_MS;
}

/** Whether the main thread waits for something but the processor or a disk; false where the process has ended or is stopped. */
export function isAsleep(pid: number): boolean {
  return fieldsOf(pid)?.[STATE] === "S";
}

/** From the state on; undefined where the process has ended, or may not be looked at. */
function fieldsOf(pid: number): readonly string[] | undefined {
  try {
    const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}
