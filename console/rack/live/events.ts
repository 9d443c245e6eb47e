/**
 * The state first, then each change: reports and power as the bus brings them, all else within
 * {@link LOOK_AGAIN_MS}. Times are virtual (`atPs`); the order is that of arrival, which may
 * differ.
 */
import { reportFromBytes } from "../../../fabric/rack/assembly/report_message.ts";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { decodeSealed } from "../../../fabric/bus/codec.ts";
import { after } from "../../../fabric/bus/wall_time.ts";
import { ANY, parseSubject, patternOf } from "../../../fabric/bus/subjects.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import type { PowerNews, RecordedFault } from "../../../fabric/clock/record.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { targetName } from "../../../fabric/rack/plan/cable_names.ts";
import type { LinkFaultPlan } from "../../../fabric/rack/plan/link_plan.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import type { ProcessEntry } from "../process_table.ts";
import { type EndFile, isServed, readEnd } from "../run_directory.ts";
import { clockDocument } from "./clock_text.ts";
import { entriesOf } from "./processes.ts";
import type { RackLink } from "./racks.ts";

type Clock = ReturnType<typeof clockDocument>;

export interface LinkEvent {
  readonly event: "link";
  readonly fault: number;
  readonly action: LinkFaultPlan["action"];
  readonly target: string;
  readonly atPs: Time;
  readonly untilPs?: Time;
}

/** Of the broker and the timekeeper, too. */
export interface ProcessEvent {
  readonly event: "process";
  readonly name: string;
  readonly kind: ProcessEntry["kind"];
  readonly pid: number | null;
  readonly alive: boolean;
}

export interface StateEvent {
  readonly event: "state";
  readonly run: string;
  readonly scenario: string;
  readonly seed: number;
  /** Null: the timekeeper does not answer. */
  readonly clock: Clock | null;
  readonly nodes: readonly {
    readonly name: string;
    readonly kind: string;
    readonly power: boolean;
  }[];
  readonly processes: readonly Omit<ProcessEvent, "event">[];
  readonly links: readonly Omit<LinkEvent, "event">[];
}

export type RackEvent =
  | StateEvent
  | ProcessEvent
  | LinkEvent
  | ({ readonly event: "clock" } & Clock)
  | {
    readonly event: "power";
    readonly action: RecordedFault["action"];
    readonly nodes: readonly string[];
    readonly atPs: Time;
  }
  | {
    readonly event: "report";
    readonly node: string;
    readonly topic: string;
    readonly value: unknown;
    readonly atPs: Time;
  }
  /** The last event; with a reason where the rack ended by itself. */
  | ({ readonly event: "ended" } & Partial<EndFile>);

/** A look asks the timekeeper twice and reads a file of /proc for each process. */
const LOOK_AGAIN_MS = 250;

/** Ends when the rack is down or the signal is aborted. */
export async function* rackEvents(
  link: RackLink,
  signal: AbortSignal,
): AsyncGenerator<RackEvent, void> {
  const { rack, bus } = link;
  const { arrived, arrival, close } = listen(bus, rack.file.run);
  try {
    const seen = await look(link, 0);
    yield stateOf(link, seen);
    for (let before = seen, lookAtMs = 0; !signal.aborted;) {
      for (const each of arrived.splice(0)) {
        if (each.event === "report") yield each;
        else if (each.number === before.powerCount) {
          // A gap in the count is a lost event: the next look has them all.
          before = { ...before, powerCount: each.number + 1 };
          yield powerEvent(each);
        }
      }
      if (performance.now() >= lookAtMs) {
        if (!isServed(rack.directory, rack.supervisor)) {
          yield { event: "ended", ...readEnd(rack.directory) };
          return;
        }
        const now = await look(link, before.powerCount);
        yield* changes(rack.file.plan, { before, now });
        before = { ...now, clock: now.clock ?? before.clock };
        lookAtMs = performance.now() + LOOK_AGAIN_MS;
      }
      if (arrived.length === 0) await arrival(lookAtMs - performance.now());
    }
  } finally {
    close();
  }
}

type Arrived = Extract<RackEvent, { event: "report" }> | ({ readonly event: "news" } & PowerNews);

function listen(bus: Bus, run: string) {
  const arrived: Arrived[] = [];
  let wake = () => {};
  const take = (each: Arrived) => {
    arrived.push(each);
    wake();
  };
  const subscriptions = [
    bus.subscribe(patternOf({ kind: "report", run, node: ANY }), (payload, subject) => {
      const to = parseSubject(subject), report = reportFromBytes(payload);
      if (to?.kind !== "report" || report === undefined) return;
      const { topic, value, time: atPs } = report;
      take({ event: "report", node: to.node, topic, value, atPs });
    }),
    bus.subscribe(patternOf({ kind: "control", run, verb: "power" }), (payload) => {
      const news = decodeSealed(payload);
      if (isPowerNews(news)) take({ event: "news", ...news });
    }),
  ];
  return {
    arrived,
    arrival: (ms: number) =>
      new Promise<void>((resolve) => {
        const cancel = after(Math.max(0, ms), resolve);
        wake = () => {
          cancel();
          resolve();
        };
      }),
    close: () => subscriptions.forEach((each) => each.close()),
  };
}

function isPowerNews(value: unknown): value is PowerNews {
  const { number, at, action, nodes } = Object(value) as Partial<PowerNews>;
  return Number.isSafeInteger(number) && Number.isSafeInteger(at) && Array.isArray(nodes) &&
    (action === "kill" || action === "start");
}

function powerEvent({ action, nodes, at }: Seen["power"][number]): RackEvent {
  return { event: "power", action, nodes, atPs: at };
}

interface Recorded {
  readonly faults: Seen["power"];
  readonly count: number;
  readonly links: Seen["linkFaults"];
}

export interface Seen {
  readonly clock: ClockStatus | undefined;
  readonly processes: readonly Omit<ProcessEvent, "event">[];
  readonly linkFaults: readonly LinkFaultPlan[];
  /** Since the last look; `powerCount`: in all. */
  readonly power: readonly Pick<RecordedFault, "at" | "action" | "nodes">[];
  readonly powerCount: number;
}

async function look({ rack, control }: RackLink, powerCount: number): Promise<Seen> {
  const clock = await control.statusNow();
  const answer = await control.attempt<Recorded>("faults", { from: powerCount, links: true });
  const power = answer !== undefined && "ok" in answer ? answer.ok : undefined;
  return {
    clock,
    processes: entriesOf(rack, clock).map(({ name, kind, pid, alive }) => ({
      name,
      kind,
      pid,
      alive,
    })),
    linkFaults: power?.links ?? [],
    power: power?.faults ?? [],
    powerCount: power?.count ?? powerCount,
  };
}

function stateOf({ rack }: RackLink, seen: Seen): StateEvent {
  const { plan } = rack.file;
  const without = new Set<string>();
  for (const { action, nodes } of seen.power) {
    for (const node of nodes) action === "kill" ? without.add(node) : without.delete(node);
  }
  const faults = [...plan.linkFaults ?? [], ...seen.linkFaults];
  return {
    event: "state",
    run: rack.id,
    scenario: plan.scenario,
    seed: plan.seed,
    clock: seen.clock === undefined ? null : clockDocument(seen.clock),
    nodes: plan.nodes.map(({ name, kind }) => ({ name, kind, power: !without.has(name) })),
    processes: seen.processes,
    links: faults.map((fault) => linkOf(plan, fault)),
  };
}

function linkOf(plan: RackPlan, fault: LinkFaultPlan): Omit<LinkEvent, "event"> {
  const { id, action, at, until } = fault;
  const target = targetName(plan, fault);
  return { fault: id, action, target, atPs: at, ...(until !== undefined && { untilPs: until }) };
}

export function changes(
  plan: RackPlan,
  { before, now }: { readonly before: Seen; readonly now: Seen },
): RackEvent[] {
  const isKnown = new Set(before.linkFaults.map(({ id }) => id));
  const processes = new Map(before.processes.map((each) => [each.name, each]));
  return [
    ...now.processes.flatMap((each) => processChanges(processes.get(each.name), each)),
    ...now.power.map(powerEvent),
    ...now.linkFaults.filter(({ id }) => !isKnown.has(id))
      .map((fault) => ({ event: "link" as const, ...linkOf(plan, fault) })),
    ...(now.clock !== undefined && holdOf(now.clock) !== holdOf(before.clock)
      ? [{ event: "clock" as const, ...clockDocument(now.clock) }]
      : []),
  ];
}

/** A process that was restarted between two looks has also ended. */
function processChanges(
  old: Seen["processes"][number] | undefined,
  now: Seen["processes"][number],
): ProcessEvent[] {
  const isAnother = old?.alive === true && now.alive && old.pid !== now.pid;
  if (!isAnother && old?.alive === now.alive) return [];
  const ended = isAnother ? [{ event: "process" as const, ...old, alive: false }] : [];
  return [...ended, { event: "process", ...now }];
}

/** The clock's progress is no event. */
function holdOf(clock: ClockStatus | undefined): string {
  if (clock === undefined) return "";
  const { paused, finished, pace, limit } = clock;
  return `${paused} ${finished} ${pace} ${limit}`;
}
