/**
 * What the processes of one run are started with: a JSON file in the run's directory. Credentials of
 * the bus are not in it; they are handed over in the environment.
 */
import type { ObservationScope } from "../../capture/observation.ts";
import type { LinkFaultCount } from "../plan/link_plan.ts";
import type { RackPlan } from "../plan/plan.ts";

export interface RunFile {
  /** The run's name on the bus, a subject token. */
  readonly run: string;
  readonly plan: RackPlan;
  readonly partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>;
  /** Least delay between partitions in ps; null stands for "never" (JSON has no infinity). */
  readonly lookahead: ReadonlyArray<ReadonlyArray<number | null>>;
  /** Where SCM files, outputs, traces and the record of faults are. */
  readonly directory: string;
  /** Host → name a program uses → file. */
  readonly inputs: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** A user's own programs: name in the scenario → module file. */
  readonly programs: Readonly<Record<string, string>>;
  readonly stayUp: boolean;
  readonly trace: boolean;
  /** What each process records for a capture; without it, nothing. */
  readonly observe?: ObservationScope;
  /** Where the captures of a rack in the background go when it is taken down. */
  readonly captures?: CaptureFiles;
  /**
   * Nobody starts and watches the processes on the rack's behalf (containers): a partition that is
   * not heard of for so long is dead. 0: a supervisor sees deaths.
   */
  readonly livenessMs: number;
  /** For tests: the most ms that a process waits before each span, and before it tells of some. 0 is none. */
  readonly delayMsMax: number;
}

/** Captures that are wanted of a run, as absolute paths. */
export interface CaptureFiles {
  /** A folder for pcapng files, one for each variant. */
  readonly pcap?: string;
  /** One file for all variants. */
  readonly perfetto?: string;
}

/** The lookahead with "never" as a number. */
export function lookaheadOf(file: RunFile): number[][] {
  return file.lookahead.map((row) => row.map((ps) => ps ?? Number.POSITIVE_INFINITY));
}

/** What a partition answers when the run has ended. */
export interface FinalReply {
  readonly partition: string;
  readonly statistics: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** What cables did wrong, as the ends in this partition know it: rows of one name add up. */
  readonly linkFaults: readonly LinkFaultCount[];
  /** What programs reported for good (results, failures), oldest first. */
  readonly reports: ReadonlyArray<
    {
      readonly time: number;
      readonly node: string;
      readonly topic: string;
      readonly value: unknown;
    }
  >;
  readonly refused: number;
  /** Messages that went to other partitions. */
  readonly sent: number;
  readonly residentBytes: number;
}

/** Names of the environment's variables by which a process is told of the bus. */
export const BUS_ENVIRONMENT = {
  url: "RACKMESH_NATS_URL",
  user: "RACKMESH_NATS_USER",
  password: "RACKMESH_NATS_PASSWORD",
  token: "RACKMESH_NATS_TOKEN",
  patienceMs: "RACKMESH_NATS_PATIENCE_MS",
} as const;

const DEFAULT_PATIENCE_MS = 10_000;

/**
 * How long an outage of the bus may last before a process takes it for final, in ms: read by `get`,
 * which answers a variable's value.
 */
export function busPatienceMs(get: (variable: string) => string | undefined): number {
  const ms = Number(get(BUS_ENVIRONMENT.patienceMs) || DEFAULT_PATIENCE_MS);
  return ms > 0 ? ms : DEFAULT_PATIENCE_MS;
}

/** Where the bus is and how to be let in, as the environment says it. */
export interface BusAddress {
  readonly url: string;
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
}

const DEFAULT_URL = "nats://127.0.0.1:4222";

/** Reads the bus's address by `get`, which answers a variable's value; an empty one counts as none. */
export function busAddressFrom(get: (variable: string) => string | undefined): BusAddress {
  const url = get(BUS_ENVIRONMENT.url) || DEFAULT_URL;
  const user = get(BUS_ENVIRONMENT.user);
  const password = get(BUS_ENVIRONMENT.password);
  const token = get(BUS_ENVIRONMENT.token);
  return { url, ...(user && { user }), ...(password && { password }), ...(token && { token }) };
}

/** The variables for a process that is to find the bus; what does not apply is empty. */
export function busEnvironment(address: BusAddress): Record<string, string> {
  const { url, user = "", password = "", token = "" } = address;
  return {
    [BUS_ENVIRONMENT.url]: url,
    [BUS_ENVIRONMENT.user]: user,
    [BUS_ENVIRONMENT.password]: password,
    [BUS_ENVIRONMENT.token]: token,
  };
}

/** Exit codes of every process and command of the project. */
export const EXIT = {
  done: 0,
  /** It ran, and a check failed. */
  failed: 1,
  /** It could not be told. */
  unclear: 2,
  usage: 64,
  internal: 70,
} as const;
