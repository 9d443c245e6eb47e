/** The parts of a hint message (`hints.md`, H-03), in wire order. */
import { type HeaderOf, sizeOf } from "../../base/fields.ts";

export const HINT_ETH_FIELDS = [
  /** Distinguishes a hint from other datagrams (`rocev2.md` §2.3). */
  ["magic", 32],
  ["version", 8],
  ["type", 8],
  /**
   * Bits of {@link HINT_KINDS}: all kinds in the message (H-04), or the subject of an answer
   * (H-09).
   */
  ["kinds", 8],
  /** In {@link HINT_REASONS}, of a refusal (H-22). */
  ["reason", 8],
  /** The requester's: the answer repeats it, and it identifies duplicates (H-24). */
  ["sequence", 32],
  /** The requests wait for an answer (H-06, H-22). */
  ["answer", 1],
  ["reserved", 7],
  /** That follow. */
  ["groups", 8],
  /** Of the whole message, with this header: at most a packet's payload. */
  ["bytes", 16],
] as const;
export const HINT_ETH_BYTES = sizeOf(HINT_ETH_FIELDS);
export type HintEth = HeaderOf<typeof HINT_ETH_FIELDS>;

/** "hint". */
export const HINT_MAGIC = 0x6869_6e74;
export const HINT_VERSION = 1;
/**
 * The announcement; H-22's ACK and NAK, which name the message by its sequence: a NAK for each
 * reason, with the entries that it concerns, by operation and sequence; "answer" announces another
 * one. An ACK names the subjects of long needless hints (H-02): regions by an entry of no kinds
 * with their key, in the group of a queue pair that announced them; a queue pair by a group without
 * entries. H-09: the kinds that the responder wants, with an entry for each whose requests should
 * wait (H-06), its length that time in ns. Its reason is `not-wanted` while the responder remembers
 * a needless subject; its groups then also name, likewise, subjects whose requests have come
 * without a hint since.
 */
export const HINT_TYPES = ["announce", "prepared", "refused", "wanted"] as const;
/** A message of hints is an announcement, or an answer to one. */
export type HintType = "announce" | "prepared" | "refused" | "wanted";
/** H-04: pages, RNIC cache, an atomic's operand; H-21: receive buffers for untagged messages. */
export const HINT_KINDS = { prefetch: 1, warmUp: 2, atomic: 4, receive: 8 } as const;
/**
 * H-07: an operation code of its own, behind another packet's headers, behind its payload, or the
 * flag of a READ or WRITE of no bytes.
 */
export const HINT_ENCODINGS = ["opcode", "header", "payload", "flagged"] as const;
/** H-07: where in a packet a hint is. */
export type HintEncoding = "opcode" | "header" | "payload" | "flagged";
/**
 * H-22, H-24: refusal (not wanted), inability (quota), error (the preparation failed). If the key
 * check fails the answer is "no-access", whatever the reason: it discloses nothing of the
 * responder's memory.
 */
export const HINT_REASONS = [
  "none",
  "not-wanted",
  "quota",
  "no-access",
  "unknown-qp",
  "error",
] as const satisfies readonly HintReason[];
/** The reason why an entry is not prepared for. */
export type HintReason = "none" | "not-wanted" | "quota" | "no-access" | "unknown-qp" | "error";

/**
 * By the numbers of both ends: members of a group also receive hints for other members (H-08,
 * figure 9), and responders may use equal numbers. Without entries: a request to warm up its
 * context.
 */
export const HINT_GROUP_FIELDS = [
  /** At the responder. */
  ["destQpn", 24],
  /** That follow: the document's batches are of up to 64 (H-02). */
  ["entries", 8],
  /** At the requester, whose address is the packet's source. */
  ["sourceQpn", 24],
  ["reserved", 8],
] as const;
export const HINT_GROUP_BYTES = sizeOf(HINT_GROUP_FIELDS);

/** A waiting work element (H-01, H-03). */
export const HINT_ENTRY_FIELDS = [
  ["kinds", 8],
  /**
   * Operand data follows [0086]: an atomic's {@link HINT_OPERANDS_FIELDS} ahead of the HintObjects;
   * a READ's or WRITE's {@link HINT_PART_FIELDS} behind each of them.
   */
  ["operands", 1],
  ["operation", 7],
  /** Coming messages of this kind: for untagged ones the count (H-03), up to a queue's depth. */
  ["messages", 16],
  /** That follow. */
  ["objects", 8],
  /** H-03's sequence id: the PSN of the first message. */
  ["sequence", 24],
  /** As in the coming RETH; 0 for an untagged message. */
  ["rkey", 32],
  ["length", 32],
  ["va", 64],
] as const;
export const HINT_ENTRY_BYTES = sizeOf(HINT_ENTRY_FIELDS);

/** H-01. */
export const HINT_OPERATIONS = ["read", "write", "send", "fetch-add", "compare-swap"] as const;
/** H-01: the operation that an entry announces. */
export type HintOperation = "read" | "write" | "send" | "fetch-add" | "compare-swap";

/** As in the coming AtomicETH: the responder uses only the latter (H-24). */
export const HINT_OPERANDS_FIELDS = [
  ["swapAdd", 64],
  ["compare", 64],
] as const;
export const HINT_OPERANDS_BYTES = sizeOf(HINT_OPERANDS_FIELDS);
/** `swapAdd` and `compare` of the coming atomic. */
export type HintOperands = HeaderOf<typeof HINT_OPERANDS_FIELDS>;
export const HINT_ATOMICS: ReadonlySet<HintOperation> = new Set(["fetch-add", "compare-swap"]);

/** A data transfer object (H-01), by the application's name. */
export const HINT_OBJECT_FIELDS = [
  ["identity", 64],
] as const;
export const HINT_OBJECT_BYTES = sizeOf(HINT_OBJECT_FIELDS);

/**
 * The part of an object that a READ or WRITE works on, in bytes; bytes outside of the object do not
 * count.
 */
export const HINT_PART_FIELDS = [
  ["offset", 32],
  ["length", 32],
] as const;
export const HINT_PART_BYTES = sizeOf(HINT_PART_FIELDS);
/** The part of an object that the operation works on: `offset` and `length`. */
export type HintPart = HeaderOf<typeof HINT_PART_FIELDS>;

/** The last bytes of a packet whose payload ends with a hint. */
export const HINT_TRAILER_FIELDS = [
  /** HintETH's value, so without this trailer. */
  ["bytes", 16],
  ["reserved", 16],
] as const;
export const HINT_TRAILER_BYTES = sizeOf(HINT_TRAILER_FIELDS);
