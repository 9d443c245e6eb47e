/**
 * Headers of a verified write, and its response (`write-verify.md`, V-09; opcodes of `rocev2.md`
 * §2.3):
 *
 *     FIRST, ONLY   RETH VerifyETH …    the requested checks
 *     LAST, ONLY    … DigestETH data    the sender's CRC of the whole message's data
 *     READ RESPONSE ONLY with the PSN of the last packet, and {@link VerifyResult} as its payload
 *
 * A sender that streams its data knows the CRC only in the last packet, and a receiver needs it
 * only with the last byte (V-02: data that fails the check leaves memory unchanged).
 */
import { type HeaderOf, readFields, sizeOf, writeFields } from "../../base/fields.ts";
import { allocate, viewOf } from "../../base/slab.ts";

export const VERIFY_ETH_FIELDS = [
  /** A receiver can detect a later version. */
  ["version", 8],
  /** §2.3's algorithm word. */
  ["algorithm", 8],
  /** In {@link VERIFY_LEVELS} (V-04: the level belongs to the request, not to the connection). */
  ["level", 8],
  /** V-09. */
  ["persist", 1],
  ["reserved", 7],
] as const;
export type VerifyEth = HeaderOf<typeof VERIFY_ETH_FIELDS>;

export const VERIFY_VERSION = 1;
/** The CRC of Ethernet, zlib and the ICRC (`icrc.ts`), which RNICs implement already. */
export const VERIFY_ALGORITHM = { none: 0, crc32: 1 } as const;
/**
 * The checks of each level (V-04), which are names of the document's settings: CRC before the data
 * is written, and the read-back after it, with a direct comparison or by CRC. `read-back` is its
 * claim 2, which has no CRC at all, `crc-after` claim 3. A level's place is its number on the wire.
 */
const LEVEL_CHECKS = {
  none: { before: false, readBack: undefined },
  check: { before: true, readBack: undefined },
  verify: { before: true, readBack: "compare" },
  "verify-crc": { before: true, readBack: "crc" },
  "read-back": { before: false, readBack: "compare" },
  "crc-after": { before: false, readBack: "crc" },
} as const satisfies Readonly<Record<VerifyLevel, LevelChecks>>;

interface LevelChecks {
  readonly before: boolean;
  readonly readBack: "compare" | "crc" | undefined;
}

export const VERIFY_LEVELS = Object.keys(LEVEL_CHECKS) as readonly (keyof typeof LEVEL_CHECKS)[];
/** V-04: the checks of a verified write's receiver before it answers. */
export type VerifyLevel = "none" | "check" | "verify" | "verify-crc" | "read-back" | "crc-after";

export function checksOf(level: VerifyLevel): LevelChecks {
  return LEVEL_CHECKS[level];
}

/** V-03. */
export function readsBack(level: VerifyLevel): boolean {
  return LEVEL_CHECKS[level].readBack !== undefined;
}

/** Of the data, by the sender; else its field is 0 and ignored. */
export function algorithmOf(level: VerifyLevel): number {
  const { before, readBack } = LEVEL_CHECKS[level];
  return before || readBack === "crc" ? VERIFY_ALGORITHM.crc32 : VERIFY_ALGORITHM.none;
}

export function makeVerifyEth(
  { level, persist }: { readonly level: VerifyLevel; readonly persist: boolean },
): VerifyEth {
  return {
    version: VERIFY_VERSION,
    algorithm: algorithmOf(level),
    level: VERIFY_LEVELS.indexOf(level),
    persist,
    reserved: 0,
  };
}

export const DIGEST_ETH_FIELDS = [
  /** V-02; 0 and ignored where the algorithm is `none`. */
  ["crc", 32],
] as const;

/**
 * The request completion status of V-01. A NAK would end the queue pair, which a bad bit must not.
 */
const VERIFY_RESULT_FIELDS = [
  ["version", 8],
  /** Of {@link VERIFY_STATUS}. */
  ["status", 8],
  /** The executed checks, which V-05 allows to be fewer than requested. */
  ["checks", 8],
  ["reserved", 8],
  /**
   * The last CRC that the receiver computed: of the read-back data, else of the received data; 0 if
   * none.
   */
  ["crc", 32],
] as const;
export const VERIFY_RESULT_BYTES = sizeOf(VERIFY_RESULT_FIELDS);
export type VerifyResult = HeaderOf<typeof VERIFY_RESULT_FIELDS>;

/** V-01 to V-03. */
export const VERIFY_STATUS = {
  written: 0,
  "crc-mismatch": 1,
  "read-back-differs": 2,
  "read-failed": 3,
} as const satisfies Record<VerifyStatus, number>;
/**
 * V-02, V-03 (compared, by CRC), V-09; V-05: the read-back was skipped because of the sender's
 * history.
 */
export const VERIFY_CHECKS = {
  "crc-before": 1,
  compared: 2,
  "crc-after": 4,
  persisted: 8,
  skipped: 16,
} as const satisfies Record<VerifyCheck, number>;

/**
 * In bytes: the card buffers a message until the CRC at its end has arrived (V-02). A message of
 * level `none` may be longer.
 */
export const VERIFY_BYTES_MAX = 2 ** 20;

export function isVerifiable(level: VerifyLevel, bytes: number): boolean {
  return level === "none" || bytes <= VERIFY_BYTES_MAX;
}

export function encodeVerifyResult(result: VerifyResult): Uint8Array<ArrayBuffer> {
  const bytes = allocate(VERIFY_RESULT_BYTES);
  writeFields(VERIFY_RESULT_FIELDS, result, { view: viewOf(bytes), at: 0 });
  return bytes;
}

/** Undefined for another size, or an unknown version or status. */
export function decodeVerifyResult(payload: Uint8Array<ArrayBuffer>): VerifyResult | undefined {
  if (payload.length !== VERIFY_RESULT_BYTES) return undefined;
  const result = readFields(VERIFY_RESULT_FIELDS, { view: viewOf(payload), at: 0 });
  const isKnown = result.version === VERIFY_VERSION &&
    result.status <= VERIFY_STATUS["read-failed"];
  return isKnown ? result : undefined;
}

const VERDICT_PRESENT = 0x80, STATUS_BITS = 0x7f;

/** 16 bits of a completion; never 0, so that 0 means "no response". */
export function encodeVerdict({ status, checks }: Pick<VerifyResult, "status" | "checks">): number {
  return (checks << 8) | VERDICT_PRESENT | status;
}

/** The result of a verified write: the status of V-01 to V-03, and the executed checks. */
export interface VerifyVerdict {
  /** The result. */
  readonly status: VerifyStatus;
  /** The checks that were made. */
  readonly checks: readonly VerifyCheck[];
}
/** The data is written; it was not, as its CRC is wrong; memory differs from it; memory cannot be read. */
export type VerifyStatus = "written" | "crc-mismatch" | "read-back-differs" | "read-failed";
/** A check of a verified write; `skipped`: the read-back, because of the sender's history (V-05). */
export type VerifyCheck = "crc-before" | "compared" | "crc-after" | "persisted" | "skipped";

const STATUS_NAMES = Object.keys(VERIFY_STATUS) as VerifyStatus[];
const CHECK_NAMES = Object.keys(VERIFY_CHECKS) as VerifyCheck[];

/** Undefined where the 16 bits hold no response. */
export function decodeVerdict(bits: number): VerifyVerdict | undefined {
  const status = STATUS_NAMES[bits & STATUS_BITS];
  if ((bits & VERDICT_PRESENT) === 0 || status === undefined) return undefined;
  const checks = CHECK_NAMES.filter((name) => ((bits >>> 8) & VERIFY_CHECKS[name]) !== 0);
  return { status, checks };
}

/** `verify=verify-crc persist`. */
export function describeVerify({ level, persist }: VerifyEth): string {
  return `verify=${VERIFY_LEVELS[level] ?? level}${persist ? " persist" : ""}`;
}
