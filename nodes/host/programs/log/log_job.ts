/** A replicated log's client under way: what its threads share. */
import type { Time } from "../../../../fabric/base/time.ts";
import type { Cpu } from "../../cpu/program.ts";
import type { Method } from "../common/persist_protocol.ts";
import { readQuorum } from "./layout.ts";
import type { LogPlan } from "./plan.ts";
import type { FoundLog } from "./segments.ts";

export interface LogOptions {
  readonly to: readonly string[];
  readonly quorum: number;
  /** Of the log, and most bytes of a record, where that is said. */
  readonly name: string;
  readonly recordBytes: number | undefined;
  /** Whether a log that holds something else than the file's beginning is begun anew. */
  readonly anew: boolean;
  readonly file: string;
  readonly method: Method;
  /** Records that may be under way behind the last durable one. */
  readonly depth: number;
  readonly mode: "poll" | "interrupt";
  /** Between two tries of a replica, and how long one may keep quiet with something outstanding. */
  readonly pausePs: Time;
  readonly idlePs: Time;
  /** How long nothing may become durable before the client gives up. */
  readonly patiencePs: Time;
  /** How long it helps replicas that are behind once all is durable. */
  readonly lingerPs: Time;
}

export interface Replica {
  readonly host: string;
  /** Where each segment of the log begins in its SCM, as far as it has said so. */
  readonly places: number[];
  /** Whether what the method takes for persistence is that at this host. */
  promises: boolean;
  /** Slots from the first on that it has said are persistent: what it said holds after any failure. */
  acked: number;
  /** Connections that were tried. */
  tries: number;
  /** Why the last one ended, if it did. */
  lost: string | undefined;
  /** Since when it is behind, as a connection has ended; and what came of that before. */
  behindSince: Time | undefined;
  readonly caughtUp: { times: number; longestPs: Time; lastAt: Time };
  running: boolean;
}

export interface LogJob {
  readonly cpu: Cpu;
  readonly options: LogOptions;
  readonly replicas: readonly Replica[];
  /** Told by every thread to every other when something has changed. */
  readonly signal: string;
  /** Counts changes: a thread that finds another count than it knew does not wait. */
  changes: number;
  /** What replicas had before this client: until enough are known, nothing is written. */
  readonly found: Map<string, FoundLog>;
  /** What is to be in the log's slots, once that is known. */
  plan: LogPlan | undefined;
  /** Slots that may be sent to a replica: none, the claim, or as far as the window goes. */
  limit: number;
  /** Slots that a quorum has. */
  durable: number;
  /** Whether the client has ended: so do its threads. */
  over: boolean;
}

/** Something has changed that another thread may wait for. */
export function changed(job: LogJob): void {
  job.changes++;
  job.cpu.signal(job.signal);
}

/**
 * How many replicas a client reads, so that one of them has all that was told durable: by any quorum that
 * there may be, as a client before may have had another one.
 */
export function readsNeeded({ replicas: { length } }: LogJob): number {
  return readQuorum(length, Math.floor(length / 2) + 1);
}

/** Whether so many replicas as count have the first `slots` slots. */
export function quorumHas({ replicas, options }: LogJob, slots: number): boolean {
  return replicas.filter(({ acked }) => acked >= slots).length >= options.quorum;
}
