/**
 * A host of the plan, with driver and programs. Apart from `factory.ts`, so that the process of a
 * card or switch need not load it.
 */
import { type HostPlan, type RackPlan, stallsOf } from "../fabric/rack/plan/plan.ts";
import type { JudgeRule } from "../fabric/coherence/judge_placement.ts";
import { judgeRulesOf } from "../fabric/rack/plan/shared_region.ts";
import type { Program } from "./host/program_context.ts";
import type { MemoryLog } from "./host/memory/memory_log.ts";
import type { HeldLog } from "./rnic/state/dma_state.ts";
import type { DurableWrite, Node } from "../fabric/node.ts";
import { Host } from "./host/host.ts";
import type { Rests } from "./host/cpu/processor.ts";
import { NEVER, type Time } from "../fabric/base/time.ts";
import { type Cpu, type Steps, stepsOf } from "./host/cpu/program.ts";
import type { MakeProgram, OwnProgram } from "./host/own_programs.ts";
import { type ImageReader, overlay } from "./host/memory/sparse_bytes.ts";
import { bootDevice, type OpenDevice, reopenDevice } from "./host/open_device.ts";
import { ownTables, withOwnRows } from "./own_tables.ts";
import type { NativePort, NativeProcess } from "./host/native/port.ts";
import { nativeProgram } from "./host/native/serve.ts";
import { takeBack } from "./host/take_back.ts";
import { handleEvent } from "./host/verbs/device.ts";
import { serveEvents } from "./host/verbs/event_queue.ts";
import { watchDoorbells } from "./host/verbs/doorbell_watch.ts";

export interface FactoryOptions {
  readonly plan: RackPlan;
  /** SCM's content at power-on; absent: zeros. */
  readonly image: (host: string) => ImageReader | undefined;
  readonly inputs: (host: string) => Readonly<Record<string, Uint8Array>>;
  readonly own?: Readonly<Record<string, MakeProgram>>;
  /** Starts native programs of a host in one of its lives, from 0; absent: there are none. */
  readonly native?: ((host: string, life: number) => NativePort) | undefined;
  /** The log of a host's SCM in one of its lives, from 0; absent: none. */
  readonly memoryLog?: (host: string, life: number) => MemoryLog | undefined;
  /** Observes the RNIC in one life, from 0; absent: none. */
  readonly heldLog?: (rnic: string, life: number) => HeldLog | undefined;
  /** Observes rests of a host's threads. @param rest.by host, life and thread, as in notes. */
  readonly onRest?: (rest: Rest) => void;
}

export interface Rest extends Omit<Parameters<Rests>[0], "thread"> {
  readonly by: string;
}

export const SERVICES: readonly string[] = ["cm"];

export interface HostLife {
  readonly name: string;
  readonly life: number;
  readonly unsaved: readonly DurableWrite[];
  readonly config: HostPlan;
}

/** @param options.programs the shipped programs that the host may run. */
export function makeHost(
  host: HostLife,
  options: FactoryOptions & { readonly programs: Readonly<Record<string, Program>> },
): Node {
  const { name, life, unsaved, config } = host;
  const own = instancesOf(host, options.own ?? {});
  const saved = options.image(name);
  const image = unsaved.length === 0 ? saved : overlaid(saved, unsaved);
  const recovery: Recovery = { state: life === 0 ? "done" : "due" };
  const rests = restsOf(host, options);
  const retryPs = config.queuePlan?.doorbell.retryPs;
  const memoryLog = options.memoryLog?.(name, life);
  const native = options.native && livingOf(options.native(name, life));
  const made = new Host(name, config, {
    seed: options.plan.seed,
    tables: ownTables(options.plan, options.own ?? {}),
    life,
    ...(image && { image }),
    ...(memoryLog && { memoryLog }),
    addresses: options.plan.addresses,
    inputs: options.inputs(name),
    programs: options.programs,
    own: Object.fromEntries(
      Object.entries(own).map(([run, instance]): [string, Program] => {
        return [run, (context) => instance().program(context)];
      }),
    ),
    ...(native && { native: (plan) => nativeProgram(native, plan) }),
    // A file's default export is what it is used as: a program, or a rule of the judge.
    ...(rests && { rests }),
    judgeRule: (path) => (window) => (own[path]!().program as unknown as JudgeRule)(window),
    services: SERVICES,
    boot: (cpu) => boot(cpu, { host, own, recovery }),
    reopen: (device) => reopenDevice(device, config),
    takeBack,
    ...(retryPs !== undefined && {
      watch: (device: OpenDevice) => watchDoorbells(device, retryPs),
    }),
    ...(config.queuePlan?.events === "queue" && { serveEvents }),
    onEvent: handleEvent,
  });
  return withOwnRows(native === undefined ? made : Object.assign(made, native), options.plan);
}

/** Undefined where nobody observes rests, and no core of the host stalls. */
function restsOf({ name, life }: HostLife, { plan, onRest }: FactoryOptions): Rests | undefined {
  const own = plan.stalls?.some(({ node }) => node === name) ?? false;
  if (!own && onRest === undefined) return undefined;
  const stalls = new Map<string, (() => Time) | undefined>();
  return ({ thread, ...rest }) => {
    const by = `${name}/${life}/${thread}`;
    onRest?.({ by, ...rest });
    if (!stalls.has(by)) stalls.set(by, stallsOf(plan, by));
    return stalls.get(by)?.() ?? 0;
  };
}

/** A port that ends with its host: no process outlives the life in which it was started. */
function livingOf(port: NativePort): NativePort & Required<Pick<Node, "end">> {
  const started: NativeProcess[] = [];
  return {
    start(options) {
      const process = port.start(options);
      started.push(process);
      return process;
    },
    end() {
      for (const process of started) process.kill();
    },
  };
}

function instancesOf(
  { name, config: { programs, shared } }: HostLife,
  makers: Readonly<Record<string, MakeProgram>>,
): Record<string, MakeProgram> {
  const own: Record<string, MakeProgram> = {};
  for (const run of [...programs.map(({ run }) => run), ...judgeRulesOf(shared, name)]) {
    if (!Object.hasOwn(makers, run)) continue;
    let instance: OwnProgram | undefined;
    own[run] = () => instance ??= makers[run]!();
  }
  return own;
}

interface Recovery {
  state: "due" | "running" | "done";
}

const RECOVERED = "recovered";

function* boot(
  cpu: Cpu,
  { host: { config }, own, recovery }: {
    readonly host: HostLife;
    readonly own: Readonly<Record<string, MakeProgram>>;
    readonly recovery: Recovery;
  },
): Steps<OpenDevice> {
  const device = yield* bootDevice(cpu, config);
  while (recovery.state === "running") yield* cpu.waitSignal(RECOVERED, NEVER);
  if (recovery.state === "done") return device;
  recovery.state = "running";
  yield* recoverPrograms(cpu, config, own);
  recovery.state = "done";
  cpu.signal(RECOVERED);
  return device;
}

function* recoverPrograms(
  cpu: Cpu,
  config: HostPlan,
  own: Readonly<Record<string, MakeProgram>>,
): Steps<void> {
  const done = new Set<string>();
  for (const { run, options } of config.programs) {
    // Programs of one protocol on a host share one recovery.
    if (!Object.hasOwn(own, run) || done.has(run)) continue;
    done.add(run);
    const { recover } = own[run]!();
    if (recover === undefined) continue;
    const recovered = yield* stepsOf(recover({ cpu, host: cpu.host, options }), "recover");
    cpu.report("recovered", { program: run, recovered });
  }
}

function overlaid(saved: ImageReader | undefined, writes: readonly DurableWrite[]): ImageReader {
  return (offset, length) => {
    const bytes = saved === undefined ? new Uint8Array(length) : saved(offset, length).slice();
    overlay(bytes, offset, writes);
    return bytes;
  };
}
