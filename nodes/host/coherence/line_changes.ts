/**
 * Changes of lines that cores may have seen (decision 19). They are counted, so that a program that
 * looks, then waits, misses none between the two, and signalled to waiting programs.
 */
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";

interface Changes {
  readonly name: string;
  count: number;
}

interface RegionChanges {
  readonly all: Changes;
  readonly lines: Map<number, Changes>;
}

export class LineChanges {
  readonly #signal: (name: string) => void;
  readonly #regions = new Map<number, RegionChanges>();

  constructor(signal: (name: string) => void) {
    this.#signal = signal;
  }

  /** Number of changes of a line and of its whole region. */
  of(region: SharedRegion, line: number): number {
    const { all, lines } = this.#of(region);
    return all.count + (lines.get(line)?.count ?? 0);
  }

  signalsOf(region: SharedRegion, line: number): readonly string[] {
    return [this.#line(region, line).name, this.#of(region).all.name];
  }

  /** @param line absent: all lines of the region. */
  add(region: SharedRegion, line?: number): void {
    const changes = line === undefined ? this.#of(region).all : this.#line(region, line);
    changes.count++;
    this.#signal(changes.name);
  }

  #of({ id }: SharedRegion): RegionChanges {
    const known = this.#regions.get(id);
    if (known !== undefined) return known;
    const made = { all: { name: `region-${id}`, count: 0 }, lines: new Map<number, Changes>() };
    this.#regions.set(id, made);
    return made;
  }

  #line(region: SharedRegion, line: number): Changes {
    const { lines } = this.#of(region);
    const known = lines.get(line);
    if (known !== undefined) return known;
    const made = { name: `region-${region.id}-${line}`, count: 0 };
    lines.set(line, made);
    return made;
  }
}
