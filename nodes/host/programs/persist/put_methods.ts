/**
 * The methods of `put` as a table: which requests a message takes, which completion says that it has
 * been written and which that it is persistent, and the document's numbers of the steps.
 */
import { readsBack, type VerifyLevel } from "../../../../fabric/wire/roce/verify_eth.ts";
import { isPersistentWrite, type PutMethod, type ServerTerms } from "../common/persist_protocol.ts";
import type { SendRequest } from "../../verbs/objects.ts";

/** What may come back of a message: the completion of its first or second request, or an answer. */
export type Stage = "first" | "second" | "reply";

export interface MethodPlan {
  readonly first: Extract<
    SendRequest["opcode"],
    "write" | "send" | "write-persistence" | "write-persist-address" | "write-verify"
  >;
  /** V-09: a verified write that is persistent, too. */
  readonly persist?: boolean;
  /** Posted when the first request has completed, or `together` with it, which then is unsignalled. */
  readonly second?: "read" | "send" | "flush" | "compare";
  readonly together?: true;
  /** Where an answer comes: after which completion the program posts a RECV for it. */
  readonly recvAfter?: "first" | "second";
  readonly writtenBy: Stage;
  /** The completion that the method takes for persistence. */
  readonly persistedBy: Stage;
  /** Names of the steps in the trace. */
  readonly steps: {
    readonly post: string;
    readonly first: string;
    readonly postSecond?: string;
    readonly second?: string;
    readonly recv?: string;
    readonly reply?: string;
  };
}

/** Figures 5 and 6 of `write-verify.md`'s document, by whether memory is read back. */
const VERIFY_STEPS = {
  before: { post: "4501", first: "4505" },
  after: { post: "4601", first: "4608" },
} as const;

/** Of a write that is read back and compared, whether it persists or not. */
const COMPARE_STEPS = {
  post: "post-write",
  first: "written",
  postSecond: "post-read",
  second: "compared",
} as const;

const PLANS: Readonly<
  Record<Exclude<PutMethod, "persist-opcode" | "persist-address">, MethodPlan>
> = {
  // P-12: takes the WRITE's completion for persistence, which it is not.
  "write-only": {
    first: "write",
    writtenBy: "first",
    persistedBy: "first",
    steps: { post: "post-write", first: "written" },
  },
  // P-10
  "write-read": {
    first: "write",
    second: "read",
    writtenBy: "first",
    persistedBy: "second",
    steps: { post: "S201", first: "S207", postSecond: "S208", second: "S214" },
  },
  // P-51, general purpose mode
  "send-flush": {
    first: "send",
    recvAfter: "first",
    writtenBy: "reply",
    persistedBy: "reply",
    steps: { post: "post-send", first: "sent", recv: "post-recv", reply: "flushed" },
  },
  // As P-10, of receive buffers that survive: no CPU is on the way, the responder's stores it later.
  "send-read": {
    first: "send",
    second: "read",
    together: true,
    writtenBy: "second",
    persistedBy: "second",
    steps: {
      post: "post-deposit",
      first: "sent",
      postSecond: "post-read",
      second: "read-answered",
    },
  },
  // P-50: in order behind the WRITE, so both go at once; the FLUSH's answer says "persistent".
  "write-flush": {
    first: "write",
    second: "flush",
    together: true,
    writtenBy: "second",
    persistedBy: "second",
    steps: {
      post: "post-write",
      first: "written",
      postSecond: "post-flush",
      second: "flush-answered",
    },
  },
  // P-11
  "write-send": {
    first: "write",
    second: "send",
    recvAfter: "second",
    writtenBy: "first",
    persistedBy: "reply",
    steps: {
      post: "S301",
      first: "S307",
      postSecond: "S308",
      second: "S316",
      recv: "S317",
      reply: "S325",
    },
  },
  // V-10, the baseline. The READ is in order behind the WRITE, so both go at once.
  "write-compare": {
    first: "write",
    second: "compare",
    together: true,
    writtenBy: "second",
    persistedBy: "second",
    steps: COMPARE_STEPS,
  },
  // V-10, V-09: the same of a write that persists, whose completion comes before the READ's.
  "persist-compare": {
    first: "write-persistence",
    second: "compare",
    together: true,
    writtenBy: "second",
    persistedBy: "second",
    steps: COMPARE_STEPS,
  },
  // V-01
  "write-verify": {
    first: "write-verify",
    persist: false,
    writtenBy: "first",
    persistedBy: "first",
    steps: VERIFY_STEPS.after,
  },
  // V-09
  "verify-persist": {
    first: "write-verify",
    persist: true,
    writtenBy: "first",
    persistedBy: "first",
    steps: VERIFY_STEPS.after,
  },
};

/**
 * The plan for a connection. That of the write that persists depends on what flushes at the responder and
 * on the queue pair's policy (P-29): one completion at persistence, or one at reception and a RECV's at
 * persistence.
 */
export function methodPlan(
  method: PutMethod,
  connection: Pick<ServerTerms, "flush"> & {
    readonly policy: "persistence" | "reception";
    readonly level?: VerifyLevel;
  },
): MethodPlan {
  if (!isPersistentWrite(method)) {
    const plan = PLANS[method];
    const isLookedAt = connection.level === undefined || readsBack(connection.level);
    if (plan.first !== "write-verify" || isLookedAt) return plan;
    return { ...plan, steps: VERIFY_STEPS.before };
  }
  const first = method === "persist-opcode" ? "write-persistence" : "write-persist-address";
  const byCpu = connection.flush === "cpu";
  const post = byCpu ? "S1001" : "S901";
  const persisted = byCpu ? "S1019" : "S909";
  if (connection.policy === "persistence") {
    const steps = { post, first: persisted };
    return { first, writtenBy: "first", persistedBy: "first", steps };
  }
  return {
    first,
    recvAfter: "first",
    writtenBy: "first",
    persistedBy: "reply",
    steps: { post, first: "S1011", recv: "S1012", reply: persisted },
  };
}

/**
 * Whether what the method takes for persistence is that, at this responder. WRITE alone is where all
 * buffers survive, nowhere else (P-12); a READ pushes out of the IIO what is on its way, not out of the
 * LLC what has to leave it as well (P-04), nor out of receive buffers that are in DRAM.
 */
export function promisesPersistence(method: PutMethod, server: ServerTerms): boolean {
  if (method === "write-only" || method === "write-verify") return server.flush === "none";
  if (method === "send-read" && server.receive === "dram") return false;
  const reads: readonly PutMethod[] = ["write-read", "send-read", "write-compare"];
  return !reads.includes(method) || server.flush !== "cpu";
}
