/**
 * The place where a program waits, for people. A wait keeps no stack, which would cost more than
 * the wait: a probe wakes the innermost generator, which notes the stack and waits on. A wait
 * without `answers` would end by a probe, and is not probed.
 */
import { formatTime } from "../../../fabric/base/time.ts";
import type { Probe, Source, Steps, Wait, Wake } from "./program.ts";

const FRAMES_MAX = 100;

/** The only way to wait: yields until the wait has ended. */
export function* hold(wait: Wait & { readonly answers: true }): Steps<Exclude<Wake, Probe>> {
  for (;;) {
    const wake = yield wait;
    if (!answered(wake)) return wake;
  }
}

/** The probe has the stack now: the caller must wait again. */
export function answered(wake: Wake): wake is Probe {
  if (wake.kind !== "probe") return false;
  wake.stack = new Error().stack;
  return true;
}

export interface WaitSite {
  readonly call?: string;
  readonly line?: string;
}

/** The program does not go on, if its wait has `answers`. */
export function siteOf(steps: Steps<unknown>): WaitSite {
  const probe: Probe = { kind: "probe" };
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = FRAMES_MAX;
  try {
    steps.next(probe);
  } catch {
    return {};
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return siteIn(probe.stack ?? "");
}

const HOST = new URL("..", import.meta.url).href;
const PROGRAMS = new URL("../programs/", import.meta.url).href;
/** Handlers of native programs' requests: such a program's call is the request. */
const REQUESTS = /\/host\/native\/\w+_requests\.ts$/;

export function siteIn(stack: string): WaitSite {
  let call: string | undefined;
  for (const line of stack.split("\n")) {
    const frame = /^\s+at (?:(.+) \()?(file:.+):(\d+):(\d+)\)?$/.exec(line);
    if (frame === null) continue;
    const [, name, file, row, column] = frame;
    if (file!.startsWith(HOST) && !file!.startsWith(PROGRAMS)) {
      call = name?.split(".").at(-1);
      if (call !== undefined && REQUESTS.test(file!)) return { call };
      continue;
    }
    return {
      line: `${file!.slice(file!.lastIndexOf("/") + 1)}:${row}:${column}`,
      ...(call !== undefined && { call }),
    };
  }
  return {};
}

const AWAITED: Readonly<Record<string, string>> = {
  waitCompletion: "a completion",
  pollCq: "a completion in a loop of polls",
  getCqEvent: "a completion event",
  getChannelEvent: "a completion event",
  rdmaGetCmEvent: "an event of the channel",
  waitEvent: "a connection request",
  connect: "the answer to a connection request",
  getAsyncEvent: "an asynchronous event",
  get_async_event: "an asynchronous event",
  get_cq_event: "a completion event",
  poll: "one of its descriptors, or a time",
  sleep: "a time",
  spin: "a change of its memory",
  socket_accept: "a TCP connection",
  socket_connect: "the answer to a TCP connection request",
  socket_send: "room in a TCP connection",
  socket_receive: "bytes of a TCP connection",
};

/** `a completion (waitCompletion)`. */
export function awaited(wait: Wait, { call }: WaitSite): string {
  const named = call === undefined || !Object.hasOwn(AWAITED, call) ? undefined : AWAITED[call];
  const what = named ?? sourceText(wait);
  return call === undefined ? what : `${what} (${call})`;
}

export function polledIn(wait: Wait | undefined): Source | undefined {
  return wait?.kind === "spin" ? { kind: "memory", address: wait.address, length: 1 } : undefined;
}

function sourceText(wait: Wait): string {
  switch (wait.kind) {
    case "time":
      return wait.at === 0 ? "its core" : formatTime(wait.at);
    case "reply":
      return "a reply of the RNIC";
    case "load":
      return "a load from the card's memory";
    case "line":
      return "an access to a shared region";
    case "spin":
      return "an entry of a ring that it polls";
    case "any":
      return wait.sources.map(nameOf).join(" or ");
  }
}

function nameOf(source: Source): string {
  switch (source.kind) {
    case "memory":
      return `a change of memory at 0x${source.address.toString(16)}`;
    case "interrupt":
      return `interrupt ${source.vector}`;
    case "signal":
      return `the signal ${source.name}`;
  }
}
