/** Options of the replicated log's programs, and its client's state, which its threads share. */
import { MADE_UP } from "../common/made_up.ts";
import { machineOf } from "../../../../fabric/rack/plan/names.ts";
import { METHODS } from "../../../../fabric/rack/plan/vocabulary.ts";
import type { Time } from "../../../../fabric/base/time.ts";
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

export function createJob({ cpu }: ProgramContext, options: LogOptions) {
  return {
    cpu,
    options,
    replicas: options.to.map((host) => ({
      host,
      places: new Array<number>(),
      /** The method's confirmation guarantees persistence at this host. */
      promises: false,
      /** The number of first slots that are confirmed, so that they survive any failure. */
      acked: 0,
      tries: 0,
      lost: undefined as string | undefined,
      behindSince: undefined as Time | undefined,
      caughtUp: { times: 0, longestPs: 0, lastAt: 0 },
      running: false,
    })),
    signal: `log/${options.name}`,
    /** A thread does not wait if the count differs from the one that it has seen. */
    changes: 0,
    /** Logs before this client, which writes only when enough are known. */
    found: new Map<string, FoundLog>(),
    plan: undefined as LogPlan | undefined,
    /** Released slots: none, the claim, or up to the window's end. */
    limit: 0,
    durable: 0,
    over: false,
  };
}

export type LogJob = ReturnType<typeof createJob>;
export type Replica = LogJob["replicas"][number];

export function changed(job: LogJob): void {
  job.changes++;
  job.cpu.signal(job.signal);
}

/**
 * One replica then has all durable records, for any quorum: an earlier client may have used
 * another.
 */
export function readsNeeded({ replicas: { length } }: LogJob): number {
  return readQuorum(length, Math.floor(length / 2) + 1);
}

export function quorumHas({ replicas, options }: LogJob, slots: number): boolean {
  return replicas.filter(({ acked }) => acked >= slots).length >= options.quorum;
}

/** @throws ProgramError with the option, its valid values and its value. */
export function readLogOptions({ device, options: given }: ProgramContext) {
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
    /** The wait between two connections; the longest silence with outstanding requests. */
    pausePs: microsecondsOption(given, "pauseUs", 200),
    idlePs: microsecondsOption(given, "idleUs", 5_000),
    patiencePs: microsecondsOption(given, "patienceUs", 100_000),
    lingerPs: microsecondsOption(given, "lingerUs", 20_000),
  };
}

export type LogOptions = Readonly<ReturnType<typeof readLogOptions>>;

/** The names must all be different. @throws ProgramError */
export function hostsOption(options: Options, name: string): string[] {
  const found = options[name];
  const hosts = Array.isArray(found) ? found : typeof found === "string" ? [found] : [];
  const isRight = hosts.length > 0 && hosts.every((host) => typeof host === "string") &&
    new Set(hosts.map(machineOf)).size === hosts.length;
  if (isRight) return hosts;
  throw new ProgramError(
    `Option ${name} must be a list of different hosts: it is ${JSON.stringify(found)}`,
  );
}

/** Replicas for durability; a majority by default. @throws ProgramError */
export function quorumOption(options: Options, replicas: number): number {
  const least = Math.floor(replicas / 2) + 1;
  const quorum = countOption(options, "quorum", { least: 1, otherwise: least });
  if (quorum >= least && quorum <= replicas) return quorum;
  throw new ProgramError(
    `Option quorum must be ${least} to ${replicas}, more than half of ${replicas} hosts: it is ${quorum}`,
  );
}

export function recordOption(options: Options): number | undefined {
  if (options.record === undefined) return undefined;
  return countOption(options, "record", { least: 1, otherwise: 1 });
}
