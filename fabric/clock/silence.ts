/**
 * Detects silent processes where no parent reports a death to the timekeeper (containers): README,
 * Silence.
 */

import type { RackPlan } from "../rack/plan/plan.ts";

interface Heard {
  readonly instance: string;
  readonly atMs: number;
}

export interface SilenceOptions {
  readonly livenessMs: number;
  readonly partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>;
  readonly plan: Pick<RackPlan, "nodes">;
  readonly onSilence?: (text: string) => void;
}

/**
 * Heartbeats come every half second. Processes behind a broken link were last heard of within this
 * time; one that has not missed two heartbeats is not silent.
 */
const TOGETHER_MS = 1_000, MISSED_MS = 1_000;

export class Silence {
  readonly #options: SilenceOptions;
  readonly #heard = new Map<string, Heard>();
  readonly #suspected = new Map<string, number>();
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
    if (!this.#suspected.delete(partition) || this.#suspected.size > 0) return;
    this.#options.onSilence?.(
      `${partition} is heard of again: no process is suspected to be cut off any more`,
    );
  }

  /** On record as dead: it is expected to be silent. */
  forget(partition: string): void {
    this.#heard.delete(partition);
    this.#suspected.delete(partition);
  }

  forgive(now: number): void {
    for (const [partition, heard] of this.#heard) {
      this.#heard.set(partition, { ...heard, atMs: now });
    }
    this.#suspected.clear();
  }

  dead(now: number): { readonly partition: string; readonly instance: string }[] {
    const { livenessMs } = this.#options;
    const dead: { readonly partition: string; readonly instance: string }[] = [];
    const fresh: string[] = [];
    for (const [partition, heard] of this.#heard) {
      if (now - heard.atMs < livenessMs) continue;
      const since = this.#suspected.get(partition);
      const isSuspect = since === undefined
        ? this.#isSilentWithOthers(partition, heard, now)
        : now - since < livenessMs;
      if (isSuspect === false) dead.push({ partition, instance: heard.instance });
      else if (isSuspect === true && since === undefined) fresh.push(partition);
    }
    this.#suspect(fresh, now);
    this.#forgetDead(dead.map(({ partition }) => partition));
    return dead;
  }

  #suspect(partitions: readonly string[], now: number): void {
    if (partitions.length === 0) return;
    for (const partition of partitions) this.#suspected.set(partition, now);
    this.#options.onSilence?.(
      `${
        namesOf(partitions)
      } fell silent when other machines did: the link to the computer on which ` +
        `they run, or that computer, is suspected; they have another ` +
        `${this.#options.livenessMs / 1_000} s before their power counts as failed`,
    );
  }

  #forgetDead(partitions: readonly string[]): void {
    for (const partition of partitions) this.#heard.delete(partition);
    const suspects = partitions.filter((partition) => this.#suspected.delete(partition));
    if (suspects.length === 0) return;
    this.#options.onSilence?.(
      `${namesOf(suspects)} stayed silent for another ${this.#options.livenessMs / 1_000} s: ` +
        `they count as without power`,
    );
  }

  /**
   * Their time need not be over yet. Undefined if another was last heard of at that moment and has
   * not missed two heartbeats so far.
   */
  #isSilentWithOthers(partition: string, { atMs }: Heard, now: number): boolean | undefined {
    const machine = this.#machines.get(partition);
    const others = [...this.#heard].filter(([other, heard]) =>
      this.#machines.get(other) !== machine && Math.abs(heard.atMs - atMs) < TOGETHER_MS
    );
    if (others.some(([, heard]) => now - heard.atMs > MISSED_MS)) return true;
    return others.length > 0 ? undefined : false;
  }
}

const NAMES_MOST = 8;

function namesOf(partitions: readonly string[]): string {
  const more = partitions.length - NAMES_MOST;
  return partitions.slice(0, NAMES_MOST).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
