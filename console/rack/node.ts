/** Devices of a rack on this machine, which did not bring it up: `rack node`. */
import { planVerb, processVerb } from "../../fabric/bus/access.ts";
import { type Bus, BusError } from "../../fabric/bus/bus.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { isToken } from "../../fabric/bus/subjects.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { RunHere } from "../../fabric/clock/census.ts";
import { busPatienceMs } from "../../fabric/rack/assembly/run_file.ts";
import { listOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { RackError } from "../base/rack_error.ts";
import { DeviceParent } from "./device_parent.ts";
import { addressFor, type ExistingNats, withServers } from "./existing_nats.ts";
import { ControlClient } from "./live/control.ts";
import { lookOn } from "./remote/attach.ts";
import { runsNamed, untilFound } from "./remote/census.ts";

export interface NodeOptions {
  readonly nats: ExistingNats;
  /** The run's name, or how it begins; default: the one that expects these devices. */
  readonly run?: string | undefined;
  readonly devices: readonly string[];
  /** Has a folder for each device. */
  readonly directoryOf: (run: string) => string;
  /** A power failure of these devices. */
  readonly signal: AbortSignal;
  readonly onEvent: (text: string) => void;
  /** All have their plan, and are being started. */
  readonly onStart?: (run: string, directory: string) => void;
}

export interface NodeEnd {
  readonly run: string;
  readonly directory: string;
  readonly devices: readonly string[];
  /** `down`: the rack was taken down; `cut`: by the signal. */
  readonly end: "down" | "cut";
  /** Of a power cut, devices of whose failure the rack has not heard. */
  readonly untold: readonly string[];
}

const WATCH_MS = 2_000;

/**
 * Waits for the rack, starts its devices, and returns when it has gone down, or the signal has cut
 * their power.
 * @throws Refusal where the rack does not expect these devices; BusError for a wrong credential;
 * RackError where the rack is gone, or a device never comes up; the signal's reason before the start.
 */
export async function runNode(options: NodeOptions): Promise<NodeEnd> {
  const { devices, signal } = options;
  checkNames(devices);
  const { run } = await orAborted(found(options, devices[0]!), signal);
  const nats = await withServers(options.nats, devices[0]!);
  const directory = options.directoryOf(run), opened: Opened[] = [];
  try {
    for (const device of devices) opened.push(await connect({ ...options, nats }, { run, device }));
    const parents = await Promise.all(
      opened.map((one) => parentOf(one, { ...options, nats, run, directory })),
    );
    options.onStart?.(run, directory);
    const untold = await untilOver(parents, { run, signal });
    return { run, directory, devices, end: signal.aborted ? "cut" : "down", untold };
  } finally {
    await Promise.all(opened.map(({ bus }) => bus.close()));
  }
}

/** Waits for the rack that expects these devices. */
async function found(options: NodeOptions, first: string): Promise<RunHere> {
  const { nats, signal, onEvent } = options;
  return await lookOn(addressFor(nats, first), {
    name: first,
    connectTimeoutMs: Infinity,
    onWaiting: onEvent,
    look: (bus) =>
      untilFound(bus, {
        signal,
        onWaiting: onEvent,
        missing: (all) => missingText(options, all),
        choose: (all) => chosen(options, all),
      }),
  });
}

async function parentOf(
  opened: Opened,
  { nats, run, directory, signal, onEvent }:
    & Pick<NodeOptions, "nats" | "signal" | "onEvent">
    & Pick<NodeEnd, "run" | "directory">,
): Promise<Parent> {
  const { bus, device } = opened;
  const parent = await DeviceParent.open({
    bus,
    address: addressFor(nats, device),
    run,
    partition: device,
    directory: `${directory}/${device}`,
    signal,
    onEvent,
  });
  return { ...opened, parent };
}

/**
 * Starts the devices, waits until the rack has gone down or the signal cuts their power, and leaves none of
 * their processes. @returns those of whose power failure the rack has not heard.
 */
async function untilOver(
  parents: readonly Parent[],
  { run, signal }: { readonly run: string; readonly signal: AbortSignal },
): Promise<string[]> {
  for (const { parent } of parents) parent.start();
  const over = new AbortController();
  let untold: string[] = [];
  try {
    await Promise.race([
      Promise.all(parents.map(({ parent }) => parent.over)),
      aborted(signal),
      ...parents.map(({ bus }) => lost(bus)),
      gone(parents[0]!, { run, signal: over.signal }),
    ]);
  } finally {
    over.abort();
    // Of a rack that is down there is no process left.
    const cuts = parents.map(async ({ parent, device }) => await parent.cutPower() ? [] : [device]);
    untold = (await Promise.all(cuts)).flat();
  }
  return untold;
}

interface Opened {
  readonly device: string;
  readonly bus: Bus;
}

interface Parent extends Opened {
  readonly parent: DeviceParent;
}

function checkNames(devices: readonly string[]): void {
  const twice = devices.find((name, i) => devices.indexOf(name) !== i);
  if (twice !== undefined) {
    throw refusal("", { found: `${twice} is named twice`, expected: "each device once" });
  }
  const odd = devices.find((name) => !isToken(name));
  if (odd === undefined) return;
  throw refusal("", { found: `"${odd}"`, expected: "the name of a device" });
}

type Wanted = Pick<NodeOptions, "run" | "devices">;

/** Undefined: it may still come. @throws Refusal */
function chosen(wanted: Wanted, all: readonly RunHere[]): RunHere | undefined {
  const candidates = runsNamed(all, wanted.run);
  if (candidates.length === 0) return undefined;
  const { devices } = wanted;
  const fit = candidates.filter(({ elsewhere }) =>
    devices.every((each) => elsewhere.includes(each))
  );
  if (fit.length === 1) return fit[0];
  if (fit.length > 1) {
    const expected = `--run with one of ${fit.map(({ run }) => run).sort().join(", ")}`;
    throw refusal("", { found: `${fit.length} racks expect ${devices.join(", ")}`, expected });
  }
  const [{ run, elsewhere }] = candidates as [RunHere];
  const stranger = devices.find((each) => !elsewhere.includes(each))!;
  const expected = elsewhere.length === 0
    ? `a rack brought up with --elsewhere ${devices.join(",")}`
    : `${listOf(elsewhere)}, which it expects from elsewhere`;
  throw refusal("", { found: `${run} does not expect ${stranger} from elsewhere`, expected });
}

function missingText({ run, devices }: Wanted, all: readonly RunHere[]): string {
  const what = run ?? `a rack that expects ${devices.join(", ")} from elsewhere`;
  const names = all.map((each) => each.run).sort();
  return `Waiting for ${what}; there is ${names.length === 0 ? "no rack yet" : names.join(", ")}`;
}

async function connect(
  { nats, onEvent }: NodeOptions,
  { run, device }: { readonly run: string; readonly device: string },
): Promise<Opened> {
  const bus = await connectNats({
    ...addressFor(nats, device),
    run,
    name: device,
    patienceMs: busPatienceMs((variable) => Deno.env.get(variable)),
    onError: (error) => onEvent(error.message),
  });
  const other = await new ControlClient(bus, run).attempt(processVerb(device), {});
  if (other === undefined) return { device, bus };
  await bus.close();
  const expected = "one parent for each device";
  throw refusal("", { found: `${device} of ${run} has been started by another`, expected });
}

async function lost(bus: Bus): Promise<never> {
  const reason = await bus.closed;
  throw reason ?? new BusError("closed", "The bus is closed");
}

/** A rack whose supervisor was killed does not say good-bye. */
async function gone(
  { bus, device }: Opened,
  { run, signal }: { readonly run: string; readonly signal: AbortSignal },
): Promise<void> {
  const control = new ControlClient(bus, run);
  const mostMs = busPatienceMs((variable) => Deno.env.get(variable));
  for (let heardMs = performance.now(); !signal.aborted;) {
    const answer = await control.attempt(planVerb(device), { list: true }, { timeoutMs: WATCH_MS });
    const now = performance.now();
    if (answer !== undefined) heardMs = now;
    else if (now - heardMs > mostMs) {
      throw new RackError(`The timekeeper of ${run} has not answered for ${mostMs / 1_000} s`);
    }
    await sleep(WATCH_MS);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {});
  return await Promise.race([work, aborted(signal).then(() => Promise.reject(signal.reason))]);
}
