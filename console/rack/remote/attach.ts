/** A rack that runs elsewhere in this machine's list of runs, where all commands find it. */
import { ALL_RUNS, USERS } from "../../../fabric/bus/access.ts";
import { type Bus, BusError } from "../../../fabric/bus/bus.ts";
import { connectNats, type NatsAddress, type NatsOptions } from "../../../fabric/bus/nats_bus.ts";
import type { RunHere } from "../../../fabric/clock/census.ts";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { oneOf, refusal } from "../../../fabric/rack/plan/problem.ts";
import { isThere } from "../../base/files.ts";
import { runsDirectory } from "../../base/paths.ts";
import { addressFor, type ExistingNats, withServers } from "../existing_nats.ts";
import { writeSupervisor } from "../run_directory.ts";
import { runsHere, runsNamed } from "./census.ts";
import { collectRecord } from "./collect.ts";
import { takePlan } from "./plan_over_bus.ts";

export interface AttachOptions {
  /** The user's credential is the supervisor's. */
  readonly nats: ExistingNats;
  /** The run's name, or how it begins; default: the only one that the server has. */
  readonly run?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onWaiting?: (why: string) => void;
}

export interface Attached {
  readonly runFile: RunFile;
  readonly directory: string;
}

const LOOK_MS = 5_000;

/**
 * Finds a rack on a server and puts it into the list.
 * @throws BusError where there is no server, or it refuses the credential; Refusal where no run, or
 * more than one, is meant; RackError without an answer.
 */
export async function attach({ nats, run, signal, onWaiting }: AttachOptions): Promise<Attached> {
  const given = addressFor(nats, USERS.supervisor);
  const here = await lookOn(given, {
    name: USERS.supervisor,
    look: (bus) => runsHere(bus, { forMs: LOOK_MS, signal }),
  });
  const { run: name } = chosen(here, { run, url: given.url });
  const address = addressFor(await withServers(nats, USERS.supervisor), USERS.supervisor);
  const viewer = nats.users?.byName[USERS.viewer];
  const { url: _, ...own } = address;
  return await attachRack({
    run: name,
    address,
    viewer: viewer === undefined ? own : { user: viewer.user, password: viewer.password },
    signal,
    ...(onWaiting && { onWaiting }),
  });
}

/**
 * A look at what a server carries, by a user that may ask.
 * @throws BusError, also where it may not.
 */
export async function lookOn<T>(
  address: NatsAddress,
  { name, look, ...options }:
    & Pick<NatsOptions, "name" | "connectTimeoutMs" | "onWaiting">
    & { readonly look: (bus: Bus) => Promise<T> },
): Promise<T> {
  const forbidden = Promise.withResolvers<never>();
  forbidden.promise.catch(() => {});
  const bus = await connectNats({
    ...address,
    ...options,
    run: ALL_RUNS,
    name,
    onError: (error) => {
      if (error.kind !== "forbidden") return;
      const user = address.user ?? "it";
      const found = `${address.url} does not let ${user} ask for its runs (${error.message})`;
      const expected = `the credential of ${name}, as rack nats-config writes it`;
      forbidden.reject(new BusError("forbidden", `${found}: expected ${expected}`));
    },
  });
  try {
    return await Promise.race([look(bus), forbidden.promise]);
  } finally {
    await bus.close();
  }
}

/** @throws Refusal */
function chosen(
  here: readonly RunHere[],
  { run, url }: { readonly run: string | undefined; readonly url: string },
): RunHere {
  const names = here.map((each) => each.run).sort();
  if (names.length === 0) {
    const found = `No rack answers on ${url}`;
    throw refusal("", { found, expected: "one that is up there, and this server's credential" });
  }
  const found = runsNamed(here, run);
  if (found.length === 1) return found[0]!;
  if (run === undefined) {
    const expected = `--run with one of ${names.join(", ")}`;
    throw refusal("", { found: `${names.length} racks are on ${url}`, expected });
  }
  const what = found.length === 0 ? "no run there has" : `${found.length} runs there have`;
  throw refusal("--run", { found: `"${run}": ${what} that name`, expected: oneOf(names, run) });
}

/**
 * Puts the rack into the list, again where it is there already.
 * @throws Refusal where this machine has brought it up; RackError without an answer.
 */
export async function attachRack(
  { run, address, viewer, signal, goneMs, onWaiting }: {
    readonly run: string;
    readonly address: NatsAddress;
    /** Of a user that may only look; the same as in `address` where there is no other. */
    readonly viewer: Omit<NatsAddress, "url">;
    readonly signal?: AbortSignal | undefined;
    /** How long its timekeeper may be missing. */
    readonly goneMs?: number;
    readonly onWaiting?: (why: string) => void;
  },
): Promise<Attached> {
  const directory = `${runsDirectory()}/${run}`;
  refuseOwn(run, directory);
  const bus = await connectNats({
    ...address,
    run,
    name: USERS.supervisor,
    onError: () => {},
    ...(goneMs !== undefined && { connectTimeoutMs: goneMs }),
    ...(onWaiting && { onWaiting }),
  });
  try {
    await Deno.mkdir(directory, { recursive: true, mode: 0o700 });
    const { runFile } = await takePlan(bus, {
      ...{ run, user: USERS.supervisor, directory, signal, onWaiting },
      ...(goneMs !== undefined && { goneMs }),
    });
    await collectRecord(bus, { runFile, directory, signal });
    writeSupervisor(directory, { run, pid: null, ...address, viewer });
    return { runFile, directory };
  } finally {
    await bus.close();
  }
}

/** A directory without an owner is one of an earlier attachment. */
function refuseOwn(run: string, directory: string): void {
  if (!isThere(`${directory}/owner.json`)) return;
  const expected = `no attachment: all commands know it already (rack ps --run ${run})`;
  throw refusal("", { found: `${run} was brought up on this machine`, expected });
}
