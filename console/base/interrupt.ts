/** Ctrl-C and `kill` of a command take down what it has started, once. */
import { say } from "./output.ts";

interface Cleanup {
  readonly run: () => Promise<unknown>;
  readonly says: string;
}

const cleanups = new Map<string, Cleanup>();
let listening = false;

/**
 * Registers what to do when the command is interrupted, in place of the last one of that name. To be
 * called before there is anything to take down: what is started a moment after a signal would be left.
 */
export function onInterrupt(
  name: string,
  run: () => Promise<unknown>,
  options: { readonly says?: string } = {},
): void {
  cleanups.set(name, { run, says: options.says ?? "taking the rack down" });
  if (listening) return;
  listening = true;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => void takeDown(signal));
  }
}

let going = false;

async function takeDown(signal: Deno.Signal): Promise<void> {
  if (going) return;
  going = true;
  const says = new Set([...cleanups.values()].map((cleanup) => cleanup.says));
  say(`${signal}: ${[...says].join(", ")}`);
  // The last first: a rack needs its broker to the end. What is registered meanwhile has its turn.
  for (let name; (name = [...cleanups.keys()].at(-1)) !== undefined;) {
    const { run } = cleanups.get(name)!;
    cleanups.delete(name);
    await run().catch((error) => say(String(error)));
  }
  Deno.exit(signal === "SIGINT" ? 130 : 143);
}

/** Whether an interruption is under way. */
export function isInterrupted(): boolean {
  return going;
}

/**
 * Returns at once, but never where an interruption is under way: what it takes down lets the command
 * fail, and the interruption has the last word.
 */
export async function unlessInterrupted(): Promise<void> {
  if (going) await new Promise(() => {});
}
