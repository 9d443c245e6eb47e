/**
 * {@link Scenario} is the result of `parse_scenario.ts`, {@link Draft} the partly read scenario
 * with positions in the file, for the checks.
 */
import type {
  HostPlan,
  HostTiming,
  Memory,
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

/** `method` may be a list and `ddio` may be `both`. Plain data. */
export interface Scenario {
  /** For messages. */
  readonly file: string;
  readonly name: string;
  readonly seed: number;
  readonly profile: ProfileName;
  readonly fabric: FabricScenario;
  readonly hosts: readonly HostScenario[];
  /** In the file's order, one for each host that runs it. */
  readonly programs: readonly ProgramScenario[];
  /** By time. */
  readonly faults: readonly PowerFault[];
  readonly linkFaults: readonly LinkFaultScenario[];
  readonly deviceFaults: readonly DeviceFaultScenario[];
  readonly expect: readonly ExpectationName[];
  readonly until: Time | null;
  /** C-03. */
  readonly shared: readonly SharedScenario[];
  readonly coherence?: string;
  /** Of every run: in its directory, or at a path. */
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
  readonly receive: Memory;
  /** By offset. They do not overlap. */
  readonly regions: readonly RegionScenario[];
  readonly services: readonly string[];
  /** Absent: one. */
  readonly nics?: number;
  /** From 1, of its RNICs or of each; absent: the leaf with the fewest. */
  readonly leaf?: number | readonly number[];
  readonly timing: { readonly host: HostTiming; readonly rnic: RnicTiming };
}

export interface RegionScenario {
  readonly name: string;
  readonly at: number;
  readonly bytes: number;
}

/** As in the file (C-03). Plain data. */
export interface SharedScenario extends RegionSizes {
  readonly name: string;
  readonly home: string;
  readonly far: readonly string[];
  readonly memory: Memory;
  /** In home's SCM; absent: behind the others, from the end of the memory downwards. */
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
  readonly at: Time;
  readonly restart?: boolean;
  readonly service?: boolean;
  /** For what a kernel asks CAP_NET_RAW for. */
  readonly privileged?: boolean;
  /** Of the line, beside the host's other queue pairs. Absent: 1. */
  readonly weight?: number;
  /** On the host, from 1. Absent: the first one. */
  readonly nic?: number;
  readonly options: Readonly<Record<string, unknown>>;
  /** A binary of the machine that the rack runs on: see {@link NativePlan}. Absent: none. */
  readonly native?: NativeScenario;
}

/** `file` is absent as long as the binary has not been looked for. */
type Unfound<Plan extends { readonly file: string }> = Omit<Plan, "file"> & { file?: string };
export interface NativeScenario extends Unfound<Omit<NativePlan, "recover">> {
  readonly recover?: Unfound<NonNullable<NativePlan["recover"]>>;
}

/** A partly read scenario, each part with its position in the file, for the checks. */
export interface Draft {
  /** Without defaults and with its ranges of names. */
  readonly data: unknown;
  readonly hostNames: readonly string[];
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
