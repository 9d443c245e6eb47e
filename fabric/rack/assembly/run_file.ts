/** The run file, from which the processes of a run start: JSON, without credentials of the bus. */
import type { Time } from "../../base/time.ts";
import type { NatsAddress } from "../../bus/nats_bus.ts";
import type { ObservationScope } from "../../capture/observation.ts";
import type { LinkFaultCount } from "../plan/link_plan.ts";
import type { RackPlan } from "../plan/plan.ts";
import { judgeRulesOf } from "../plan/shared_region.ts";

export interface RunFile {
  readonly run: string;
  readonly plan: RackPlan;
  readonly partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>;
  readonly directory: string;
  /**
   * Partitions whose processes a parent on another machine or in a container starts, which is
   * reached over the bus; absent: the rack's supervisor starts all.
   */
  readonly elsewhere?: readonly string[];
  /** Host → name in the program → file. */
  readonly inputs: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Name in the scenario → module text, see `nodes/files.ts`. */
  readonly programs: Readonly<Record<string, string>>;
  /** Absent: the run has no native program. */
  readonly native?: NativeManner;
  readonly stayUp: boolean;
  /** Time stands at 0 until it is let run. */
  readonly pausedAtStart?: boolean;
  readonly resumed?: ResumedFrom;
  readonly trace: boolean;
  readonly observe?: ObservationScope;
  readonly captures?: CaptureFiles;
  /**
   * A partition that is silent for this time is dead; 0 where a supervisor starts all, which sees
   * their ends.
   */
  readonly livenessMs: number;
  /** For tests: maximum delay in ms before each span and some reports of a process. */
  readonly delayMsMax: number;
}

/** Undefined where there is no such partition. */
export function nodesOf(
  { partitions }: Pick<RunFile, "partitions">,
  partition: string,
): readonly string[] | undefined {
  return partitions.find(({ name }) => name === partition)?.nodes;
}

/** The run file for a process with these nodes, without the inputs and programs of others. */
export function planFor(runFile: RunFile, nodes: readonly string[]): RunFile {
  const own = Object.entries(runFile.inputs).filter(([host]) => nodes.includes(host));
  return { ...runFile, inputs: Object.fromEntries(own), programs: programsFor(runFile, nodes) };
}

/** The user's own programs that a process with these nodes loads. */
export function programsFor(
  { plan, programs }: Pick<RunFile, "plan" | "programs">,
  nodes: readonly string[],
): Record<string, string> {
  const its = plan.nodes.filter(({ name }) => nodes.includes(name));
  const runs = its.flatMap((node) => {
    if (node.kind !== "host") return [];
    const { programs: listed, shared } = node.config;
    return [...listed.map(({ run }) => run), ...judgeRulesOf(shared, node.name)];
  });
  const hasRows = its.some(({ kind }) => kind !== "switch");
  return Object.fromEntries(
    Object.entries(programs).filter(([name]) =>
      runs.includes(name) || (hasRows && name === plan.coherence)
    ),
  );
}

/** How native programs run. */
export type NativeManner = NativeSetUp | NativeRecords;

/** Native programs are not started: a run's records of them serve (`nodes/native_records.ts`). */
export interface NativeRecords {
  /** That run's directory. */
  readonly records: string;
}

/** Undefined where no process of a native program is started. */
export function nativeSetUpOf({ native }: Pick<RunFile, "native">): NativeSetUp | undefined {
  return native === undefined || "records" in native ? undefined : native;
}

/** Whether processes of native programs are started, by a process that needs the rights for that. */
export function startsNative(run: Pick<RunFile, "native">): boolean {
  return nativeSetUpOf(run) !== undefined;
}

/** The run of native programs on this machine. */
export interface NativeSetUp {
  /** The path of the library that is preloaded into them. */
  readonly library: string;
  /** Their binaries, by path, each with its SHA-256 in hexadecimal digits. */
  readonly binaries: Readonly<Record<string, string>>;
  /**
   * Of those binaries that flush by instructions of their own, which the library cannot see: how many there are in
   * their code and that of their libraries.
   */
  readonly flushes?: Readonly<Record<string, number>>;
  /** The path of the `bwrap` in which they run; absent: they run with the user's rights. */
  readonly bwrap?: string;
  /** The folder of all runs, which is hidden from them. */
  readonly runs: string;
  /**
   * Of containers, which have none of this machine's: all files that the programs load, by path, each
   * with its SHA-256.
   */
  readonly files?: Readonly<Record<string, string>>;
}

/**
 * The repeated run, the end of the repetition (exclusive), and the least number for later orders.
 */
export interface ResumedFrom {
  readonly run: string;
  readonly at: Time;
  readonly ordersFrom: number;
}

/**
 * In the run's directory until the repeated part has been compared; until then time does not pass
 * its end.
 */
export const RESUMING_FILE = "resuming.json";

/** Absolute paths. */
export interface CaptureFiles {
  readonly pcap?: string;
  readonly perfetto?: string;
}

export interface FinalReply {
  readonly partition: string;
  readonly statistics: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly linkFaults: readonly LinkFaultCount[];
  readonly reports: ReadonlyArray<
    {
      readonly time: number;
      readonly node: string;
      readonly topic: string;
      readonly value: unknown;
    }
  >;
  readonly refused: number;
  /** By subject. */
  readonly refusedOn: ReadonlyArray<readonly [subject: string, count: number]>;
  readonly sent: number;
  readonly residentBytes: number;
}

export interface FinalPage extends FinalReply {
  readonly reportsLeft: number;
}

export const BUS_ENVIRONMENT = {
  url: "RACKMESH_NATS_URL",
  user: "RACKMESH_NATS_USER",
  password: "RACKMESH_NATS_PASSWORD",
  token: "RACKMESH_NATS_TOKEN",
  /** Texts, as a device may read few files. */
  creds: "RACKMESH_NATS_CREDS",
  ca: "RACKMESH_NATS_CA",
  patienceMs: "RACKMESH_NATS_PATIENCE_MS",
} as const;

/** A restarted broker is back within this time, even on a busy machine. */
export const DEFAULT_PATIENCE_MS = 60_000;

export function busPatienceMs(get: (variable: string) => string | undefined): number {
  const ms = Number(get(BUS_ENVIRONMENT.patienceMs) || DEFAULT_PATIENCE_MS);
  return ms > 0 ? ms : DEFAULT_PATIENCE_MS;
}

const DEFAULT_URL = "nats://127.0.0.1:4222";

const ADDRESS_PARTS = ["user", "password", "token", "creds", "ca"] as const;

export function busAddressFrom(get: (variable: string) => string | undefined): NatsAddress {
  const parts = ADDRESS_PARTS.flatMap((part) => {
    const value = get(BUS_ENVIRONMENT[part]);
    return value ? [[part, value]] : [];
  });
  return { url: get(BUS_ENVIRONMENT.url) || DEFAULT_URL, ...Object.fromEntries(parts) };
}

/** What is absent is empty: a child inherits it from no other process. */
export function busEnvironment(address: NatsAddress): Record<string, string> {
  const parts = ADDRESS_PARTS.map((part) => [BUS_ENVIRONMENT[part], address[part] ?? ""]);
  return { [BUS_ENVIRONMENT.url]: address.url, ...Object.fromEntries(parts) };
}

/** @param output.order several may read objects of one name at once, from different hosts. */
export function outputFile(
  directory: string,
  { path, order }: { readonly path: string; readonly order?: number },
): string {
  const prefix = order === undefined ? "" : `${order}-`;
  return `${directory}/outputs/${prefix}${path.replaceAll(/[^\w.-]/g, "_")}`;
}
