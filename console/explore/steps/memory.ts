/**
 * What an exploration has found so far, on disk: one that is started again asks its workers only for the rest. A finding
 * depends on nothing but the rack, the options and what was asked, which its name has.
 */
import { linesIfThere, textIfThere } from "../../base/files.ts";
import { sha256 } from "../../base/sha256.ts";
import type { StepFound } from "./judge_steps.ts";
import type { StepWorker } from "./deal.ts";

/** Behind it nothing more is kept, and is found anew. */
const BYTES_MAX = 256 * 2 ** 20;

export class ExploreMemory {
  readonly #found = new Map<string, unknown>();
  readonly #file: Deno.FsFile;
  #bytes = 0;

  /** @param path of a file that need not be there. */
  constructor(path: string) {
    for (const { name, finding } of linesIfThere<{ name: string; finding: unknown }>(path)) {
      this.#found.set(name, finding);
    }
    // Half a line: the process was ended as it wrote.
    const text = textIfThere(path) ?? "", whole = text.slice(0, text.lastIndexOf("\n") + 1);
    if (whole.length < text.length) {
      Deno.truncateSync(path, new TextEncoder().encode(whole).length);
    }
    this.#file = Deno.openSync(path, { create: true, append: true, mode: 0o600 });
    this.#bytes = this.#file.statSync().size;
  }

  /** Findings of earlier explorations, and of this one. */
  get size(): number {
    return this.#found.size;
  }

  recall<Found>(name: string): Found | undefined {
    return this.#found.get(name) as Found | undefined;
  }

  /** @param finding what JSON says, and neither null nor undefined. */
  keep(name: string, finding: unknown): void {
    if (this.#found.has(name) || this.#bytes > BYTES_MAX) return;
    this.#found.set(name, finding);
    const line = new TextEncoder().encode(`${JSON.stringify({ name, finding })}\n`);
    this.#bytes += line.length;
    for (let at = 0; at < line.length;) at += this.#file.writeSync(line.subarray(at));
  }

  close(): void {
    this.#file.close();
  }
}

/** The name of a rack with its options: two that explore alike have one. */
export function nameOfRack(job: unknown): Promise<string> {
  const text = JSON.stringify(
    job,
    (_, value) => value instanceof Uint8Array ? value.toHex() : value,
  );
  return sha256(new TextEncoder().encode(text));
}

/** A worker that is asked for what `memory` does not have. @param rack {@link nameOfRack} */
export function remembering(
  worker: StepWorker,
  { memory, rack }: { readonly memory: ExploreMemory; readonly rack: string },
): StepWorker {
  async function remembered<Found>(
    asked: unknown,
    find: () => Promise<Found>,
  ): Promise<Found> {
    const name = `${rack} ${JSON.stringify(asked)}`;
    const known = memory.recall<Found>(name) ?? await find();
    memory.keep(name, known);
    return known;
  }
  return {
    ...worker,
    turn: (planned) => remembered({ planned }, () => worker.turn(planned)),
    disturb: (disturbance) => remembered({ disturbance }, () => worker.disturb(disturbance)),
    async judge(range) {
      // What second power failures have cost before a step decides how many it may try.
      const nameOf = (step: number, spent: number) =>
        `${rack} ${JSON.stringify({ sweep: range.sweep, step, spent })}`;
      const found: StepFound[] = [];
      let { from, spent } = range;
      for (; from < range.to; from++) {
        const known = memory.recall<StepFound>(nameOf(from, spent));
        if (known === undefined) break;
        found.push(known);
        spent += known.again.cost;
      }
      if (from === range.to) return found;
      for (const [i, each] of (await worker.judge({ ...range, from, spent })).entries()) {
        // A failure may be this machine's, such as too little memory.
        if (each.failed === null) memory.keep(nameOf(from + i, spent), each);
        spent += each.again.cost;
        found.push(each);
      }
      return found;
    },
  };
}
