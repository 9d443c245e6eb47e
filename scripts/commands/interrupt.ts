/** Ctrl-C and `kill` of a command end its processes, once. */
import { say } from "./output.ts";

const controller = new AbortController();
let message = "";
let signalled: Deno.Signal | undefined;

/**
 * A signal that is aborted when the command is interrupted; from this call on, an interrupt does not end the process
 * by itself. To be called before anything is started.
 * @param text the message on an interrupt; the last call's message is used.
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

/** The exit code of a command that was interrupted; undefined where it was not. */
export function interruptedCode(): number | undefined {
  return signalled === undefined ? undefined : signalled === "SIGINT" ? 130 : 143;
}
