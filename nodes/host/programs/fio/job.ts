/**
 * One thread of a fio job, all defaults filled in. Names and meanings are fio's (axboe/fio:
 * `HOWTO.rst`, `thread_options.h`). `console/fio` makes it from a job file.
 */
import type { Memory } from "../../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../../fabric/base/time.ts";
import type { WcStatus } from "../../../../fabric/wire/host_bus/cqe.ts";

export const ENGINES = [
  "librpma_apm_client",
  "librpma_apm_server",
  "librpma_gpspm_client",
  "librpma_gpspm_server",
  "rdma",
] as const;
export type EngineName = typeof ENGINES[number];

export const DIRECTIONS = ["read", "write"] as const;
export type Direction = typeof DIRECTIONS[number];

export const VERBS = ["write", "read", "send", "recv"] as const;
export type Verb = typeof VERBS[number];

export interface BlockSizes {
  readonly least: number;
  readonly most: number;
}

/** Percentages are of the workspace. */
export type Extent = { readonly bytes: number } | { readonly percent: number };

export interface FioJob {
  readonly name: string;
  readonly engine: EngineName;
  readonly isServer: boolean;
  readonly index: number;
  /** Jobs of a wave run at once, waves one after the other (`stonewall`); from 0. */
  readonly wave: number;
  readonly to?: string;
  /** librpma's `port` + thread − 1. */
  readonly port: number;
  /** The percentage of reads (`rw`, `rwmixread`). */
  readonly readPercent: number;
  readonly random: boolean;
  /** Each block is used once before any repeats (not `norandommap`). */
  readonly randomMap: boolean;
  readonly blockSizes: Readonly<Record<Direction, BlockSizes>>;
  readonly size?: Extent;
  readonly offset: number;
  /** Bytes in all, instead of once the size (`io_size`). */
  readonly ioBytes?: number;
  readonly ios?: number;
  readonly loops: number;
  readonly iodepth: number;
  readonly iodepthLow: number;
  readonly batch: number;
  readonly batchCompleteMin: number;
  readonly batchCompleteMax: number;
  /** librpma: the call posts one I/O and waits for it. */
  readonly sync: boolean;
  readonly timeBased: boolean;
  readonly runtimePs?: Time;
  readonly rampPs: Time;
  readonly startDelayPs: Time;
  readonly bwWindowPs: Time;
  readonly iopsWindowPs: Time;
  readonly seed?: number;
  readonly verb: Verb;
  readonly directWriteToPmem: boolean;
  readonly busyWaitPolling: boolean;
  /** DRAM for the file name `malloc`, else SCM. */
  readonly memory: Memory;
}

/** A queue pair limits it (rdma: FIO_RDMA_MAX_IO_DEPTH). */
export const IODEPTH_MAX = 16_384;
export const RDMA_IODEPTH_MAX = 512;
export const JOBS_MAX = 256;

/** `err=`: an errno, or ibv_wc_status, with its text. */
export interface JobError {
  readonly code: number;
  readonly text: string;
}

export function completionError(
  { status, reason }: { readonly status: WcStatus; readonly reason?: string },
  code: number,
): JobError {
  return { code, text: reason === undefined ? status : `${status}: ${reason}` };
}
