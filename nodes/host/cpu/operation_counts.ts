/**
 * Measurements of a host's programs since its power-on. Only watchers read them, no program and no
 * event.
 */
import { LATENCY_BOUNDS_PS, type OperationFigures } from "../../../fabric/inspection.ts";
import type { Measurement } from "./program.ts";

/** A user's program may invent any number of names: further ones are not counted. */
const NAMES_MAX = 64, NAME_LETTERS_MAX = 64;

interface Row extends OperationFigures {
  count: number;
  sumPs: number;
  promisedBytes: number;
  readonly buckets: number[];
}

export class OperationCounts {
  readonly #rows = new Map<string, Row>();

  /**
   * @throws TypeError for a value that is no measurement, as own programs are not type-checked.
   */
  add(measurement: Measurement): void {
    const { operation, method, bytes, latencyPs, promisedBytes = 0 } = measurement;
    for (const name of [operation, method]) {
      if (typeof name === "string" && name.length <= NAME_LETTERS_MAX) continue;
      throw new TypeError(
        `An operation and its method have names of at most ${NAME_LETTERS_MAX} letters`,
      );
    }
    if (!(latencyPs >= 0 && promisedBytes >= 0 && (bytes ?? 0) >= 0)) {
      throw new TypeError(
        `A latency of ${latencyPs} ps, ${promisedBytes} B promised, messages of ${bytes} B: ` +
          "expected numbers >= 0",
      );
    }
    const key = `${operation} ${method} ${bytes}`;
    let row = this.#rows.get(key);
    if (row === undefined) {
      if (this.#rows.size === NAMES_MAX) return;
      const buckets = [...LATENCY_BOUNDS_PS, 0].fill(0);
      const size = bytes === undefined ? {} : { bytes };
      row = { operation, method, ...size, count: 0, sumPs: 0, promisedBytes: 0, buckets };
      this.#rows.set(key, row);
    }
    row.count++;
    row.sumPs += latencyPs;
    row.promisedBytes += promisedBytes;
    const bucket = LATENCY_BOUNDS_PS.findIndex((bound) => latencyPs <= bound);
    row.buckets[bucket < 0 ? LATENCY_BOUNDS_PS.length : bucket]!++;
  }

  rows(): OperationFigures[] {
    return [...this.#rows.values()].map((row) => ({ ...row, buckets: [...row.buckets] }));
  }
}
