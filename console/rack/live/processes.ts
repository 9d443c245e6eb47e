/** The processes of a running rack, and its virtual time. */
import { BusError } from "../../../fabric/bus/bus.ts";
import { isProcessOf, type ProcessEntry, readProcesses, residentBytes } from "../process_table.ts";
import { linkedTo, type RackUp } from "./racks.ts";

export interface RunningProcess extends ProcessEntry {
  readonly alive: boolean;
  readonly residentBytes: number;
  /** Its state in the timekeeper's view: idle, running, dead …; null for a process without one. */
  readonly status: string | null;
}

const CLOCK_MS = 1_500;

/**
 * The processes of a rack, and its clock: undefined where the broker or the timekeeper does not
 * answer.
 */
export async function processesOf(rack: RackUp) {
  const options = { timeoutMs: CLOCK_MS };
  const clock = await linkedTo(rack, ({ control }) => control.status(CLOCK_MS), options).catch(
    (error) => {
      if (error instanceof BusError) return undefined;
      throw error;
    },
  );
  const processes = readProcesses(rack.directory).map((entry): RunningProcess => {
    const alive = isProcessOf(rack.directory, entry.pid);
    return {
      ...entry,
      alive,
      residentBytes: alive ? residentBytes(entry.pid!) : 0,
      status: clock?.why.find(({ partition }) => partition === entry.name)?.status ?? null,
    };
  });
  return { processes, clock };
}
