/**
 * The kernel's thread for a card's hints, on the first core (001_ [0114]): does the core's part of
 * a job that an event reports, and confirms it by a command.
 */
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import {
  EXIT_PS,
  EXITS,
  type HintWork,
  isOnCore,
  WORK_JOBS,
  type WorkJob,
  workPs,
} from "../../../fabric/rack/plan/hint_work.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Account, Processor } from "../cpu/processor.ts";
import type { Cpu, Steps } from "../cpu/program.ts";

export type HintEvent = Extract<RnicEvent, { type: "HINT_WORK" }>;

export interface HintThreadParts {
  readonly name: string;
  readonly machine: { readonly now: Time; readonly timing: HostTiming };
  readonly processor: Pick<Processor, "add">;
  readonly cpu: (name: string, account: Account) => Pick<Cpu, "charge" | "settle" | "command">;
  readonly work: HintWork | undefined;
  readonly onFailure: (name: string, error: unknown) => void;
}

export class HintThread {
  /** Jobs done, and their time on the core, without interrupts and commands. */
  jobs = 0;
  workPs: Time = 0;
  readonly #parts: HintThreadParts;
  readonly #events: HintEvent[] = [];
  #isRunning = false;

  constructor(parts: HintThreadParts) {
    this.#parts = parts;
  }

  take(event: HintEvent): void {
    this.#events.push(event);
    this.#serve();
  }

  reset(): void {
    this.#events.length = 0;
  }

  #serve(): void {
    const { name, machine, processor, cpu, onFailure } = this.#parts;
    if (this.#isRunning || this.#events.length === 0) return;
    this.#isRunning = true;
    const end = () => {
      this.#isRunning = false;
      this.#serve();
    };
    processor.add({
      name,
      driver: true,
      serves: true,
      startAt: machine.now + machine.timing.interruptPs,
      start: (account) => this.#run(cpu(name, account)),
      onReturn: end,
      onFailure: (error) => {
        end();
        onFailure(name, error);
      },
    });
  }

  *#run(cpu: Pick<Cpu, "charge" | "settle" | "command">): Steps<void> {
    const { work = {}, machine: { timing } } = this.#parts;
    for (let event = this.#events.shift(); event !== undefined; event = this.#events.shift()) {
      const ps = hostWorkPs(work, { ...event, timing });
      this.jobs++;
      this.workPs += ps;
      cpu.charge(ps);
      yield* cpu.settle();
      yield* cpu.command({ op: "hint-work", id: event.id });
    }
  }
}

/**
 * A core's time for its part, in ps, without interrupt and command. The kernel wakes a worker,
 * which takes as long as an interrupt's thread; a guest's driver is called and answers through the
 * hypervisor.
 */
export function hostWorkPs(
  work: HintWork,
  { job, elements, timing }: {
    readonly job: WorkJob;
    readonly elements: number;
    readonly timing: Pick<HostTiming, "interruptPs">;
  },
): Time {
  const pieces = WORK_JOBS[job].filter((piece) => {
    const place = work[piece];
    return place !== undefined && isOnCore(place);
  });
  const isIn = (place: string) => pieces.some((piece) => work[piece] === place);
  return pieces.reduce((sum, piece) => sum + workPs(work, piece, elements), 0) +
    (isIn("os") ? timing.interruptPs : 0) +
    (isIn("hypervisor") ? (EXITS.event + EXITS.command) * EXIT_PS : 0);
}
