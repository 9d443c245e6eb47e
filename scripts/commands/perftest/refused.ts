/**
 * Options of perftest (linux-rdma/perftest) that `rack perftest` does not have, each with the reason: a command
 * line that was written for perftest gets a sentence, not a figure that means something else.
 */
const SOCKETS = "the two ends find each other by their hosts' names: --from and --to";
const GPU = "the rack has no GPUs or accelerators; --memory has dram and scm";
const RAW = "the rack has no raw Ethernet queue pairs";
const RATE = "the rack's cards have no rate limiter; --tx-depth bounds what is outstanding";
const VIRTUAL = "times are virtual: the host's processor does not disturb them";
const OPERATIONS = "ib_write_* WRITE and ib_send_* SEND without immediate data";
const BUFFER = "each queue pair has its places in one registered buffer";

/** Option as commander reads it, and why it is not there. */
export const REFUSED: readonly (readonly [flags: string, why: string])[] = [
  ["-C, --report-cycles", "virtual time has no cycles; results are in microseconds"],
  ["-d, --ib-dev <dev>", "a host has one card, rackmesh0"],
  ["-g, --mcg", "multicast groups are not measured; ib_send_* -c UD is"],
  ["-i, --ib-port <port>", "a card has one port, 1"],
  ["-M, --MGID <gid>", "multicast groups are not measured; ib_send_* -c UD is"],
  ["-O, --dualport", "a card has one port"],
  ["-p, --port <port>", SOCKETS],
  ["-W, --report-counters <names>", "counters are in the run's report: rack runs names its folder"],
  ["-x, --gid-index <index>", "a port has one GID; RoCE's version is `roce:` of the scenario"],
  ["-X, --vector <vector>", "completions of a test come to one vector"],
  ["--bind_source_ip <ip>", SOCKETS],
  ["--burst_size <size>", RATE],
  ["--connectionless", "multicast groups are not measured"],
  ["--cpu_util", "the run's report has each core's time"],
  ["--cqe_poll <n>", "an end takes as many completions as there are, 64 at most"],
  ["--data_validation", "rack run checks contents; perftest's buffers have none"],
  ["--data_validation_debug", "rack run checks contents; perftest's buffers have none"],
  ["--disable_dynamic_polling", "an end takes as many completions as there are, 64 at most"],
  ["--disable_pcie_relaxed", "relaxed ordering is off, always"],
  ["--dlid <dlid>", "RoCE has no LIDs"],
  ["--dont_xchg_versions", "both ends are of one version"],
  ["--flow_label <labels>", "UDP source ports come from the two QPNs"],
  ["--force-link <type>", "links are Ethernet"],
  ["--ipv6", "the rack has IPv4 alone"],
  ["--ipv6-addr", "the rack has IPv4 alone"],
  ["--latency_gap <us>", "the client posts at once when the answer is there"],
  ["--mmap <file>", GPU],
  ["--mmap-offset <offset>", GPU],
  ["--mr_per_qp", BUFFER],
  ["--no_lock", "an end is one thread"],
  ["--numa_node <node>", "a host has one socket"],
  ["--disable_numa", "a host has one socket"],
  ["--odp", "a scenario's own programs measure paging; see nodes/host/paging"],
  ["--payload_file_path <file>", BUFFER],
  ["--perform_warm_up", "a rack starts cold, and stays the same run by run"],
  ["--pin_cores <list>", "each program has a core of its own"],
  ["--pkey_index <index>", "a port has one partition key"],
  ["--rate_limit <rate>", RATE],
  ["--rate_limit_type <type>", RATE],
  ["--rate_units <units>", RATE],
  ["--recv_post_list <n>", "an end posts each receive when its message has been taken"],
  ["--report-per-port", "a card has one port"],
  ["--reversed", "--from and --to say which host sends"],
  ["--run_infinitely", "a run ends; -D says after which virtual time"],
  ["--send_with_imm", OPERATIONS],
  ["--typical_pkt_size <bytes>", RATE],
  ["--unsolicited_write", OPERATIONS],
  ["--use-null-mr", BUFFER],
  ["--use-srq", "each queue pair has a receive queue of its own, of --rx-depth"],
  ["--use_hugepages", VIRTUAL],
  ["--use_old_post_send", "posts are ibv_post_send's, always"],
  ["--use_ooo", "data is placed in order"],
  ["--wait_destroy <seconds>", VIRTUAL],
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

/** Why a service level is refused that is not 0. */
export const WHY_NO_SL =
  "0, as RoCEv2 has service levels in a VLAN tag alone, and the rack no VLANs: --tclass sets DSCP";
