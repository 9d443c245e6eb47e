/**
 * The client of a rack's control subjects (`control.<verb>`), which the timekeeper, the supervisor
 * and the partitions answer.
 */
import { type Bus, BusError } from "../../../fabric/bus/bus.ts";
import { answererOf, finalVerb } from "../../../fabric/bus/access.ts";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { subjectOf } from "../../../fabric/bus/subjects.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import type { FinalPage, FinalReply } from "../../../fabric/rack/assembly/run_file.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import type { MemberStatus } from "../../../fabric/clock/record.ts";
import { RackError } from "../../base/rack_error.ts";

export type Answer<T = Readonly<Record<string, unknown>>> =
  | { readonly ok: T }
  | {
    readonly refused: string;
    /** Refused in the present state of the rack; the order may be repeated. */
    readonly isBusy?: true;
  };

export interface AskOptions {
  /** Sends an unanswered request again, although its first copy may have arrived. */
  readonly repeats?: boolean;
  /** How long it is repeated; default: {@link PATIENCE_MS}. */
  readonly forMs?: number;
  /** Each attempt's; default: {@link PATIENCE_MS} for a request that is sent once. */
  readonly timeoutMs?: number;
  /** Ends the wait; the request may have arrived nevertheless. */
  readonly signal?: AbortSignal | undefined;
}

const TIMEOUT_MS = 1_000, AGAIN_MS = 50;
const ATTEMPT_MS = 500;
const FINAL_LOOK_MS = 500;

export class ControlClient {
  readonly #bus: Bus;
  readonly #run: string;

  constructor(bus: Bus, run: string) {
    this.#bus = bus;
    this.#run = run;
  }

  /**
   * Repeats an unanswered request while no process listens: a timekeeper or broker may be starting.
   * @throws BusError without an answer; the signal's reason.
   */
  async ask<T = Readonly<Record<string, unknown>>>(
    verb: string,
    body: unknown,
    {
      repeats = false,
      forMs = PATIENCE_MS,
      timeoutMs = repeats ? TIMEOUT_MS : PATIENCE_MS,
      signal,
    }: AskOptions = {},
  ): Promise<Answer<T>> {
    const subject = subjectOf({ kind: "control", run: this.#run, verb });
    const options = { by: answererOf(verb), timeoutMs };
    const deadline = performance.now() + forMs;
    for (;;) {
      signal?.throwIfAborted();
      try {
        const answer = this.#bus.request(subject, encode(body), options);
        return answerIn<T>(await orAborted(answer, signal));
      } catch (error) {
        if (!(error instanceof BusError)) throw error;
        const again = error.kind === "no-responders" || repeats;
        if (!again || performance.now() >= deadline) throw error;
      }
      await sleep(AGAIN_MS);
    }
  }

  /**
   * Undefined without an answer, or where the signal is aborted: the request may have arrived
   * nevertheless.
   */
  async attempt<T = Readonly<Record<string, unknown>>>(
    verb: string,
    body: unknown,
    { timeoutMs = ATTEMPT_MS, signal }: Pick<AskOptions, "timeoutMs" | "signal"> = {},
  ): Promise<Answer<T> | undefined> {
    return await this.ask<T>(verb, body, { forMs: 0, timeoutMs, signal }).catch(() => undefined);
  }

  /**
   * A refusal is an error.
   * @param options.to the action, for the message; default: the verb.
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

  /** @throws BusError where the timekeeper does not answer for `forMs`; the signal's reason. */
  async status(options: Pick<AskOptions, "forMs" | "signal"> = {}): Promise<ClockStatus> {
    return await this.demand<ClockStatus>("status", {}, { ...options, repeats: true });
  }

  /** Asks once; undefined where the timekeeper does not answer. */
  async statusNow(timeoutMs = ATTEMPT_MS): Promise<ClockStatus | undefined> {
    const answer = await this.attempt<ClockStatus>("status", {}, { timeoutMs });
    return answer !== undefined && "ok" in answer ? answer.ok : undefined;
  }

  /** Polls the status. @throws BusError where the clock stops answering; the signal's reason. */
  async waitFor(
    isSo: (status: ClockStatus) => boolean,
    { everyMs = 20, signal }: { readonly everyMs?: number; readonly signal?: AbortSignal } = {},
  ): Promise<ClockStatus> {
    for (;;) {
      const status = await this.status({ signal });
      if (isSo(status)) return status;
      signal?.throwIfAborted();
      await sleep(everyMs);
    }
  }

  /**
   * A partition's report on its devices, with all reports of its programs; undefined where its
   * process does not answer for `forMs` (0: is asked once), or answers in part only.
   * @throws the signal's reason.
   */
  async final(
    partition: string,
    { forMs, signal }: Pick<AskOptions, "signal"> & { readonly forMs: number },
  ): Promise<FinalReply | undefined> {
    const reports: FinalReply["reports"][number][] = [];
    const deadline = performance.now() + forMs;
    for (;;) {
      const after = reports.length;
      const answer = await this.attempt<FinalPage>(finalVerb(partition), { after }, {
        timeoutMs: TIMEOUT_MS,
        signal,
      });
      signal?.throwIfAborted();
      if (answer !== undefined && "ok" in answer && Array.isArray(answer.ok.reports)) {
        reports.push(...answer.ok.reports);
        const { reportsLeft, ...final } = answer.ok;
        if (reportsLeft === 0) return { ...final, reports };
      } else if (performance.now() >= deadline) return undefined;
      // After an outage of the bus, this process may be back before the partition is.
      else await sleep(AGAIN_MS);
    }
  }

  /**
   * {@link final}; undefined where the partition has no power. Waits for a busy process.
   * @throws RackError where one with power has not answered for {@link PATIENCE_MS}.
   */
  async finalIfPowered(partition: string): Promise<FinalReply | undefined> {
    const deadline = performance.now() + PATIENCE_MS;
    do {
      const { why } = await this.status();
      const row = why.find((each) => each.partition === partition);
      if (row === undefined || WITHOUT_POWER.has(row.status)) return undefined;
      const final = await this.final(partition, { forMs: FINAL_LOOK_MS });
      if (final !== undefined) return final;
    } while (performance.now() < deadline);
    throw new RackError(noFinal([partition]));
  }
}

/** In the timekeeper's view, those whose process is coming up included. */
export const WITHOUT_POWER: ReadonlySet<MemberStatus["status"]> = new Set([
  "dead",
  "absent",
  "joining",
]);

export function noFinal(partitions: readonly string[]): string {
  return `Found no final report of ${partitions.join(", ")}: nothing is known of their programs`;
}

async function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await work;
  const aborted = Promise.withResolvers<never>();
  const giveUp = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", giveUp);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** Servers refuse with `error` or `refusal`. */
function answerIn<T>(payload: Uint8Array): Answer<T> {
  const reply = Object(decode(payload)) as Readonly<Record<string, unknown>>;
  const refused = reply["error"] ?? reply["refusal"];
  if (refused === undefined) return { ok: reply as T };
  return { refused: String(refused), ...(reply["busy"] === true && { isBusy: true }) };
}
