/**
 * The parent of a device's process where no supervisor is: process 1 of a container
 * (`containers/parent_main.ts`), or `rack node` on a machine. It takes the plan from the bus, obeys
 * orders by `control.kill-<partition>`, `boot-…`, `leave-…` and the plan's by `clock.order`, and
 * serves what the device leaves in its folder. The end of this process is a power failure, too; the
 * timekeeper hears nothing of it but silence.
 */
import { orderFromBytes } from "../../fabric/clock/clock.ts";
import {
  bootVerb,
  deathVerb,
  filesVerb,
  killVerb,
  leaveVerb,
  processVerb,
} from "../../fabric/bus/access.ts";
import type { Bus, Subscription } from "../../fabric/bus/bus.ts";
import { decode, encode } from "../../fabric/bus/codec.ts";
import { hostsOf, type NatsAddress } from "../../fabric/bus/nats_bus.ts";
import { patternOf } from "../../fabric/bus/subjects.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { serveFiles } from "../../fabric/files/file_service.ts";
import { filesIn } from "../../fabric/files/served_files.ts";
import {
  busEnvironment,
  nativeSetUpOf,
  nodesOf,
  type RunFile,
} from "../../fabric/rack/assembly/run_file.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { ifThere } from "../base/files.ts";
import { RackError } from "../base/rack_error.ts";
import { sha256 } from "../base/sha256.ts";
import { startChild, statusText } from "./children.ts";
import { deviceRights, LEFT_BY_DEVICES } from "./device_rights.ts";
import { Joins } from "./containers/readiness.ts";
import { DeviceSlot } from "./device_slot.ts";
import { ControlClient } from "./live/control.ts";
import { takePlan } from "./remote/plan_over_bus.ts";

export interface ParentOptions {
  /** A connection as the partition's user. */
  readonly bus: Bus;
  readonly address: NatsAddress;
  readonly run: string;
  readonly partition: string;
  /** Of the device alone: plan, SCM and all that it leaves. */
  readonly directory: string;
  /** Of the device's process; its log has it, too. */
  readonly onOutput?: (bytes: Uint8Array) => void;
  readonly signal?: AbortSignal;
  readonly onEvent: (text: string) => void;
}

export class DeviceParent {
  readonly #slot: DeviceSlot;
  readonly #control: ControlClient;
  readonly #options: ParentOptions;
  readonly #joins: Joins;
  readonly #subscriptions: Subscription[] = [];
  readonly #over = Promise.withResolvers<void>();
  #code: number = EXIT.unclear;

  /** Takes the plan, as soon as it is there; the device has no power yet. @throws RackError */
  static async open(options: ParentOptions): Promise<DeviceParent> {
    const { bus, run, partition, directory, signal } = options;
    const plan = await takePlan(bus, {
      ...{ run, user: partition, directory, signal },
      goneMs: Infinity,
      onWaiting: options.onEvent,
    });
    const changed = await changedFile(plan.runFile, partition);
    if (changed === undefined) return new DeviceParent(options, plan);
    throw new RackError(`Found that ${changed}, expected it as rack compose has copied it`);
  }

  private constructor(
    options: ParentOptions,
    { runFile, runFilePath }: { readonly runFile: RunFile; readonly runFilePath: string },
  ) {
    const { bus, run, partition, address, directory, onOutput, onEvent } = options;
    this.#options = options;
    this.#control = new ControlClient(bus, run);
    this.#joins = new Joins(bus, { run, partition });
    this.#over.promise.catch(() => {});
    const nodes = nodesOf(runFile, partition)!;
    const isNative = nativeIn(runFile.plan, nodes).length > 0;
    this.#slot = new DeviceSlot({
      name: partition,
      nodes,
      spawn: (instance) =>
        startChild({
          name: partition,
          module: "nodes/main.ts",
          args: [runFilePath, partition, instance],
          env: busEnvironment(address),
          logFile: `${directory}/logs/${partition}.log`,
          onOutput,
          rights: ["--frozen", ...deviceRights(hostsOf(address.url), { isNative })],
          cwd: directory,
        }),
      onStart: ({ pid }) => {
        this.#joins.expect(this.#slot.instance);
        onEvent(`${partition} started, pid ${pid}`);
      },
      onEnd: (child, status) => {
        onEvent(`${partition} has lost its power (${statusText(status)})`);
        if (status.signal !== null) return true;
        this.#code = status.code;
        const words = child.lastWords();
        if (words !== "" && onOutput === undefined) onEvent(words);
        return true;
      },
      tell: (death) => this.#control.attempt(deathVerb(partition), death),
      onNeverUp: (found) =>
        this.#over.reject(
          new RackError(`Found that ${found}, expected it to come up`, this.#code),
        ),
    });
    this.#subscribe(directory);
  }

  /** Its device has power, and the timekeeper has taken it up. */
  get hasJoined(): boolean {
    return this.#slot.child !== undefined && this.#joins.has(this.#slot.instance);
  }

  /** Settles when the rack has gone down; rejects with RackError where the device never comes up. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  start(): void {
    this.#slot.start();
  }

  /**
   * A power failure, as the machine's own, which is on record as soon as this returns true.
   * @returns false where nobody has heard of it.
   */
  async cutPower(): Promise<boolean> {
    const { instance, child } = this.#slot;
    const { partition } = this.#options;
    this.#slot.close();
    if (child === undefined) return true;
    child.kill("SIGKILL");
    await child.exited;
    const answer = await this.#control.attempt(deathVerb(partition), { partition, instance });
    return answer !== undefined && "ok" in answer && answer.ok["settled"] === true;
  }

  /** The device's process is left to end by itself, with this one. */
  close(): void {
    this.#slot.close();
    this.#joins.close();
    for (const subscription of this.#subscriptions) subscription.close();
  }

  async #leave(): Promise<void> {
    const { child } = this.#slot;
    this.#slot.close();
    child?.kill("SIGTERM");
    await child?.exited;
    this.#options.onEvent(`${this.#options.partition}: the rack is down`);
    this.#over.resolve();
  }

  #subscribe(directory: string): void {
    const { bus, run, partition } = this.#options;
    const slot = this.#slot;
    const on = (verb: string, answerTo: (request: unknown) => object | undefined) =>
      this.#subscriptions.push(
        bus.subscribe(patternOf({ kind: "control", run, verb }), (payload, _, reply) => {
          const answer = answerTo(decode(payload));
          reply?.(encode(answer ?? { error: `Cannot ${verb}: malformed request` }));
        }),
      );
    on(killVerb(partition), (request) => {
      const { token } = Object(request) as { readonly token?: unknown };
      return typeof token === "string" ? slot.cut(token) : undefined;
    });
    on(bootVerb(partition), () => {
      if (!slot.start()) return { refusal: `${partition} has power` };
      return { started: [partition], instance: slot.instance, pid: slot.child!.pid };
    });
    on(processVerb(partition), () => ({ instance: slot.instance, pid: slot.child?.pid ?? null }));
    on(leaveVerb(partition), () => {
      void this.#leave();
      return {};
    });
    this.#subscriptions.push(
      serveFiles(bus, {
        run,
        verb: filesVerb(partition),
        files: () => filesIn(directory, LEFT_BY_DEVICES),
      }),
      bus.subscribe(patternOf({ kind: "clock.order", run, partition }), (payload) => {
        const order = orderFromBytes(payload);
        if (order !== undefined) slot.obey(order);
      }),
    );
  }
}

/** What native programs load, where it is not what the run is about; undefined: all is. */
async function changedFile(runFile: RunFile, partition: string): Promise<string | undefined> {
  const nodes = nodesOf(runFile, partition);
  if (nodes === undefined) return `the plan has no ${partition}`;
  if (nativeIn(runFile.plan, nodes).length === 0) return undefined;
  for (const [path, hash] of Object.entries(nativeSetUpOf(runFile)?.files ?? {})) {
    const bytes = ifThere(() => Deno.readFileSync(path));
    if (bytes === undefined) return `${path} is not there`;
    if (await sha256(bytes) !== hash) return `${path} has changed`;
  }
  return undefined;
}
