/**
 * Compound updates: *a, then b, and b is never persistent without a* (a log's record and its tail), by
 * every method that can do it, as a table: which requests go together, and how many round trips it takes.
 *
 * What keeps the order where both go together:
 *
 * - reads flush (`read`: flow 1, or an LLC in the persistence domain): DMA writes of one link are FIFO all
 *   the way to where they are persistent (PCIe posted ordering, RO = 0). An assumption about the platform,
 *   not a promise of IBTA; `write-flush` does without it.
 * - the CPU flushes (`cpu`: flow 2, the LLC is volatile): an LLC evicts lines in any order, so b may not be
 *   written before a is flushed: the CPU itself writes it then, or a FLUSH is between (an ATOMIC WRITE
 *   waits for the answers before it), or the requester waits.
 * - nothing is lost (`none`): as `read`, and visible is persistent.
 */
import type { PersistencePlan } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import type { Method, ReceivePlace } from "../common/persist_protocol.ts";

/** What makes persistent what has been written. */
export type Flusher = PersistencePlan["flush"];

/** A request of an update. `both` is the range from the tail to the end of the record. */
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
  /** Of a SEND. */
  readonly message?: "commit" | "commit-data" | "persist-mark" | "deposit";
}

export interface CompoundPlan {
  /** Each is posted with one doorbell when all of the one before is told persistent: a round trip. */
  readonly rounds: readonly (readonly CompoundRequest[])[];
  /** What ends a round: its last request's completion, the CPU's answer, or every write's own (P-27). */
  readonly toldBy: "completion" | "answer" | "each";
  /** Whether b is held to be never persistent without a. */
  readonly ordered: boolean;
  /** Whether what is told is held to survive. */
  readonly promises: boolean;
}

/**
 * How an update goes. `ordered` is right. The others are wrong on purpose and claim the same, so that the
 * explorer has something to find: `pipelined` writes both and has only b persisted; `one-flush` has both
 * flushed as one range, which the CPU does from its beginning, where b is; `tail-first` writes b before a.
 */
export const UPDATES = ["ordered", "pipelined", "one-flush", "tail-first"] as const;
export type Update = typeof UPDATES[number];

/** What an append needs to know of its connection. */
export interface CompoundTerms {
  readonly method: Method;
  readonly flusher: Flusher;
  /** Where the responder's receive buffers are. */
  readonly receive: ReceivePlace;
  readonly policy: "persistence" | "reception";
  readonly update: Update;
}

const write = (part: CompoundRequest["part"]) => ({ opcode: "write", part }) as const;
const pending = (part: CompoundRequest["part"]) =>
  ({ opcode: "send", part, message: "deposit" }) as const;
const flush = (part: CompoundRequest["part"]) => ({ opcode: "flush", part }) as const;

/** The requests of `ordered`, and whether they keep that order. */
function orderedPlan(terms: CompoundTerms): CompoundPlan {
  const { method, flusher, policy, receive } = terms;
  const isFifo = flusher !== "cpu";
  switch (method) {
    // P-12: in order where the way to the medium keeps order; no answer says when.
    case "write-only":
      return {
        rounds: [[write("record"), write("tail")]],
        toldBy: "completion",
        ordered: isFifo,
        promises: flusher === "none",
      };
    // P-10
    case "write-read":
      return {
        rounds: [[write("record"), write("tail"), { opcode: "read", part: "tail" }]],
        toldBy: "completion",
        ordered: isFifo,
        promises: isFifo,
      };
    // P-51
    case "send-flush":
      return {
        rounds: [[{ opcode: "send", part: "both", message: "commit-data" }]],
        toldBy: "answer",
        ordered: true,
        promises: true,
      };
    // P-11: the CPU flushes a, and writes b only then.
    case "write-send":
      return {
        rounds: [[write("record"), { opcode: "send", part: "both", message: "commit" }]],
        toldBy: "answer",
        ordered: true,
        promises: true,
      };
    // Pending messages are stored in the order in which they were sent, and no further than to a missing one.
    case "send-read":
      return {
        rounds: [[pending("record"), pending("tail"), { opcode: "read", part: "tail" }]],
        toldBy: "completion",
        ordered: true,
        promises: isFifo && receive === "scm",
      };
    // P-50: the standard's own use of ATOMIC WRITE (IBTA A19: log and pointer).
    case "write-flush":
      return {
        rounds: [[
          write("record"),
          flush("record"),
          { opcode: "atomic-write", part: "tail" },
          flush("tail"),
        ]],
        toldBy: "completion",
        ordered: true,
        promises: true,
      };
    case "persist-opcode":
    case "persist-address": {
      const record = persistentWrite(method, "record"), tail = persistentWrite(method, "tail");
      return {
        rounds: isFifo ? [[record, tail]] : [[record], [tail]],
        toldBy: policy === "reception" ? "each" : "completion",
        ordered: true,
        promises: true,
      };
    }
  }
}

function persistentWrite(
  method: "persist-opcode" | "persist-address",
  part: "record" | "tail",
): CompoundRequest {
  return {
    opcode: method === "persist-opcode" ? "write-persistence" : "write-persist-address",
    part,
  };
}

/** All in one round, without what keeps b behind a. Undefined where the method has no such form. */
function pipelined(method: Method, right: CompoundPlan): CompoundPlan["rounds"] | undefined {
  const writes = [write("record"), write("tail")];
  switch (method) {
    case "write-flush":
      return [[...writes, flush("tail")]];
    case "write-send":
      return [[...writes, { opcode: "send", part: "tail", message: "persist-mark" }]];
    // P-31 covers the WRITE before it, but nothing keeps b's line in the LLC until a's has gone.
    case "persist-opcode":
      return [[write("record"), persistentWrite(method, "tail")]];
    case "persist-address":
      return [right.rounds.flat()];
    default:
      return undefined;
  }
}

/** Flushed as one range. Undefined where the method names no range. */
function oneFlush(method: Method): CompoundPlan["rounds"] | undefined {
  const writes = [write("record"), write("tail")];
  if (method === "write-flush") return [[...writes, flush("both")]];
  if (method !== "write-send") return undefined;
  return [[...writes, { opcode: "send", part: "both", message: "persist-mark" }]];
}

/** The same with b first. Undefined where one message has both, or marks one. */
function tailFirst(right: CompoundPlan): CompoundPlan["rounds"] | undefined {
  const requests = right.rounds.flat();
  if (requests.some(({ part }) => part === "both")) return undefined;
  // A READ pushes what is before it, so it stays behind all.
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

/** The plan of an update; undefined where the method has none of that kind. */
export function compoundPlan(terms: CompoundTerms): CompoundPlan | undefined {
  const right = orderedPlan(terms);
  const rounds = roundsOf(terms, right);
  return rounds && { ...right, rounds };
}
