/**
 * The methods of `put` as a table: which requests a message takes, which completion says that it has
 * been written and which that it is persistent, and the document's numbers of the steps.
 */
import type { SendRequest } from "../post.ts";
import type { Method, ServerTerms } from "./persist_protocol.ts";

/** What may come back of a message: the completion of its first or second request, or an answer. */
export type Stage = "first" | "second" | "reply";

export interface MethodPlan {
  readonly first: Extract<
    SendRequest["opcode"],
    "write" | "send" | "write-persistence" | "write-persist-address"
  >;
  /** Posted when the first request has completed, or `together` with it, which then is unsignalled. */
  readonly second?: "read" | "send" | "flush";
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

const PLANS: Readonly<Record<Exclude<Method, "persist-opcode" | "persist-address">, MethodPlan>> = {
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
};

/**
 * The plan for a connection. The write that persists has one by the responder's flow and by the queue
 * pair's policy (P-29): one completion at persistence, or one at reception and a RECV's at persistence.
 */
export function methodPlan(
  method: Method,
  connection: { readonly flow: 1 | 2; readonly policy: "persistence" | "reception" },
): MethodPlan {
  if (method !== "persist-opcode" && method !== "persist-address") return PLANS[method];
  const first = method === "persist-opcode" ? "write-persistence" : "write-persist-address";
  const post = connection.flow === 1 ? "S901" : "S1001";
  const persisted = connection.flow === 1 ? "S909" : "S1019";
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

/** Whether the method is the write that persists, in either form. */
export function isPersistentWrite(plan: MethodPlan): boolean {
  return plan.first === "write-persistence" || plan.first === "write-persist-address";
}

/**
 * Whether what the method takes for persistence is that, at this responder. WRITE alone never is
 * (P-12); a READ pushes out of the IIO what is on its way to the iMC, not what stays in the LLC (P-04).
 */
export function promisesPersistence(method: Method, server: ServerTerms): boolean {
  if (method === "write-only") return false;
  return method !== "write-read" || server.readPersists;
}
