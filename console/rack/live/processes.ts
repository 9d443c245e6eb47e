import { BusError } from "../../../fabric/bus/bus.ts";
import { finalVerb } from "../../../fabric/bus/access.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import type { FinalPage } from "../../../fabric/rack/assembly/run_file.ts";
import { isProcessOf, type ProcessEntry, readProcesses, residentBytes } from "../process_table.ts";
import type { ControlClient } from "./control.ts";
import { isAttached, isElsewhere, linkedTo, type RackUp } from "./racks.ts";

export interface SeenProcess extends ProcessEntry {
  readonly alive: boolean;
}

export interface RunningProcess extends SeenProcess {
  readonly residentBytes: number;
  /** In the timekeeper's view: idle, running, dead …; null for other processes. */
  readonly status: string | null;
}

const CLOCK_MS = 1_500, FINAL_MS = 500;

/** The clock is undefined where the broker or the timekeeper does not answer. */
export async function processesOf(rack: RackUp) {
  const ask = async (control: ControlClient) => {
    const clock = await control.status({ forMs: CLOCK_MS });
    const there = rack.file.partitions.filter(({ name }) =>
      isAttached(rack) || isElsewhere(rack, name)
    );
    return { clock, bytes: await bytesThere(there, control) };
  };
  const options = { timeoutMs: CLOCK_MS };
  const found = await linkedTo(rack, ({ control }) => ask(control), options).catch((error) => {
    if (error instanceof BusError) return undefined;
    throw error;
  });
  const clock = found?.clock;
  const processes = entriesOf(rack, clock).map((entry): RunningProcess => ({
    ...entry,
    residentBytes: entry.pid !== null && entry.alive
      ? residentBytes(entry.pid)
      : found?.bytes.get(entry.name) ?? 0,
    status: clock?.why.find(({ partition }) => partition === entry.name)?.status ?? null,
  }));
  return { processes, clock };
}

/** Of processes on other machines: what the timekeeper knows; none where it is silent. */
export function entriesOf(rack: RackUp, clock: ClockStatus | undefined): SeenProcess[] {
  const here = isAttached(rack) ? [] : readProcesses(rack.directory).map((entry) => {
    return { ...entry, alive: isProcessOf(rack.directory, entry.pid) };
  });
  if (clock === undefined) return here;
  const without = new Set(
    clock.why.filter(({ status }) => status === "dead" || status === "absent")
      .map(({ partition }) => partition),
  );
  const services = (["nats", "timekeeper"] as const).map((name): SeenProcess => {
    return { name, kind: name, pid: null, nodes: [], alive: true };
  });
  const partitions = rack.file.partitions.map(({ name, nodes }): SeenProcess => {
    return { name, kind: "partition", pid: null, nodes, alive: !without.has(name) };
  });
  if (isAttached(rack)) return [...services, ...partitions];
  return [...here, ...partitions.filter(({ name }) => isElsewhere(rack, name))];
}

async function bytesThere(
  partitions: RackUp["file"]["partitions"],
  control: ControlClient,
): Promise<Map<string, number>> {
  const rows = await Promise.all(partitions.map(async ({ name }) => {
    const body = { after: Number.MAX_SAFE_INTEGER };
    const answer = await control.attempt<FinalPage>(finalVerb(name), body, { timeoutMs: FINAL_MS });
    const bytes = answer !== undefined && "ok" in answer ? answer.ok.residentBytes : 0;
    return [name, bytes] as const;
  }));
  return new Map(rows);
}
