/**
 * Orderly shutdown (C-09): programs end, regions are given back, dirty lines of SCM go to memory,
 * as by `wbinvd` at the end of an operating system.
 */
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { type Machine, writeBackPs } from "./cpu/cpu.ts";
import type { Processor } from "./cpu/processor.ts";
import type { Cpu, Steps } from "./cpu/program.ts";
import { HostShutdown } from "./cpu/region.ts";
import { SCM_BASE } from "./memory/address_map.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";

/**
 * A choice: time for programs to end, as between the two signals of a shutdown, and the interval of
 * the driver's checks. Later stores of a program may not be written back; lines of regions it
 * cannot store to.
 */
const STOP_PS = 20 * PS_PER_US, LOOK_PS = PS_PER_US / 4;

const WRITE_BACK_STEPS = 8;

interface Begun {
  readonly begun: Time;
  /** Absent where the plan began it. */
  readonly order?: number;
}

/**
 * The remaining work (report `shutdown-step`). A shutdown that a power failure interrupts is known
 * by its last step.
 */
export type ShutdownStep =
  & Begun
  & (
    | { readonly step: "end-programs"; readonly programs: number }
    | { readonly step: "give-back"; readonly regions: readonly string[] }
    | { readonly step: "write-back"; readonly lines: number }
  );

export interface ShutdownReport extends Begun {
  /** All of SCM is in the persistence domain, and no far card has a line of this host's. */
  readonly complete: Time;
  readonly stopped: number;
  readonly regions: readonly string[];
  readonly failed: readonly string[];
  readonly lines: number;
}

export function* shutDown<Context>(
  { machine, processor, cpu, order }: {
    readonly machine: Machine<Context>;
    readonly processor: Processor;
    readonly cpu: Cpu;
    readonly order: number | undefined;
  },
): Steps<void> {
  const { regions, name } = machine;
  const of: Begun = { begun: cpu.now, ...(order !== undefined && { order }) }, { begun } = of;
  const tell = (step: ShutdownStep) => machine.out.report("shutdown-step", step);
  const error = new HostShutdown(`${name} shuts down since ${begun} ps`);
  regions?.close(error);
  const stopped = processor.stopPrograms(error, begun);
  tell({ ...of, step: "end-programs", programs: stopped });
  while (
    regions !== undefined && regions.pending > 0 ||
    cpu.now < begun + STOP_PS && processor.hasPrograms
  ) yield* cpu.sleep(LOOK_PS);
  const given = regions === undefined
    ? { regions: [], failed: [] }
    : yield* regions.giveBack(cpu, (left) => tell({ ...of, step: "give-back", regions: left }));
  const lines = yield* writeBackScm(
    machine,
    cpu,
    (left) => tell({ ...of, step: "write-back", lines: left }),
  );
  const report: ShutdownReport = {
    ...of,
    complete: cpu.now,
    stopped,
    regions: given.regions,
    failed: given.failed,
    lines,
  };
  machine.out.report("shutdown", report);
}

/**
 * Writes back the LLC's dirty lines and the write-combining buffers. @returns the number of lines.
 * @param onLeft called now and then with the remaining number.
 */
function* writeBackScm<Context>(
  { memory, timing }: Machine<Context>,
  cpu: Cpu,
  onLeft: (lines: number) => void,
): Steps<number> {
  memory.combining.drain(SCM_BASE, cpu.scm.length);
  const addresses = memory.llc.dirtyLines().map((line) => memory.physical.addressOf(line))
    .filter((address) => address >= SCM_BASE).sort((x, y) => x - y);
  const part = Math.ceil(addresses.length / WRITE_BACK_STEPS);
  for (const [i, address] of addresses.entries()) {
    if (i % part === 0) onLeft(addresses.length - i);
    const dirty = memory.dirtyLines(address, LINE_BYTES);
    cpu.charge(Math.max(timing.flushIssuePs, writeBackPs(dirty, timing)));
    yield* cpu.settle();
    for (;;) {
      const freeAt = memory.freeAt(address, LINE_BYTES);
      if (freeAt <= cpu.now) break;
      cpu.charge(freeAt - cpu.now);
      yield* cpu.settle();
    }
    memory.writeBackRange(address, LINE_BYTES);
  }
  cpu.charge(timing.fencePs);
  yield* cpu.settle();
  return addresses.length;
}
