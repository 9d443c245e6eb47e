/**
 * Compound updates: *a, then b, and b is never persistent without a* (a log's record and its tail),
 * by every capable method: the requests of each round, and the number of round trips.
 *
 * Why the order holds where both are in one round:
 *
 * - reads flush (`read`: flow 1, or an LLC in the persistence domain): DMA writes of one link are
 *   FIFO up to the place where they are persistent (PCIe posted ordering, RO = 0). This is an
 *   assumption about the platform, not a guarantee of IBTA; `write-flush` does not need it.
 * - the CPU flushes (`cpu`: flow 2, the LLC is volatile): an LLC evicts lines in any order, so b
 *   must not be written before a is flushed. Either the CPU itself then writes b, or a FLUSH is in
 *   between (an ATOMIC WRITE waits for earlier responses), or the requester waits.
 * - no flush is needed (`none`): as `read`, and visible bytes are persistent.
 */
import type { Memory } from "../../../../fabric/rack/plan/plan.ts";
import type { UPDATES } from "../../../../fabric/rack/plan/vocabulary.ts";
import type { PersistencePlan } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import type { Method } from "../common/persist_protocol.ts";
import { promisesPersistence } from "../persist/put_methods.ts";

export type Flusher = PersistencePlan["flush"];

/** `both` is the range from the tail to the end of the record. */
export interface CompoundRequest {
  readonly opcode:
    | "write"
    | "write-immediate"
    | "write-persistence"
    | "write-persist-address"
    | "atomic-write"
    | "flush"
    | "read"
    | "send";
  readonly part: "record" | "tail" | "both";
  readonly message?: "commit" | "commit-data" | "persist-mark" | "deposit";
}

export interface CompoundPlan {
  /**
   * A round is one doorbell, rung when the previous round is confirmed persistent: a round trip.
   */
  readonly rounds: readonly (readonly CompoundRequest[])[];
  /** The last completion, the CPU's answer, or each write's own (P-27). */
  readonly confirmedBy: "completion" | "answer" | "each";
  readonly ordered: boolean;
  readonly promises: boolean;
}

/**
 * The variants of an update. `ordered` is correct. The others are wrong on purpose, for the
 * explorer: `pipelined` makes only b persistent; `one-flush` flushes one range, b first;
 * `tail-first` writes b before a.
 */
export type Update = typeof UPDATES[number];

export interface CompoundTerms {
  readonly method: Method;
  readonly flusher: Flusher;
  readonly receive: Memory;
  readonly policy: "persistence" | "reception";
  readonly update: Update;
}

const write = (part: CompoundRequest["part"]) => ({ opcode: "write", part }) as const;
const announced = (part: CompoundRequest["part"]) => ({ opcode: "write-immediate", part }) as const;
const read = (part: CompoundRequest["part"]) => ({ opcode: "read", part }) as const;
const pending = (part: CompoundRequest["part"]) =>
  ({ opcode: "send", part, message: "deposit" }) as const;
const flush = (part: CompoundRequest["part"]) => ({ opcode: "flush", part }) as const;

const SOUND = { confirmedBy: "completion", ordered: true } as const;

type OrderedPlan = Omit<CompoundPlan, "promises">;

function orderedPlan(terms: CompoundTerms): OrderedPlan {
  const { method, flusher, policy } = terms;
  const isFifo = flusher !== "cpu";
  switch (method) {
    // P-12: ordered where the path to the medium is; no response tells persistence.
    case "write-only":
      return {
        rounds: [[write("record"), write("tail")]],
        confirmedBy: "completion",
        ordered: isFifo,
      };
    // P-10, and librpma's: one round trip.
    case "write-read":
    case "librpma-apm":
      return {
        rounds: [[write("record"), write("tail"), read("tail")]],
        confirmedBy: "completion",
        ordered: isFifo,
      };
    // Needs no FIFO way to the medium.
    case "emulated-flush":
      return {
        rounds: [[write("record"), read("record")], [write("tail"), read("tail")]],
        confirmedBy: "completion",
        ordered: isFifo,
      };
    // The answer lies behind both; the CPU flushes nothing.
    case "write-imm":
      return {
        rounds: [[write("record"), announced("tail")]],
        confirmedBy: "answer",
        ordered: isFifo,
      };
    // Where the CPU must flush, b is written when a's flush is answered.
    case "write-imm-flush":
      return {
        ...SOUND,
        rounds: isFifo
          ? [[write("record"), announced("tail")]]
          : [[announced("record")], [announced("tail")]],
        confirmedBy: "answer",
      };
    // P-51
    case "send-flush":
      return {
        ...SOUND,
        rounds: [[{ opcode: "send", part: "both", message: "commit-data" }]],
        confirmedBy: "answer",
      };
    // P-11: the CPU flushes a, then writes b.
    case "write-send":
    case "librpma-gpspm":
    case "write-send-workers":
      return {
        ...SOUND,
        rounds: [[write("record"), { opcode: "send", part: "both", message: "commit" }]],
        confirmedBy: "answer",
      };
    // Stored in sending order, up to the first missing one.
    case "send-read":
      return {
        rounds: [[pending("record"), pending("tail"), { opcode: "read", part: "tail" }]],
        ...SOUND,
      };
    // P-50: as IBTA A19 intends ATOMIC WRITE (log and pointer).
    case "write-flush":
      return {
        rounds: [[
          write("record"),
          flush("record"),
          { opcode: "atomic-write", part: "tail" },
          flush("tail"),
        ]],
        ...SOUND,
      };
    case "persist-opcode":
    case "persist-address": {
      const record = persistentWrite(method, "record"), tail = persistentWrite(method, "tail");
      return {
        rounds: isFifo ? [[record, tail]] : [[record], [tail]],
        ...SOUND,
        confirmedBy: policy === "reception" ? "each" : "completion",
      };
    }
  }
}

function persistentWrite(
  method: "persist-opcode" | "persist-address",
  part: "record" | "tail",
): CompoundRequest {
  const opcode = method === "persist-opcode" ? "write-persistence" : "write-persist-address";
  return { opcode, part };
}

/** One round, without a guarantee that b follows a. Undefined where the method has no such form. */
function pipelined(method: Method, right: OrderedPlan): CompoundPlan["rounds"] | undefined {
  const writes = [write("record"), write("tail")];
  switch (method) {
    case "write-flush":
      return [[...writes, flush("tail")]];
    case "write-imm-flush":
      return [[write("record"), announced("tail")]];
    case "write-send":
    case "librpma-gpspm":
    case "write-send-workers":
      return [[...writes, { opcode: "send", part: "tail", message: "persist-mark" }]];
    // P-31 covers the WRITE before it, but b's line may leave the LLC before a's is flushed.
    case "persist-opcode":
      return [[write("record"), persistentWrite(method, "tail")]];
    case "persist-address":
      return [right.rounds.flat()];
    default:
      return undefined;
  }
}

const BY_MARK: readonly Method[] = ["write-send", "librpma-gpspm", "write-send-workers"];

function oneFlush(method: Method): CompoundPlan["rounds"] | undefined {
  const writes = [write("record"), write("tail")];
  if (method === "write-flush") return [[...writes, flush("both")]];
  if (!BY_MARK.includes(method)) return undefined;
  return [[...writes, { opcode: "send", part: "both", message: "persist-mark" }]];
}

/** Writes b first. Undefined where one message contains or marks both. */
function tailFirst(right: OrderedPlan): CompoundPlan["rounds"] | undefined {
  const requests = right.rounds.flat();
  if (requests.some(({ part }) => part === "both")) return undefined;
  // A READ flushes earlier writes: it stays last.
  const place = ({ part, opcode }: CompoundRequest) =>
    opcode === "read" ? 2 : part === "tail" ? 0 : 1;
  const sorted = requests.toSorted((x, y) => place(x) - place(y));
  // One immediate, for the one answer that is awaited.
  const last = sorted.findLast(({ opcode }) => opcode === "write-immediate");
  return [
    sorted.map((each) =>
      each.opcode === "write-immediate" && each !== last ? write(each.part) : each
    ),
  ];
}

function roundsOf(terms: CompoundTerms, right: OrderedPlan): CompoundPlan["rounds"] | undefined {
  switch (terms.update) {
    case "ordered":
      return right.rounds;
    case "pipelined":
      return pipelined(terms.method, right);
    case "one-flush":
      return oneFlush(terms.method);
    case "tail-first":
      return tailFirst(right);
  }
}

/** @returns undefined where the method has no such form. */
export function compoundPlan(terms: CompoundTerms): CompoundPlan | undefined {
  const right = orderedPlan(terms);
  const rounds = roundsOf(terms, right);
  const { method, flusher: flush, receive } = terms;
  return rounds && { ...right, rounds, promises: promisesPersistence(method, { flush, receive }) };
}
