/**
 * ECN, PFC and DCQCN (`rocev2.md` §3.9), all off by default. DCQCN = Zhu et al., SIGCOMM'15, whose
 * names the parameters have.
 */
import type { DcqcnParameters, EcnParameters, PauseThreshold } from "../plan/plan.ts";
import { PS_PER_US } from "../../base/time.ts";
import type { FabricSection, HeadroomSection } from "./schema.ts";
import { priorityOfDscp } from "../../wire/roce/pfc.ts";
import type { Report } from "./reading.ts";
import { formatSize } from "../plan/units.ts";

export interface CongestionScenario {
  readonly ecn: EcnParameters | null;
  readonly pfc: PfcScenario | null;
  readonly dcqcn: DcqcnParameters | null;
  /** Of all frames of RNICs; `cnpDscp`: of their notifications. */
  readonly dscp: number;
  readonly cnpDscp: number;
  readonly lossless: readonly number[];
}

export interface PfcScenario {
  readonly threshold: PauseThreshold;
  /** For each lossless priority of a port; absent: the need of each port's cable. */
  readonly headroom?: HeadroomSection;
  readonly headroomPoolBytes?: number;
}

/** [choice] Between §3.9's thresholds for 25 Gb/s (100 KB, 400 KB, 0.2, from memory) and 100 Gb/s
 * (four times that, more than a port's 1 MiB here): those that leave a port room for the first burst. */
const ECN: EcnParameters = { kminBytes: 100 * 1024, kmaxBytes: 400 * 1024, pmax: 0.2 };

const DCQCN: DcqcnParameters = {
  // DCQCN, table 14 and text: g = 1/256, N = 50 us, K = T = 55 us, B = 10 MB, F = 5, R_AI = 40
  // Mb/s.
  g: 1 / 256,
  cnpIntervalPs: 50 * PS_PER_US,
  alphaTimerPs: 55 * PS_PER_US,
  rateTimerPs: 55 * PS_PER_US,
  byteCounterBytes: 10_000_000,
  fastRecovery: 5,
  additiveBps: 40e6,
  // [choice] Ten times R_AI, as 50 is to 5 Mb/s in §3.9.
  hyperBps: 400e6,
  // [choice] As in ns-3.
  minBps: 100e6,
  // §3.9: 4 us (ns-3).
  decreaseIntervalPs: 4 * PS_PER_US,
};

/** [choice] RoCE's usual class: DSCP 26, priority 3; notifications 48, priority 6. */
const DSCP = 26, CNP_DSCP = 48;

/** Ethernet to RETH and ICRC, rounded up. */
export const HEADERS_BYTES = 128;
const BETWEEN_FRAMES_BYTES = 24;
/** [choice] Share of a port's queue that one cable may fill before it is paused. */
const XOFF_SHARE = 8;
/** HPCC's ns-3 (`third.cc`: "by default 1/8", where all ports have the NIC's rate). */
const ALPHA = 1 / 8;

export function longestFrame(mtu: number): number {
  return mtu + HEADERS_BYTES + BETWEEN_FRAMES_BYTES;
}

/** In a queue too short for the defaults to mark, the same shares of it as of 1 MiB. */
function defaultMarks(queueBytes: number): EcnParameters {
  if (queueBytes > ECN.kminBytes) return ECN;
  const share = (bytes: number) => Math.floor(queueBytes * bytes / 2 ** 20);
  return { ...ECN, kminBytes: share(ECN.kminBytes), kmaxBytes: share(ECN.kmaxBytes) };
}

/** Undefined if all is off. */
export function resolveCongestion(
  section: FabricSection,
  from: { readonly queueBytes: number; readonly mtu: number },
): CongestionScenario | undefined {
  const { ecn, pfc, dcqcn, priorities } = section;
  if (!ecn && !pfc && !dcqcn && !priorities) return undefined;
  const dscp = priorities?.dscp ?? DSCP;
  const isShared = section.switch?.bufferBytes !== undefined;
  const lossless = priorities?.lossless ?? [priorityOfDscp(dscp)];
  // Lossless frames wait up to their group's threshold, regardless of the queue.
  const isBounded = !pfc || !lossless.includes(priorityOfDscp(dscp));
  return {
    ecn: ecn ? { ...(isBounded ? defaultMarks(from.queueBytes) : ECN), ...ecn } : null,
    pfc: pfc ? resolvePfc(pfc, { ...from, isShared }) : null,
    dcqcn: dcqcn ? { ...DCQCN, ...dcqcn } : null,
    dscp,
    cnpDscp: priorities?.cnp ?? CNP_DSCP,
    lossless,
  };
}

/**
 * A buffer of a given size is shared by alpha, one without by a fixed XOFF, unless the section says
 * otherwise.
 */
function resolvePfc(
  section: NonNullable<FabricSection["pfc"]>,
  from: { readonly queueBytes: number; readonly mtu: number; readonly isShared: boolean },
): PfcScenario {
  const { headroom, headroomPoolBytes } = section;
  // [choice] So that one departing frame does not end a pause.
  const offset = section.xonOffsetBytes ?? 2 * longestFrame(from.mtu);
  const isDynamic = section.alpha !== undefined ||
    (from.isShared && section.xoffBytes === undefined);
  const xoffBytes = section.xoffBytes ?? Math.floor(from.queueBytes / XOFF_SHARE);
  const threshold: PauseThreshold = isDynamic
    ? { kind: "dynamic", alpha: section.alpha ?? ALPHA, xonOffsetBytes: offset }
    : {
      kind: "static",
      xoffBytes,
      xonBytes: section.xonBytes ?? Math.max(0, xoffBytes - offset),
    };
  return {
    threshold,
    ...(headroom !== undefined && { headroom }),
    ...(headroomPoolBytes !== undefined && { headroomPoolBytes }),
  };
}

const EXCLUDED = [
  ["xoff", "alpha", "a fixed threshold or a share of what is free, not both"],
  ["xon", "xonOffset", "where senders go on, said once"],
] as const;

export function checkPfcKeys(
  given: ReadonlySet<string>,
  fabric: { readonly topology: string; readonly congestion?: CongestionScenario },
  report: Report,
): void {
  for (const [key, other, expected] of EXCLUDED) {
    if (!given.has(key) || !given.has(other)) continue;
    report(["fabric", "pfc", other], { found: `${other} beside ${key}`, expected, key: true });
  }
  const { congestion, topology } = fabric;
  if (given.has("xon") && congestion?.pfc?.threshold.kind === "dynamic") {
    const expected = "xonOffset, as the threshold is a share of the free buffer";
    report(["fabric", "pfc", "xon"], { found: "xon", expected, key: true });
  }
  if (topology !== "direct") return;
  for (const key of given) {
    const expected = "none, as it is a switch's, and the topology is direct";
    report(["fabric", "pfc", key], { found: key, expected, key: true });
  }
}

export function checkCongestion(
  { ecn, pfc, lossless }: CongestionScenario,
  report: Report,
): void {
  if (ecn !== null && ecn.kmaxBytes < ecn.kminBytes) {
    const expected = `at least kmin, ${formatSize(ecn.kminBytes)}`;
    report(["fabric", "ecn", "kmax"], { found: formatSize(ecn.kmaxBytes), expected });
  }
  if (pfc === null) return;
  const { threshold } = pfc;
  if (threshold.kind === "static" && threshold.xonBytes > threshold.xoffBytes) {
    const expected = `at most xoff, ${formatSize(threshold.xoffBytes)}`;
    report(["fabric", "pfc", "xon"], { found: formatSize(threshold.xonBytes), expected });
  }
  if (lossless.length === 0) {
    const expected = "a priority at least, as pfc is on";
    report(["fabric", "priorities", "lossless"], { found: "none", expected });
  }
}
