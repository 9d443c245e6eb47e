/** A scenario as far as it is read, each part with its place in the file, for the checks. */
import type { DeviceFaultScenario } from "../build/device_faults.ts";
import type { FaultPlan } from "../plan/plan.ts";
import type { LinkFaultScenario } from "../build/link_faults.ts";
import type { FabricScenario, HostScenario, ProgramScenario } from "./scenario.ts";
import type { Path } from "./yaml_source.ts";
import type { Time } from "../../base/time.ts";

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
