/**
 * A process of the rack must not outlive whoever started it: killed with `kill -9`, that one takes
 * nobody down. One of the few files of `fabric/` with a timer.
 */

const CHECK_MS = 1_000;

/** The variable in which whoever starts a process tells its number: it may be gone before it is asked. */
export const PARENT_VARIABLE = "RACKMESH_PARENT";

/** Calls `stop` when the process that started this one is gone. Process 1 is never gone. */
export function endWithParent(stop: () => void): void {
  const parent = Number(Deno.env.get(PARENT_VARIABLE) ?? Deno.ppid);
  if (!(parent > 1)) return;
  const timer = setInterval(() => {
    if (Deno.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, CHECK_MS);
}
