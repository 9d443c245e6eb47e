/**
 * One thread of a fio job, as the program takes it: plain data, with all defaults filled in. Names
 * and meanings are fio's (axboe/fio: `HOWTO.rst`, `thread_options.h`). `console/fio` makes it from
 * a job file.
 */
import type { Time } from "../../../../fabric/base/time.ts";
import type { WcStatus } from "../../../../fabric/wire/host_bus/cqe.ts";

/** The engines over verbs: fio's `ioengine`. */
export const ENGINES = [
  "librpma_apm_client",
  "librpma_apm_server",
  "librpma_gpspm_client",
  "librpma_gpspm_server",
  "rdma",
] as const;
export type EngineName = typeof ENGINES[number];

/** Directions of data, in the order of fio's tables. */
export const DIRECTIONS = ["read", "write"] as const;
export type Direction = typeof DIRECTIONS[number];

/** The operation of the rdma engine's client (`verb`). */
export const VERBS = ["write", "read", "send", "recv"] as const;
export type Verb = typeof VERBS[number];

/** Bytes from `least` to `most`, in multiples of `least`. */
export interface BlockSizes {
  readonly least: number;
  readonly most: number;
}

/** A number of bytes, or a percentage of the workspace. */
export type Extent = { readonly bytes: number } | { readonly percent: number };

export interface FioJob {
  readonly name: string;
  readonly engine: EngineName;
  readonly isServer: boolean;
  /** Position in the output: a job's threads come in order. */
  readonly index: number;
  /**
   * From 0: jobs of a wave run at once, and the next wave begins when all of them have ended
   * (`stonewall`).
   */
  readonly wave: number;
  /** The server's host; absent for a server. */
  readonly to?: string;
  /** This thread's port: librpma's `port` + thread − 1. */
  readonly port: number;
  /** 100 for reads only, 0 for writes only (`rw`, `rwmixread`). */
  readonly readPercent: number;
  readonly random: boolean;
  /** For random I/O: each block is used once before any block repeats (not `norandommap`). */
  readonly randomMap: boolean;
  readonly blockSizes: Readonly<Record<Direction, BlockSizes>>;
  /** Default: all of the workspace. */
  readonly size?: Extent;
  readonly offset: number;
  /** Bytes to transfer in all, instead of once the size (`io_size`). */
  readonly ioBytes?: number;
  readonly ios?: number;
  readonly loops: number;
  readonly iodepth: number;
  readonly iodepthLow: number;
  readonly batch: number;
  readonly batchCompleteMin: number;
  readonly batchCompleteMax: number;
  /** librpma: one I/O at a time, each awaited by the call that posts it. */
  readonly sync: boolean;
  readonly timeBased: boolean;
  readonly runtimePs?: Time;
  readonly rampPs: Time;
  readonly startDelayPs: Time;
  /** Averaging window of `bw` and `iops` samples. */
  readonly bwWindowPs: Time;
  readonly iopsWindowPs: Time;
  readonly seed?: number;
  readonly verb: Verb;
  readonly directWriteToPmem: boolean;
  readonly busyWaitPolling: boolean;
  /** The server's workspace: DRAM for the file name `malloc`, else SCM. */
  readonly memory: "dram" | "scm";
}

/**
 * Most messages that a job may have outstanding, limited by a queue pair (rdma:
 * FIO_RDMA_MAX_IO_DEPTH).
 */
export const IODEPTH_MAX = 16_384;
export const RDMA_IODEPTH_MAX = 512;
/** Most threads of all jobs together. */
export const JOBS_MAX = 256;

/** `err=` of a job: an errno, or the status of a completion (ibv_wc_status), with its text. */
export interface JobError {
  readonly code: number;
  readonly text: string;
}

/** A failed completion, with its status as fio prints it. */
export function completionError(
  { status, reason }: { readonly status: WcStatus; readonly reason?: string },
  code: number,
): JobError {
  return { code, text: reason === undefined ? status : `${status}: ${reason}` };
}
