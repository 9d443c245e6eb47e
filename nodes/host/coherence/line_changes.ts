/**
 * What cores may have seen of lines, and is no longer so (decision 19): counted, so that a program that looks, then
 * waits, misses nothing between the two; and signalled to programs that wait.
 */
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";

export class LineChanges {
  readonly #signal: (name: string) => void;
  /** By the name of the signal. */
  readonly #counts = new Map<string, number>();

  constructor(signal: (name: string) => void) {
    this.#signal = signal;
  }

  /** How often it has happened to a line, or to all of its region. */
  of(region: SharedRegion, line: number): number {
    return this.signalsOf(region, line).reduce(
      (sum, name) => sum + (this.#counts.get(name) ?? 0),
      0,
    );
  }

  signalsOf(region: SharedRegion, line: number): readonly string[] {
    return [`region-${region.id}-${line}`, `region-${region.id}`];
  }

  /** @param line absent: all of the region's. */
  add(region: SharedRegion, line?: number): void {
    const [own, all] = this.signalsOf(region, line ?? 0);
    const name = line === undefined ? all! : own!;
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    this.#signal(name);
  }
}
