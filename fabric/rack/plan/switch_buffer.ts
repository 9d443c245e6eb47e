/**
 * How a switch's memory is divided.
 *
 * Every priority group (an input port's lossless priority) and every output port's lossy frames
 * have reserved bytes; a priority group has headroom for what still arrives after its pause; the
 * rest is shared. Sources: SAI's buffer model as SONiC has it ("Dynamically Headroom Calculation",
 * doc/qos of sonic-net/SONiC), and the MMU of HPCC's ns-3 (`switch-mmu.cc`: buffer = reserve +
 * headroom + shared).
 */
import type { SwitchPlan } from "./plan.ts";

/** The parts add up to `totalBytes`. */
export interface BufferParts {
  readonly totalBytes: number;
  readonly reservedBytes: number;
  readonly headroomBytes: number;
  /** Below 0 where the others do not fit into the memory. */
  readonly sharedBytes: number;
}

export type BufferedSwitch = Pick<
  SwitchPlan,
  "ports" | "queueBytes" | "bufferBytes" | "reservedBytes" | "congestion"
>;

/**
 * Without `bufferBytes` the memory is the sum of all queues, the groups' reserved bytes and all
 * headroom: pool bytes held by groups below their threshold reduce those of lossy queues.
 */
export function bufferParts(plan: BufferedSwitch): BufferParts {
  const { ports, queueBytes, reservedBytes: own = 0 } = plan;
  const pfc = plan.congestion?.pfc ?? null;
  const priorities = pfc === null ? 0 : countBits(pfc.lossless);
  const groups = pfc === null ? 0 : pfc.ports.length * priorities;
  const headroomBytes = pfc === null ? 0 : pfc.headroomPoolBytes ??
    priorities * pfc.ports.reduce((sum, port) => sum + port.headroomBytes, 0);
  const reservedBytes = (ports + groups) * own;
  const totalBytes = plan.bufferBytes ??
    ports * Math.max(queueBytes, own) + groups * own + headroomBytes;
  return {
    totalBytes,
    reservedBytes,
    headroomBytes,
    sharedBytes: totalBytes - reservedBytes - headroomBytes,
  };
}

function countBits(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count++;
  return count;
}
