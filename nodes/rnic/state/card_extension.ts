/**
 * What a feature of the card adds to it, as data and a few functions: `rnic.ts` and the firmware go through the list
 * of `extensions.ts`. All a feature has beside these stands in its room, a folder. `paging` and `verify` are in the
 * steps of every card, so `rnic.ts` calls them there by name: V8 does
 * not inline a call through a list.
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
import type { Device } from "./device.ts";

export interface CardExtension {
  /** Whether a card of this plan ever has it; nothing of it is called in the steps of another. */
  readonly isOf: (plan: RnicPlan) => boolean;
  /** The driver's commands, a function each. */
  readonly commands?: Partial<Commands>;
  /** Messages of the host that no card without it takes. */
  readonly messages?: HostMessages;
  /** What is due in a step, behind its input. */
  readonly step?: (device: Device) => void;
  /** When `step` has something to do; else NEVER. */
  readonly wakeAt?: (device: Device) => Time;
  /** The host loses or gets its power: the card is about to begin anew. */
  readonly reset?: (device: Device, power: { readonly up: boolean; readonly out: Outputs }) => void;
  /** Counters by name. */
  readonly statistics?: (device: Device, reader: CounterReader) => Record<string, number>;
  /** What it holds that would be held up for ever if nothing happened any more. */
  readonly held?: (device: Device) => HeldCounts;
}

/** By operation; "later": the command has begun something that ends of itself, and answers then. */
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

/** A program asks for counters by a command, a report has them at the run's end. */
export type CounterReader = "program" | "report";

/** What there is of it, in the plural, and how many. */
export type Count = readonly [what: string, count: number];

export interface HeldCounts {
  /** No program's affair: it is lost. */
  readonly leaked: readonly Count[];
  /** A program's, or a peer's, who may never answer. */
  readonly asked?: readonly Count[];
}
