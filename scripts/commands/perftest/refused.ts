/**
 * Options of perftest (linux-rdma/perftest) that `rack perftest` does not have. One that asks for
 * another measurement is refused; one for reaching or setting up the lab's machines is accepted.
 */
const SOCKETS = "the two ends find each other by their hosts' names";
const GPU = "the rack has no GPUs or accelerators; --memory has dram and scm";
const RAW = "the rack has no raw Ethernet queue pairs";
const RATE = "the rack's cards have no rate limiter; --tx-depth bounds what is outstanding";
const VIRTUAL = "times are virtual: the host's processor does not disturb them";
const OPERATIONS = "ib_write_* WRITE and ib_send_* SEND without immediate data";
const BUFFER = "each queue pair has its places in one registered buffer";

export interface IdleOption {
  readonly flags: string;
  readonly why: string;
  /** Asks for what there is; absent: any value does. */
  readonly only?: string;
  readonly but?: RegExp;
}

/** As `getDeviceList` has them. */
export const DEVICE_NAME = /^rackmesh(\d+)$/;

/** Accepted; a report says that they have no effect. */
export const IDLE: readonly IdleOption[] = [
  { flags: "-F, --CPU-freq", why: "virtual time has one clock" },
  { flags: "-i, --ib-port <port>", why: "a card has one port, 1", only: "1" },
  { flags: "--force-link <type>", why: "links are Ethernet", only: "Ethernet" },
  { flags: "--pkey_index <index>", why: "a port has one partition key", only: "0" },
  {
    flags: "-d, --ib-dev <dev>",
    why: "a host's cards are rackmesh0, and rackmesh1 and so on where the scenario gives it more",
    but: DEVICE_NAME,
  },
  { flags: "-p, --port <port>", why: SOCKETS },
  {
    flags: "-x, --gid-index <index>",
    why: "a port has one GID; RoCE's version is `roce:` of the scenario",
  },
  { flags: "-X, --vector <vector>", why: "completions of a test come to one vector" },
  { flags: "--bind_source_ip <ip>", why: SOCKETS },
  {
    flags: "--disable_dynamic_polling",
    why: "an end takes as many completions as there are, 64 at most",
  },
  { flags: "--disable_pcie_relaxed", why: "relaxed ordering is off, always" },
  { flags: "--dlid <dlid>", why: "RoCE has no LIDs" },
  { flags: "--dont_xchg_versions", why: "both ends are of one version" },
  { flags: "--no_lock", why: "an end is one thread" },
  { flags: "--numa_node <node>", why: "a host has one socket" },
  { flags: "--disable_numa", why: "a host has one socket" },
  { flags: "--pin_cores <list>", why: "each program has a core of its own" },
  { flags: "--report-per-port", why: "a card has one port" },
  { flags: "--use_hugepages", why: VIRTUAL },
  { flags: "--use_old_post_send", why: "posts are ibv_post_send's, always" },
  { flags: "--wait_destroy <seconds>", why: VIRTUAL },
];

export const REFUSED: readonly (readonly [flags: string, why: string])[] = [
  ["-C, --report-cycles", "virtual time has no cycles; results are in microseconds"],
  ["-g, --mcg", "multicast groups are not measured; ib_send_* -c UD is"],
  ["-M, --MGID <gid>", "multicast groups are not measured; ib_send_* -c UD is"],
  ["-O, --dualport", "a card has one port"],
  ["-W, --report-counters <names>", "counters are in the run's report: rack runs names its folder"],
  ["--burst_size <size>", RATE],
  ["--connectionless", "multicast groups are not measured"],
  ["--cpu_util", "the run's report has each core's time"],
  ["--cqe_poll <n>", "an end takes as many completions as there are, 64 at most"],
  ["--data_validation", "rack run checks contents; perftest's buffers have none"],
  ["--data_validation_debug", "rack run checks contents; perftest's buffers have none"],
  ["--flow_label <labels>", "UDP source ports come from the two QPNs"],
  ["--ipv6", "the rack has IPv4 alone"],
  ["--ipv6-addr", "the rack has IPv4 alone"],
  ["--latency_gap <us>", "the client posts at once when the answer is there"],
  ["--mmap <file>", GPU],
  ["--mmap-offset <offset>", GPU],
  ["--mr_per_qp", BUFFER],
  ["--odp", "a scenario's own programs measure paging; see nodes/host/paging"],
  ["--payload_file_path <file>", BUFFER],
  ["--perform_warm_up", "a rack starts cold, and stays the same run by run"],
  ["--rate_limit <rate>", RATE],
  ["--rate_limit_type <type>", RATE],
  ["--rate_units <units>", RATE],
  ["--recv_post_list <n>", "an end posts each receive when its message has been taken"],
  ["--reversed", "--from and --to say which host sends"],
  ["--run_infinitely", "a run ends; -D says after which virtual time"],
  ["--send_with_imm", OPERATIONS],
  ["--typical_pkt_size <bytes>", RATE],
  ["--unsolicited_write", OPERATIONS],
  ["--use-null-mr", BUFFER],
  ["--use-srq", "each queue pair has a receive queue of its own, of --rx-depth"],
  ["--use_ooo", "data is placed in order"],
  ["--write_with_imm", OPERATIONS],
  ["-B, --source_mac <mac>", RAW],
  ["-E, --dest_mac <mac>", RAW],
  ["-J, --dest_ip <ip>", RAW],
  ["-j, --source_ip <ip>", RAW],
  ["-K, --dest_port <port>", RAW],
  ["-k, --source_port <port>", RAW],
  ["-Y, --ethertype <type>", RAW],
  ["-Z, --server", RAW],
  ["-P, --client", RAW],
  ["-v, --mac_fwd", RAW],
  ["-G, --use_rss", RAW],
  ["--use_cuda <id>", GPU],
  ["--use_cuda_bus_id <id>", GPU],
  ["--use_cuda_dmabuf", GPU],
  ["--use_rocm <id>", GPU],
  ["--use_rocm_dmabuf", GPU],
  ["--use_musa <id>", GPU],
  ["--use_neuron <id>", GPU],
  ["--use_hl <id>", GPU],
  ["--use_mlu <id>", GPU],
  ["--use_opencl <id>", GPU],
  ["--gpu_touch <mode>", GPU],
];

export const WHY_NO_SL =
  "0, as RoCEv2 has service levels in a VLAN tag alone, and the rack no VLANs: --tclass sets DSCP";
