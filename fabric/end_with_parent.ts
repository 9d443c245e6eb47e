/**
 * Ends a process of the rack when its parent process has ended: a parent that is killed with `kill
 * -9` cannot end its children. One of the few files of `fabric/` with a timer.
 */

const CHECK_MS = 1_000;

/**
 * The variable with the parent's process number: at the child's start the parent may already have
 * ended.
 */
export const PARENT_VARIABLE = "RACKMESH_PARENT";

/** Calls `stop` when the parent process has ended. Process 1 never ends. */
export function endWithParent(stop: () => void): void {
  const parent = Number(Deno.env.get(PARENT_VARIABLE) ?? Deno.ppid);
  if (!(parent > 1)) return;
  const timer = setInterval(() => {
    if (Deno.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, CHECK_MS);
}
