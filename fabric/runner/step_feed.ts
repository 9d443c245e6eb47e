/**
 * Steps for their present readers: one block for each device and span, on `trace.<node>`, after the
 * span's report. A reader renews a lease, so that a dead one costs nothing. Pure: the caller
 * publishes, and has the clock.
 */
import type { TraceStep } from "../node.ts";
import type { Time } from "../base/time.ts";

/** Payload of `trace.<node>`. */
export type StepBlockRow = readonly [
  /** See `spanNumber`: steps of a span that a killed process had not reported did not happen. */
  span: number,
  /** Of the device's blocks of this process, from 0: a gap shows a lost block. */
  number: number,
  dropped: number,
  steps: ReadonlyArray<readonly [time: Time, step: TraceStep]>,
];

export interface StepFeedOptions {
  readonly nodes: readonly string[];
  readonly wallMs: () => number;
  readonly publish: (node: string, block: StepBlockRow) => void;
}

/** A span has two or three; one of 10 000 events has more. */
export const BLOCK_STEPS_MAX = 1_000;
/** In wall ms. */
const LEASE_MS_MAX = 10_000;

interface Reading {
  untilMs: number;
  blocks: number;
  dropped: number;
  steps: [Time, TraceStep][];
}

export class StepFeed {
  readonly #options: StepFeedOptions;
  readonly #byNode: ReadonlyMap<string, Reading>;
  #isWanted = false;

  constructor(options: StepFeedOptions) {
    this.#options = options;
    this.#byNode = new Map(
      options.nodes.map((node) => [node, { untilMs: -1, blocks: 0, dropped: 0, steps: [] }]),
    );
  }

  /** {@link take} keeps steps: checked before a step's text is made. */
  get isWanted(): boolean {
    return this.#isWanted;
  }

  /**
   * `{ forMs, nodes? }`: for at most ten seconds, the steps of these devices, or of all. @returns
   * false for an invalid request.
   */
  renew(request: unknown): boolean {
    const { forMs, nodes } = Object(request) as Readonly<Record<string, unknown>>;
    if (typeof forMs !== "number" || !(forMs > 0)) return false;
    if (nodes !== undefined && !Array.isArray(nodes)) return false;
    const untilMs = this.#options.wallMs() + Math.min(forMs, LEASE_MS_MAX);
    for (const [node, reading] of this.#byNode) {
      if (nodes !== undefined && !nodes.includes(node)) continue;
      reading.untilMs = Math.max(reading.untilMs, untilMs);
      this.#isWanted = true;
    }
    return true;
  }

  take(time: Time, node: string, step: TraceStep): void {
    const reading = this.#byNode.get(node);
    if (reading === undefined || reading.untilMs < 0) return;
    if (reading.steps.length < BLOCK_STEPS_MAX) reading.steps.push([time, step]);
    else reading.dropped++;
  }

  commit(span: number): void {
    if (!this.#isWanted) return;
    const now = this.#options.wallMs();
    this.#isWanted = false;
    for (const [node, reading] of this.#byNode) {
      const { blocks, dropped, steps } = reading;
      if (steps.length > 0) {
        this.#options.publish(node, [span, blocks, dropped, steps]);
        Object.assign(reading, { blocks: blocks + 1, dropped: 0, steps: [] });
      }
      if (reading.untilMs < now) reading.untilMs = -1;
      else this.#isWanted = true;
    }
  }
}
