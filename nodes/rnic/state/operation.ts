/**
 * The demands of each operation on a responder before and after its effect. The rows, with their effects, are in
 * `responder/operations.ts`; a request carries its row's facts with it, so that modules on lower floors need not
 * distinguish operations.
 */
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
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
  /** The arithmetic of an atomic. */
  readonly atomic: AtomicRule | undefined;
  /** Counter of those that have taken effect, without duplicates. */
  readonly counter: keyof Counters | undefined;
}

/** Eight bytes of host memory. */
export interface AtomicWord {
  readonly address: number;
  /** As its region is: decides how its new value is written (P-02). */
  readonly persistent: boolean;
  /** The host's programs' address. */
  readonly va: number;
  /** The peer's address. */
  readonly remoteVa: number;
}

/** As the request has them, in host order; of an ATOMIC WRITE, `swapAdd` is its word. */
export interface AtomicOperands {
  readonly swapAdd: bigint;
  readonly compare: bigint;
}

export interface AtomicTask extends AtomicWord, AtomicOperands {
  readonly rule: AtomicRule;
}

export interface AtomicRule {
  /** It depends on the word's old value, and answers with it; else it is one write. */
  readonly reads: boolean;
  /** True if `compare` is an operand of it. */
  readonly compares: boolean;
  /** The word's new value; undefined where it stays. */
  readonly compute: (operands: AtomicOperands, original: bigint) => bigint | undefined;
  /** The same on a line of a shared region, done where the line is (decision 15). */
  readonly change: (task: AtomicTask) => LineChange;
}

/** ACCESS bits that this request needs; undefined where its demand is unknown. */
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
