/**
 * The methods of `put`, a row each: requests of a message, confirming completions, the document's
 * step numbers, and where the confirmation promises persistence. The README's table is made of them.
 */
import { readsBack, type VerifyLevel } from "../../../../fabric/wire/roce/verify_eth.ts";
import type { PutMethod, ServerTerms } from "../common/persist_protocol.ts";
import type { SendRequest } from "../../verbs/objects.ts";

export type Stage = "first" | "second" | "reply";

export interface MethodPlan {
  readonly first: Extract<
    SendRequest["opcode"],
    | "write"
    | "write-immediate"
    | "send"
    | "write-persistence"
    | "write-persist-address"
    | "write-verify"
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

/** Of its terms. */
type Responder = Pick<ServerTerms, "flush" | "receive">;

/**
 * Where a method's last confirmation means that the message is persistent (P-40), by what flushes
 * at the responder: its buffers need nothing (`wsp`), a READ is enough (flow 1, or the LLC is in
 * the domain), or its CPU must (`ServerTerms.flush`).
 */
const PROMISES = {
  "no buffers": {
    holds: ({ flush }: Responder) => flush === "none",
    text: "under `wsp` alone",
  },
  "a read flushes": {
    holds: ({ flush }: Responder) => flush !== "cpu",
    text: "flow 1, or LLC in the domain",
  },
  "a read flushes, receives last": {
    holds: ({ flush, receive }: Responder) => flush !== "cpu" && receive === "scm",
    text: "as `write-read`, and receive buffers in SCM",
  },
  always: { holds: () => true, text: "always" },
} as const satisfies Readonly<
  Record<string, { readonly holds: (server: Responder) => boolean; readonly text: string }>
>;

export interface MethodRow {
  /** A message's requests, for readers: `W` is a WRITE; `→` awaits the completion. */
  readonly message: string;
  readonly promise: keyof typeof PROMISES;
  /** Requirements of the documents, or where else the method is described. */
  readonly source: string;
  /** What the responder's CPU does about a WRITE or its mark, where the message does not say it. */
  readonly responder?: "answers" | "flushes" | "workers flush";
  readonly plan: MethodPlan | ((connection: Connection) => MethodPlan);
}

/** The responder's flush mechanism and the queue pair's policy (P-29) decide, and the level. */
type Connection = Pick<ServerTerms, "flush"> & {
  readonly policy: "persistence" | "reception";
  readonly level?: VerifyLevel;
};

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

/** The answer of the responder's CPU, which takes the RECV of a mark or of an immediate. */
const BY_ANSWER = { recv: "post-recv", reply: "flushed" } as const;

/** What is posted behind a WRITE without waiting for it. */
const WRITE_AND = { post: "post-write", first: "written" } as const;

const WITH_IMMEDIATE = {
  first: "write-immediate",
  recvAfter: "first",
  writtenBy: "first",
  persistedBy: "reply",
} as const;

const WRITE_AND_SEND = {
  first: "write",
  second: "send",
  together: true,
  recvAfter: "second",
  writtenBy: "second",
  persistedBy: "reply",
  steps: { ...WRITE_AND, postSecond: "post-send", second: "sent", ...BY_ANSWER },
} as const;

const WRITE_THEN_READ = {
  first: "write",
  second: "read",
  writtenBy: "first",
  persistedBy: "second",
} as const;

export const METHOD_ROWS: Readonly<Record<PutMethod, MethodRow>> = {
  // The WRITE's completion is no persistence, but taken for it.
  "write-only": {
    message: "W",
    promise: "no buffers",
    source: "P-12",
    plan: {
      first: "write",
      writtenBy: "first",
      persistedBy: "first",
      steps: WRITE_AND,
    },
  },
  "write-read": {
    message: "W → READ of its last byte",
    promise: "a read flushes",
    source: "S201 to S214",
    plan: {
      ...WRITE_THEN_READ,
      steps: { post: "S201", first: "S207", postSecond: "S208", second: "S214" },
    },
  },
  "librpma-apm": {
    message: "W and a READ of its last byte behind it: the appliance mode",
    promise: "a read flushes",
    source: "P-51, librpma",
    plan: {
      first: "write",
      second: "read",
      ...TOGETHER,
      steps: { ...WRITE_AND, postSecond: "post-read", second: "read-back" },
    },
  },
  "emulated-flush": {
    message: "W → READ of its last byte; of `append`, record and tail each",
    promise: "a read flushes",
    source: "P-50, emulated",
    plan: {
      ...WRITE_THEN_READ,
      steps: { ...WRITE_AND, postSecond: "post-read", second: "read-back" },
    },
  },
  // The CPU answers: an answer that it sends lies behind the WRITE that its completion tells of.
  "write-imm": {
    message: "W WITH IMMEDIATE; the CPU answers",
    promise: "a read flushes",
    source: "IBA, RDMA WRITE with immediate",
    responder: "answers",
    plan: {
      ...WITH_IMMEDIATE,
      steps: { ...WRITE_AND, recv: "post-recv", reply: "answered" },
    },
  },
  "write-imm-flush": {
    message: "W WITH IMMEDIATE; the CPU flushes and answers",
    promise: "always",
    source: "P-11, with immediate",
    responder: "flushes",
    plan: { ...WITH_IMMEDIATE, steps: { ...WRITE_AND, ...BY_ANSWER } },
  },
  "send-flush": {
    message: "SEND with the data; the CPU stores it and answers",
    promise: "always",
    source: "P-51",
    plan: {
      first: "send",
      recvAfter: "first",
      writtenBy: "reply",
      persistedBy: "reply",
      steps: { post: "post-send", first: "sent", ...BY_ANSWER },
    },
  },
  "write-send": {
    message: "W → SEND of a mark; the CPU flushes and answers",
    promise: "always",
    source: "S301 to S325",
    plan: {
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
  },
  "librpma-gpspm": {
    message:
      "W and a SEND of a mark behind it; the CPU flushes and answers: the general purpose mode",
    promise: "always",
    source: "P-51, librpma",
    plan: WRITE_AND_SEND,
  },
  "write-send-workers": {
    message: "the same; one of several worker threads flushes and answers",
    promise: "always",
    source: "P-51",
    responder: "workers flush",
    plan: WRITE_AND_SEND,
  },
  // The native FLUSH: ordered behind the WRITE; its response means "persistent".
  "write-flush": {
    message: "W and the standard's FLUSH behind it",
    promise: "always",
    source: "P-50",
    plan: {
      first: "write",
      second: "flush",
      ...TOGETHER,
      steps: { ...WRITE_AND, postSecond: "post-flush", second: "flush-answered" },
    },
  },
  // For receive buffers that survive: the responder's CPU stores the data later.
  "send-read": {
    message: "SEND with the data and a READ behind it",
    promise: "a read flushes, receives last",
    source: "P-10, P-51",
    plan: {
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
  },
  "persist-opcode": {
    message: "the write that persists: by its opcode",
    promise: "always",
    source: "S901 to S909, S1001 to S1019",
    plan: (connection) => persistentPlan("write-persistence", connection),
  },
  "persist-address": {
    message: "the write that persists: by its region",
    promise: "always",
    source: "S901 to S909, S1001 to S1019",
    plan: (connection) => persistentPlan("write-persist-address", connection),
  },
  // The READ is ordered behind the WRITE.
  "write-compare": {
    message: "W and a READ of all of it; the program compares",
    promise: "a read flushes",
    source: "V-10",
    plan: { first: "write", second: "compare", ...TOGETHER, steps: COMPARE_STEPS },
  },
  "write-verify": {
    message: "the write that is verified, to its `level`",
    promise: "no buffers",
    source: "4501 to 4608",
    plan: (connection) => verifiedPlan(false, connection),
  },
  "verify-persist": {
    message: "the same, persistent, too",
    promise: "always",
    source: "V-09",
    plan: (connection) => verifiedPlan(true, connection),
  },
  // With a write that persists, whose completion precedes the READ's.
  "persist-compare": {
    message: "`persist-opcode` and a READ of all of it; compare",
    promise: "always",
    source: "V-09, V-10",
    plan: { first: "write-persistence", second: "compare", ...TOGETHER, steps: COMPARE_STEPS },
  },
};

function verifiedPlan(persist: boolean, { level }: Connection): MethodPlan {
  const isLookedAt = level === undefined || readsBack(level);
  return {
    first: "write-verify",
    persist,
    writtenBy: "first",
    persistedBy: "first",
    steps: isLookedAt ? VERIFY_STEPS.after : VERIFY_STEPS.before,
  };
}

/** One completion at persistence, or one at reception and a RECV's at persistence (P-29). */
function persistentPlan(
  first: "write-persistence" | "write-persist-address",
  { flush, policy }: Connection,
): MethodPlan {
  const byCpu = flush === "cpu";
  const post = byCpu ? "S1001" : "S901";
  const persisted = byCpu ? "S1019" : "S909";
  if (policy === "persistence") {
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

export function methodPlan(method: PutMethod, connection: Connection): MethodPlan {
  const { plan } = METHOD_ROWS[method];
  return typeof plan === "function" ? plan(connection) : plan;
}

/** A READ flushes the IIO, but not the LLC (P-04), nor receive buffers in DRAM. */
export function promisesPersistence(method: PutMethod, server: Responder): boolean {
  return PROMISES[METHOD_ROWS[method].promise].holds(server);
}

/** The responder of a WRITE WITH IMMEDIATE has to know the size of the messages, which it names. */
export function announcesWrites(method: PutMethod): boolean {
  const { plan } = METHOD_ROWS[method];
  return typeof plan !== "function" && plan.first === "write-immediate";
}

/** Where the method promises, for readers. */
export function promiseText(method: PutMethod): string {
  return PROMISES[METHOD_ROWS[method].promise].text;
}
