/**
 * What cores may have seen of lines, and is no longer so (decision 19): counted, so that a program that looks, then
 * waits, misses nothing between the two; and signalled to programs that wait.
 */
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";

/** The changes of a line, or of a whole region, and their signal. */
interface Changes {
  readonly name: string;
  count: number;
}

interface RegionChanges {
  readonly all: Changes;
  /** By the index of the line in its region. */
  readonly lines: Map<number, Changes>;
}

export class LineChanges {
  readonly #signal: (name: string) => void;
  readonly #regions = new Map<number, RegionChanges>();

  constructor(signal: (name: string) => void) {
    this.#signal = signal;
  }

  /** How often it has happened to a line, or to all of its region. */
  of(region: SharedRegion, line: number): number {
    const { all, lines } = this.#of(region);
    return all.count + (lines.get(line)?.count ?? 0);
  }

  signalsOf(region: SharedRegion, line: number): readonly string[] {
    return [this.#line(region, line).name, this.#of(region).all.name];
  }

  /** @param line absent: all of the region's. */
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
