/** The processor time of another process, which a busy machine does not make longer. */

/** Linux tells times of processes in hundredths of a second, whatever its own clock does (`USER_HZ`). */
const TICK_MS = 10;
/** `man 5 proc_pid_stat`: fields 14 and 15, counted behind the name in parentheses, which is field 2. */
const UTIME = 11, STIME = 12;

/** What all threads of a process have used, in ms; undefined where it has ended. */
export function processorMs(pid: number): number | undefined {
  let text: string;
  try {
    text = Deno.readTextFileSync(`/proc/${pid}/stat`);
  } catch {
    return undefined;
  }
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[UTIME]) + Number(fields[STIME])) * TICK_MS;
}
