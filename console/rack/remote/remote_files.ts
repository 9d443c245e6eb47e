/**
 * Reads files of other machines over the bus (`fabric/files/file_service.ts`). What is on the disk
 * afterwards has the length and the SHA-256 of the original. A file that has not changed is not
 * fetched again, and a broken transfer goes on where it ended.
 */
import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { type Bus, BusError } from "../../../fabric/bus/bus.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import type {
  FileRequest,
  HashAnswer,
  ListAnswer,
  ReadAnswer,
} from "../../../fabric/files/file_service.ts";
import { hashOf, isBelow, openFile, type ServedFile } from "../../../fabric/files/served_files.ts";
import { ifThere } from "../../base/files.ts";
import { RackError } from "../../base/rack_error.ts";
import { ControlClient } from "../live/control.ts";

export interface RemoteOptions {
  readonly run: string;
  readonly verb: string;
  /** Whose files they are, for messages. */
  readonly owner: string;
  readonly signal?: AbortSignal | undefined;
  /** Without anybody who answers, on a connection that works; default: {@link GONE_MS}. */
  readonly goneMs?: number;
  /** What is missing, each time that ten seconds have passed. */
  readonly onWaiting?: ((why: string) => void) | undefined;
  /** Other processes fetch into the same folder: each has parts of its own, and starts anew. */
  readonly isShared?: boolean;
}

/** Longer than a client takes to find another server of a cluster. */
const GONE_MS = 15_000;
const ASK_MS = 5_000, HASH_MS = 60_000, AGAIN_MS = 100, SAY_AFTER_MS = 10_000;
const TRIES = 3;

export class RemoteFiles {
  readonly #control: ControlClient;
  readonly #options: RemoteOptions;

  constructor(bus: Bus, options: RemoteOptions) {
    this.#control = new ControlClient(bus, options.run);
    this.#options = options;
  }

  /** @throws RackError where the owner does not answer, or with a list that would never end. */
  async list(): Promise<ServedFile[]> {
    const all: ServedFile[] = [];
    for (let after: string | undefined, more = true; more;) {
      const request = { list: true, ...(after !== undefined && { after }) } as const;
      const answer = await this.#ask<ListAnswer>(request, ASK_MS);
      for (const [name, bytes, changedMs] of answer.files) all.push({ name, bytes, changedMs });
      const last = answer.files.at(-1)?.[0];
      if (last !== undefined && after !== undefined && !(last > after)) {
        const found = `${last} after ${after} in the list of files of ${this.#options.owner}`;
        throw new RackError(`Found ${found}, expected the order of names`);
      }
      after = last;
      more = answer.more && last !== undefined;
    }
    const outside = all.find(({ name }) => !isBelow(name));
    if (outside === undefined) return all;
    throw new RackError(`Found the name ${outside.name} among the files of ${this.#options.owner}`);
  }

  /**
   * Into a file, which is replaced. Its time of change becomes the original's.
   * @param onBytes told of bytes as they come.
   * @throws RackError where the owner does not answer, or the content cannot be made equal.
   */
  async fetch(
    { name, changedMs }: ServedFile,
    path: string,
    onBytes: (bytes: number) => void = () => {},
  ): Promise<void> {
    await Deno.mkdir(path.replace(/\/[^/]*$/, ""), { recursive: true, mode: 0o700 });
    const { isShared = false } = this.#options;
    const part = isShared ? `${path}.${crypto.randomUUID()}.part` : `${path}.part`;
    using _ = { [Symbol.dispose]: () => isShared && ifThere(() => Deno.removeSync(part)) };
    for (let tries = 1; tries <= TRIES; tries++) {
      const bytes = await this.#pull(name, part, onBytes);
      if (await this.#isEqual(name, part, bytes)) {
        await Deno.utime(part, new Date(), new Date(changedMs));
        await Deno.rename(part, path);
        return;
      }
      await Deno.remove(part);
    }
    const found = `${name} of ${this.#options.owner} differs from what came of it`;
    throw new RackError(
      `Found that ${found}, ${TRIES} times, expected its SHA-256: it is being written`,
    );
  }

  /** Fetches what has changed into a folder; returns the names that are there, unchanged or not. */
  async mirror(
    directory: string,
    { wants = () => true, onBytes }: {
      readonly wants?: (name: string) => boolean;
      readonly onBytes?: (bytes: number) => void;
    } = {},
  ): Promise<string[]> {
    const wanted = (await this.list()).filter(({ name }) => wants(name));
    for (const file of wanted) {
      const path = `${directory}/${file.name}`;
      const known = ifThere(() => Deno.statSync(path));
      // Made for the request, it has no time of change.
      const isSame = known?.size === file.bytes && known.mtime?.getTime() === file.changedMs;
      if (isSame && file.changedMs !== 0) continue;
      await this.fetch(file, path, onBytes);
    }
    return wanted.map(({ name }) => name);
  }

  /** Returns the length that the file has come to. */
  async #pull(name: string, part: string, onBytes: (bytes: number) => void): Promise<number> {
    using file = Deno.openSync(part, { create: true, read: true, write: true, mode: 0o600 });
    for (let at = file.statSync().size;;) {
      const piece = await this.#ask<ReadAnswer>({ read: name, at }, ASK_MS);
      if (at > piece.size) {
        file.truncateSync(at = 0);
        continue;
      }
      file.seekSync(piece.at, Deno.SeekMode.Start);
      for (let done = 0; done < piece.bytes.length;) {
        done += file.writeSync(piece.bytes.subarray(done));
      }
      // Behind a hole, too: the length says how far the transfer has come.
      file.truncateSync(at = piece.next);
      onBytes(piece.bytes.length);
      if (at >= piece.size) return piece.size;
    }
  }

  async #isEqual(name: string, part: string, bytes: number): Promise<boolean> {
    using file = openFile(part)!;
    const own = await hashOf(file, bytes);
    const { sha256 } = await this.#ask<HashAnswer>({ hash: name, bytes }, HASH_MS);
    return own === sha256;
  }

  async #ask<T>(request: FileRequest, timeoutMs: number): Promise<T> {
    const { verb, owner, signal, goneMs = GONE_MS, onWaiting } = this.#options;
    const beganMs = performance.now();
    for (let sayMs = beganMs + SAY_AFTER_MS;;) {
      signal?.throwIfAborted();
      try {
        const answer = await this.#control.ask<T>(verb, request, { forMs: 0, timeoutMs, signal });
        if ("ok" in answer) return answer.ok;
        throw new RackError(`Found no file of ${owner}: ${answer.refused}`);
      } catch (error) {
        if (!(error instanceof BusError)) throw error;
        const isSilent = error.kind === "timeout", isGone = error.kind === "no-responders";
        if (!isSilent && !isGone) throw error;
        const silence = isGone ? "no process answers for it" : `it is silent (${error.message})`;
        const forMs = Math.max(goneMs, isSilent ? PATIENCE_MS : 0), now = performance.now();
        if (now - beganMs >= forMs) {
          throw new RackError(`Found no files of ${owner}: ${silence}`);
        }
        if (now >= sayMs) {
          onWaiting?.(`Waiting for ${owner}: ${silence}`);
          sayMs = now + SAY_AFTER_MS;
        }
        await sleep(AGAIN_MS);
      }
    }
  }
}
