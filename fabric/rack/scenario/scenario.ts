/**
 * The types of a scenario: {@link Scenario} as `parse_scenario.ts` returns it, and {@link Draft},
 * the partly read scenario with the position of each part in the file, which the checks read.
 */
import type {
  HostPlan,
  HostTiming,
  NativePlan,
  RnicPlan,
  RnicTiming,
  SwitchPlan,
} from "../plan/plan.ts";
import type { PowerFault } from "../plan/power.ts";
import type { Time } from "../../base/time.ts";
import type { DeviceFaultScenario } from "../assembly/device_faults.ts";
import type { LinkFaultScenario } from "../assembly/link_faults.ts";
import type { NetworkOptions } from "../assembly/network.ts";
import type { ProfileName } from "../plan/profile.ts";
import type { CaptureSection, FabricSection } from "./schema.ts";
import type { ExpectationName } from "../plan/vocabulary.ts";
import type { CongestionScenario } from "./congestion.ts";
import type { JudgePlan, RegionPlacement, RegionSizes } from "../plan/shared_region.ts";
import type { Path } from "./yaml_source.ts";

/** A scenario in which `method` may be a list and `ddio` may be `both`. Plain data. */
export interface Scenario {
  /** The name of the file, for messages. */
  readonly file: string;
  readonly name: string;
  readonly seed: number;
  readonly profile: ProfileName;
  readonly fabric: FabricScenario;
  /** Sorted by name. */
  readonly hosts: readonly HostScenario[];
  /** In the file's order, one for each host that runs it. */
  readonly programs: readonly ProgramScenario[];
  /** Power failures and returns, by time. */
  readonly faults: readonly PowerFault[];
  /** Faults of cables, in the file's order. */
  readonly linkFaults: readonly LinkFaultScenario[];
  /** Device faults, in the file's order. */
  readonly deviceFaults: readonly DeviceFaultScenario[];
  readonly expect: readonly ExpectationName[];
  readonly until: Time | null;
  /** Regions that hosts share, in the file's order (C-03). */
  readonly shared: readonly SharedScenario[];
  /** The file with rows that replace some of the coherent cards' protocol; absent: none. */
  readonly coherence?: string;
  /** Captures of every run: in its directory, or at a path. */
  readonly capture: CaptureSection;
}

export interface FabricScenario extends NetworkOptions {
  readonly mtu: RnicPlan["mtu"];
  readonly switch: Pick<
    SwitchPlan,
    "mode" | "latencyPs" | "queueBytes" | "bufferBytes" | "reservedBytes" | "alpha"
  >;
  readonly bus: { readonly latencyPs: Time; readonly bitsPerSecond: number };
  readonly coherentBus: { readonly latencyPs: Time; readonly bitsPerSecond: number };
  /** ECN, PFC and DCQCN; absent if all are off. */
  readonly congestion?: CongestionScenario;
}

export interface HostScenario
  extends
    Omit<HostPlan, "rnics" | "ddio" | "timing" | "stuckBits" | "programs">,
    Pick<
      RnicPlan,
      "hints" | "queueCache" | "translations" | "pageFault" | "verifyHistory" | "roce"
    > {
  readonly name: string;
  readonly ddio: "on" | "off" | "both";
  /** The memory of `persistd`'s receive buffers. */
  readonly receive: "dram" | "scm";
  /** Named regions of SCM, by offset. They do not overlap. */
  readonly regions: readonly RegionScenario[];
  readonly services: readonly string[];
  /** Number of its RNICs; absent: one. */
  readonly nics?: number;
  /** The leaf of its RNICs in a leaf–spine network, from 1, or of each; absent: the leaf with the fewest. */
  readonly leaf?: number | readonly number[];
  readonly timing: { readonly host: HostTiming; readonly rnic: RnicTiming };
}

export interface RegionScenario {
  readonly name: string;
  readonly at: number;
  readonly bytes: number;
}

/** A region that hosts share, as in the file (C-03). Plain data. */
export interface SharedScenario extends RegionSizes {
  readonly name: string;
  readonly home: string;
  readonly far: readonly string[];
  readonly memory: "scm" | "dram";
  /** Its begin in home's SCM; absent: behind the others, from the end of the memory downwards. */
  readonly at?: number;
  readonly bytes: number;
  readonly placement: RegionPlacement;
  readonly judge?: JudgePlan;
  readonly leasePs: Time;
  readonly directory?: "card" | "memory";
}

export interface ProgramScenario {
  readonly on: string;
  readonly run: string;
  /** Time after the host's boot. */
  readonly at: Time;
  /** Whether it restarts at every later boot of its host. Absent: no. */
  readonly restart?: boolean;
  /** Whether it only serves others: it need not end. Absent: no. */
  readonly service?: boolean;
  /** Whether it may do what a kernel asks CAP_NET_RAW for. Absent: no. */
  readonly privileged?: boolean;
  /** Its queue pairs' share of the line beside the host's others. Absent: 1. */
  readonly weight?: number;
  /** Index of its RNIC on the host, from 1. Absent: the first one. */
  readonly nic?: number;
  /** By the scenario's names; `method` of a shipped program is a list. */
  readonly options: Readonly<Record<string, unknown>>;
  /** A binary of the machine that the rack runs on: see {@link NativePlan}. Absent: none. */
  readonly native?: NativeScenario;
}

/** `file` is absent as long as the binary has not been looked for. */
export interface NativeScenario
  extends Omit<NativePlan, "file">, Partial<Pick<NativePlan, "file">> {}

/** A partly read scenario, each part with its position in the file, for the checks. */
export interface Draft {
  /** The file as it is, without defaults and with its ranges of names. */
  readonly data: unknown;
  /** Every name in the file's order, including hosts with invalid options. */
  readonly hostNames: readonly string[];
  /** The position of each host in the file. */
  readonly hostPaths: ReadonlyMap<string, Path>;
  readonly fabric: FabricScenario;
  readonly fabricSection: FabricSection;
  readonly hosts: readonly HostScenario[];
  readonly programs: readonly { readonly path: Path; readonly program: DraftProgram }[];
  readonly faults: readonly DraftFault<PowerFault>[];
  readonly linkFaults: readonly DraftFault<LinkFaultScenario>[];
  readonly deviceFaults: readonly DraftFault<DeviceFaultScenario>[];
  readonly shared: readonly DraftShared[];
  readonly coherence: string | undefined;
  readonly until: Time | null;
}

export interface DraftFault<Fault> {
  readonly path: Path;
  readonly fault: Fault;
}

export interface DraftProgram extends Omit<ProgramScenario, "on"> {
  readonly on: readonly string[];
}

export interface DraftShared {
  readonly path: Path;
  readonly region: SharedScenario;
}
