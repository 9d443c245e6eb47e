/** The demands of each operation on a responder. */
import type { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Answer, RequestOperation } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { Counters } from "./counters.ts";

export interface OperationFacts {
  readonly name: RequestOperation;
  /**
   * ACCESS bits that queue pair (else NAK 0x61) and region (else NAK 0x62) must have. Where the
   * packet decides: `undefined` for an unknown demand.
   */
  readonly need: number | ((packet: RocePacket) => number | undefined);
  /**
   * The capability on which the manufacturer's form is agreed; undefined: there is no such form.
   */
  readonly vendorRight: keyof typeof ACCESS | undefined;
  /** The operation takes one of max_dest_rd_atomic slots until it is answered (§3.5). */
  readonly takesSlot: boolean;
  /** The packet that takes a receive WQE (§3.4). */
  readonly takesRecv: "first" | "immediate" | "never";
  /**
   * When the operation takes effect (§3.7). `in-turn`: when it stands first among the answers.
   * `at-once`: when it comes, behind earlier atomics and behind checked data that is not all with
   * the bus. `checked`: also at once, but data that is to be checked first queues behind such data
   * (V-02).
   */
  readonly order: "in-turn" | "at-once" | "checked";
  /**
   * A demand beyond the opcode's. `announced`: the payloads add up to the RETH's length. `word`:
   * that length is eight bytes.
   */
  readonly length: "any" | "announced" | "word";
  readonly answer: Answer;
  /** The fault that is answered by NAK 0x61. */
  readonly invalid: "the receive" | "the alignment" | "the verification" | undefined;
  readonly counter: keyof Counters | undefined;
}

export function needOf(
  { operation, packet }: { readonly operation: OperationFacts; readonly packet: RocePacket },
): number | undefined {
  const { need } = operation;
  return typeof need === "number" ? need : need(packet);
}

export function countEffect(
  { counters }: { readonly counters: Counters },
  { counter }: OperationFacts,
): void {
  if (counter !== undefined) counters[counter]++;
}
