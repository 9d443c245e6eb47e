/**
 * Tracks are the format's threads. Slices of one must not overlap, so activities use as many lanes
 * as overlapped at any time.
 */
import { NEVER, type Time } from "../base/time.ts";

/** Of Chrome's trace event format ("Trace Event Format", Google), as far as used here. */
export interface TraceEvent {
  readonly ph: "X" | "i" | "C" | "s" | "t" | "f" | "M";
  readonly name: string;
  readonly cat?: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts?: number;
  readonly dur?: number;
  readonly id?: number;
  /** A flow's end binds to the enclosing slice. */
  readonly bp?: "e";
  readonly s?: "t";
  readonly args?: Readonly<Record<string, unknown>>;
}

export interface Track {
  readonly pid: number;
  readonly tid: number;
}

export interface Lane {
  readonly track: Track;
  /** NEVER while a slice on it is open. */
  freeAt: Time;
}

export class Tracks {
  readonly #firstPid: number;
  readonly #lanes = new Map<string, Lane[]>();
  readonly #threads = new Map<number, number>();
  #metadata: TraceEvent[] = [];

  /** @param firstPid of the plan's first node. */
  constructor(firstPid: number) {
    this.#firstPid = firstPid;
  }

  find(node: number, name: string): Track {
    return (this.#lanesOf(node, name)[0] ?? this.#add(node, name)).track;
  }

  /** Free at `now`, and taken until its `freeAt` is set. */
  take(node: number, name: string, now: Time): Lane {
    const free = this.#lanesOf(node, name).find(({ freeAt }) => freeAt <= now);
    const lane = free ?? this.#add(node, name);
    lane.freeAt = NEVER;
    return lane;
  }

  takeMetadata(): readonly TraceEvent[] {
    const metadata = this.#metadata;
    this.#metadata = [];
    return metadata;
  }

  #lanesOf(node: number, name: string): Lane[] {
    const key = `${node}:${name}`;
    let lanes = this.#lanes.get(key);
    if (lanes === undefined) this.#lanes.set(key, lanes = []);
    return lanes;
  }

  #add(node: number, name: string): Lane {
    const lanes = this.#lanesOf(node, name);
    const pid = this.#firstPid + node;
    const tid = (this.#threads.get(node) ?? 0) + 1;
    this.#threads.set(node, tid);
    const lane: Lane = { track: { pid, tid }, freeAt: 0 };
    lanes.push(lane);
    const shown = lanes.length === 1 ? name : `${name} (${lanes.length})`;
    this.#metadata.push(
      { ph: "M", name: "thread_name", pid, tid, args: { name: shown } },
      { ph: "M", name: "thread_sort_index", pid, tid, args: { sort_index: tid } },
    );
    return lane;
  }
}
