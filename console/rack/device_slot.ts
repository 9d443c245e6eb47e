/**
 * The process of one partition, which is the power of its devices: started, killed and started again by
 * order, its death told to the timekeeper until that is on record. The supervisor of a rack of processes
 * has one for each partition, the parent in a container the one of its container.
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
  /** The process has ended, not by {@link DeviceSlot.close}. @returns true if that is a power failure. */
  readonly onEnd: (child: Child, status: Deno.CommandStatus) => boolean;
  /** Says once that this process of the partition is gone; undefined without an answer. */
  readonly tell: (death: { partition: string; instance: string }) => Promise<Answer | undefined>;
  /** It was killed, or ended, {@link FIRST_STARTS_MAX} times before it had joined the rack. */
  readonly onNeverUp: (found: string) => void;
}

/** A process of a partition. */
export interface DeviceProcess {
  readonly instance: string;
  readonly pid: number;
}

const DEATH_AGAIN_MS = 100;
/** Starts of a process until one has joined. */
const FIRST_STARTS_MAX = 5;

export class DeviceSlot {
  readonly name: string;
  readonly nodes: readonly string[];
  child: Child | undefined;
  instance = "";
  readonly #options: SlotOptions;
  readonly #dead = new Set<string>();
  /** Orders to kill by their tokens, with the process that each has killed. */
  readonly #cuts = new Map<string, string>();
  #starts = 0;
  #isClosed = false;

  constructor(options: SlotOptions) {
    this.#options = options;
    this.name = options.name;
    this.nodes = options.nodes;
  }

  /** Starts the process. @returns false where there is one. */
  start(): boolean {
    // After {@link close} no function would end a new process.
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

  /** SIGKILL: the power of the partition's nodes fails. @returns false where it has no process. */
  kill(): boolean {
    this.child?.kill("SIGKILL");
    return this.child !== undefined;
  }

  /**
   * {@link kill}, as ordered over the bus: executed once for each token, as orders may be repeated.
   */
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

  /** From now on it starts nothing, and reports nothing. */
  close(): void {
    this.#isClosed = true;
  }

  /** Reports the death until it is recorded: the timekeeper may be down, or die meanwhile. */
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

  /** The process was ended before it had joined: its nodes never had power, so none has failed. */
  #startFirst(): void {
    if (this.#starts < FIRST_STARTS_MAX) return void this.start();
    this.#options.onNeverUp(
      `${this.name} was killed ${this.#starts} times before it had joined the rack`,
    );
  }
}
