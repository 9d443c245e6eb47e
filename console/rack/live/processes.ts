/** The processes of a rack that is up, and what time it is there. */
import { BusError } from "../../../fabric/bus/bus.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { isProcessOf, type ProcessEntry, readProcesses, residentBytes } from "../process_table.ts";
import { linkedTo, type RackUp } from "./racks.ts";

/** A process of a rack, with what is known of it from outside and by the timekeeper. */
export interface RunningProcess extends ProcessEntry {
  readonly alive: boolean;
  readonly residentBytes: number;
  /** What the timekeeper thinks of it: idle, running, dead …; null where it is not asked. */
  readonly status: string | null;
}

export interface RackProcesses {
  readonly processes: readonly RunningProcess[];
  /** Undefined where broker or timekeeper are away just now. */
  readonly clock: ClockStatus | undefined;
}

/** Looks at a rack's processes, whether or not its clock answers. */
export async function processesOf(rack: RackUp): Promise<RackProcesses> {
  const clock = await clockOf(rack);
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

const CLOCK_MS = 1_500;

async function clockOf(rack: RackUp): Promise<ClockStatus | undefined> {
  try {
    const options = { timeoutMs: CLOCK_MS };
    return await linkedTo(rack, ({ control }) => control.status(CLOCK_MS), options);
  } catch (error) {
    if (error instanceof BusError) return undefined;
    throw error;
  }
}
