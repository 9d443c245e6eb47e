/**
 * Runs a native recovery on what a power failure leaves of its host: the rack again, in which this host alone has
 * power and this program alone runs, with that SCM from its first instant on.
 */
import { NEVER, PS_PER_S, type Time } from "../../../fabric/base/time.ts";
import { formatTime } from "../../../fabric/base/time.ts";
import type {
  FaultPlan,
  NativePlan,
  ProgramPlan,
  RackPlan,
} from "../../../fabric/rack/plan/plan.ts";
import { Simulator } from "../../../fabric/partition/simulator.ts";
import { nodeFactory } from "../../../nodes/factory.ts";
import type { NativePort } from "../../../nodes/host/native/port.ts";
import { LOG_TOPIC, type LogLine } from "../../../nodes/host/cpu/log_text.ts";
import { countOf } from "../../checks/finding.ts";
import { HistoryLog, type Pages } from "../history.ts";

/** What a recovery came to. Plain data. */
export interface Recovered {
  readonly lines: readonly string[];
  /** Why the host is not in order after it: its exit code, or why it did not end; null: it is. */
  readonly wrong: string | null;
  /** Why it could not be run; null: it has run. */
  readonly notRun: string | null;
  readonly hasWritten: boolean;
}

export interface RecoveredHere extends Recovered {
  readonly log: HistoryLog;
}

/** [choice] Virtual time and events after which a recovery has no end. */
const RECOVERY_PS: Time = 10 * PS_PER_S;
const EVENTS_MOST = 2_000_000;
const SLICE_PS: Time = PS_PER_S / 1_000;

/** The program with which a host recovers, by host. */
export function recoveriesIn(plan: RackPlan): ReadonlyMap<string, ProgramPlan> {
  const found = new Map<string, ProgramPlan>();
  for (const node of plan.nodes) {
    if (node.kind !== "host") continue;
    for (const { native, options } of node.config.programs) {
      if (native?.recover !== undefined) found.set(node.name, programOf(native, options));
    }
  }
  return found;
}

function programOf(
  { recover, env }: NativePlan,
  options: ProgramPlan["options"],
): ProgramPlan {
  const native = { ...recover!, env };
  return { run: native.argv[0]!, at: 0, service: false, options, native };
}

/** The rack for a recovery of a host. */
function recoveryPlan(plan: RackPlan, host: string): RackPlan {
  const recovery = recoveriesIn(plan).get(host);
  if (recovery === undefined) throw new Error(`${host} has no recovery`);
  const { linkFaults: _, writebacks: _early, ...rest } = plan;
  const nodes = plan.nodes.map((node) =>
    node.kind !== "host"
      ? node
      : { ...node, config: { ...node.config, programs: node.name === host ? [recovery] : [] } }
  );
  const faults = plan.nodes.flatMap(({ kind, name }): FaultPlan[] =>
    kind === "host" && name !== host ? [{ at: 0, action: "kill", node: name }] : []
  );
  return { ...rest, nodes, faults, until: RECOVERY_PS };
}

/**
 * @param memory the host's SCM.
 * @param native starts the program.
 */
export function recoverOn(
  plan: RackPlan,
  { host, memory, native }: {
    readonly host: string;
    readonly memory: Pages;
    readonly native: (host: string, life: number) => NativePort;
  },
): RecoveredHere {
  const log = new HistoryLog(), lines: string[] = [];
  let isHeard = false;
  const heard = (port: NativePort): NativePort => ({
    ...port,
    start(options) {
      const process = port.start(options);
      isHeard ||= process.first !== undefined;
      return process;
    },
  });
  let code: number | undefined, failure: string | undefined;
  const own = recoveryPlan(plan, host);
  const simulator = new Simulator({
    plan: own,
    create: nodeFactory({
      plan: own,
      image: (name) => (offset, length) =>
        name === host ? memory.read(offset, offset + length) : new Uint8Array(length),
      inputs: () => ({}),
      own: {},
      native: (name, life) => heard(native(name, life)),
      memoryLog: (name) => name === host ? log : undefined,
    }),
    onReport(_, __, topic, value) {
      if (topic === LOG_TOPIC) lines.push((value as LogLine).text);
      if (topic === "native-ended") code = (value as { readonly code: number }).code;
      if (topic === "program-failed") failure = (value as { readonly message: string }).message;
    },
  });
  while (simulator.next < RECOVERY_PS && simulator.events < EVENTS_MOST) {
    simulator.run(simulator.next + SLICE_PS);
  }
  const hasWritten = log.entries.length > 0;
  const judged = { lines, hasWritten, notRun: null, log };
  if (code === 0 && failure === undefined) return { ...judged, wrong: null };
  // The file is gone, or does not load the library.
  if (!isHeard) return { ...judged, wrong: null, notRun: failure ?? `exit code ${code}` };
  if (code !== undefined || failure !== undefined) {
    return { ...judged, wrong: `recovery ends with ${failure ?? `exit code ${code}`}` };
  }
  return { ...judged, wrong: endlessText(simulator) };
}

function endlessText(simulator: Simulator): string {
  const [waiting] = simulator.unfinished();
  const waits = waiting?.value.waitsFor;
  const what = simulator.next === NEVER
    ? `waits for ${waits ?? "something"}, which does not come`
    : simulator.events >= EVENTS_MOST
    ? `goes on after ${countOf(simulator.events, "event")}`
    : `goes on after ${formatTime(RECOVERY_PS)} of virtual time`;
  return `recovery ${what}`;
}
