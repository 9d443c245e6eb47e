/**
 * Messages between coherent RNICs (`coherence.md`): bus messages of one computer, forwarded to the
 * other (C-02) on an RC queue pair (`rocev2.md` §2.3). *Home* is the card of the computer that owns
 * the memory (the document's local one), *far* the other. The opcode is the message's class, as on
 * the bus; the command is the message itself. Data, a cache line or part of one, is payload.
 *
 * For the transport each message is a request, with a PSN and an ACK 0x11 of its own: a response
 * may take as long as a CPU does, and both ends send requests. {@link CoherenceEth.transaction}
 * matches responses with requests.
 */
import { type HeaderOf, sizeOf } from "../../base/fields.ts";

export const COHERENCE_ETH_FIELDS = [
  ["version", 8],
  /** Index in {@link COHERENCE_COMMANDS}, within the opcode's class. */
  ["command", 8],
  /**
   * Index in {@link COHERENCE_STATES} (C-05). REQUEST, SNOOP: the future state of the sender, or
   * the state that it requests of the receiver. RESPONSE: the state that is granted or left.
   */
  ["state", 2],
  /**
   * The sender's belief: the region's copy is in the far card's remote cache, else in home's local
   * cache. A message that crossed a move of the copy (C-04) has the wrong value; the receiver
   * rejects it for a retry (C-09).
   */
  ["far", 1],
  ["reserved", 5],
  /** One of {@link COHERENCE_STATUS}; 0 except in a RESPONSE. */
  ["status", 8],
  /**
   * The special memory region (C-03), by a key as wide as an rkey, as it grants the same rights.
   */
  ["region", 32],
  /**
   * The requester's number for the request, returned in the response: one outstanding request per
   * line.
   */
  ["transaction", 32],
  /** Bytes that are requested or sent, within a line; for `register`, the region's size. */
  ["length", 32],
  /** Address of the first byte, in the home computer's address space: as wide as a RETH's. */
  ["address", 64],
] as const;
export const COHERENCE_ETH_BYTES = sizeOf(COHERENCE_ETH_FIELDS);
export type CoherenceEth = HeaderOf<typeof COHERENCE_ETH_FIELDS>;

export const COHERENCE_VERSION = 1;
export const COHERENCE_STATES = ["invalid", "shared", "exclusive", "modified"] as const;
export type CoherenceState = typeof COHERENCE_STATES[number];
/** `retry`: it crossed another change. `refused`: no such region. `lost`: data in M is gone (C-10). */
const COHERENCE_STATUS = { ok: 0, retry: 1, refused: 2, lost: 3 } as const;
/** Bytes of a cache line, the unit of {@link COHERENCE_STATES}. */
export const COHERENCE_LINE_BYTES = 64;

export type CoherenceClass = "coherence-request" | "coherence-snoop" | "coherence-response";

/**
 * Commands of each class, in the order of their codes.
 *
 * REQUEST: `register` and `deregister` a region (C-03); `read` a copy in state S, `own` one in
 * state E, `upgrade` S to E without data (C-06, C-07; `state` has the same value); `write` and
 * `write-back` with data as payload (C-06; C-09: data in M is not lost); `modified`: E has become M
 * (C-07); `move` the copy to the card that `far` names (C-04).
 * SNOOP: `change` the line to `state`, as home's CPU does (C-08); `report` its state, for a card
 * that has lost its directory (C-10).
 * RESPONSE: `data` as payload, or `done` without (C-06: "write done").
 */
export const COHERENCE_COMMANDS = {
  "coherence-request": [
    "register",
    "deregister",
    "read",
    "own",
    "upgrade",
    "write",
    "write-back",
    "modified",
    "move",
  ],
  "coherence-snoop": ["change", "report"],
  "coherence-response": ["done", "data"],
} as const satisfies Readonly<Record<CoherenceClass, readonly string[]>>;

/** `own state=exclusive far va=0x7f0000000040 region=0x55aa len=64 transaction=9`. */
export function describeCoherence(header: CoherenceEth, operation: string): string {
  const commands: readonly string[] = COHERENCE_COMMANDS[operation as CoherenceClass] ?? [];
  const status = Object.entries(COHERENCE_STATUS).find(([, code]) => code === header.status)?.[0];
  return [
    commands[header.command] ?? `command=${header.command}`,
    ...(header.status === 0 ? [] : [status ?? `status=${header.status}`]),
    `state=${COHERENCE_STATES[header.state]}`,
    header.far ? "far" : "home",
    `va=0x${header.address.toString(16)}`,
    `region=0x${header.region.toString(16)}`,
    `len=${header.length}`,
    `transaction=${header.transaction}`,
  ].join(" ");
}
