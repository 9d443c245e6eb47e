/**
 * The timekeeper's process: `timekeeper_main.ts RUN_FILE`. It keeps nothing but how often it was
 * started (`timekeeper.term`), the power failures that were added to the plan (`planned.jsonl`), why
 * the run cannot be replayed if it cannot (`inexact.jsonl`), and the record of power failures and
 * returns (`faults.jsonl`), from which a run is replayed and a restarted timekeeper knows
 * which partitions have no power.
 */
import { connectNats } from "../bus/nats_bus.ts";
import { BusError } from "../bus/bus.ts";
import { endWithParent } from "../end_with_parent.ts";
import {
  busAddressFrom,
  busPatienceMs,
  EXIT,
  lookaheadOf,
  type RunFile,
} from "../rack/build/run_file.ts";
import type { FaultPlan } from "../rack/plan/plan.ts";
import { ClockService } from "./clock_service.ts";
import { formatTime } from "../base/time.ts";
import type { MemberStatus, RecordedFault, RecordedLinkFault } from "./record.ts";

/** How long the broker may be away while this process starts, in wall ms. */
const CONNECT_MS = 30_000;
/** How long closing the bus may take, in wall ms. */
const CLOSE_MS = 1_000;

async function main(runFilePath: string): Promise<void> {
  // Until there is something to be stopped in order, it just ends.
  let end: () => void = () => Deno.exit(EXIT.done);
  endWithParent(() => end());
  const file: RunFile = JSON.parse(await Deno.readTextFile(runFilePath));
  const term = nextTerm(`${file.directory}/timekeeper.term`);
  const bus = await connectNats({
    ...busAddressFrom((variable) => Deno.env.get(variable)),
    connectTimeoutMs: CONNECT_MS,
    patienceMs: busPatienceMs((variable) => Deno.env.get(variable)),
    run: file.run,
    name: "timekeeper",
    onError: fail,
  });
  const recordFile = `${file.directory}/faults.jsonl`;
  const plannedFile = `${file.directory}/planned.jsonl`;
  const inexactFile = `${file.directory}/inexact.jsonl`;
  const { run, partitions, stayUp, livenessMs } = file;
  const faults = [...file.plan.faults, ...readLines<FaultPlan>(plannedFile)];
  const plan = { ...file.plan, faults: faults.sort((x, y) => x.at - y.at) };
  const recorded = readLines<RecordedFault | RecordedLinkFault>(recordFile);
  const service = new ClockService({
    run,
    bus,
    plan,
    partitions,
    lookahead: lookaheadOf(file),
    term,
    recorded: recorded.filter((line) => line.action !== "link"),
    recordedLinks: recorded.filter((line) => line.action === "link"),
    inexact: readLines<string>(inexactFile).length > 0,
    stayUp,
    livenessMs,
    wallMs: () => performance.now(),
    onRecord: (fault) => appendLine(recordFile, fault),
    onRecordLink: (order) => appendLine(recordFile, order),
    onPlanned: (fault) => appendLine(plannedFile, fault),
    onInexact: (why) => appendLine(inexactFile, why),
    onFinished: ({ digest, virtualPs, events, reason }) =>
      console.log(
        `finished (${reason}): ${formatTime(virtualPs)}, ${events} events, digest ${digest}`,
      ),
    onStall: (why) => console.error(stallText(why)),
  });
  const stop = async () => {
    service.stop();
    // A broker that is gone too must not keep this process.
    setTimeout(() => Deno.exit(EXIT.done), CLOSE_MS);
    await bus.close();
    Deno.exit(EXIT.done);
  };
  Deno.addSignalListener("SIGTERM", stop);
  Deno.addSignalListener("SIGINT", stop);
  end = () => void stop();
  const reason = await bus.closed;
  if (reason !== undefined) {
    console.error(`The timekeeper stops: ${reason.message}`);
    Deno.exit(EXIT.unclear);
  }
}

/** How often a timekeeper of this run was started before. It may be killed at any point of this. */
function nextTerm(path: string): number {
  const term = Number(readIfThere(path));
  Deno.writeTextFileSync(`${path}.next`, String(term + 1));
  Deno.renameSync(`${path}.next`, path);
  return term;
}

function readIfThere(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/**
 * The lines of a file that earlier timekeepers wrote. A last line without its end is of one that was
 * killed over it: what it says has not taken effect, and what is written next must not join on to it.
 */
function readLines<T>(path: string): T[] {
  const text = readIfThere(path);
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole !== text) Deno.truncateSync(path, new TextEncoder().encode(whole).length);
  const lines = whole.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as T);
}

function appendLine(path: string, value: unknown): void {
  Deno.writeTextFileSync(path, JSON.stringify(value) + "\n", { append: true });
}

function stallText(why: readonly MemberStatus[]): string {
  const rows = why.map(({ partition, status, sinceMs, next, heldBy }) =>
    `  ${partition}: ${status} for ${Math.round(sinceMs)} ms, next event ${formatTime(next)}` +
    (heldBy === "" ? "" : `, held by ${heldBy}`)
  );
  return `Time is not moving:\n${rows.join("\n")}`;
}

/** The one place where a failure of this process ends it. */
function fail(error: unknown): never {
  const isBus = error instanceof BusError && error.kind !== "handler";
  console.error(isBus ? error.message : error);
  Deno.exit(isBus ? EXIT.unclear : EXIT.internal);
}

if (import.meta.main) {
  const [runFile] = Deno.args;
  if (runFile === undefined) {
    console.error("Usage: timekeeper_main.ts RUN_FILE");
    Deno.exit(EXIT.usage);
  }
  try {
    await main(runFile);
  } catch (error) {
    fail(error);
  }
}
