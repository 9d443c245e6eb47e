/**
 * The operations of a responder, one row each: rights, memory accesses, what the request waits for, its effect, and
 * the treatment of a duplicate. The responder (`responder.ts`, `unreliable.ts`, `memory_gate.ts`) asks the row and
 * knows no operation by name; `state/operation.ts` documents the columns. A new operation is a row here, one in
 * `fabric/wire/roce/opcode.ts`, and where a program may post it one in `fabric/wire/host_bus/wqe_opcode.ts`.
 */
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  ANSWERS,
  OPCODE_ROWS,
  type OpcodeRow,
  type RequestOperation,
  takesSlot,
} from "../../../fabric/wire/roce/opcode.ts";
import type { MemoryAccess } from "../paging/access.ts";
import type { Device } from "../state/device.ts";
import type { OperationFacts } from "../state/operation.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { RequestIn, Verdict } from "../state/responder_state.ts";
import { executeCardMessage } from "../coherence/receive_message.ts";
import { executeFlush, needOfFlush, repeatFlush } from "../persistence/flush_operation.ts";
import { executeWriteVerify, repeatVerified } from "../verify/write_verify.ts";
import { ATOMIC_WRITE, COMPARE_SWAP, executeAtomic, FETCH_ADD, repeatAtomic } from "./atomic.ts";
import { repeatRead, repeatSend, repeatWrite } from "./duplicates.ts";
import { executeRead, executeSend, executeWrite } from "./execute.ts";
import {
  memoryOfAtomic,
  memoryOfRead,
  memoryOfSend,
  memoryOfVerified,
  memoryOfWrite,
} from "./request_memory.ts";

export interface OperationRow extends OperationFacts {
  /**
   * The packet's memory accesses, looked at before its effect; undefined where it has none, or where the checks of
   * the effect refuse them.
   */
  readonly memory: (device: Device, qp: QueuePair, input: RequestIn) => MemoryAccess | undefined;
  /** The packet's effect, with the checks of keys and receive memory that belong to it (§3.4, 6 and 7). */
  readonly execute: (device: Device, qp: QueuePair, input: RequestIn) => Verdict | undefined;
  /** A duplicate (§3.5). @returns false where it is to be dropped. */
  readonly repeat: (device: Device, qp: QueuePair, input: RequestIn) => boolean;
}

/** Columns that the name does not determine. */
type Given = Omit<OperationRow, "name" | "answer" | "takesSlot">;

/** Values of the columns that a row does not name. */
const PLAIN = {
  need: 0,
  vendorRight: undefined,
  takesRecv: "never",
  order: "at-once",
  length: "any",
  invalid: undefined,
  atomic: undefined,
  counter: undefined,
  memory: () => undefined,
} as const satisfies Omit<Given, "execute" | "repeat">;

const ATOMIC: Given = {
  ...PLAIN,
  need: ACCESS.remoteAtomic,
  order: "in-turn",
  invalid: "the alignment",
  counter: "atomicsExecuted",
  memory: memoryOfAtomic,
  execute: executeAtomic,
  repeat: repeatAtomic,
};

/** C-02: between queue pairs of the cards' firmware alone (`check_queue_pair.ts`). */
const CARD_MESSAGE: Given = { ...PLAIN, execute: executeCardMessage, repeat: repeatSend };

const ROWS: Readonly<Record<RequestOperation, Given>> = {
  "send": {
    ...PLAIN,
    takesRecv: "first",
    invalid: "the receive",
    memory: memoryOfSend,
    execute: executeSend,
    repeat: repeatSend,
  },
  "write": {
    ...PLAIN,
    need: ACCESS.remoteWrite,
    vendorRight: "remoteWritePersistence",
    takesRecv: "immediate",
    length: "announced",
    memory: memoryOfWrite,
    execute: executeWrite,
    repeat: repeatWrite,
  },
  "read-request": {
    ...PLAIN,
    need: ACCESS.remoteRead,
    order: "in-turn",
    memory: memoryOfRead,
    execute: executeRead,
    repeat: repeatRead,
  },
  "compare-swap": { ...ATOMIC, atomic: COMPARE_SWAP },
  "fetch-add": { ...ATOMIC, atomic: FETCH_ADD },
  "atomic-write": {
    ...ATOMIC,
    need: ACCESS.remoteWrite,
    length: "word",
    atomic: ATOMIC_WRITE,
  },
  "flush": {
    ...PLAIN,
    need: needOfFlush,
    counter: "flushesExecuted",
    execute: executeFlush,
    repeat: repeatFlush,
  },
  "write-verify": {
    ...PLAIN,
    need: ACCESS.remoteWrite,
    vendorRight: "remoteWriteVerify",
    order: "checked",
    length: "announced",
    invalid: "the verification",
    counter: "verifyWritesIn",
    memory: memoryOfVerified,
    execute: executeWriteVerify,
    repeat: repeatVerified,
  },
  "coherence-request": CARD_MESSAGE,
  "coherence-snoop": CARD_MESSAGE,
  "coherence-response": CARD_MESSAGE,
};

export const OPERATIONS = Object.fromEntries(
  Object.entries(ROWS).map(([name, given]) => {
    const operation = name as RequestOperation;
    const answer = ANSWERS[operation];
    return [name, { name: operation, answer, takesSlot: takesSlot(operation), ...given }];
  }),
) as Readonly<Record<RequestOperation, OperationRow>>;

const BY_OPCODE: readonly (OperationRow | undefined)[] = Array.from({ length: 256 }, (_, code) => {
  const operation = OPCODE_ROWS.find((row) => row.code === code)?.operation;
  return OPERATIONS[operation as RequestOperation];
});

/** The operation of a request's opcode; undefined where it is no request, or an unknown one. */
export function operationOf({ code }: OpcodeRow): OperationRow | undefined {
  return BY_OPCODE[code];
}

/** The row of an accepted request. */
export function rowOf({ row }: RequestIn): OperationRow {
  return BY_OPCODE[row.code]!;
}
