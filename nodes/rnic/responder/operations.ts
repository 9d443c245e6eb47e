/**
 * The operations of a responder, one row each: what a request must have and waits for, its effect, its answer,
 * and what becomes of a duplicate. The responder (`responder.ts`, `unreliable.ts`) asks the row and knows no
 * operation by name; what the columns mean is in `state/operation.ts`. A new operation is a row here and an
 * opcode's in `fabric/wire/roce/opcode.ts`.
 */
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { OPCODE_ROWS, type OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { Device } from "../state/device.ts";
import type { OperationFacts, RequestOperation } from "../state/operation.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { RequestIn, Verdict } from "../state/responder_state.ts";
import { executeCardMessage } from "../coherence/receive_message.ts";
import { executeFlush, needOfFlush, repeatFlush } from "../persistence/flush_operation.ts";
import { executeWriteVerify, repeatVerified } from "../verify/write_verify.ts";
import { executeAtomic, repeatAtomic } from "./atomic.ts";
import { repeatRead, repeatSend, repeatWrite } from "./duplicates.ts";
import { executeRead, executeSend, executeWrite } from "./execute.ts";

export interface OperationRow extends OperationFacts {
  /** The packet's effect, with the checks of keys and receive memory that belong to it (§3.4, 6 and 7). */
  readonly execute: (device: Device, qp: QueuePair, input: RequestIn) => Verdict | undefined;
  /** A duplicate (§3.5). @returns false where it is to be dropped. */
  readonly repeat: (device: Device, qp: QueuePair, input: RequestIn) => boolean;
}

const ATOMIC = {
  need: ACCESS.remoteAtomic,
  vendorRight: undefined,
  takesSlot: true,
  takesRecv: "never",
  order: "in-turn",
  length: "any",
  answer: "RC ATOMIC ACKNOWLEDGE",
  counter: "atomicsExecuted",
  execute: executeAtomic,
  repeat: repeatAtomic,
} as const;

/** C-02: between queue pairs of the cards' firmware alone (`check_queue_pair.ts`). */
const CARD_MESSAGE = {
  need: 0,
  vendorRight: undefined,
  takesSlot: false,
  takesRecv: "never",
  order: "at-once",
  length: "any",
  answer: "RC ACKNOWLEDGE",
  counter: undefined,
  execute: executeCardMessage,
  repeat: repeatSend,
} as const;

export const OPERATIONS: Readonly<Record<RequestOperation, OperationRow>> = {
  "send": {
    name: "send",
    need: 0,
    vendorRight: undefined,
    takesSlot: false,
    takesRecv: "first",
    order: "at-once",
    length: "any",
    answer: "RC ACKNOWLEDGE",
    counter: undefined,
    execute: executeSend,
    repeat: repeatSend,
  },
  "write": {
    name: "write",
    need: ACCESS.remoteWrite,
    vendorRight: "remoteWritePersistence",
    takesSlot: false,
    takesRecv: "immediate",
    order: "at-once",
    length: "announced",
    answer: "RC ACKNOWLEDGE",
    counter: undefined,
    execute: executeWrite,
    repeat: repeatWrite,
  },
  "read-request": {
    name: "read-request",
    need: ACCESS.remoteRead,
    vendorRight: undefined,
    takesSlot: true,
    takesRecv: "never",
    order: "in-turn",
    length: "any",
    answer: "RC RDMA READ RESPONSE ONLY",
    counter: undefined,
    execute: executeRead,
    repeat: repeatRead,
  },
  "compare-swap": { ...ATOMIC, name: "compare-swap" },
  "fetch-add": { ...ATOMIC, name: "fetch-add" },
  "atomic-write": {
    ...ATOMIC,
    name: "atomic-write",
    need: ACCESS.remoteWrite,
    length: "word",
    answer: "RC RDMA READ RESPONSE ONLY",
  },
  // As rxe has it, it takes no slot: the PM module's records remember it.
  "flush": {
    name: "flush",
    need: needOfFlush,
    vendorRight: undefined,
    takesSlot: false,
    takesRecv: "never",
    order: "at-once",
    length: "any",
    answer: "RC RDMA READ RESPONSE ONLY",
    counter: "flushesExecuted",
    execute: executeFlush,
    repeat: repeatFlush,
  },
  "write-verify": {
    name: "write-verify",
    need: ACCESS.remoteWrite,
    vendorRight: "remoteWriteVerify",
    takesSlot: true,
    takesRecv: "never",
    order: "checked",
    length: "announced",
    answer: "RC RDMA READ RESPONSE ONLY",
    counter: "verifyWritesIn",
    execute: executeWriteVerify,
    repeat: repeatVerified,
  },
  "coherence-request": { ...CARD_MESSAGE, name: "coherence-request" },
  "coherence-snoop": { ...CARD_MESSAGE, name: "coherence-snoop" },
  "coherence-response": { ...CARD_MESSAGE, name: "coherence-response" },
};

const BY_OPCODE: readonly (OperationRow | undefined)[] = Array.from({ length: 256 }, (_, code) => {
  const operation = OPCODE_ROWS.find((row) => row.code === code)?.operation;
  return OPERATIONS[operation as RequestOperation];
});

/** What a request's opcode asks for; undefined of what is no request, or of none that is known here. */
export function operationOf({ code }: OpcodeRow): OperationRow | undefined {
  return BY_OPCODE[code];
}
