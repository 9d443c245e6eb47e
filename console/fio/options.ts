/**
 * fio's options: those that a job of the rack has, those without an effect on it, and those that
 * are refused, as they would change the measurement. Names are those of fio's `options.c` and of
 * the engines `librpma_*` and `rdma`.
 */
import { type EngineName, ENGINES } from "../../nodes/host/programs/fio/job.ts";

export type Kind =
  | "bytes"
  | "extent"
  | "count"
  | "flag"
  | "seconds"
  | "milliseconds"
  | "sizes"
  | "ranges"
  | "percentiles"
  | "text"
  | "sync"
  | readonly string[];

export interface OptionRow {
  readonly kind: Kind;
  readonly least?: number;
  readonly most?: number;
  /** Absent: all engines have it. */
  readonly engines?: "librpma" | "rdma";
}

const RW = [
  "read",
  "write",
  "randread",
  "randwrite",
  "rw",
  "readwrite",
  "randrw",
] as const;

const PERCENT = { kind: "count", least: 0, most: 100 } as const;
const DEPTH = { kind: "count", least: 1 } as const;

export const USED = {
  name: { kind: "text" },
  ioengine: { kind: ENGINES },
  description: { kind: "text" },
  rw: { kind: RW },
  rwmixread: PERCENT,
  rwmixwrite: PERCENT,
  bs: { kind: "sizes" },
  bsrange: { kind: "ranges" },
  size: { kind: "extent" },
  io_size: { kind: "bytes" },
  offset: { kind: "bytes" },
  number_ios: { kind: "count" },
  loops: DEPTH,
  iodepth: DEPTH,
  iodepth_low: { kind: "count" },
  iodepth_batch: { kind: "count" },
  iodepth_batch_complete_min: { kind: "count" },
  iodepth_batch_complete_max: { kind: "count" },
  numjobs: DEPTH,
  sync: { kind: "sync" },
  time_based: { kind: "flag" },
  runtime: { kind: "seconds" },
  ramp_time: { kind: "seconds" },
  startdelay: { kind: "seconds" },
  norandommap: { kind: "flag" },
  randseed: { kind: "count" },
  stonewall: { kind: "flag" },
  new_group: { kind: "flag" },
  group_reporting: { kind: "flag" },
  percentile_list: { kind: "percentiles" },
  clat_percentiles: { kind: "flag" },
  lat_percentiles: { kind: "flag" },
  slat_percentiles: { kind: "flag" },
  disable_slat: { kind: "flag" },
  disable_clat: { kind: "flag" },
  disable_lat: { kind: "flag" },
  gtod_reduce: { kind: "flag" },
  bwavgtime: { kind: "milliseconds" },
  iopsavgtime: { kind: "milliseconds" },
  kb_base: { kind: ["1024", "1000"] },
  unit_base: { kind: ["0", "8", "1"] },
  significant_figures: { kind: "count", least: 1, most: 10 },
  filename: { kind: "text" },
  filename_format: { kind: "text" },
  serverip: { kind: "text", engines: "librpma" },
  direct_write_to_pmem: { kind: "flag", engines: "librpma" },
  busy_wait_polling: { kind: "flag", engines: "librpma" },
  port: { kind: "count", least: 1, most: 65_535 },
  hostname: { kind: "text", engines: "rdma" },
  nrfiles: { kind: ["1"] },
  verb: { kind: ["write", "read", "send", "recv"], engines: "rdma" },
} as const satisfies Readonly<Record<string, OptionRow>>;

export type OptionName = keyof typeof USED;

export const ALIASES: Readonly<Record<string, string>> = {
  readwrite: "rw",
  blocksize: "bs",
  blocksize_range: "bsrange",
  io_limit: "io_size",
  fileoffset: "offset",
  iodepth_batch_submit: "iodepth_batch",
  iodepth_batch_complete: "iodepth_batch_complete_min",
  timeout: "runtime",
  wait_for_previous: "stonewall",
  proto: "verb",
  blockalign: "ba",
  blocksize_unaligned: "bs_unaligned",
  iomem: "mem",
  mem_align: "iomem_align",
  nr_files: "nrfiles",
  disable_bw: "disable_bw_measurement",
};

function words(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

/**
 * Without effect on RDMA between two hosts of a rack: options of files, of the page cache, of the
 * content of buffers, of the process.
 */
export const IDLE: ReadonlySet<string> = words(`
  thread create_serialize create_fsync create_on_open allow_file_create allow_mounted_write
  pre_read direct buffered atomic invalidate fallocate fadvise_hint write_hint overwrite opendir
  unlink unlink_each_loop directory unique_filename lockfile openfiles
  file_service_type ioscheduler mem iomem_align hugepage-size lockmem nice prio prioclass priohint
  clocksource randrepeat allrandrepeat softrandommap random_generator refill_buffers scramble_buffers
  zero_buffers buffer_pattern buffer_compress_percentage buffer_compress_chunk dedupe_percentage
  dedupe_global dedupe_mode dedupe_working_set_percentage disk_util comm cgroup cgroup_weight
  cgroup_nodelete uid gid do_verify job_start_clock_id
  gtod_cpu disable_bw_measurement
`);

/** The rack does not have what they ask for: said once, and the job runs. */
export const WARNED: Readonly<Record<string, string>> = {
  cpus_allowed: "programs run on the next core",
  cpumask: "programs run on the next core",
  cpus_allowed_policy: "programs run on the next core",
  numa_cpu_nodes: "a host has one socket",
  numa_mem_policy: "a host has one socket",
  bindname: "a host has one address",
  gpu_dev_id: "a host has no GPU: buffers are in DRAM",
  exec_prerun: "the command is not run",
  exec_postrun: "the command is not run",
  write_bw_log: "no log is written: the output has the least, most and mean of its windows",
  write_lat_log: "no log is written: --output-format=json+ has the histogram",
  write_iops_log: "no log is written: the output has the least, most and mean of its windows",
  write_hist_log: "no log is written: --output-format=json+ has the histogram",
  log_avg_msec: "no log is written",
  log_hist_msec: "no log is written",
  log_hist_coarseness: "no log is written",
  log_entries: "no log is written",
  log_offset: "no log is written",
  per_job_logs: "no log is written",
};

/** They would change the measurement, and the rack does not have them. */
export const REFUSED: ReadonlySet<string> = words(`
  wait_for exitall exit_what exitall_on_error rw_sequencer io_submit_mode fill_device fill_fs filesize file_append offset_align
  offset_increment num_range ba bssplit bs_unaligned bs_is_seq_rand sprandom spr_num_regions spr_op
  spr_cs random_distribution random_sequence_stride percentage_random percentage_sequential fsync
  fdatasync write_barrier sync_file_range end_fsync fsync_on_close end_syncfs verify verify_only
  verify_policy verifysort verifysort_nr verify_offset verify_pattern verify_pattern_interval
  verify_fatal verify_dump verify_async verify_backlog verify_backlog_batch verify_async_cpus
  experimental_verify verify_state_load verify_state_save verify_write_sequence verify_header_seed
  ramp_size trim_percentage trim_verify_zero trim_backlog trim_backlog_batch write_iolog read_iolog
  read_iolog_chunked replay_no_stall replay_redirect replay_scale replay_align replay_time_scale
  replay_skip merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters zonemode zonesize
  zonecapacity zonerange zoneskip read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits
  zone_reset_threshold zone_reset_frequency recover_zbd_write_error write_zone_remainder dataplacement
  plid_select plids dp_scheme rwmixcycle thinktime thinktime_spin thinkcycles thinktime_blocks
  thinktime_blocks_type thinktime_iotime rate rate_min rate_iops rate_iops_min rate_process rate_cycle
  rate_ignore_thinktime max_latency latency_target latency_window latency_percentile latency_run
  create_only log_window_value log_prio log_issue_time log_compression log_compression_cpus
  log_store_compressed block_error_percentiles stats unified_rw_reporting continue_on_error
  ignore_error error_dump profile flow flow_id flow_watermark flow_sleep steadystate
  steadystate_duration steadystate_ramp_time cpuload cpuchunks cpumode
  serialize_overlap
`);

/** Values of a refused option that are fio's defaults. */
export const ASKS_NOTHING: ReadonlySet<string> = words(
  "0 none random mean inline sequential linear",
);

export const KNOWN: readonly string[] = [
  ...Object.keys(USED),
  ...Object.keys(ALIASES),
  ...IDLE,
  ...Object.keys(WARNED),
  ...REFUSED,
];

/** fio refuses options of other engines. */
export function engineHas(engine: EngineName, { engines }: OptionRow): boolean {
  return engines === undefined || engine.startsWith(engines);
}
