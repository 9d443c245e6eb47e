/** The options of the replicated log's programs, and the state of its client, shared by its threads. */
import { MADE_UP } from "../common/made_up.ts";
import { METHODS } from "../../../../fabric/rack/plan/vocabulary.ts";
import type { Time } from "../../../../fabric/base/time.ts";
import type { Cpu } from "../../cpu/program.ts";
import type { Method } from "../common/persist_protocol.ts";
import { readQuorum } from "./layout.ts";
import type { LogPlan } from "./plan.ts";
import type { FoundLog } from "./segments.ts";
import { ProgramError } from "../../verbs/device.ts";
import {
  completionOption,
  countOption,
  microsecondsOption,
  type Options,
  textOption,
  wordOption,
} from "../common/options.ts";
import type { ProgramContext } from "../../program_context.ts";

export interface LogOptions {
  readonly to: readonly string[];
  readonly quorum: number;
  /** Name of the log, and the maximum record size, if given. */
  readonly name: string;
  readonly recordBytes: number | undefined;
  /** Whether a log that differs from the file's beginning is replaced. */
  readonly anew: boolean;
  readonly file: string;
  readonly method: Method;
  /** Maximum number of records behind the last durable one that are outstanding. */
  readonly depth: number;
  readonly mode: "poll" | "interrupt";
  /** The wait between two connections, and the maximum silence with outstanding requests. */
  readonly pausePs: Time;
  readonly idlePs: Time;
  /** The client gives up after this time without progress. */
  readonly patiencePs: Time;
  /** How long it serves late replicas once all records are durable. */
  readonly lingerPs: Time;
}

export interface Replica {
  readonly host: string;
  /** Offset of each segment of the log in the replica's SCM, as far as known. */
  readonly places: number[];
  /** Whether the method's confirmation guarantees persistence at this host. */
  promises: boolean;
  /** Number of first slots that the replica has confirmed: confirmations outlast any failure. */
  acked: number;
  /** Number of connections. */
  tries: number;
  /** Why the last connection ended, if it did. */
  lost: string | undefined;
  /** Since when it is late because a connection ended; and the reason. */
  behindSince: Time | undefined;
  readonly caughtUp: { times: number; longestPs: Time; lastAt: Time };
  running: boolean;
}

export interface LogJob {
  readonly cpu: Cpu;
  readonly options: LogOptions;
  readonly replicas: readonly Replica[];
  /** Raised by a thread whenever the shared state has changed. */
  readonly signal: string;
  /** Counts changes: a thread does not wait if the count differs from the one that it has seen. */
  changes: number;
  /** The log at each replica before this client: nothing is written until enough are known. */
  readonly found: Map<string, FoundLog>;
  /** The planned content of the log's slots, once known. */
  plan: LogPlan | undefined;
  /** Number of slots released for sending: none, the claim, or up to the window's end. */
  limit: number;
  /** Number of slots confirmed by a quorum. */
  durable: number;
  /** Whether the client has ended; its threads then end, too. */
  over: boolean;
}

/** Wakes the threads after a change of the shared state. */
export function changed(job: LogJob): void {
  job.changes++;
  job.cpu.signal(job.signal);
}

/**
 * The number of replicas that a client reads, so that one of them has all durable records: for any
 * quorum size, as an earlier client may have used another one.
 */
export function readsNeeded({ replicas: { length } }: LogJob): number {
  return readQuorum(length, Math.floor(length / 2) + 1);
}

/** Whether a quorum of replicas has the first `slots` slots. */
export function quorumHas({ replicas, options }: LogJob, slots: number): boolean {
  return replicas.filter(({ acked }) => acked >= slots).length >= options.quorum;
}

/** The client's options. @throws ProgramError with the option, its valid values and its value. */
export function readLogOptions({ device, options: given }: ProgramContext): LogOptions {
  const to = hostsOption(given, "to");
  return {
    to,
    quorum: quorumOption(given, to.length),
    name: textOption(given, "name", "log"),
    recordBytes: recordOption(given),
    anew: given.anew === true,
    file: textOption(given, "file", MADE_UP),
    method: wordOption(given, "method", { words: METHODS, otherwise: "persist-opcode" }),
    depth: countOption(given, "depth", { least: 1, otherwise: 16 }),
    mode: completionOption(given, device),
    pausePs: microsecondsOption(given, "pauseUs", 200),
    idlePs: microsecondsOption(given, "idleUs", 5_000),
    patiencePs: microsecondsOption(given, "patienceUs", 100_000),
    lingerPs: microsecondsOption(given, "lingerUs", 20_000),
  };
}

/** A list of different hosts' names. @throws ProgramError */
export function hostsOption(options: Options, name: string): string[] {
  const found = options[name];
  const hosts = Array.isArray(found) ? found : typeof found === "string" ? [found] : [];
  const isRight = hosts.length > 0 && hosts.every((host) => typeof host === "string") &&
    new Set(hosts).size === hosts.length;
  if (isRight) return hosts;
  throw new ProgramError(
    `Option ${name} must be a list of different hosts: it is ${JSON.stringify(found)}`,
  );
}

/** Number of replicas that make a record durable; default: a majority. @throws ProgramError */
export function quorumOption(options: Options, replicas: number): number {
  const least = Math.floor(replicas / 2) + 1;
  const quorum = countOption(options, "quorum", { least: 1, otherwise: least });
  if (quorum >= least && quorum <= replicas) return quorum;
  throw new ProgramError(
    `Option quorum must be ${least} to ${replicas}, more than half of ${replicas} hosts: it is ${quorum}`,
  );
}

/** Maximum record size, if given. @throws ProgramError */
export function recordOption(options: Options): number | undefined {
  if (options.record === undefined) return undefined;
  return countOption(options, "record", { least: 1, otherwise: 1 });
}
