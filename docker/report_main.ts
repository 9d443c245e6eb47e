/**
 * The service `report` of a rack in containers: `report_main.ts RUN LABEL [DIRECTORY]`. It collects
 * plan, record and SCM over the bus into a folder of its own, and prints the JSON document of
 * `rack run --json` with the power failures that happened. Exit code: 0 done; 1 a check failed; 2
 * unclear, also where a container does not answer for its files.
 */
import { USERS } from "../fabric/bus/access.ts";
import { decode } from "../fabric/bus/codec.ts";
import { connectNats } from "../fabric/bus/nats_bus.ts";
import { ANY, patternOf } from "../fabric/bus/subjects.ts";
import { EXIT } from "../fabric/base/exit.ts";
import { readVariableFiles } from "../fabric/process.ts";
import { busAddressFrom, type FinalReply, type RunFile } from "../fabric/rack/assembly/run_file.ts";
import { PATIENCE_MS } from "../fabric/base/patience.ts";
import { sleep } from "../fabric/bus/wall_time.ts";
import type { ClockStatus } from "../fabric/clock/clock_service.ts";
import { formatTime } from "../fabric/base/time.ts";
import type { RecordedFault, RecordedLinkFault } from "../fabric/clock/record.ts";
import { textIfThere } from "../console/base/files.ts";
import { isRecording } from "../console/captures/capture_files.ts";
import { explain } from "../console/rack/failure.ts";
import { inexactIn } from "../console/rack/fault_lines.ts";
import { refusedByProcesses } from "../console/rack/refused.ts";
import { collectDevices, collectRecord } from "../console/rack/remote/collect.ts";
import { takePlan } from "../console/rack/remote/plan_over_bus.ts";
import { RackError } from "../console/base/rack_error.ts";
import { IN_CONTAINER } from "../console/rack/containers/compose_file.ts";
import { stallText } from "../console/rack/stall_text.ts";
import { ControlClient, noFinal } from "../console/rack/live/control.ts";
import type { Outcome } from "../console/rack/run_variant.ts";
import type { Ran } from "../console/reports/method_report.ts";
import { checksText, effortText, figuresText } from "../console/reports/report_text.ts";
import { judge, summarise } from "../console/reports/summarise.ts";
import { print, Progress, say } from "../scripts/commands/output.ts";

const POLL_MS = 250;
const STATUS_TIMEOUT_MS = 1_000;
const STALLED_MS = 10_000;
const DIRECTORY = "/tmp/run";

async function main(run: string, label: string, directory: string): Promise<number> {
  readVariableFiles();
  const bus = await connectNats({
    ...busAddressFrom((variable) => Deno.env.get(variable)),
    run,
    name: USERS.report,
    connectTimeoutMs: PATIENCE_MS,
    onError: (error) => say(error.message),
  });
  const progress = new Progress({ quiet: false });
  bus.subscribe(patternOf({ kind: "report", run, node: ANY }), (payload) => {
    const [topic, value] = (decode(payload) ?? []) as unknown[];
    const { messages, written } = (value ?? {}) as { messages?: unknown; written?: unknown };
    if (topic !== "progress" || typeof messages !== "number") return;
    if (typeof written === "number" && messages > 0) progress.show(label, written / messages);
  });
  say(`Waiting for the end of ${run}`);
  const began = performance.now();
  const { runFile } = await takePlan(bus, {
    ...{ run, user: USERS.report, directory },
    goneMs: Infinity,
    onWaiting: say,
  });
  const control = new ControlClient(bus, run);
  const status = await waitForEnd(control, runFile);
  const wallMs = performance.now() - began;
  const finals = await Promise.all(
    status.why.filter((member) => member.status !== "dead")
      .map(({ partition }) => askFinal(control, partition)),
  );
  const { refusals } = await control.status();
  // What the server refused stands in its own log.
  const refused = refusedByProcesses(refusals, finals);
  progress.clear();
  const collect = { runFile, directory };
  await collectRecord(bus, collect);
  await collectDevices(bus, {
    ...collect,
    // Captures are for who attaches.
    wants: (name) => !isRecording(name),
    onProgress: (title, share) => progress.show(title, share),
  }).catch((error) => {
    throw new RackError(
      `${run} has ended, digest ${status.digest}, and is not judged: ${error.message}`,
    );
  });
  progress.clear();
  await bus.close();
  const inexact = inexactIn(directory);
  const outcome: Outcome = {
    digest: status.digest,
    virtualPs: status.now,
    events: status.events,
    wallMs,
    processes: runFile.partitions.length + 1,
    finals,
    refused,
    ...(inexact.length > 0 && { inexact }),
    directory,
  };
  const report = await reportOn({ label, ...runFile }, outcome);
  print(JSON.stringify(report));
  showReport(report);
  if (!report.checks.every(({ holds }) => holds)) return EXIT.failed;
  return report.unchecked === undefined ? EXIT.done : EXIT.unclear;
}

/** Polls, as the bus may lose the message of the run's end. @throws RackError */
async function waitForEnd(control: ControlClient, runFile: RunFile): Promise<ClockStatus> {
  const start = performance.now();
  let heardMs = start, movedMs = start, shownMs = start;
  let events = -1;
  for (;; await sleep(POLL_MS)) {
    const status = await control.statusNow(STATUS_TIMEOUT_MS);
    const now = performance.now();
    if (status?.finished) return status;
    if (status !== undefined) heardMs = now;
    else if (now - heardMs > PATIENCE_MS) {
      const silent = `The timekeeper has not answered for ${seconds(now - heardMs)}`;
      throw new RackError(silent);
    }
    if (status === undefined || status.paused || status.events !== events) {
      movedMs = now;
      events = status?.events ?? events;
      continue;
    }
    const absent = status.why.filter((member) => member.status === "absent");
    if (absent.length > 0 && now - movedMs > PATIENCE_MS) {
      const names = absent.map(({ partition }) => partition).join(", ");
      const missing = `Not here for ${seconds(now - movedMs)}: ${names}; see their logs`;
      throw new RackError(missing);
    }
    if (now - movedMs < STALLED_MS || now - shownMs < STALLED_MS) continue;
    shownMs = now;
    say(stallText(status.why, runFile));
  }
}

async function askFinal(
  control: ControlClient,
  partition: string,
): Promise<FinalReply> {
  const final = await control.final(partition, { forMs: PATIENCE_MS });
  if (final === undefined) throw new RackError(noFinal([partition]));
  return final;
}

async function reportOn(ran: RunFile & Ran, outcome: Outcome) {
  const { run, plan } = ran;
  const summary = summarise({
    id: run,
    path: IN_CONTAINER.state,
    wallMs: outcome.wallMs,
    nats: true,
    outcomes: [await judge({ ...ran, hooked: [] }, outcome)],
  });
  const lines = (textIfThere(`${outcome.directory}/faults.jsonl`) ?? "").split("\n");
  const record: (RecordedFault | RecordedLinkFault)[] = lines.filter((line) => line !== "")
    .map((line) => JSON.parse(line));
  const powerFailures = record.filter((each) => each.action !== "link").map((
    { at, action, nodes },
  ) => ({
    at,
    action,
    nodes,
    scripted: plan.faults.some((fault) =>
      fault.at === at && fault.action === action && nodes.includes(fault.node)
    ),
  }));
  return { ...summary, powerFailures };
}

function showReport(report: Awaited<ReturnType<typeof reportOn>>): void {
  for (const text of figuresText(report)) say(text);
  for (const { at, action, nodes, scripted } of report.powerFailures) {
    const why = scripted ? "by the scenario" : "from outside, or a crash";
    say(`${action} of ${nodes.join(", ")} at ${formatTime(at)}, ${why}`);
  }
  for (const text of checksText(report)) say(text);
  say(`${effortText(report)}, digest ${report.digest}`);
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1_000)} s`;
}

if (import.meta.main) {
  const [run, label, directory = DIRECTORY] = Deno.args;
  if (run === undefined || label === undefined) {
    say("Usage: report_main.ts RUN LABEL [DIRECTORY]");
    Deno.exit(EXIT.usage);
  }
  // Process 1 of a container ends on a signal only where it listens to it.
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => Deno.exit(EXIT.unclear));
  }
  try {
    Deno.exit(await main(run, label, directory));
  } catch (error) {
    const { message, code } = explain(error);
    say(message);
    Deno.exit(code);
  }
}
