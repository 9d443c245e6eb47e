import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import { BusError } from "../../fabric/bus/bus.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import { fromFileUrl, projectFile } from "../base/paths.ts";
import { commandFlags } from "../base/v8_flags.ts";
import { captureFiles, makeRoomFor, scopeFor } from "../captures/capture_files.ts";
import { RackError } from "../base/rack_error.ts";
import { keepScenario } from "../scenarios/kept_scenario.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { linkedTo, type RackLink, type RackUp } from "./live/racks.ts";
import { takeDown } from "./live/take_down.ts";
import { absentIn, elsewhereIn, FIRST_MISSING_MS, MISSING_MS } from "./elsewhere.ts";
import { resume, setPace } from "./live/virtual_time.ts";
import { existingEnvironment, type ExistingNats } from "./existing_nats.ts";
import {
  keepInputs,
  lacksInput,
  onlyOne,
  prepare,
  type Prepared,
  type PrepareOptions,
  runFileOf,
} from "./prepare.ts";
import { writeProcesses } from "./process_table.ts";
import {
  beforeRun,
  createRunDirectory,
  disown,
  readEnd,
  readSupervisorOf,
  writeRunFile,
} from "./run_directory.ts";
import type { RunManner } from "./run_scenario.ts";

export interface BringUpOptions extends Omit<RunManner, "onCapturing"> {
  readonly prepare: PrepareOptions;
  readonly trace?: boolean;
  readonly onLeftOut?: (hosts: readonly string[]) => void;
  /** Time stands at 0 until it is let run; default: it runs at once. */
  readonly paused?: boolean;
  /** Virtual ps per second whenever time runs; default: as fast as possible. */
  readonly psPerSecond?: number;
}

/** The scenario and its choices stand for one rack. @throws Refusal, RackError */
export async function bringUp(
  scenario: ScenarioSource,
  options: BringUpOptions,
): Promise<RackUp> {
  const { prepared, choices } = await prepareOne(scenario, options);
  const { elsewhere, livenessMs, psPerSecond = 0 } = options;
  // Refused before the run has a directory.
  const there = elsewhere && elsewhereIn(prepared, elsewhere, livenessMs);
  const created = await createRunDirectory(prepared.variant.name), { id, path } = created;
  const { reach, variant } = prepared;
  const files = captureFiles({ flags: options, scenario: variant.capture, reach, directory: path });
  const [kept] = await beforeRun(created, async () => {
    await makeRoomFor(files);
    return await keepInputs([prepared], path);
  });
  const observe = scopeFor(files);
  const runFile = runFileOf(kept!, {
    run: id,
    directory: path,
    ...there,
    stayUp: true,
    // At a pace, too: nothing may happen before it is set.
    ...((options.paused === true || psPerSecond > 0) && { pausedAtStart: true }),
    trace: options.trace === true,
    observe,
    ...(observe && { captures: files }),
  });
  keepScenario(path, { scenario, choices, variant });
  return await startRack(runFile, {
    ...options,
    beforeUp: async ({ control }) => {
      if (psPerSecond === 0) return;
      await setPace(control, psPerSecond);
      if (options.paused !== true) await resume(control);
    },
  });
}

/** A `put` without its input file is left out. @throws Refusal */
export async function prepareOne(
  scenario: ScenarioSource,
  options: Pick<BringUpOptions, "prepare" | "onLeftOut" | "signal">,
): Promise<{ readonly prepared: Prepared; readonly choices: PrepareOptions }> {
  const leftOut = new Set<string>();
  const { change: own = (program) => program, input } = options.prepare;
  const change = (program: ProgramScenario) => {
    const changed = own(program);
    if (changed === undefined || !lacksInput(changed, input)) return changed;
    leftOut.add(program.on);
    return undefined;
  };
  const choices = { ...options.prepare, change };
  const all = await prepare(scenario, { ...choices, signal: options.signal });
  if (leftOut.size > 0) options.onLeftOut?.([...leftOut]);
  return { prepared: onlyOne(all, scenario.path), choices };
}

const LOOK_AGAIN_MS = 30;
const END_TOLD_MS = 300;

export interface StartOptions
  extends Pick<RunManner, "nats" | "signal" | "onProgress" | "onMissing"> {
  /**
   * Called when every process is there, before the rack is up; where it rejects the rack is taken
   * down.
   * @param throwIfGone throws where the rack has ended.
   */
  readonly beforeUp?: (link: RackLink, throwIfGone: () => void) => Promise<void>;
}

/**
 * Writes a run file and starts its rack; returns when all processes have joined.
 * @throws RackError
 */
export async function startRack(runFile: RunFile, options: StartOptions): Promise<RackUp> {
  const runFilePath = await writeRunFile(runFile);
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
      const supervisor = readSupervisorOf(directory);
      throwIfGone();
      if (supervisor !== undefined) {
        const rack = { id: runFile.run, directory, file: runFile, supervisor };
        await linkedTo(rack, async (link) => {
          await untilJoined(link, { ...options, throwIfGone });
          await options.beforeUp?.(link, throwIfGone);
        });
        signal?.throwIfAborted();
        child.unref();
        disown(directory);
        return rack;
      }
      await sleep(LOOK_AGAIN_MS);
    }
  } catch (error) {
    // The bus ends with its supervisor, and may be missed before the system tells of that one's end.
    await Promise.race([child.status, sleep(END_TOLD_MS)]);
    const isAsked = signal?.aborted === true;
    const cause = isAsked ? error : thrownBy(throwIfGone) ?? error;
    await takeDown(directory);
    throw cause;
  }
}

function thrownBy(check: () => void): unknown {
  try {
    check();
    return undefined;
  } catch (error) {
    return error;
  }
}

function spawnDetached(runFilePath: string, nats: ExistingNats | undefined): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      ...commandFlags(),
      fromFileUrl(projectFile("console/rack/supervise.ts")),
      runFilePath,
    ],
    // A session of its own: Ctrl-C in this terminal does not reach it.
    detached: true,
    env: existingEnvironment(nats),
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
}

const STATUS_MS = 500;

async function untilJoined(
  { rack, control }: RackLink,
  { signal, onProgress, onMissing, throwIfGone }: StartOptions & {
    readonly throwIfGone: () => void;
  },
): Promise<void> {
  const { elsewhere = [] } = rack.file;
  let sayMs = performance.now() + FIRST_MISSING_MS;
  let most = 0, deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    signal?.throwIfAborted();
    throwIfGone();
    const status = await control.status({ forMs: STATUS_MS }).catch((error) => {
      if (!(error instanceof BusError) || performance.now() > deadline) throw error;
      return undefined;
    });
    if (status === undefined) continue;
    const { why } = status;
    const missing = why.filter(({ status }) => status === "absent" || status === "unknown");
    if (missing.length === 0) return;
    const here = why.length - missing.length;
    onProgress?.(`${rack.id}: ${here} of ${why.length} processes`, here / why.length);
    const now = performance.now();
    // A machine may be switched on at any time.
    const isElsewhere = missing.every(({ partition }) => elsewhere.includes(partition));
    if (isElsewhere && now >= sayMs) {
      onMissing?.(rack.file.run, absentIn(status, elsewhere));
      sayMs = now + MISSING_MS;
    }
    if (here > most || isElsewhere) [most, deadline] = [here, now + PATIENCE_MS];
    if (performance.now() > deadline) {
      const names = missing.map(({ partition }) => partition).join(", ");
      throw new RackError(
        `Found that ${names} has not joined the rack within ${PATIENCE_MS / 1_000} s: see ` +
          `${rack.directory}/logs`,
      );
    }
    // The answer has a row for each partition: a timekeeper that hundreds join has little time for
    // it.
    await sleep(Math.max(LOOK_AGAIN_MS, why.length));
  }
}
