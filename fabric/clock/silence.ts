/**
 * Who has fallen silent, where no parent tells the timekeeper of a death (containers). A process that has
 * not been heard of for `livenessMs` is dead. Where processes of several machines of the rack fell silent at
 * one moment, no power has failed by itself: the link to the computer on which they run, or that computer,
 * is suspected first. That is said, and they have the same time once more to be heard of.
 */

import type { RackPlan } from "../rack/plan/plan.ts";

/** The process of a partition that was heard of, "" where it is not known by name. */
interface Heard {
  readonly instance: string;
  /** When, in wall ms. */
  readonly atMs: number;
}

export interface SilenceOptions {
  readonly livenessMs: number;
  readonly partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>;
  readonly plan: Pick<RackPlan, "nodes">;
  /** Told what is suspected, and what became of it. */
  readonly onSilence?: (text: string) => void;
}

/**
 * Processes send heartbeats every half second. Those behind a link that breaks were last heard of this close
 * together; who has missed no two heartbeats is not silent.
 */
const TOGETHER_MS = 1_000, MISSED_MS = 1_000;

export class Silence {
  readonly #options: SilenceOptions;
  readonly #heard = new Map<string, Heard>();
  /** Those that are suspected to be cut off, and since when. */
  readonly #suspected = new Map<string, number>();
  /** Partition → the machine that its first node belongs to. */
  readonly #machines: ReadonlyMap<string, string>;

  constructor(options: SilenceOptions) {
    this.#options = options;
    const machines = new Map(options.plan.nodes.map((node) => {
      return [node.name, node.kind === "rnic" ? node.config.host : node.name];
    }));
    this.#machines = new Map(options.partitions.map(({ name, nodes }) => {
      return [name, machines.get(nodes[0] ?? "") ?? name];
    }));
  }

  heard(partition: string, heard: Heard): void {
    this.#heard.set(partition, heard);
    if (!this.#suspected.delete(partition)) return;
    if (this.#suspected.size > 0) return;
    this.#options.onSilence?.(`${partition} is heard of again, and so are all that were silent`);
  }

  /** Its power failure is on record: nothing is expected of its process. */
  forget(partition: string): void {
    this.#heard.delete(partition);
    this.#suspected.delete(partition);
  }

  /** Each process has the whole time again: the timekeeper itself could not hear. */
  forgive(now: number): void {
    for (const [partition, heard] of this.#heard) {
      this.#heard.set(partition, { ...heard, atMs: now });
    }
    this.#suspected.clear();
  }

  /** Those that are to be declared dead; they are forgotten. */
  dead(now: number): { readonly partition: string; readonly instance: string }[] {
    const { livenessMs } = this.#options;
    const silent = [...this.#heard].filter(([, { atMs }]) => now - atMs >= livenessMs);
    if (silent.length === 0) return [];
    this.#suspect(silent, now);
    const dead = silent.filter(([partition]) => {
      return now - (this.#suspected.get(partition) ?? -Infinity) >= livenessMs;
    });
    for (const [partition] of dead) this.#heard.delete(partition);
    const wereSuspected = dead.map(([name]) => name).filter((name) => this.#suspected.delete(name));
    if (wereSuspected.length > 0) {
      this.#options.onSilence?.(
        `${namesOf(wereSuspected)} stayed silent for another ${livenessMs / 1_000} s: ` +
          `they count as without power`,
      );
    }
    return dead.map(([partition, { instance }]) => ({ partition, instance }));
  }

  #suspect(silent: readonly (readonly [string, Heard])[], now: number): void {
    const fresh = silent.filter(([partition]) => !this.#suspected.has(partition));
    const together = fresh.filter(([, heard]) => this.#silentWith(heard, now).size > 1);
    if (together.length === 0) return;
    const before = this.#suspected.size;
    for (const [partition] of together) this.#suspected.set(partition, now);
    if (before > 0) return;
    this.#options.onSilence?.(
      `${
        namesOf(together.map(([name]) => name))
      } fell silent at one moment: the link to the computer ` +
        `on which they run, or that computer, is suspected; they have another ` +
        `${this.#options.livenessMs / 1_000} s before their power counts as failed`,
    );
  }

  /** Machines of the rack with a process that fell silent when this one did; its time need not be over yet. */
  #silentWith({ atMs }: Heard, now: number): Set<string> {
    const close = [...this.#heard].filter(([, heard]) =>
      now - heard.atMs > MISSED_MS && Math.abs(heard.atMs - atMs) < TOGETHER_MS
    );
    return new Set(close.map(([partition]) => this.#machines.get(partition) ?? partition));
  }
}

const NAMES_MOST = 8;

function namesOf(partitions: readonly string[]): string {
  const more = partitions.length - NAMES_MOST;
  return partitions.slice(0, NAMES_MOST).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
