/**
 * A feature of the card, as data and a few functions: `rnic.ts` and the firmware go through the list of
 * `extensions.ts`. The rest of a feature stands in its folder. `paging` and `verify` are in the steps of every
 * card, so `rnic.ts` calls them there by name: V8 does not inline a call through a list.
 */
import type { Outputs } from "../../../fabric/node.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type {
  CommandOf,
  RnicCommand,
  RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device, Upcalls } from "./device.ts";

export interface CardExtension {
  /** True if a card of this plan ever has it; the steps of other cards call nothing of it. */
  readonly isOf: (plan: RnicPlan) => boolean;
  readonly commands?: Partial<Commands>;
  /** The host's messages that only a card with it takes. */
  readonly messages?: HostMessages;
  /** Its functions that lower floors call. */
  readonly upcalls?: Partial<Upcalls>;
  /** Places in the card's table of timers for queue pairs of its own. */
  readonly slots?: (device: Device) => number;
  /** The driver has initialised the card. */
  readonly start?: (device: Device) => void;
  /** Does the work that is due in a step, behind its input. */
  readonly step?: (device: Device) => void;
  readonly wakeAt?: (device: Device) => Time;
  /** The host loses or gets its power: the card is about to begin anew. */
  readonly reset?: (device: Device, power: { readonly up: boolean; readonly out: Outputs }) => void;
  readonly statistics?: (device: Device, reader: CounterReader) => Record<string, number>;
  /** Things that it holds and that would wait for ever if nothing happened any more. */
  readonly held?: (device: Device) => HeldCounts;
}

/** By operation; "later": the command has begun something that ends by itself, and answers then. */
export type Commands = {
  readonly [Op in RnicCommand["op"]]: (
    device: Device,
    command: CommandOf<Op>,
    id: number,
  ) => RnicReply | "later";
};

export type HostMessages = {
  readonly [Kind in PcieMessage["kind"]]?: (
    device: Device,
    message: Extract<PcieMessage, { readonly kind: Kind }>,
  ) => void;
};

export type CounterReader = "program" | "report";

/** The name of held things, in the plural, and their number. */
export type Count = readonly [what: string, count: number];

export interface HeldCounts {
  /** Not a program's: lost. */
  readonly leaked: readonly Count[];
  /** A program's, or a peer's that may never answer. */
  readonly asked?: readonly Count[];
}
