/** Sizes that calls accept, for verbs, checks of arguments and `queryDevice`. */
import { QP_WEIGHT_MAX } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { MAX_INLINE_DATA, MAX_OBJECTS, MAX_SGE } from "../../../fabric/wire/host_bus/wqe.ts";
import { isWhole, type WholeRange, wholeText } from "../../../fabric/base/whole_number.ts";
import { verbError } from "./errors.ts";
import type { VerbError } from "./objects.ts";

export interface Limit extends WholeRange {
  /** `a number of work requests`. */
  readonly name: string;
}

/** Positions have 16 bits in completions. */
export const RING_UNITS_MAX = 1 << 16;
/** Shared by completion queues (`num_comp_vectors`). */
export const COMP_VECTORS = 64;

export const LIMITS = {
  completions: { name: "a number of completions", least: 1, most: 1 << 20 },
  /** One unit stays free; each request takes one. */
  requests: { name: "a number of work requests", least: 0, most: RING_UNITS_MAX - 1 },
  /** A shared queue's slots have 16 bits, and its ring is a power of two. */
  receives: { name: "a number of receives", least: 1, most: 2 ** 15 - 1 },
  elements: { name: "a number of elements (sge)", least: 0, most: MAX_SGE },
  sharedElements: { name: "a number of elements (sge)", least: 1, most: MAX_SGE },
  inlineBytes: { name: "a length in bytes", least: 0, most: MAX_INLINE_DATA },
  objects: { name: "a number of objects", least: 0, most: MAX_OBJECTS },
  weight: { name: "a weight", least: 1, most: QP_WEIGHT_MAX },
  vector: { name: "a vector's index", least: 0, most: COMP_VECTORS - 1 },
  /** Linux: `net.rdma_ucm.max_backlog`. */
  backlog: { name: "a number of connection requests", least: 0, most: 1024 },
} as const satisfies Readonly<Record<string, Limit>>;

/** `a number of completions, a whole number from 1 to 1048576`. */
export function limitText(limit: Limit): string {
  return `${limit.name}, ${wholeText(limit)}`;
}

/** EINVAL with the expectation for `field`. */
export function refuseBeyond(field: string, value: number, limit: Limit): VerbError | undefined {
  if (isWhole(value, limit)) return undefined;
  return verbError("EINVAL", `${field} is ${value}: expected ${limitText(limit)}`);
}
