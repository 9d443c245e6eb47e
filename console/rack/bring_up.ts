/** Starts a rack in the background. */
import { BusError } from "../../fabric/bus/bus.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { BUS_ENVIRONMENT, type RunFile } from "../../fabric/rack/build/run_file.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import { fromFileUrl, projectFile } from "../base/paths.ts";
import { v8Flags } from "../base/v8_flags.ts";
import { captureFiles, makeRoomFor, scopeFor } from "../captures/capture_files.ts";
import { RackError } from "../base/rack_error.ts";
import { linkedTo, type RackLink, type RackUp } from "./live/racks.ts";
import { takeDown } from "./live/take_down.ts";
import { useExisting } from "./nats_server.ts";
import { lacksInput, onlyOne, prepare, type PrepareOptions, runFileOf } from "./prepare.ts";
import { writeProcesses } from "./process_table.ts";
import {
  beforeRun,
  createRunDirectory,
  readEnd,
  readSupervisor,
  writeRunFile,
} from "./run_directory.ts";
import type { RunManner } from "./run_scenario.ts";

export interface BringUpOptions extends Omit<RunManner, "onCapturing"> {
  readonly prepare: PrepareOptions;
  /** Keep every step of every operation in the run's directory. */
  readonly trace?: boolean;
  /** Receives the hosts whose `put` is left out because it has no input file. */
  readonly onLeftOut?: (hosts: readonly string[]) => void;
}

/** Brings up the one rack that a scenario and its choices stand for. @throws Refusal, RackError */
export async function bringUp(scenario: string, options: BringUpOptions): Promise<RackUp> {
  const prepared = await prepareOne(scenario, options);
  const created = await createRunDirectory(prepared.variant.name), { id, path } = created;
  const { base, variant } = prepared;
  const files = captureFiles({ flags: options, scenario: variant.capture, base, directory: path });
  await beforeRun(created, () => makeRoomFor(files));
  const observe = scopeFor(files);
  const runFile = runFileOf(prepared, {
    run: id,
    directory: path,
    stayUp: true,
    trace: options.trace === true,
    observe,
    ...(observe && { captures: files }),
  });
  const runFilePath = await writeRunFile(runFile);
  return await startSupervisor(runFile, { runFilePath, options });
}

async function prepareOne(scenario: string, options: BringUpOptions) {
  const leftOut = new Set<string>();
  const change = (program: ProgramScenario) => {
    if (!lacksInput(program, options.prepare.input)) return program;
    leftOut.add(program.on);
    return undefined;
  };
  const all = await prepare(scenario, { ...options.prepare, change });
  if (leftOut.size > 0) options.onLeftOut?.([...leftOut]);
  return onlyOne(all, scenario);
}

const LOOK_AGAIN_MS = 30;

async function startSupervisor(
  runFile: RunFile,
  { runFilePath, options }: { readonly runFilePath: string; readonly options: BringUpOptions },
): Promise<RackUp> {
  const { directory } = runFile;
  const { signal } = options;
  signal?.throwIfAborted();
  const child = spawnDetached(runFilePath, options.nats);
  // The run is registered before any process starts, so that `rack down` can always end it.
  const nodes: string[] = [];
  writeProcesses(directory, [{ name: "supervisor", kind: "supervisor", pid: child.pid, nodes }]);
  let status: Deno.CommandStatus | undefined;
  child.status.then((ended) => status = ended);
  const throwIfGone = () => {
    const end = readEnd(directory);
    if (end !== undefined) throw new RackError(end.message, end.code);
    if (status === undefined) return;
    const how = status.signal ?? `exit code ${status.code}`;
    const found = `the supervisor ended (${how}) before the rack was up`;
    throw new RackError(`Found that ${found}: see ${directory}/logs`);
  };
  try {
    for (;;) {
      signal?.throwIfAborted();
      const supervisor = readSupervisor(directory);
      throwIfGone();
      if (supervisor !== undefined) {
        const rack = { id: runFile.run, directory, file: runFile, supervisor };
        await linkedTo(rack, (link) => untilJoined(link, { ...options, throwIfGone }));
        signal?.throwIfAborted();
        child.unref();
        return rack;
      }
      await sleep(LOOK_AGAIN_MS);
    }
  } catch (error) {
    await takeDown(directory);
    throw error;
  }
}

function spawnDetached(runFilePath: string, nats: string | undefined): Deno.ChildProcess {
  const existing = nats === undefined ? undefined : useExisting(nats);
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--no-prompt",
      "--config",
      fromFileUrl(projectFile("deno.json")),
      v8Flags(),
      "--allow-all",
      fromFileUrl(projectFile("console/rack/supervise.ts")),
      runFilePath,
    ],
    // A session of its own: Ctrl-C in this terminal does not reach it.
    detached: true,
    env: {
      [BUS_ENVIRONMENT.url]: existing?.url ?? "",
      [BUS_ENVIRONMENT.user]: existing?.user ?? "",
      [BUS_ENVIRONMENT.password]: existing?.password ?? "",
      [BUS_ENVIRONMENT.token]: existing?.token ?? "",
    },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
}

/** So long may no further process join: a rack of many processes takes longer in all. */
const JOIN_MS = 60_000;
/** Timeout of one status request. A rack that ends meanwhile does not answer. */
const STATUS_MS = 500;

async function untilJoined(
  { rack, control }: RackLink,
  { signal, onProgress, throwIfGone }: BringUpOptions & { readonly throwIfGone: () => void },
): Promise<void> {
  let most = 0, deadline = performance.now() + JOIN_MS;
  for (;;) {
    signal?.throwIfAborted();
    throwIfGone();
    const status = await control.status(STATUS_MS).catch((error) => {
      if (!(error instanceof BusError) || performance.now() > deadline) throw error;
      return undefined;
    });
    if (status === undefined) continue;
    const { why } = status;
    const missing = why.filter(({ status }) => status === "absent" || status === "unknown");
    if (missing.length === 0) return;
    const here = why.length - missing.length;
    onProgress?.(`${rack.id}: ${here} of ${why.length} processes`, here / why.length);
    if (here > most) [most, deadline] = [here, performance.now() + JOIN_MS];
    if (performance.now() > deadline) {
      const names = missing.map(({ partition }) => partition).join(", ");
      throw new RackError(
        `Found that ${names} has not joined the rack within ${JOIN_MS / 1_000} s: see ` +
          `${rack.directory}/logs`,
      );
    }
    await sleep(LOOK_AGAIN_MS);
  }
}
