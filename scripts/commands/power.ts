/** `rack kill` and `rack start`: the power of devices, and the processes that serve them. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { formatTime, parseTime, type Time } from "../../fabric/base/time.ts";
import type { RecordedFault } from "../../fabric/clock/record.ts";
import {
  isProcessOf,
  type ProcessEntry,
  readProcesses,
  signalProcess,
} from "../../console/rack/process_table.ts";
import { UsageError } from "../../console/rack/failure.ts";
import {
  addRunOption,
  findUp,
  goneDown,
  type RackLink,
  type RackUp,
  type RunFlag,
  sleep,
  withRack,
} from "./link.ts";
import { print } from "../../console/base/output.ts";

interface PowerFlags extends RunFlag {
  readonly at?: string;
  readonly json?: boolean;
}

/** What is not a device, and is started again by the supervisor whenever it ends. */
const SERVANTS: ReadonlySet<string> = new Set(["timekeeper", "nats"]);

export function addPower(program: Command): void {
  addRunOption(program.command("kill <node>"))
    .description("cut a device's power: its process dies (kill -9); or kill timekeeper or nats")
    .option("--at <time>", "at this virtual time (40us), instead of now")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      "\nkill -9 of the process by anybody is the same event." +
        "\nThe supervisor starts timekeeper and nats again by itself.\n" +
        "\nExample:\n  rack kill b\n  rack kill b --at 2.5ms",
    )
    .action(async (node: string, flags: PowerFlags) => {
      Deno.exitCode = await kill(node, flags);
    });
  addRunOption(program.command("start <node>"))
    .description("give a device its power back; or wait for timekeeper or nats to be back")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      "\nA host comes back with cold caches and its SCM; a card of it that failed comes back, too.\n" +
        "\nExample:\n  rack start b",
    )
    .action(async (node: string, flags: PowerFlags) => {
      Deno.exitCode = await start(node, flags);
    });
}

async function kill(node: string, flags: PowerFlags): Promise<number> {
  if (flags.at !== undefined) return await killAt(node, flags);
  const rack = await findUp(flags);
  const entry = entryOf(rack, node);
  const before = faultsOf(rack).length;
  if (!signalProcess(rack.directory, entry.pid)) {
    const found = SERVANTS.has(node) ? "its process is not there just now" : "it has no power";
    throw new UsageError(`Cannot kill ${node}: ${found}`);
  }
  if (SERVANTS.has(node)) {
    return tell(flags, { node, killed: true }, `${node} is killed; the supervisor starts it again`);
  }
  const fault = await withRack(flags, () => nextFault(rack, { entry, action: "kill", before }));
  const what = `${entry.nodes.join(", ")}: power failed at ${formatTime(fault.at)}`;
  return tell(flags, { node, nodes: entry.nodes, atPs: fault.at }, what);
}

async function killAt(node: string, flags: PowerFlags): Promise<number> {
  const at = parseTime(flags.at!);
  if (at === undefined) {
    throw new UsageError(`--at is "${flags.at}": expected a time such as 40us or 2.5ms`);
  }
  if (SERVANTS.has(node)) {
    throw new UsageError(`--at is for devices: ${node} lives outside virtual time`);
  }
  return await withRack(flags, async (link) => {
    entryOf(link.rack, node);
    await link.ask("fault", { node, at }).catch((error) => {
      throw error instanceof UsageError ? new UsageError(killError(node, error)) : error;
    });
    return tell(flags, { node, atPs: at }, `${node}: power will fail at ${formatTime(at)}`);
  });
}

function killError(node: string, error: Error): string {
  return error.message.replace(/^Cannot fault/, `Cannot kill ${node}`);
}

async function start(node: string, flags: PowerFlags): Promise<number> {
  return await withRack(flags, async (link) => {
    const { rack } = link;
    const entry = entryOf(rack, node);
    if (SERVANTS.has(node)) return await waitForServant(link, { node, flags });
    const before = faultsOf(rack).length;
    const { started } = await link.ask("boot", { node }).catch((error) => {
      if (!(error instanceof UsageError)) throw error;
      throw new UsageError(error.message.replace(/^Cannot boot/, `Cannot start ${node}`));
    });
    const fault = await nextFault(rack, { entry, action: "start", before });
    const devices = new Set([...entry.nodes, ...started as string[]]);
    const what = `${[...devices].join(", ")}: power is back at ${formatTime(fault.at)}`;
    return tell(flags, { node, started, atPs: fault.at }, what);
  });
}

const SERVANT_MS = 10_000;
const LOOK_AGAIN_MS = 20;

/** The supervisor is at it: says so when it is done. */
async function waitForServant(
  link: RackLink,
  of: { node: string; flags: PowerFlags },
): Promise<number> {
  const { node, flags } = of;
  const status = await link.status(SERVANT_MS);
  const pid = entryOf(link.rack, node).pid;
  return tell(flags, { node, pid, virtualPs: status.now }, `${node} is up, pid ${pid}`);
}

/** The process that a name stands for: its own, or that of the device. @throws UsageError */
function entryOf({ directory, id }: RackUp, node: string): ProcessEntry {
  const entries = readProcesses(directory).filter(({ kind }) => kind !== "supervisor");
  const entry = entries.find(({ name, nodes }) => name === node || nodes.includes(node));
  if (entry !== undefined) return entry;
  const known = entries.flatMap(({ name, nodes }) => nodes.length > 0 ? nodes : [name]);
  throw new UsageError(`There is no ${node} in ${id}: expected one of ${known.join(", ")}`);
}

/** Power failures and returns that the timekeeper has written down. */
function faultsOf({ directory }: RackUp): RecordedFault[] {
  try {
    const lines = Deno.readTextFileSync(`${directory}/faults.jsonl`).split("\n");
    return lines.slice(0, -1).map((line) => JSON.parse(line));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Waits until the timekeeper has written it down. */
async function nextFault(
  rack: RackUp,
  what: { entry: ProcessEntry; action: RecordedFault["action"]; before: number },
): Promise<{ at: Time }> {
  for (;;) {
    const fault = faultsOf(rack).slice(what.before).find(({ partition, action }) =>
      partition === what.entry.name && action === what.action
    );
    if (fault !== undefined) return fault;
    if (!isProcessOf(rack.directory, rack.supervisor.pid)) {
      throw goneDown(rack.id, rack.directory);
    }
    await sleep(LOOK_AGAIN_MS);
  }
}

function tell(flags: PowerFlags, document: unknown, text: string): number {
  print(flags.json ? JSON.stringify(document) : text);
  return EXIT.done;
}
