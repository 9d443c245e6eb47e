/**
 * A host on a bench, for unit tests: the test plays the RNIC. Time and order are a partition's: what
 * arrives at an instant comes before the host's own deadline.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { AuditRecord } from "../../../fabric/audit.ts";
import type { DurableWrite, Message, Node, Outputs, TraceStep } from "../../../fabric/node.ts";
import type { HostPlan, HostTiming } from "../../../fabric/rack/plan/plan.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { Host, type HostOptions } from "../host.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { Program } from "../program_context.ts";
import type { OpenDevice } from "../open_device.ts";
import { makeCmAgent } from "../cm/cm_state.ts";

/** Round numbers, each different, so that a test says which one it saw. */
export const RIG_TIMING: HostTiming = {
  llcHitPs: 20_000,
  dramLoadPs: 80_000,
  scmLoadPs: 130_000,
  scmMediumPs: 170_000,
  storePs: 5_000,
  storeBufferEntries: 4,
  storeBufferPs: 12_000,
  flushIssuePs: 4_000,
  fencePs: 50_000,
  // 64 B in 16 ns.
  ntStoreBitsPerSecond: 32_000_000_000,
  clwbStoredBitsPerSecond: 32_000_000_000,
  // 64 B in 8 ns.
  clwbDeviceBitsPerSecond: 64_000_000_000,
  postPs: 30_000,
  pollPs: 10_000,
  mmioPs: 60_000,
  interruptPs: 2_000_000,
  dmaReadLlcPs: 100_000,
  dmaReadDramPs: 160_000,
  dmaReadScmPs: 180_000,
  // 64 B in 8 ns.
  dmaReadBitsPerSecond: 64_000_000_000,
  iioPs: 100_000,
  // 64 B in 4 ns.
  iioBitsPerSecond: 128_000_000_000,
  iioDrainBytes: 64,
  memoryChannels: 1,
  wpqLines: 16,
  dramInterleaveBytes: 256,
  scmInterleaveBytes: 4096,
  // 256 B in 40.96 ns.
  scmReadBitsPerSecond: 50_000_000_000,
  // 256 B in 20.48 ns.
  scmWriteBitsPerSecond: 100_000_000_000,
  // 64 B in 3.2 ns.
  dramWriteBitsPerSecond: 160_000_000_000,
  scmLinePs: 3_000,
  commandPs: 4_000_000,
  minorFaultPs: 1_000_000,
  rangePagePs: 300_000,
  majorFaultPs: 30_000_000,
  pluggedLoadPs: 300_000,
  iotlbMissPs: 250_000,
  bootPs: 1_000_000,
};

export type PlanChanges = Partial<Omit<HostPlan, "timing">> & { timing?: Partial<HostTiming> };

/** A small host: 1 MiB of DRAM, 256 KiB of SCM, an LLC of 16 KiB; flow 1 under `adr`. */
export function rigPlan(changes: PlanChanges = {}): HostPlan {
  return {
    rnics: ["a-nic"],
    cores: 4,
    architecture: "ddio",
    ddio: false,
    domain: "adr",
    dramBytes: 1 << 20,
    scmBytes: 1 << 18,
    llc: { bytes: 16 * 1024, ways: 4, ddioWays: 2, evict: "lru" },
    queues: 16,
    completion: "poll",
    blueFlame: "off",
    programs: [],
    ...changes,
    timing: { ...RIG_TIMING, ...changes.timing },
  };
}

/** A program that needs no device. */
export type CpuProgram = (cpu: Cpu) => Steps<void>;

export interface Sent {
  readonly departAt: Time;
  readonly message: Message;
  /** The number of the card that it goes to. */
  readonly port: number;
}

export interface Report {
  readonly at: Time;
  readonly topic: string;
  readonly value: unknown;
}

export class HostRig {
  readonly node: Node;
  readonly plan: HostPlan;
  readonly sent: Sent[] = [];
  readonly reports: Report[] = [];
  readonly traces: TraceStep[] = [];
  readonly audits: AuditRecord[] = [];
  /** Everything that became persistent, oldest first. */
  readonly durable: DurableWrite[] = [];
  /** The SCM as a power failure now would leave it. */
  readonly survivors: Uint8Array<ArrayBuffer>;
  now: Time = 0;
  steps = 0;
  #arrivals: { at: Time; message: Message; port: number }[] = [];
  readonly #out: Outputs;

  /** Programs run from the end of the boot on, in order of their names, unless the plan says else. */
  constructor(
    changes: PlanChanges = {},
    rig: {
      programs?: Record<string, CpuProgram>;
      options?: Partial<HostOptions>;
      /** Whether {@link audits} has what is noted. */
      isAudited?: boolean;
    } = {},
  ) {
    const cpuPrograms = rig.programs ?? {};
    const names = Object.keys(cpuPrograms);
    const programs = names.map((run) => ({ run, at: 0, service: false, options: {} }));
    this.plan = rigPlan({ programs, ...changes });
    this.survivors = new Uint8Array(this.plan.scmBytes);
    const image = rig.options?.image;
    if (image !== undefined) this.survivors.set(image(0, this.plan.scmBytes));
    this.#out = this.#outputs(rig.isAudited === true);
    const onCores = names.map((name) => [name, onCpu(cpuPrograms[name]!)]);
    this.node = new Host("a", this.plan, {
      seed: 1,
      life: 0,
      addresses: { a: 0x0a000001 },
      inputs: {},
      programs: Object.fromEntries(onCores),
      boot: noDriver,
      ...rig.options,
    });
    this.step({ kind: "power" });
  }

  /**
   * A message that arrives at `at`, not before now. Messages of one instant arrive in call order.
   * @param port the number of the card that it comes from.
   */
  arrive(at: Time, message: Message, port = 0): void {
    assert(at >= this.now, `${at} ps is past`);
    let place = this.#arrivals.length;
    while (place > 0 && this.#arrivals[place - 1]!.at > at) place--;
    this.#arrivals.splice(place, 0, { at, message, port });
  }

  /** When the next thing happens. */
  get nextAt(): Time {
    return Math.min(this.#arrivals[0]?.at ?? NEVER, this.node.wakeAt());
  }

  /** Lets one thing happen. @returns false where nothing is left to happen. */
  next(): boolean {
    const arrival = this.#arrivals[0];
    const wakeAt = this.node.wakeAt();
    if (arrival !== undefined && arrival.at <= wakeAt) {
      this.#arrivals.shift();
      this.now = arrival.at;
      this.step({ kind: "message", port: arrival.port, message: arrival.message, tailPs: 0 });
      return true;
    }
    if (wakeAt === NEVER) return false;
    this.now = wakeAt;
    this.step({ kind: "wake" });
    return true;
  }

  /** Lets everything happen that happens at `until` or before, and makes that now; at rest the host holds nothing. */
  run(until: Time = NEVER): void {
    while (this.nextAt <= until && this.next());
    if (until === NEVER) {
      const held = this.node.heldAtRest!().map(({ text }) => text).join(", ");
      assert(held === "", `The host is at rest and holds: ${held}`);
      return;
    }
    this.now = until;
    this.#takeDurable(until + 1);
  }

  step(input: Parameters<Node["step"]>[1]): void {
    this.steps++;
    this.node.step(this.now, input, this.#out);
    assert(this.node.wakeAt() >= this.now, `wakes at ${this.node.wakeAt()} ps, before now`);
    this.#takeDurable(this.now);
  }

  #takeDurable(before: Time): void {
    for (const write of this.node.takeDurable!(before)) {
      this.durable.push(write);
      this.survivors.set(write.data, write.offset);
    }
  }

  /** Values reported under `topic`. */
  reported(topic: string): unknown[] {
    return this.reports.filter((report) => report.topic === topic).map(({ value }) => value);
  }

  #outputs(isAudited: boolean): Outputs {
    return {
      tracing: true,
      send: (port, message, departAt) => {
        assert(port < this.plan.rnics.length, `A host has no port ${port}`);
        assert(departAt >= this.now + this.node.processingPs, "sent sooner than promised");
        const before = this.sent.findLast((each) => each.port === port)?.departAt ?? 0;
        assert(departAt >= before, "sent out of order");
        this.sent.push({ departAt, message, port });
        return departAt;
      },
      trace: (step) => void this.traces.push(step),
      ...(isAudited && {
        auditing: true,
        audit: (_, note) => void this.audits.push(note),
      }),
      report: (topic, value) => void this.reports.push({ at: this.now, topic, value }),
    };
  }
}

function onCpu(program: CpuProgram): Program {
  return ({ cpu }) => program(cpu);
}

/** A boot that opens nothing. */
// deno-lint-ignore require-yield -- there is nothing to wait for
export function* noDriver(cpu: Cpu): Steps<OpenDevice> {
  const state = {
    card: cpu.card,
    contexts: new Map(),
    queuePairs: new Map(),
    completionQueues: new Map(),
  };
  return { cpu, state, verbs: {}, cm: { agent: makeCmAgent() } } as unknown as OpenDevice;
}

/** `length` bytes that differ from their neighbours and from those of another `salt`. */
export function pattern(length: number, salt = 1): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, i) => (i * 7 + salt * 31 + (i >> 8)) & 0xff || 1);
}
