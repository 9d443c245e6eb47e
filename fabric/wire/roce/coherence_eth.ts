/**
 * The header of messages between coherent RNICs (`coherence.md`, `coherence_protocol.md`), on three
 * RC queue pairs per pair of cards, one for each class (decision 8). The opcode is the class, the
 * command the message. {@link FORMS} derives fields and payloads from the command;
 * `card_message.ts` makes messages of them.
 *
 * *Home* is the card of the computer that owns the memory (the document's local one), *far* the
 * other.
 *
 * For the transport each message is a request, with a PSN and an ACK 0x11 of its own: an answer may
 * take as long as a CPU does, and both ends send. An answer is matched by its command, line and the
 * cards' lives.
 *
 * Credits bound the messages of a pair of cards: as many requests as home has slots for the far
 * card, at most one snoop and one answer for each, none longer than 72 B. So a pair needs neither
 * ECN nor a rate limiter; on RoCEv1 the scenario may add PFC (decision 8), which also stops snoops
 * and answers behind a paused request. That cannot deadlock, as a response always sinks at its
 * receiver, but a lease must be longer than pauses.
 */
import type { Field, HeaderOf } from "../../base/fields.ts";

export const COHERENCE_ETH_FIELDS = [
  ["version", 8],
  ["command", 8],
  /** In {@link COHERENCE_STATES} (C-05): asked for, granted or left. */
  ["state", 3],
  /**
   * `remote` and `placementVersion` give the place of the region's copy, as the sender knows it
   * (decision 18).
   */
  ["placed", 1],
  /** In the far card's remote cache, else in home's local cache. */
  ["remote", 1],
  ["change", 2],
  /** `stamp` is valid: the lease's renewal, which rides on any message (decision 13). */
  ["stamped", 1],
  ["status", 8],
  /**
   * The special memory region (C-03), by a key as wide as an rkey, as it grants the same rights.
   */
  ["region", 32],
  /** In a greeting: the sender's first queue pair number. Else 0. */
  ["transaction", 32],
  /**
   * The far card's life, as the sender knows it: messages of an earlier one change nothing
   * (decision 14).
   */
  ["life", 32],
  /** 0 if the far card does not know it. */
  ["homeLife", 32],
  /** Number of the copy's moves. */
  ["placementVersion", 32],
  /** The far card, by its number in home's directory; 0, home's local cache, is on no wire. */
  ["agent", 8],
  /** An atomic's first byte within the line. */
  ["offset", 8],
  /** From `address` on: 1; more for a flush of a range; 0 for a message about none. */
  ["lines", 16],
  /** The line's first byte, in home's address space. */
  ["address", 64],
  /** The far card's clock, in ps, at its sending of the renewal; home returns it. */
  ["stamp", 64],
] as const;
export type CoherenceEth = HeaderOf<typeof COHERENCE_ETH_FIELDS>;

/**
 * Hand-written for speed, as coherent cards send little else; `headers_test.ts` compares it with
 * the table.
 */
export function readCoherenceEth(view: DataView, at: number): CoherenceEth {
  const bits = view.getUint8(at + 2), counts = view.getUint32(at + 24);
  return {
    version: view.getUint8(at),
    command: view.getUint8(at + 1),
    state: bits >> 5,
    placed: (bits & 0x10) !== 0,
    remote: (bits & 0x08) !== 0,
    change: (bits >> 1) & 3,
    stamped: (bits & 1) !== 0,
    status: view.getUint8(at + 3),
    region: view.getUint32(at + 4),
    transaction: view.getUint32(at + 8),
    life: view.getUint32(at + 12),
    homeLife: view.getUint32(at + 16),
    placementVersion: view.getUint32(at + 20),
    agent: counts >>> 24,
    offset: (counts >>> 16) & 0xff,
    lines: counts & 0xffff,
    address: view.getBigUint64(at + 28),
    stamp: view.getBigUint64(at + 36),
  };
}

/** The encoder of messages has checked the values' widths. */
export function writeCoherenceEth(view: DataView, at: number, header: CoherenceEth): void {
  const { state, placed, remote, change, stamped, agent, offset, lines } = header;
  view.setUint8(at, header.version);
  view.setUint8(at + 1, header.command);
  view.setUint8(
    at + 2,
    (state << 5) | (placed ? 0x10 : 0) | (remote ? 0x08 : 0) | (change << 1) | (stamped ? 1 : 0),
  );
  view.setUint8(at + 3, header.status);
  view.setUint32(at + 4, header.region);
  view.setUint32(at + 8, header.transaction);
  view.setUint32(at + 12, header.life);
  view.setUint32(at + 16, header.homeLife);
  view.setUint32(at + 20, header.placementVersion);
  view.setUint8(at + 24, agent);
  view.setUint8(at + 25, offset);
  view.setUint16(at + 26, lines);
  view.setBigUint64(at + 28, header.address);
  view.setBigUint64(at + 36, header.stamp);
}

export const COHERENCE_VERSION = 2;
export const COHERENCE_STATES = ["none", "invalid", "shared", "exclusive", "modified"] as const;
export type CoherenceState = typeof COHERENCE_STATES[number];
/**
 * `lost`: the line's last value is gone, and there is no data (decision 13). `refused`: no such
 * region.
 */
export const COHERENCE_STATUS = ["ok", "lost", "refused"] as const;
/** `write`: bytes by a mask. Atomics are done where E or M is (decision 15). */
export const COHERENCE_CHANGES = ["none", "write", "add", "compare-swap"] as const;

export type CoherenceClass = "coherence-request" | "coherence-snoop" | "coherence-response";

/** Commands of each class, in the order of their codes; `coherence_messages.ts` has what each carries. */
export const COHERENCE_COMMANDS = {
  "coherence-request": [
    "GetS",
    "GetM",
    "Put",
    "Flush",
    "Read",
    "Write",
    "Hello",
    "Register",
    "Deregister",
    "FlushRange",
  ],
  "coherence-snoop": ["Inv", "RecI", "RecS"],
  "coherence-response": [
    "DataS",
    "DataE",
    "WbAck",
    "FlushAck",
    "Retry",
    "Value",
    "Welcome",
    "InvAck",
    "RecIData",
    "RecSData",
    "Complete",
    "Dirty",
    "Registered",
    "Deregistered",
    "Renew",
    "Renewed",
    "Counts",
  ],
} as const satisfies Readonly<Record<CoherenceClass, readonly string[]>>;
export type CoherenceCommand = typeof COHERENCE_COMMANDS[CoherenceClass][number];

/** The class and the code of each command. */
export const COHERENCE_CODES = Object.fromEntries(
  (Object.keys(COHERENCE_COMMANDS) as CoherenceClass[]).flatMap((operation) =>
    COHERENCE_COMMANDS[operation].map((kind, command) => [kind, { operation, command }])
  ),
) as Readonly<
  Record<CoherenceCommand, { readonly operation: CoherenceClass; readonly command: number }>
>;

/** Payload fields before a line's bytes, or alone. */
export const COHERENCE_PAYLOAD_FIELDS = {
  /** Bit n stands for byte n of the line, which follows. */
  coherenceMask: [["mask", 64]],
  coherenceAdd: [["operand", 64]],
  coherenceSwap: [["compare", 64], ["swap", 64]],
  coherenceRegion: [["bytes", 64]],
  coherenceCounts: [["loads", 32], ["stores", 32], ["hits", 32]],
} as const satisfies Readonly<Record<string, readonly Field[]>>;
export type CoherencePayload = keyof typeof COHERENCE_PAYLOAD_FIELDS;

interface CoherenceForm {
  readonly state: CoherenceState;
  /** `line`: always, unless it is lost. */
  readonly data: "line" | "maybe" | "none";
  readonly placed: "always" | "maybe" | "never";
  readonly lines: "none" | "one" | "some";
  readonly payload?: CoherencePayload | "change";
}

const LINE: CoherenceForm = { state: "none", data: "none", placed: "never", lines: "one" };
const NO_LINE: CoherenceForm = { ...LINE, lines: "none" };

export const FORMS: Readonly<Record<CoherenceCommand, CoherenceForm>> = {
  // far card → home card.
  // "State by the far request's type (exclusive → E, shared → S)" [C-06]: the request says which it wants.
  GetS: { ...LINE, state: "shared", placed: "always" },
  GetM: { ...LINE, state: "exclusive", placed: "always" },
  // A line in E or M is invalid at the sender from here on.
  Put: { ...LINE, state: "invalid", data: "line" },
  Flush: LINE,
  // With a local placement the far card keeps no copy, so no state is asked for (C-06).
  Read: { ...LINE, placed: "always" },
  Write: { ...LINE, placed: "always", payload: "change" },
  // A new life begins (decision 14).
  Hello: NO_LINE,
  Register: { ...NO_LINE, payload: "coherenceRegion" },
  // Also home card → far card: home takes the region back. The far card answers with its own, when it has left.
  Deregister: NO_LINE,
  // Answered by one `FlushAck` (decision 8).
  FlushRange: { ...LINE, lines: "some" },

  // home card → far card.
  Inv: { ...LINE, state: "invalid" },
  RecI: { ...LINE, state: "invalid" },
  RecS: { ...LINE, state: "shared" },

  DataS: { ...LINE, state: "shared", data: "line" },
  DataE: { ...LINE, state: "exclusive", data: "line" },
  WbAck: { ...LINE, state: "invalid" },
  // Of one line or of a range; with a status where bytes are lost.
  FlushAck: { ...LINE, data: "maybe", lines: "some" },
  Retry: { ...LINE, placed: "always" },
  // "Read data, or a write-done" [C-06]: the latter has no bytes, except an atomic's old value.
  Value: { ...LINE, data: "maybe" },
  Welcome: { ...NO_LINE, placed: "maybe" },
  // far card → home card, answers. `RecIData` leaves I behind, `RecSData` leaves S.
  InvAck: { ...LINE, state: "invalid" },
  RecIData: { ...LINE, state: "invalid", data: "line" },
  RecSData: { ...LINE, state: "shared", data: "line" },
  Complete: LINE,
  // "A write in E makes it M and a message notifies" [C-07].
  Dirty: { ...LINE, state: "modified" },
  // home card → far card.
  Registered: { ...LINE, placed: "always", payload: "coherenceRegion" },
  Deregistered: NO_LINE,
  // far card → home card, notices that need no slot: of the lease (decision 13), of a region's use (decision 17).
  // `Renewed`: home has heard the stamp, which no other message carries.
  Renew: NO_LINE,
  Renewed: NO_LINE,
  Counts: { ...NO_LINE, payload: "coherenceCounts" },
};

export function coherencePayloadName(
  kind: CoherenceCommand,
  change: number,
): CoherencePayload | undefined {
  const { payload } = FORMS[kind];
  if (payload !== "change") return payload;
  return ([undefined, "coherenceMask", "coherenceAdd", "coherenceSwap"] as const)[change];
}

/** Undefined for an unknown code. */
export function coherenceCommand(operation: string, code: number): CoherenceCommand | undefined {
  const commands: readonly CoherenceCommand[] | undefined =
    COHERENCE_COMMANDS[operation as CoherenceClass];
  return commands?.[code];
}

/** `GetM state=exclusive remote v3 line=0x7f0000000040 region=0x55aa agent=1 life=0 transaction=9`. */
export function describeCoherence(header: CoherenceEth, operation: string): string {
  const { command, state, status, change, lines } = header;
  const place = header.remote ? "remote" : "local";
  return [
    coherenceCommand(operation, command) ?? `command=${command}`,
    ...(change === 0 ? [] : [COHERENCE_CHANGES[change]]),
    ...(change < 2 ? [] : [`offset=${header.offset}`]),
    ...(status === 0 ? [] : [COHERENCE_STATUS[status] ?? `status=${status}`]),
    ...(state === 0 ? [] : [`state=${COHERENCE_STATES[state] ?? state}`]),
    ...(header.placed ? [`${place} v${header.placementVersion}`] : []),
    ...(lines === 0 ? [] : [`line=0x${header.address.toString(16)}`]),
    ...(lines < 2 ? [] : [`lines=${lines}`]),
    `region=0x${header.region.toString(16)}`,
    `agent=${header.agent}`,
    `life=${header.life}`,
    ...(header.homeLife === 0 ? [] : [`homeLife=${header.homeLife}`]),
    ...(header.stamped ? [`stamp=${header.stamp}`] : []),
    `transaction=${header.transaction}`,
  ].join(" ");
}
