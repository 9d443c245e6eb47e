/**
 * The types of a scenario: {@link Scenario} as `parse_scenario.ts` returns it, and {@link Draft}, what it
 * has read so far with each part's place in the file, which the checks look at.
 */
import type {
  Architecture,
  FaultPlan,
  HostPlan,
  HostTiming,
  PersistenceDomain,
  RnicPlan,
  RnicTiming,
  SwitchPlan,
  VerifyHistoryPlan,
} from "../plan/plan.ts";
import type { Time } from "../../base/time.ts";
import type { DeviceFaultScenario } from "../build/device_faults.ts";
import type { LinkFaultScenario } from "../build/link_faults.ts";
import type { LeafSpine } from "../build/network.ts";
import type { ProfileName } from "../plan/profile.ts";
import type { CaptureSection } from "./schema.ts";
import type { ExpectationName } from "../plan/vocabulary.ts";
import type { CongestionScenario } from "./congestion.ts";
import type { Path } from "./yaml_source.ts";

/** A scenario in which `method` may still be several and `ddio` may still be both. Plain data. */
export interface Scenario {
  /** The name of the file, as messages give it. */
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
  readonly faults: readonly FaultPlan[];
  /** What goes wrong with cables, in the file's order. */
  readonly linkFaults: readonly LinkFaultScenario[];
  /** What is broken inside machines, in the file's order. */
  readonly deviceFaults: readonly DeviceFaultScenario[];
  readonly expect: readonly ExpectationName[];
  readonly until: Time | null;
  readonly capture: CaptureScenario;
}

/** Captures that every run is to leave: in its directory, or where a path says. */
export type CaptureScenario = CaptureSection;

export interface FabricScenario {
  readonly topology: "star" | "direct" | "leaf-spine";
  readonly leafSpine?: LeafSpine;
  readonly bitsPerSecond: number;
  /** Of each network cable. */
  readonly latencyPs: Time;
  readonly mtu: RnicPlan["mtu"];
  readonly switch: Pick<SwitchPlan, "mode" | "latencyPs" | "queueBytes" | "bufferBytes">;
  readonly bus: { readonly latencyPs: Time; readonly bitsPerSecond: number };
  /** ECN, PFC and DCQCN; absent where all of it is off. */
  readonly congestion?: CongestionScenario;
}

export interface HostScenario {
  readonly name: string;
  readonly ddio: "on" | "off" | "both";
  readonly architecture: Architecture;
  readonly domain: PersistenceDomain;
  /** Where the receive buffers of `persistd` are. */
  readonly receive: "dram" | "scm";
  readonly scmBytes: number;
  /** Named stretches of SCM, by where they begin. They do not overlap. */
  readonly regions: readonly RegionScenario[];
  readonly dramBytes: number;
  readonly cores: number;
  readonly completion: "poll" | "interrupt";
  readonly queues: number;
  readonly llc: HostPlan["llc"];
  readonly queueCache: RnicPlan["queueCache"];
  /** V-05: a sender's past may stand for a read-back; absent: never. */
  readonly verifyHistory?: VerifyHistoryPlan;
  readonly services: readonly string[];
  /** Its switch in a leaf–spine network, from 1; absent: where the fewest hosts are. */
  readonly leaf?: number;
  readonly timing: { readonly host: HostTiming; readonly rnic: RnicTiming };
}

export interface RegionScenario {
  readonly name: string;
  readonly at: number;
  readonly bytes: number;
}

export interface ProgramScenario {
  readonly on: string;
  readonly run: string;
  /** After the host's boot. */
  readonly at: Time;
  /** Whether it starts again at every later boot of its host. Absent: no. */
  readonly restart?: boolean;
  /** By the scenario's words; `method` of a shipped program is a list. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** A scenario as far as it has been read, each part with its place in the file, for the checks. */
export interface Draft {
  /** Every name in the file's order, also of hosts whose options are wrong. */
  readonly hostNames: readonly string[];
  /** Where the file says it. */
  readonly hostPaths: ReadonlyMap<string, Path>;
  readonly fabric: FabricScenario;
  readonly hasSwitchOptions: boolean;
  /** Keys of `fabric` that only a leaf–spine network has. */
  readonly leafSpineKeys: readonly string[];
  readonly hosts: readonly HostScenario[];
  readonly programs: readonly { readonly path: Path; readonly program: DraftProgram }[];
  readonly faults: readonly { readonly path: Path; readonly fault: FaultPlan }[];
  readonly linkFaults: readonly DraftLinkFault[];
  readonly deviceFaults: readonly {
    readonly path: Path;
    readonly fault: DeviceFaultScenario;
  }[];
  readonly until: Time | null;
}

export interface DraftLinkFault {
  readonly path: Path;
  readonly fault: LinkFaultScenario;
}

export interface DraftProgram extends Omit<ProgramScenario, "on"> {
  readonly on: readonly string[];
}
