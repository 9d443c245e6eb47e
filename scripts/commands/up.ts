/** `rack up`: brings one rack up in the background. */
import type { Command } from "commander";
import { BusError } from "../../fabric/bus/bus.ts";
import { patternOfRun } from "../../fabric/bus/subjects.ts";
import { BUS_ENVIRONMENT, EXIT, type RunFile } from "../../fabric/rack/build/run_file.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import { type Packing, PACKINGS } from "../../fabric/rack/build/topology.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { readProcesses, writeProcesses } from "../../console/rack/process_table.ts";
import {
  createRunDirectory,
  readEnd,
  readSupervisor,
  writeRunFile,
} from "../../console/rack/run_directory.ts";
import { useExisting } from "../../console/rack/nats_server.ts";
import { importPrograms } from "../../nodes/files.ts";
import { captureFiles, scopeFor } from "../../console/captures/captures.ts";
import {
  lacksInput,
  onlyOne,
  prepare,
  type Prepared,
  runFileOf,
} from "../../console/rack/prepare.ts";
import { takeDown } from "./down.ts";
import { ExitError, UsageError } from "../../console/rack/failure.ts";
import { onInterrupt } from "../../console/base/interrupt.ts";
import { makeRoomFor } from "../../console/captures/leave_captures.ts";
import { connectRack, RackLink, type RackUp, sleep } from "./link.ts";
import { print, Progress, say } from "../../console/base/output.ts";
import {
  addVariantOptions,
  PCAP_HELP,
  PERFETTO_HELP,
  prepareOptions,
  type RunFlags,
} from "./run.ts";

interface UpFlags extends Partial<RunFlags> {
  readonly showCredentials?: boolean;
}

export function addUp(program: Command): void {
  addVariantOptions(program.command("up <scenario>"))
    .description("bring a rack up in the background, and leave it up")
    .option("--pack <how>", `nodes to processes: ${PACKINGS.join(", ")}`, "node")
    .option("--nats <url>", "use this nats-server instead of starting one")
    .option("--trace", "keep every step of every operation in the run's directory")
    .option("--pcap <dir>", `${PCAP_HELP}; written by rack down`)
    .option("--perfetto <file>", `${PERFETTO_HELP}; written by rack down`)
    .option("--show-credentials", "print user and password of the nats-server, too")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
A scenario's put that has no file is left out: rack put writes one when the rack is up.

Example:
  rack up scripts/scenarios/persist_pair.yaml --ddio off
  rack put --to b ./data.bin && rack ls --from b && rack down`,
    )
    .action(async (scenario: string, flags: UpFlags) => {
      Deno.exitCode = await up(scenario, flags);
    });
}

async function up(scenario: string, flags: UpFlags): Promise<number> {
  const packing = flags.pack as Packing;
  if (!PACKINGS.includes(packing)) {
    throw new UsageError(`--pack is "${flags.pack}": expected one of ${PACKINGS.join(", ")}`);
  }
  const prepared = await prepareOne(scenario, { flags, packing });
  await importPrograms(prepared);
  const { id, path } = await createRunDirectory(prepared.variant.name);
  const { base, variant } = prepared;
  const captures = captureFiles({ flags, scenario: variant.capture, base, directory: path });
  await makeRoomFor(captures);
  const observe = scopeFor(captures);
  const runFile = runFileOf(prepared, {
    run: id,
    directory: path,
    stayUp: true,
    livenessMs: 0,
    trace: flags.trace === true,
    ...(observe && { observe, captures }),
    delayMsMax: 0,
  });
  const runFilePath = await writeRunFile(runFile);
  onInterrupt("rack", () => takeDown(path));
  const rack = await startSupervisor(runFile, { runFilePath, flags });
  print(flags.json ? JSON.stringify(document(rack, flags)) : text(rack, flags));
  return EXIT.done;
}

/** The one rack that the scenario and the command line stand for. @throws UsageError if several. */
async function prepareOne(
  scenario: string,
  how: { flags: UpFlags; packing: Packing },
): Promise<Prepared> {
  const { flags, packing } = how;
  const leftOut = new Set<string>();
  const change = (program: ProgramScenario) => {
    if (!lacksInput(program, flags.input)) return program;
    leftOut.add(program.on);
    return undefined;
  };
  const all = await prepare(scenario, { ...prepareOptions(flags, packing), change });
  if (leftOut.size > 0 && !flags.json) {
    say(`put on ${[...leftOut].join(", ")} is left out as it has no file: rack put writes one`);
  }
  return onlyOne(all, scenario);
}

const LOOK_AGAIN_MS = 30;

async function startSupervisor(
  runFile: RunFile,
  how: { runFilePath: string; flags: UpFlags },
): Promise<RackUp> {
  const { directory } = runFile;
  const progress = new Progress({ quiet: how.flags.json === true });
  const child = spawnDetached(how);
  // Known from the first moment, so that it can be ended whatever happens next.
  const nodes: string[] = [];
  writeProcesses(directory, [{ name: "supervisor", kind: "supervisor", pid: child.pid, nodes }]);
  let code: number | undefined;
  child.status.then((status) => code = status.code);
  try {
    for (;;) {
      const supervisor = await readSupervisor(directory);
      const end = readEnd(directory);
      if (end !== undefined) throw new ExitError(end.message, end.code);
      if (code !== undefined) {
        throw new ExitError(`The supervisor ended with code ${code}: see ${directory}/logs`, 70);
      }
      if (supervisor !== undefined) {
        const rack = { id: runFile.run, directory, file: runFile, supervisor };
        await waitUntilJoined(rack, progress);
        child.unref();
        return rack;
      }
      await sleep(LOOK_AGAIN_MS);
    }
  } catch (error) {
    await takeDown(directory);
    throw error;
  } finally {
    progress.clear();
  }
}

function spawnDetached(how: { runFilePath: string; flags: UpFlags }): Deno.ChildProcess {
  const { runFilePath, flags } = how;
  const existing = flags.nats === undefined ? undefined : useExisting(flags.nats);
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--no-prompt",
      "--config",
      fromFileUrl(projectFile("deno.json")),
      "--allow-all",
      fromFileUrl(projectFile("console/rack/supervise.ts")),
      runFilePath,
    ],
    // Its own session, so that a Ctrl-C in this terminal is not for it.
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

const JOIN_MS = 60_000;
/** Asked for so long at a time, as a rack that ends meanwhile says so in its directory, and is silent. */
const STATUS_MS = 500;

/** Up is when the timekeeper has heard of every partition. */
async function waitUntilJoined(rack: RackUp, progress: Progress): Promise<void> {
  const bus = await connectRack(rack);
  const deadline = performance.now() + JOIN_MS;
  try {
    const link = new RackLink(rack, bus);
    for (;;) {
      const end = readEnd(rack.directory);
      if (end !== undefined) throw new ExitError(end.message, end.code);
      const status = await link.status(STATUS_MS).catch((error) => {
        if (!(error instanceof BusError) || performance.now() > deadline) throw error;
        return undefined;
      });
      if (status === undefined) continue;
      const { why } = status;
      const here = why.filter(({ status }) => status !== "absent" && status !== "unknown").length;
      if (here === why.length) return;
      progress.tell(`${rack.id}: ${here} of ${why.length} processes`, here / why.length);
      await sleep(LOOK_AGAIN_MS);
    }
  } finally {
    await bus.close();
  }
}

function document(rack: RackUp, flags: UpFlags): Record<string, unknown> {
  const { url, user, password, token } = rack.supervisor;
  return {
    run: rack.id,
    directory: rack.directory,
    scenario: rack.file.plan.scenario,
    seed: rack.file.plan.seed,
    url,
    subjects: patternOfRun(rack.file.run),
    processes: readProcesses(rack.directory).length,
    ...(flags.showCredentials && { user, password, token }),
  };
}

function text(rack: RackUp, flags: UpFlags): string {
  const { url, user, password, token } = rack.supervisor;
  const credential = user !== undefined
    ? `--user ${user} --password ${password} `
    : token !== undefined
    ? `--user ${token} `
    : "";
  const shown = flags.showCredentials ? credential : "";
  const hint = flags.showCredentials || credential === ""
    ? ""
    : "\n       (with the user and password that --show-credentials prints)";
  return [
    `${rack.id} is up: ${
      readProcesses(rack.directory).length
    } processes, seed ${rack.file.plan.seed}`,
    `watch  nats --server ${url} ${shown}subscribe '${patternOfRun(rack.file.run)}'${hint}`,
    `kept   ${rack.directory}`,
    "next   rack ps, rack put, rack get, rack kill, rack start, rack pause, rack down",
  ].join("\n");
}
