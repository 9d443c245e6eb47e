/**
 * Explorations that are under way, on disk: one whose console ended is started again by the next console, from where it
 * stood (`explore/steps/memory.ts`). A file's name has the process that looks after it, so that of two consoles that
 * start at once one takes it.
 */
import { ifThere, jsonIfThere } from "../../base/files.ts";
import { isAlive } from "../../base/process_stat.ts";
import type { Caller } from "../doors/keys.ts";
import type { JobWork } from "./protocol.ts";

export interface KeptExploration {
  readonly id: string;
  readonly work: JobWork;
  readonly name: string;
  /** Who has ordered it; their key has ended with the console. */
  readonly by: Caller | null;
}

type Kept = Omit<KeptExploration, "id">;

const NAME = /^([0-9a-f-]{36})\.(\d+)\.json$/;

export class KeptExplorations {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @returns its number. */
  keep(kept: Kept): string {
    Deno.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const id = crypto.randomUUID();
    const half = `${this.#folder}/${id}.half`;
    Deno.writeTextFileSync(half, JSON.stringify(kept), { mode: 0o600 });
    Deno.renameSync(half, this.#fileOf(id, Deno.pid));
    return id;
  }

  /** Where an exploration keeps what it has found. */
  memoryOf(id: string): string {
    return `${this.#folder}/${id}.found.jsonl`;
  }

  /** It has come to its end, or is not wanted. */
  forget(id: string): void {
    for (const path of [this.#fileOf(id, Deno.pid), this.memoryOf(id)]) {
      ifThere(() => Deno.removeSync(path));
    }
  }

  /** Takes over so many of those whose console has ended. @throws DamagedFileError */
  take(most: number): KeptExploration[] {
    const files = [...ifThere(() => [...Deno.readDirSync(this.#folder)]) ?? []]
      .map(({ name }) => name).sort();
    const taken: KeptExploration[] = [];
    for (const name of files) {
      const [, id, pid] = NAME.exec(name) ?? [];
      if (taken.length >= most) break;
      if (id === undefined || isAlive(Number(pid))) continue;
      const own = this.#fileOf(id, Deno.pid);
      // Undefined: another console has taken it.
      const isOurs = ifThere(() => {
        Deno.renameSync(`${this.#folder}/${name}`, own);
        return true;
      });
      const kept = isOurs && jsonIfThere<Kept>(own, ({ work }) => typeof work === "object");
      if (kept) taken.push({ id, ...kept });
    }
    return taken;
  }

  #fileOf(id: string, pid: number): string {
    return `${this.#folder}/${id}.${pid}.json`;
  }
}
