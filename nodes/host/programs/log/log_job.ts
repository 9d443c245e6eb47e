/** A replicated log's client under way: what its threads share. */
import type { Time } from "../../../../fabric/time/time.ts";
import type { Cpu } from "../../program.ts";
import type { Method } from "../persist_protocol.ts";
import type { LogScan, LogShape } from "./layout.ts";

export interface LogOptions {
  readonly to: readonly string[];
  readonly quorum: number;
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
  /** Where the log begins in its SCM; null until it has said so. */
  place: number | null;
  /** Whether what the method takes for persistence is that at this host. */
  promises: boolean;
  /** Slots from the first on that it has said are persistent: what it said holds after any failure. */
  acked: number;
  /** Connections that were tried. */
  tries: number;
  /** Why the last one ended, if it did. */
  lost: string | undefined;
  running: boolean;
}

export interface LogJob {
  readonly cpu: Cpu;
  readonly options: LogOptions;
  readonly shape: LogShape;
  readonly replicas: readonly Replica[];
  /** Told by every thread to every other when something has changed. */
  readonly signal: string;
  /** Counts what has changed, so that nobody sleeps over it. */
  changes: number;
  /** What replicas had before this client: until enough are known, nothing is written. */
  readonly scans: Map<string, LogScan>;
  /** All slots as they are to be; filled as soon as it is known what they are. */
  readonly slots: Uint8Array<ArrayBuffer>;
  /** Slots that may be sent to a replica: none, the claim, or as far as the window goes. */
  limit: number;
  /** Whether the client has ended: so do its threads. */
  over: boolean;
}

/** Something has changed that another thread may wait for. */
export function changed(job: LogJob): void {
  job.changes++;
  job.cpu.signal(job.signal);
}
