import type { Latencies } from "./table.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { Loss } from "../checks/survival.ts";
import type { VerifiedCounts } from "../checks/verified.ts";
import type { Ends } from "../../nodes/host/programs/common/ends.ts";

/** One `put` of one variant. Times in ps, per message where the name has it. */
export interface MethodRow extends Ends {
  readonly method: string;
  readonly ddio: "on" | "off" | "mixed";
  readonly from: string;
  readonly messages: number;
  /** Messages whose last completion confirmed persistence. */
  readonly confirmed: number;
  readonly promises: boolean;
  readonly requestsPerMessage: number;
  /** Both directions, from the first message's post to the last completion; null where the card had died by then. */
  readonly packetsPerMessage: number | null;
  readonly bytesPerMessage: number | null;
  readonly latencyPs: Latencies;
  readonly throughputBps: number;
  /** Of the program on each side between first post and last completion, without spinning. */
  readonly cpuPs: { readonly requester: Time; readonly responder: Time };
  /**
   * Bytes written to the responder's SCM medium, in blocks of 256 B, for each byte of SCM that its
   * controller has received since power-on; null where the host has no power or the controller
   * received none.
   */
  readonly scmAmplification: number | null;
  readonly intact: boolean;
  /** Another object has its name, and others may have its place. */
  readonly replaced?: true;
  /** P-41: the first byte that was reported persistent and is lost. */
  readonly loss: Loss | null;
  readonly verified?: VerifiedFigures;
  readonly error: string | null;
  readonly digest: string;
}

export interface VerifiedFigures extends VerifiedCounts {
  /**
   * Bits flipped in cards, and on cables undetected by the ICRC, while the `put` ran, without
   * broken cells; null where several such puts ran, as the flips cannot be attributed.
   */
  readonly injected: number | null;
  /**
   * V-05: the time that skipped read-backs saved, by the mean of the same card's executed ones;
   * null where there is no such mean, 0 where none was skipped.
   */
  readonly savedPs: Time | null;
}

/** A host, or its RNIC where that is not the first. */
export function nearEnd({ from, rnic }: Pick<MethodRow, "from" | "rnic">): string {
  return rnic ?? from;
}

/** A host, or its RNIC where the program has named it. */
export function farEnd({ to, toRnic }: Pick<MethodRow, "to" | "toRnic">): string {
  return toRnic ?? to;
}
