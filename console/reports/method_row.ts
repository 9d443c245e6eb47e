/** The row of one method in the report of a run. */
import type { Latencies } from "./table.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { Loss } from "../checks/survival.ts";
import type { VerifiedCounts } from "../checks/verified.ts";

/** One `put` of one variant. Times in ps, per message where the name says so. */
export interface MethodRow {
  readonly method: string;
  readonly ddio: "on" | "off" | "mixed";
  readonly from: string;
  readonly to: string;
  readonly messages: number;
  /** Messages whose last completion promised persistence. */
  readonly confirmed: number;
  readonly promises: boolean;
  readonly requestsPerMessage: number;
  /** Both directions, from the first message's post to the last completion. */
  readonly packetsPerMessage: number;
  readonly bytesPerMessage: number;
  readonly latencyPs: Latencies;
  readonly throughputBps: number;
  /** Work of the program on each side between first post and last completion, spinning apart. */
  readonly cpuPs: { readonly requester: Time; readonly responder: Time };
  /**
   * Bytes that the responder's SCM medium is written, in blocks of 256 B, for each byte of SCM that its
   * controller was given since power-on; null where it is dead, or was given none.
   */
  readonly scmAmplification: number | null;
  /** Whether the SCM file holds the whole file when the power is gone. */
  readonly intact: boolean;
  /** P-41: the first byte reported persisted that is not there. */
  readonly loss: Loss | null;
  /** V-10: of a method that has its writes checked. */
  readonly verified?: VerifiedFigures;
  readonly error: string | null;
  readonly digest: string;
}

/** What a run says of a `put` that had its writes checked. */
export interface VerifiedFigures extends VerifiedCounts {
  /**
   * Bits that were turned over in cards, and on cables past the ICRC, while the `put` ran: null where there
   * were several, as nobody can tell whose data it was. Broken cells are not counted.
   */
  readonly injected: number | null;
  /**
   * V-05: what its skipped read-backs would have taken longer by the mean of those of the same card that
   * were done, in ps; null where there is no such mean, 0 where nothing was skipped.
   */
  readonly savedPs: Time | null;
}
