/**
 * The process of one partition, which is the power of its devices; its death is told to the
 * timekeeper until that is on record.
 */
import type { Order } from "../../fabric/clock/clock.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { Child } from "./children.ts";
import type { Answer } from "./live/control.ts";

export interface SlotOptions {
  readonly name: string;
  readonly nodes: readonly string[];
  readonly spawn: (instance: string) => Child;
  readonly onStart?: (child: Child) => void;
  /** Not by {@link DeviceSlot.close}; returns true if the end is a power failure. */
  readonly onEnd: (child: Child, status: Deno.CommandStatus) => boolean;
  /** Reports once that the process is gone; undefined without an answer. */
  readonly tell: (death: { partition: string; instance: string }) => Promise<Answer | undefined>;
  /** It ended {@link FIRST_STARTS_MAX} times before it had joined the rack. */
  readonly onNeverUp: (found: string) => void;
}

export interface DeviceProcess {
  readonly instance: string;
  readonly pid: number;
}

const DEATH_AGAIN_MS = 100;
const FIRST_STARTS_MAX = 5;

export class DeviceSlot {
  readonly name: string;
  readonly nodes: readonly string[];
  child: Child | undefined;
  instance = "";
  readonly #options: SlotOptions;
  readonly #dead = new Set<string>();
  readonly #cuts = new Map<string, string>();
  #starts = 0;
  #isClosed = false;

  constructor(options: SlotOptions) {
    this.#options = options;
    this.name = options.name;
    this.nodes = options.nodes;
  }

  start(): boolean {
    // No function would end a new process any more.
    if (this.#isClosed || this.child !== undefined) return false;
    const instance = `${this.name}-${++this.#starts}-${crypto.randomUUID()}`;
    this.instance = instance;
    const child = this.#options.spawn(instance);
    this.child = child;
    this.#options.onStart?.(child);
    child.exited.then((status) => {
      this.child = undefined;
      if (this.#isClosed || !this.#options.onEnd(child, status)) return;
      void this.#noticeDeath(instance);
    });
    return true;
  }

  /** SIGKILL, a power failure of the partition's nodes; false: it has no process. */
  kill(): boolean {
    this.child?.kill("SIGKILL");
    return this.child !== undefined;
  }

  /** {@link kill} by an order over the bus, once for each token: orders may be repeated. */
  cut(token: string): { instance: string } | { refusal: string } {
    const before = this.#cuts.get(token);
    if (before !== undefined) return { instance: before };
    if (!this.kill()) return { refusal: "it has no power" };
    this.#cuts.set(token, this.instance);
    return { instance: this.instance };
  }

  /** Executes the plan's power failures and returns when the timekeeper orders them. */
  obey([verb, , , instance]: Order): void {
    if (this.#isClosed) return;
    if (verb === "start") return void this.start();
    // A repeated order must not hit a later process of the partition; the timekeeper does not know
    // that process yet.
    if (this.child !== undefined && this.instance === instance) this.kill();
    else if (this.#dead.has(instance)) void this.#tell(instance);
  }

  close(): void {
    this.#isClosed = true;
  }

  async #noticeDeath(instance: string): Promise<void> {
    this.#dead.add(instance);
    while (!this.#isClosed) {
      const answer = await this.#tell(instance);
      if (answer !== undefined && "ok" in answer && answer.ok["settled"] === true) {
        if (answer.ok["awaited"] === true) this.#startFirst();
        return;
      }
      await sleep(DEATH_AGAIN_MS);
    }
  }

  #tell(instance: string): Promise<Answer | undefined> {
    return this.#options.tell({ partition: this.name, instance });
  }

  /** The process had not joined: its nodes never had power, so none has failed. */
  #startFirst(): void {
    if (this.#starts < FIRST_STARTS_MAX) return void this.start();
    this.#options.onNeverUp(
      `${this.name} was killed ${this.#starts} times before it had joined the rack`,
    );
  }
}
