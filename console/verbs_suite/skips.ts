/** Tests of rdma-core's that do not run on a rack, each with its reason. */
import { ABSENT, absentText } from "../../nodes/host/calls/absent.ts";

export interface KnownSkip {
  /** Names of tests behind `tests.test_`; a star at the end stands for anything. */
  readonly tests: readonly string[];
  /** What the test says when it skips itself: another reason is not known. */
  readonly says: RegExp;
  /** For those who use the rack. */
  readonly why: string;
  /** It depends on the machine, not on the rack: where the machine has it, the test passes. */
  readonly byMachine?: true;
}

export const KNOWN_SKIPS: readonly KnownSkip[] = [
  {
    why: absentText(ABSENT.xrc),
    says: /Create XRCD is not supported/,
    tests: [
      "atomic.AtomicTest.test_xrc_*",
      "cqex.CqExTestCase.test_xrc_traffic_cq_ex",
      "odp.OdpTestCase.test_odp_xrc_traffic",
      "qpex.QpExTestCase.test_qp_ex_xrc_*",
      "relaxed_ordering.RoTestCase.test_ro_xrc_traffic",
    ],
  },
  {
    why: absentText(ABSENT.cardMemory),
    says: /Device memory is not supported/,
    tests: ["device.DMTest.*", "device.SharedDMTest.*", "mr.DeviceMemory*"],
  },
  {
    why: absentText(ABSENT.rawPackets),
    says: /Create (QP type 8|Raw Packet QP .*) is not supported/,
    tests: [
      "flow.*",
      "qp.QPTest.test_create_raw_qp*_attr",
      "qp.QPTest.test_query_raw_qp",
      "rss_traffic.*",
    ],
  },
  {
    why: absentText(ABSENT.dmabuf),
    says: /Allocating dmabuf is not supported|DMA-?BUF/i,
    tests: ["mr.DmaBuf*"],
  },
  {
    why: absentText(ABSENT.allAddresses),
    says: /ODP implicit is not supported/,
    tests: ["odp.OdpTestCase.test_odp_implicit_*"],
  },
  {
    why:
      "this machine has no huge pages of 2 MiB free (vm.nr_hugepages): programs' memory is its own",
    says: /no huge pages/,
    byMachine: true,
    tests: ["odp.OdpTestCase.test_odp_rc_huge_*", "parent_domain.*.test_huge_page_traffic"],
  },
  {
    why:
      "it needs an empty place in the GID table: a card's has one for each version of RoCE, all filled",
    says: /All gid indices populated/,
    tests: ["device.DeviceTest.test_query_gid_ex_bad_flow"],
  },
  {
    why: absentText(ABSENT.tags),
    says: /Extended CQ is not supported/,
    tests: ["tag_matching.*"],
  },
  {
    why:
      "both ends are children of one process, and a child is no program of the rack: connect two hosts",
    says: /doesn't have net interface/,
    tests: ["rdmacm.*"],
  },
];

/** The row of a test; undefined where it has to pass. @param test with `tests.test_` in front. */
export function knownSkip(test: string): KnownSkip | undefined {
  const name = test.replace(/^tests\.test_/, "");
  return KNOWN_SKIPS.find(({ tests }) => tests.some((pattern) => matches(name, pattern)));
}

/** A star stands for anything. */
export function matches(name: string, pattern: string): boolean {
  const parts = pattern.split("*").map((part) => part.replaceAll(".", "\\."));
  return new RegExp(`^${parts.join(".*")}$`).test(name);
}
