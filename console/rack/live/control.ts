/**
 * The client of a rack's control subjects (`control.<verb>`), which the timekeeper, the supervisor and the
 * partitions answer. What they send is turned into one shape here: `{ ok }` or `{ refused }`.
 */
import { type Bus, BusError } from "../../../fabric/bus/bus.ts";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { subjectOf } from "../../../fabric/bus/subjects.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import type { FinalReply } from "../../../fabric/rack/build/run_file.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";

/** What an order or a question has come to. */
export type Answer<T = Readonly<Record<string, unknown>>> =
  | { readonly ok: T }
  | {
    readonly refused: string;
    /** The same order may be taken later. */
    readonly isBusy?: true;
  };

export interface AskOptions {
  /** Whether an unanswered question may be asked again: it may have been heard. */
  readonly repeats?: boolean;
  /** For how many wall ms it is asked again. */
  readonly forMs?: number;
  /** How many wall ms each answer may take. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 1_000, FOR_MS = 10_000, AGAIN_MS = 50;
/** Where one attempt is all there is, nobody waits long for it. */
const ATTEMPT_MS = 500;

export class ControlClient {
  readonly #bus: Bus;
  readonly #run: string;

  constructor(bus: Bus, run: string) {
    this.#bus = bus;
    this.#run = run;
  }

  /**
   * Asks, and again while no process listens (a timekeeper or broker that is being started).
   * @throws BusError without an answer.
   */
  async ask<T = Readonly<Record<string, unknown>>>(
    verb: string,
    body: unknown,
    { repeats = false, forMs = FOR_MS, timeoutMs = TIMEOUT_MS }: AskOptions = {},
  ): Promise<Answer<T>> {
    const subject = subjectOf({ kind: "control", run: this.#run, verb });
    const deadline = performance.now() + forMs;
    for (;;) {
      try {
        return answerIn<T>(await this.#bus.request(subject, encode(body), { timeoutMs }));
      } catch (error) {
        if (!(error instanceof BusError)) throw error;
        const again = error.kind === "no-responders" || repeats;
        if (!again || performance.now() >= deadline) throw error;
      }
      await sleep(AGAIN_MS);
    }
  }

  /** One attempt. @returns undefined without an answer: it may have been heard all the same. */
  async attempt<T = Readonly<Record<string, unknown>>>(
    verb: string,
    body: unknown,
    timeoutMs = ATTEMPT_MS,
  ): Promise<Answer<T> | undefined> {
    return await this.ask<T>(verb, body, { forMs: 0, timeoutMs }).catch(() => undefined);
  }

  /**
   * Asks for what must be.
   * @param options.to what is wanted, for people; default: the verb.
   * @throws Refusal `Cannot kill b: …`; BusError without an answer.
   */
  async demand<T = Readonly<Record<string, unknown>>>(
    verb: string,
    body: unknown,
    { to = verb, ...options }: AskOptions & { readonly to?: string } = {},
  ): Promise<T> {
    const answer = await this.ask<T>(verb, body, options);
    if ("ok" in answer) return answer.ok;
    throw refusal("", { found: `Cannot ${to}: ${answer.refused}` });
  }

  /** What the timekeeper knows of time. @throws BusError where it does not answer for `forMs`. */
  async status(forMs?: number): Promise<ClockStatus> {
    const options = { repeats: true, ...(forMs !== undefined && { forMs }) };
    return await this.demand<ClockStatus>("status", {}, options);
  }

  /** Looks until it is so. @throws BusError where the clock stops answering; what `signal` says. */
  async waitFor(
    isSo: (status: ClockStatus) => boolean,
    { everyMs = 20, signal }: { readonly everyMs?: number; readonly signal?: AbortSignal } = {},
  ): Promise<ClockStatus> {
    for (;;) {
      const status = await this.status();
      if (isSo(status)) return status;
      signal?.throwIfAborted();
      await sleep(everyMs);
    }
  }

  /** What a partition has to say of its devices; undefined where its process does not answer. */
  async final(
    partition: string,
    { attempts, timeoutMs = TIMEOUT_MS }: {
      readonly attempts: number;
      readonly timeoutMs?: number;
    },
  ): Promise<FinalReply | undefined> {
    for (let attempt = 0; attempt < attempts; attempt++) {
      const answer = await this.attempt<FinalReply>(`final-${partition}`, {}, timeoutMs);
      if (answer !== undefined && "ok" in answer) return answer.ok;
    }
    return undefined;
  }
}

/** Some say `error` and some `refusal`; an answer that is no map says nothing. */
function answerIn<T>(payload: Uint8Array): Answer<T> {
  const reply = Object(decode(payload)) as Readonly<Record<string, unknown>>;
  const refused = reply["error"] ?? reply["refusal"];
  if (refused === undefined) return { ok: reply as T };
  return { refused: String(refused), ...(reply["busy"] === true && { isBusy: true }) };
}
