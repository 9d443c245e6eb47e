/**
 * Congestion control in a scenario (`rocev2.md` §3.9): ECN, PFC and DCQCN, all off by default.
 * `build/congestion.ts` adds it to the plans of switches and RNICs.
 *
 * Sources: DCQCN = Zhu et al., SIGCOMM'15, whose names the parameters have; §3.9 = `rocev2.md`.
 */
import type { DcqcnParameters, EcnParameters } from "../plan/plan.ts";
import { PS_PER_US } from "../../base/time.ts";
import type { FabricSection } from "./schema.ts";
import { priorityOfDscp } from "../../wire/roce/pfc.ts";
import type { Report } from "./reading.ts";
import { formatSize } from "../plan/units.ts";

export interface CongestionScenario {
  readonly ecn: EcnParameters | null;
  readonly pfc: { readonly xoffBytes: number; readonly xonBytes: number } | null;
  readonly dcqcn: DcqcnParameters | null;
  /** DSCP of all frames of RNICs, and of their notifications. */
  readonly dscp: number;
  readonly cnpDscp: number;
  /** Priorities for which PFC is on. */
  readonly lossless: readonly number[];
}

/** [choice] Between §3.9's thresholds for 25 Gb/s (100 KB, 400 KB, 0.2, from memory) and 100 Gb/s
 * (four times that, more than a port's 1 MiB here): those that leave a port room for the first burst. */
const ECN: EcnParameters = { kminBytes: 100 * 1024, kmaxBytes: 400 * 1024, pmax: 0.2 };

const DCQCN: DcqcnParameters = {
  // DCQCN, table 14 and text: g = 1/256, N = 50 us, K = T = 55 us, B = 10 MB, F = 5, R_AI = 40 Mb/s.
  g: 1 / 256,
  cnpIntervalPs: 50 * PS_PER_US,
  alphaTimerPs: 55 * PS_PER_US,
  rateTimerPs: 55 * PS_PER_US,
  byteCounterBytes: 10_000_000,
  fastRecovery: 5,
  additiveBps: 40e6,
  // [choice] Ten times R_AI, as 50 is to 5 Mb/s in §3.9.
  hyperBps: 400e6,
  // [choice] The minimum rate of ns-3.
  minBps: 100e6,
  // §3.9: 4 us (ns-3).
  decreaseIntervalPs: 4 * PS_PER_US,
};

/** [choice] RoCE's usual class: DSCP 26, priority 3; notifications 48, priority 6. */
const DSCP = 26, CNP_DSCP = 48;

/** Longest frame without its payload (Ethernet to ICRC), rounded up; FCS, preamble and gap. */
export const FRAME_OVERHEAD_BYTES = 128 + 24;
/** [choice] Share of a port's buffer that one cable may fill before it is paused. */
const XOFF_SHARE = 8;

/** The scenario's section with defaults filled in; undefined where all of it is off. */
export function resolveCongestion(
  section: FabricSection,
  from: { readonly queueBytes: number; readonly mtu: number },
): CongestionScenario | undefined {
  const { ecn, pfc, dcqcn, priorities } = section;
  if (!ecn && !pfc && !dcqcn && !priorities) return undefined;
  const xoffBytes = pfc?.xoffBytes ?? Math.floor(from.queueBytes / XOFF_SHARE);
  // [choice] Two frames below, so that one departing frame does not end a pause.
  const xonBytes = Math.max(0, xoffBytes - 2 * (from.mtu + FRAME_OVERHEAD_BYTES));
  const dscp = priorities?.dscp ?? DSCP;
  return {
    ecn: ecn ? { ...ECN, ...ecn } : null,
    pfc: pfc ? { xoffBytes, xonBytes, ...pfc } : null,
    dcqcn: dcqcn ? { ...DCQCN, ...dcqcn } : null,
    dscp,
    cnpDscp: priorities?.cnp ?? CNP_DSCP,
    lossless: priorities?.lossless ?? [priorityOfDscp(dscp)],
  };
}

/** Checks the thresholds for consistency. */
export function checkCongestion({ ecn, pfc }: CongestionScenario, report: Report): void {
  if (ecn !== null && ecn.kmaxBytes < ecn.kminBytes) {
    const expected = `at least kmin, ${formatSize(ecn.kminBytes)}`;
    report(["fabric", "ecn", "kmax"], { found: formatSize(ecn.kmaxBytes), expected });
  }
  if (pfc !== null && pfc.xonBytes > pfc.xoffBytes) {
    const expected = `at most xoff, ${formatSize(pfc.xoffBytes)}`;
    report(["fabric", "pfc", "xon"], { found: formatSize(pfc.xonBytes), expected });
  }
}
