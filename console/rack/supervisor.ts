/**
 * Only the process that holds the supervisor starts and ends the others of a rack; a process that
 * was killed from outside is treated like one killed by order.
 */
import { reportFromBytes } from "../../fabric/rack/assembly/report_message.ts";
import { orderFromBytes } from "../../fabric/clock/clock.ts";
import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import { filesVerb, leaveVerb, USERS } from "../../fabric/bus/access.ts";
import { type Bus, BusError, type Subscription } from "../../fabric/bus/bus.ts";
import { decode, decodeSealed, encode } from "../../fabric/bus/codec.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { ANY, parseSubject, patternOf } from "../../fabric/bus/subjects.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { serveFiles } from "../../fabric/files/file_service.ts";
import { filesIn } from "../../fabric/files/served_files.ts";
import {
  busEnvironment,
  type FinalReply,
  type RunFile,
} from "../../fabric/rack/assembly/run_file.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import { ControlClient, noFinal, WITHOUT_POWER } from "./live/control.ts";
import type { MemberStatus, Summary } from "../../fabric/clock/record.ts";
import type { Broker } from "./nats_server.ts";
import { type Child, type ChildOptions, endChildren, startChild, statusText } from "./children.ts";
import type { ProcessSet } from "./process_set.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { deviceRights, LEFT_BY_DEVICES } from "./device_rights.ts";
import { type DeviceProcess, DeviceSlot } from "./device_slot.ts";
import type { ProcessEntry } from "./process_table.ts";
import { RackError } from "../base/rack_error.ts";
import { type Refused, refusedByProcesses } from "./refused.ts";
import { StoppedProcessGuard } from "./stopped_process_guard.ts";

export interface SupervisorOptions {
  readonly runFile: RunFile;
  readonly runFilePath: string;
  readonly broker: Broker;
  readonly bus: Bus;
  readonly processes?: ProcessSet | undefined;
  readonly onEvent?: ((event: SupervisorEvent) => void) | undefined;
  readonly onReport?: ((node: string, topic: string, value: unknown) => void) | undefined;
}

export type SupervisorEvent =
  | {
    readonly kind: "started" | "died";
    readonly name: string;
    readonly pid: number;
    readonly detail: string;
  }
  | { readonly kind: "stalled"; readonly why: readonly MemberStatus[] }
  | { readonly kind: "finished"; readonly summary: Summary };

const TIMEKEEPER = "timekeeper";
const FINAL_LOOK_MS = 500;
const BROKER_AGAIN_MS = 50;
const GRACE_MS = 3_000;
const INTERRUPT_MS = 1_000;

export class Supervisor {
  readonly control: ControlClient;
  readonly #options: SupervisorOptions;
  readonly #slots: readonly DeviceSlot[];
  readonly #subscriptions: Subscription[] = [];
  readonly #waker: StoppedProcessGuard;
  #timekeeper: Child | undefined;
  /** Aborted when the rack is taken down, which ends all waits for its answers. */
  readonly #down = new AbortController();
  #hasFinished = false;
  #hasLeft = false;
  readonly #finished = Promise.withResolvers<Summary>();

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.control = new ControlClient(options.bus, options.runFile.run);
    this.#waker = new StoppedProcessGuard(options.processes?.mark ?? options.runFilePath);
    const { partitions, elsewhere = [] } = options.runFile;
    this.#slots = partitions.filter(({ name }) => !elsewhere.includes(name))
      .map((partition) => this.#slotOf(partition));
    // A caller may never await `finished`.
    this.#finished.promise.catch(() => {});
  }

  /** Settles when the timekeeper reports the end of the run; rejects with {@link RackError}. */
  get finished(): Promise<Summary> {
    return this.#finished.promise;
  }

  /** @throws RackError where {@link down} was called before. */
  async start(): Promise<void> {
    this.#subscribe();
    this.#options.bus.closed.then((reason) => {
      if (reason !== undefined) this.#finished.reject(new RackError(reason.message));
    });
    await this.#subscribed();
    if (this.#down.signal.aborted) throw new RackError("The rack was taken down before it was up");
    this.#startTimekeeper();
    for (const slot of this.#slots) slot.start();
  }

  async #subscribed(): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        return await this.#options.bus.flush();
      } catch (error) {
        const isAway = error instanceof BusError && error.kind === "disconnected";
        if (!isAway || this.#down.signal.aborted || performance.now() > deadline) throw error;
        await sleep(BROKER_AGAIN_MS);
      }
    }
  }

  /** SIGKILL, a power failure of the partition's nodes; false: it has no process. */
  kill(name: string): boolean {
    const child = this.#child(name);
    child?.kill("SIGKILL");
    return child !== undefined;
  }

  /**
   * SIGSTOP until {@link resume}: no device fails, the whole rack waits. If this process is killed
   * meanwhile, the guard continues the stopped one, which then ends. False: no such process.
   */
  async pause(name: string): Promise<boolean> {
    const child = this.#child(name);
    if (child === undefined || this.#down.signal.aborted) return false;
    await this.#waker.watch(child.pid);
    // Meanwhile the process may have ended or the rack been taken down: a stopped process would
    // then never continue.
    if (this.#down.signal.aborted || this.#child(name) !== child) return false;
    child.kill("SIGSTOP");
    return true;
  }

  /** SIGCONT; false: no such process. */
  resume(name: string): boolean {
    const child = this.#child(name);
    child?.kill("SIGCONT");
    return child !== undefined;
  }

  startPartition(name: string): boolean {
    return this.#slot(name)?.start() ?? false;
  }

  /**
   * Powers a device on, and with a host also its card if that has no power (a power cycle).
   * @returns the partitions that were started, with the device's process; or why there are none.
   */
  boot(
    name: string,
  ): { readonly started: readonly string[] } & DeviceProcess | { readonly refusal: string } {
    const { plan } = this.#options.runFile;
    const slot = this.#slot(name);
    if (slot === undefined) return { refusal: `there is no device ${name}` };
    if (slot.child !== undefined) return { refusal: `${name} has power` };
    const cards = plan.nodes.filter((node) =>
      node.kind === "rnic" && slot.nodes.includes(node.config.host)
    ).map((card) => card.name);
    const started = [name, ...cards].filter((each) => this.startPartition(each));
    return { started, instance: slot.instance, pid: this.#child(name)!.pid };
  }

  processes(): ProcessEntry[] {
    const pid = this.#timekeeper?.pid ?? null;
    return [
      { name: TIMEKEEPER, kind: "timekeeper", pid, nodes: [] },
      ...this.#slots.map(({ name, nodes, child }): ProcessEntry => {
        return { name, kind: "partition", pid: child?.pid ?? null, nodes };
      }),
    ];
  }

  /** Undefined where the timekeeper does not answer. */
  status(): Promise<ClockStatus | undefined> {
    return this.control.statusNow();
  }

  /**
   * The final reports of all partitions with power.
   * @param mayLack true: the partition's process has ended since, and its report may be missing.
   * @throws RackError that names partitions without a report, of whose programs nothing is known;
   * also where {@link down} is called meanwhile.
   */
  async finals(mayLack: (partition: string) => boolean = () => false): Promise<FinalReply[]> {
    const finals: FinalReply[] = [], missing: string[] = [];
    const { signal } = this.#down;
    const { why } = await this.control.status({ signal });
    const took = new Set(
      why.filter(({ status }) => !WITHOUT_POWER.has(status)).map((row) => row.partition),
    );
    const { partitions } = this.#options.runFile;
    await Promise.all(
      partitions.filter(({ name }) => took.has(name)).map(async ({ name }) => {
        const slot = this.#slots.find((each) => each.name === name);
        const isThere = () => slot === undefined || slot.child !== undefined;
        const deadline = performance.now() + PATIENCE_MS;
        let final: FinalReply | undefined;
        while (final === undefined && isThere() && performance.now() < deadline) {
          final = await this.control.final(name, { forMs: FINAL_LOOK_MS, signal });
        }
        if (final !== undefined) finals.push(final);
        else if (isThere() || !mayLack(name)) missing.push(name);
      }),
    );
    if (missing.length > 0) throw new RackError(noFinal(missing));
    const order = partitions.map(({ name }) => name);
    return finals.toSorted((x, y) => order.indexOf(x.partition) - order.indexOf(y.partition));
  }

  /** Of processes that have died, too. */
  async refused(finals: readonly FinalReply[]): Promise<Refused[]> {
    const status = await this.control.status({ signal: this.#down.signal }).catch(() => undefined);
    return refusedByProcesses(status?.refusals ?? [], finals);
  }

  async down(): Promise<void> {
    this.#down.abort(new RackError("The rack was taken down"));
    for (const subscription of this.#subscriptions) subscription.close();
    for (const slot of this.#slots) slot.close();
    await this.#leaveElsewhere();
    const children = [...this.#slots.map(({ child }) => child), this.#timekeeper];
    await endChildren(children.filter((child) => child !== undefined), GRACE_MS);
    await this.#waker.close();
    this.#finished.reject(this.#down.signal.reason);
  }

  /** Parents on other machines end their processes; one that is gone has none. */
  #leaveElsewhere(): Promise<unknown> {
    const { bus, runFile: { elsewhere = [] } } = this.#options;
    // Each takes the order once; the bus may be gone, too.
    if (this.#hasLeft || !bus.connected) return Promise.resolve();
    this.#hasLeft = true;
    return Promise.all(
      elsewhere.map((name) => this.control.attempt(leaveVerb(name), {}, { timeoutMs: GRACE_MS })),
    );
  }

  #child(name: string): Child | undefined {
    return name === TIMEKEEPER ? this.#timekeeper : this.#slot(name)?.child;
  }

  #slot(name: string): DeviceSlot | undefined {
    return this.#slots.find((slot) => slot.name === name || slot.nodes.includes(name));
  }

  #startTimekeeper(): void {
    const { runFilePath } = this.#options;
    const module = "fabric/clock/timekeeper_main.ts";
    const child = this.#spawn(USERS.timekeeper, {
      name: TIMEKEEPER,
      module,
      args: [runFilePath],
      instance: "",
    });
    this.#timekeeper = child;
    this.#announce("started", child, "");
    child.exited.then((status) => {
      this.#timekeeper = undefined;
      if (this.#down.signal.aborted) return;
      this.#announce("died", child, statusText(status));
      if (status.signal === "SIGKILL") this.#startTimekeeper();
      else void this.#fail(child, status);
    });
  }

  #slotOf({ name, nodes }: RunFile["partitions"][number]): DeviceSlot {
    const { runFilePath } = this.#options;
    return new DeviceSlot({
      name,
      nodes,
      spawn: (instance) =>
        this.#spawn(name, {
          name,
          module: "nodes/main.ts",
          args: [runFilePath, name, instance],
          instance,
          ...this.#rightsOf(nodes),
        }),
      onStart: (child) => this.#announce("started", child, ""),
      onEnd: (child, status) => {
        this.#announce("died", child, statusText(status));
        if (status.signal === "SIGKILL") return true;
        void this.#fail(child, status);
        return false;
      },
      // Power failures after the end of a run are not recorded.
      tell: async (death) =>
        this.#hasFinished ? { ok: { settled: true } } : await this.control.attempt("death", death),
      onNeverUp: (found) =>
        this.#finished.reject(new RackError(`Found that ${found}, expected it to come up`)),
    });
  }

  #rightsOf(
    nodes: readonly string[],
  ): Pick<ChildOptions, "rights" | "cwd"> {
    const { runFile: { plan, directory }, broker: { hosts }, processes } = this.#options;
    const isNative = nativeIn(plan, nodes).length > 0;
    if (processes !== undefined) return processes.rightsOn(hosts, { isNative });
    return { rights: deviceRights(hosts, { isNative }), cwd: directory };
  }

  #spawn(
    user: string,
    { instance, ...program }: Omit<ChildOptions, "env" | "logFile"> & { readonly instance: string },
  ): Child {
    const { runFile: { run, directory }, runFilePath, broker, processes } = this.#options;
    const all = { ...program, env: busEnvironment(broker.addressOf(user)) };
    return processes === undefined
      ? startChild({ ...all, logFile: `${directory}/logs/${program.name}.log` })
      : processes.take({ ...all, user, run, runFile: runFilePath, instance });
  }

  /** Only SIGKILL is a power failure; any other end is an error of the process. */
  async #fail(child: Child, status: Deno.CommandStatus): Promise<void> {
    // A terminal interrupts all processes at once: this one may be about to take the rack down.
    if (status.signal === "SIGINT") await sleep(INTERRUPT_MS);
    if (this.#down.signal.aborted) return;
    const code = status.code === EXIT.usage || status.code === EXIT.internal
      ? status.code
      : EXIT.unclear;
    const end = `${child.name} ended by itself (${statusText(status)})`;
    this.#finished.reject(new RackError(`${end}; its last output:\n${child.lastWords()}`, code));
  }

  #announce(kind: "started" | "died", child: Child, detail: string): void {
    this.#options.onEvent?.({ kind, name: child.name, pid: child.pid, detail });
  }

  #subscribe(): void {
    const { bus, runFile: { run, directory }, onReport, onEvent } = this.#options;
    this.#subscriptions.push(
      bus.subscribe(patternOf({ kind: "clock.order", run, partition: ANY }), (payload) => {
        const order = orderFromBytes(payload);
        if (order !== undefined) this.#slot(order[1])?.obey(order);
      }),
      bus.subscribe(patternOf({ kind: "control", run, verb: "stalled" }), (payload) => {
        const why = decodeSealed(payload);
        if (Array.isArray(why)) onEvent?.({ kind: "stalled", why });
      }),
      bus.subscribe(patternOf({ kind: "control", run, verb: "boot" }), (payload, _, reply) => {
        const { node } = (decode(payload) ?? {}) as { node?: unknown };
        if (typeof node === "string") reply?.(encode(this.boot(node)));
      }),
      bus.subscribe(patternOf({ kind: "control", run, verb: "kill" }), (payload, _, reply) => {
        const { node, token } = Object(decode(payload)) as { node?: unknown; token?: unknown };
        if (typeof node !== "string" || typeof token !== "string") return;
        reply?.(encode(this.#slot(node)?.cut(token) ?? { refusal: `there is no device ${node}` }));
      }),
      bus.subscribe(patternOf({ kind: "control", run, verb: "process" }), (payload, _, reply) => {
        const { node } = Object(decode(payload)) as { node?: unknown };
        const slot = typeof node === "string" ? this.#slot(node) : undefined;
        const known = slot && { instance: slot.instance, pid: slot.child?.pid ?? null };
        reply?.(encode(known ?? { refusal: `there is no device ${node}` }));
      }),
      serveFiles(bus, {
        run,
        verb: filesVerb(USERS.supervisor),
        files: () => filesIn(directory, LEFT_BY_DEVICES),
      }),
      bus.subscribe(patternOf({ kind: "control", run, verb: "finished" }), (payload) => {
        const summary = decodeSealed(payload);
        // The timekeeper repeats the summary, as the bus may lose it.
        if (!isSummary(summary) || this.#hasFinished) return;
        this.#hasFinished = true;
        onEvent?.({ kind: "finished", summary });
        this.#finished.resolve(summary);
      }),
      bus.subscribe(patternOf({ kind: "report", run, node: ANY }), (payload, subject) => {
        const name = parseSubject(subject), report = reportFromBytes(payload);
        if (name?.kind !== "report" || report === undefined) return;
        onReport?.(name.node, report.topic, report.value);
      }),
    );
  }
}

function isSummary(value: unknown): value is Summary {
  const { digest, virtualPs, events, nodes } = (value ?? {}) as Partial<Summary>;
  return typeof digest === "string" && Number.isSafeInteger(virtualPs) &&
    Number.isSafeInteger(events) && Array.isArray(nodes);
}
