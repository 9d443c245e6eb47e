/**
 * An orderly shutdown of a host of a running rack (C-09). The timekeeper orders it and turns the power off; the host
 * reports its steps and its end with the order's number.
 */
import { reportFromBytes } from "../../../fabric/rack/assembly/report_message.ts";
import { patternOf } from "../../../fabric/bus/subjects.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import { oneOf, refusal } from "../../../fabric/rack/plan/problem.ts";
import type { ShutdownReport, ShutdownStep } from "../../../nodes/host/shutdown.ts";
import { RackError } from "../../base/rack_error.ts";
import { undoneText } from "../../checks/shutdowns.ts";
import { isTimeHeld } from "./clock_text.ts";
import { checkEnd, countFaults, entryOf, type Faults, isOf } from "./power.ts";
import { partitionOf, type RackLink } from "./racks.ts";
import { isForgotten } from "./transfer.ts";

export interface ShutDownOptions {
  /** In ps from the shutdown's begin on; > 0. */
  readonly withinPs: Time;
  readonly timeoutSeconds: number;
  /** Called once where time is held, so that the shutdown waits. */
  readonly onHeld?: (status: ClockStatus) => void;
}

export interface ShutDownOutcome extends Omit<ShutdownReport, "order" | "failed"> {
  readonly nodes: readonly string[];
  readonly offAt: Time;
}

const LOOK_AGAIN_MS = 20;
/** The bus may lose a report, so every n-th look asks the host for those that it keeps. */
const KEPT_EVERY = 10;
/** After so many looks without a report, an order is given again. */
const MISSED_MOST = 2;
const LATE_LOOKS = 25;

/**
 * Shuts a host down, waits until its power is off, and returns what the shutdown has done.
 * @throws Refusal where it cannot be shut down; RackError with code 1 where the power went off
 * before all was done, with code 2 where that is not known.
 */
export async function shutDownHost(
  link: RackLink,
  host: string,
  options: ShutDownOptions,
): Promise<ShutDownOutcome> {
  const { rack, control } = link, { timeoutSeconds, withinPs, onHeld } = options;
  checkHost(link, host);
  const to = `shut down ${host}`, entry = entryOf(rack, host);
  await checkEnd(link, to);
  const before = await countFaults(link);
  const seen = listen(link, host);
  const deadline = performance.now() + 1_000 * timeoutSeconds;
  const give = async () =>
    (await control.demand<{ readonly order: number }>("shutdown", { host, withinPs }, { to }))
      .order;
  try {
    let number = await give(), isHeld = false, missed = 0, late = 0;
    for (let look = 1;; look++) {
      const answer = await control.attempt<Faults>("faults", { from: before });
      const off = answer !== undefined && "ok" in answer
        ? answer.ok.faults.find(isOf(entry, "kill"))
        : undefined;
      const said = seen.of(number);
      if (off !== undefined && (said.report !== undefined || late++ === LATE_LOOKS)) {
        return outcomeOf(host, { ...said, offAt: off.at, nodes: entry.nodes });
      }
      if (off === undefined && look % KEPT_EVERY === 0) {
        const status = await control.status();
        await askKept(link, { host, take: seen.take });
        missed = await isForgotten(link, { host, number, status }) ? missed + 1 : 0;
        if (missed >= MISSED_MOST) {
          missed = 0;
          number = await give();
        }
        if (!isHeld && isTimeHeld(status)) onHeld?.(status);
        isHeld ||= isTimeHeld(status);
      }
      if (performance.now() > deadline) {
        throw new RackError(`${host} has not been shut down after ${timeoutSeconds} s`);
      }
      await sleep(LOOK_AGAIN_MS);
    }
  } finally {
    seen.close();
  }
}

function checkHost({ rack: { file: { plan } } }: RackLink, host: string): void {
  const hosts = plan.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  if (hosts.includes(host)) return;
  const expected = `a host: ${oneOf(hosts, host)}`;
  throw refusal("", { found: `"${host}" cannot be shut down`, expected });
}

interface Said {
  readonly step?: ShutdownStep;
  readonly report?: ShutdownReport;
  readonly isUnsure: boolean;
}

type Take = (topic: string, value: unknown) => void;

function listen({ rack, bus }: RackLink, host: string) {
  const steps = new Map<number, ShutdownStep>(), reports = new Map<number, ShutdownReport>();
  let isUnsure = false;
  bus.onStatus((status) => isUnsure ||= status === "disconnected");
  const take: Take = (topic, value) => {
    const { order } = Object(value) as { readonly order?: number };
    if (order === undefined) return;
    if (topic === "shutdown-step") steps.set(order, value as ShutdownStep);
    if (topic === "shutdown") reports.set(order, value as ShutdownReport);
  };
  const subject = patternOf({ kind: "report", run: rack.file.run, node: host });
  const subscription = bus.subscribe(subject, (payload) => {
    const report = reportFromBytes(payload);
    if (report !== undefined) take(report.topic, report.value);
  });
  return {
    take,
    of(order: number): Said {
      const step = steps.get(order), report = reports.get(order);
      return { ...(step && { step }), ...(report && { report }), isUnsure };
    },
    close: () => subscription.close(),
  };
}

async function askKept(
  { rack, control }: RackLink,
  { host, take }: { readonly host: string; readonly take: Take },
): Promise<void> {
  const final = await control.final(partitionOf(rack, host)!, { forMs: 0 });
  for (const { topic, value } of final?.reports ?? []) take(topic, value);
}

function outcomeOf(
  host: string,
  { step, report, isUnsure, offAt, nodes }: Said & Pick<ShutDownOutcome, "offAt" | "nodes">,
): ShutDownOutcome {
  if (report === undefined) {
    const off = `${host}'s power went off at ${formatTime(offAt)}`;
    if (isUnsure) {
      throw new RackError(`${off}; whether its shutdown had ended is not known: the bus was away`);
    }
    const had = step === undefined
      ? ""
      : `, ${formatTime(offAt - step.begun)} after its shutdown had begun and`;
    throw new RackError(`${off}${had} before ${undoneText(step)}`, EXIT.failed);
  }
  const { order: _, failed, ...done } = report;
  if (failed.length === 0) return { ...done, nodes, offAt };
  const found = `${host} is shut down, and has not given back ${failed.join("; ")}`;
  throw new RackError(found, EXIT.failed);
}
