/** Ctrl-C and `kill` of a command end its processes, once. */
import { say } from "./output.ts";

const controller = new AbortController();
let message = "";
let signalled: Deno.Signal | undefined;

/**
 * Aborted by an interrupt; from this call on, an interrupt does not end the process by itself.
 * Called before anything is started.
 * @param text the message on an interrupt; the last call's is used.
 */
export function onInterrupt(text: string): AbortSignal {
  if (message === "") {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      Deno.addSignalListener(signal, () => interrupt(signal));
    }
  }
  message = text;
  return controller.signal;
}

function interrupt(signal: Deno.Signal): void {
  if (signalled !== undefined) return;
  signalled = signal;
  say(`${signal}: ${message}`);
  controller.abort();
}

/** Undefined where the command was not interrupted. */
export function interruptedCode(): number | undefined {
  return signalled === undefined ? undefined : signalled === "SIGINT" ? 130 : 143;
}
