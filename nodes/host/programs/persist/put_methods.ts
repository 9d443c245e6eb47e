/**
 * The methods of `put`: requests of a message, confirming completions, the document's step numbers.
 */
import { readsBack, type VerifyLevel } from "../../../../fabric/wire/roce/verify_eth.ts";
import { isPersistentWrite, type PutMethod, type ServerTerms } from "../common/persist_protocol.ts";
import type { SendRequest } from "../../verbs/objects.ts";

export type Stage = "first" | "second" | "reply";

export interface MethodPlan {
  readonly first: Extract<
    SendRequest["opcode"],
    "write" | "send" | "write-persistence" | "write-persist-address" | "write-verify"
  >;
  readonly persist?: boolean;
  /**
   * It is posted after the first's completion, or `together` with it: the first is then
   * unsignalled.
   */
  readonly second?: "read" | "send" | "flush" | "compare";
  readonly together?: true;
  /** The completion after which the RECV for the answer is posted. */
  readonly recvAfter?: "first" | "second";
  readonly writtenBy: Stage;
  readonly persistedBy: Stage;
  readonly steps: {
    readonly post: string;
    readonly first: string;
    readonly postSecond?: string;
    readonly second?: string;
    readonly recv?: string;
    readonly reply?: string;
  };
}

/** `write-verify.md`'s figures 5 and 6: with, or without, a read-back. */
const VERIFY_STEPS = {
  before: { post: "4501", first: "4505" },
  after: { post: "4601", first: "4608" },
} as const;

const COMPARE_STEPS = {
  post: "post-write",
  first: "written",
  postSecond: "post-read",
  second: "compared",
} as const;

const TOGETHER = { together: true, writtenBy: "second", persistedBy: "second" } as const;

const PLANS: Readonly<
  Record<Exclude<PutMethod, "persist-opcode" | "persist-address">, MethodPlan>
> = {
  // P-12: the WRITE's completion is no persistence, but taken for it.
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
  // P-10 for receive buffers that survive: the responder's CPU stores the data later.
  "send-read": {
    first: "send",
    second: "read",
    ...TOGETHER,
    steps: {
      post: "post-deposit",
      first: "sent",
      postSecond: "post-read",
      second: "read-answered",
    },
  },
  // P-50: ordered behind the WRITE; the FLUSH's response means "persistent".
  "write-flush": {
    first: "write",
    second: "flush",
    ...TOGETHER,
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
  // V-10, the baseline. The READ is ordered behind the WRITE.
  "write-compare": {
    first: "write",
    second: "compare",
    ...TOGETHER,
    steps: COMPARE_STEPS,
  },
  // V-10, V-09: with a write that persists, whose completion precedes the READ's.
  "persist-compare": {
    first: "write-persistence",
    second: "compare",
    ...TOGETHER,
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
 * The plan of a persistent write depends on the responder's flush mechanism and the queue pair's
 * policy (P-29): one completion at persistence, or one at reception and a RECV's at persistence.
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
 * A WRITE alone promises persistence only where all buffers survive (P-12); a READ flushes the IIO,
 * but not the LLC (P-04), nor receive buffers in DRAM.
 */
export function promisesPersistence(method: PutMethod, server: ServerTerms): boolean {
  if (method === "write-only" || method === "write-verify") return server.flush === "none";
  if (method === "send-read" && server.receive === "dram") return false;
  const reads: readonly PutMethod[] = ["write-read", "send-read", "write-compare"];
  return !reads.includes(method) || server.flush !== "cpu";
}
