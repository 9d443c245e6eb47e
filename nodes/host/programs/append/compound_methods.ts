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

export type Flusher = PersistencePlan["flush"];

/** `both` is the range from the tail to the end of the record. */
export interface CompoundRequest {
  readonly opcode:
    | "write"
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
const pending = (part: CompoundRequest["part"]) =>
  ({ opcode: "send", part, message: "deposit" }) as const;
const flush = (part: CompoundRequest["part"]) => ({ opcode: "flush", part }) as const;

const SOUND = { confirmedBy: "completion", ordered: true, promises: true } as const;

function orderedPlan(terms: CompoundTerms): CompoundPlan {
  const { method, flusher, policy, receive } = terms;
  const isFifo = flusher !== "cpu";
  switch (method) {
    // P-12: ordered where the path to the medium is; no response tells persistence.
    case "write-only":
      return {
        rounds: [[write("record"), write("tail")]],
        confirmedBy: "completion",
        ordered: isFifo,
        promises: flusher === "none",
      };
    // P-10
    case "write-read":
      return {
        rounds: [[write("record"), write("tail"), { opcode: "read", part: "tail" }]],
        confirmedBy: "completion",
        ordered: isFifo,
        promises: isFifo,
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
        promises: isFifo && receive === "scm",
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
function pipelined(method: Method, right: CompoundPlan): CompoundPlan["rounds"] | undefined {
  const writes = [write("record"), write("tail")];
  switch (method) {
    case "write-flush":
      return [[...writes, flush("tail")]];
    case "write-send":
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

function oneFlush(method: Method): CompoundPlan["rounds"] | undefined {
  const writes = [write("record"), write("tail")];
  if (method === "write-flush") return [[...writes, flush("both")]];
  if (method !== "write-send") return undefined;
  return [[...writes, { opcode: "send", part: "both", message: "persist-mark" }]];
}

/** Writes b first. Undefined where one message contains or marks both. */
function tailFirst(right: CompoundPlan): CompoundPlan["rounds"] | undefined {
  const requests = right.rounds.flat();
  if (requests.some(({ part }) => part === "both")) return undefined;
  // A READ flushes earlier writes: it stays last.
  const place = ({ part, opcode }: CompoundRequest) =>
    opcode === "read" ? 2 : part === "tail" ? 0 : 1;
  return [requests.toSorted((x, y) => place(x) - place(y))];
}

function roundsOf(terms: CompoundTerms, right: CompoundPlan): CompoundPlan["rounds"] | undefined {
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
  return rounds && { ...right, rounds };
}
