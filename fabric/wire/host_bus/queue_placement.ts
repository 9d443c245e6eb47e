/**
 * The place of each field of a queue's information: a table of fields, a table of
 * placement rules, and {@link layOut}, from which driver, RNIC and memory take every address. A
 * field is written by the side that its space permits:
 *
 *   space 1  RNIC reads and writes, host reads
 *   space 2  RNIC reads, host writes through the RNIC or under its lock
 *   space 3  host writes, RNIC reads
 */
import { allocate, viewOf } from "../../base/slab.ts";

export type QueueKind = "sq" | "rq" | "cq" | "srq";
const KINDS: readonly QueueKind[] = ["sq", "rq", "cq", "srq"];
const STATES = ["reset", "init", "rtr", "rts", "sqd", "sqe", "err"] as const;
export type QueueState = typeof STATES[number];

export interface QueueFields {
  /** Physical address of the first unit. */
  readonly wqeAddress: number;
  readonly indexAddress: number;
  readonly kind: QueueKind;
  readonly state: QueueState;
  readonly valid: boolean;
  readonly owner: number;
  /** Read pointer; in a completion queue the write pointer. */
  readonly rnicPointer: number;
  /** Units, a power of two. */
  readonly depth: number;
  readonly unitBytes: number;
  /** Write pointer; in a completion queue the read pointer. */
  readonly hostPointer: number;
  /** When the host stored its pointer, in ps; 0: never. */
  readonly stamp: number;
}

export type QueueField = keyof QueueFields;

interface Form<T> {
  readonly bytes: 1 | 4 | 8;
  readonly put: (view: DataView, at: number, value: T) => void;
  readonly get: (view: DataView, at: number) => T;
}

const word: Form<number> = {
  bytes: 4,
  put: (view, at, value) => view.setUint32(at, value),
  get: (view, at) => view.getUint32(at),
};
const long: Form<number> = {
  bytes: 8,
  put: (view, at, value) => view.setBigUint64(at, BigInt(value)),
  get: (view, at) => Number(view.getBigUint64(at)),
};

function listed<T>(values: readonly T[], otherwise: T): Form<T> {
  return {
    bytes: 1,
    put: (view, at, value) => view.setUint8(at, values.indexOf(value)),
    get: (view, at) => values[view.getUint8(at)] ?? otherwise,
  };
}

const FORMS: { readonly [F in QueueField]: Form<QueueFields[F]> } = {
  wqeAddress: long,
  indexAddress: long,
  kind: listed(KINDS, "sq"),
  state: listed(STATES, "err"),
  valid: listed([false, true], false),
  owner: word,
  rnicPointer: word,
  depth: word,
  unitBytes: word,
  hostPointer: word,
  stamp: long,
};

export const QUEUE_FIELDS = Object.keys(FORMS) as readonly QueueField[];

export type Space = 1 | 2 | 3;
export const SPACES: readonly Space[] = [1, 2, 3];
/** */
export type Placement = Readonly<Record<QueueField, Space>>;

/**
 * The spaces in which a rule may place a field, the default first:
 *
 * - `kind`, `state`, `valid` and `owner` are the RNIC's findings: the host may not change them.
 * - Addresses, depth and unit change only while the RNIC is not using them. The firmware moves no
 *   ring, so addresses may lie in space 1.
 * - The RNIC moves its pointer at any time: no lock of the host may stand in its way.
 * - The host stores its pointer and time at every post: it may not need the RNIC for that.
 */
export const PLACEABLE: Readonly<Record<QueueField, readonly Space[]>> = {
  wqeAddress: [1, 2],
  indexAddress: [1, 2],
  kind: [1],
  state: [1],
  valid: [1],
  owner: [1],
  rnicPointer: [1, 3],
  depth: [2, 1],
  unitBytes: [2, 1],
  hostPointer: [3],
  stamp: [3],
};

const DEFAULT_PLACEMENT = Object.fromEntries(
  QUEUE_FIELDS.map((field) => [field, PLACEABLE[field][0]!]),
) as Placement;

/** The document's rules. In the last one the RNIC may write the one word that it moves. */
export const PLACEMENTS = {
  /** By the side that may change the field, and whether a change disturbs the RNIC. */
  "default": DEFAULT_PLACEMENT,
  /** Only the host's pointer in space 3: equal to the default rule. */
  "pointer-in-3": DEFAULT_PLACEMENT,
  "both-in-3": { ...DEFAULT_PLACEMENT, rnicPointer: 3 },
} as const satisfies Readonly<Record<string, Placement>>;
export type PlacementName = keyof typeof PLACEMENTS;

const GRAIN_BYTES = 16;

/** Without addresses. */
export interface StoreLayout {
  readonly placement: Placement;
  /** `areas`: each space has its own area; `record`: a queue's three parts lie together. */
  readonly layout: "areas" | "record";
  /** R1, R2, R3 of one queue; 0 for an empty space. */
  readonly bytes: Readonly<Record<Space, number>>;
  readonly stride: Readonly<Record<Space, number>>;
  readonly offsets: Readonly<Record<QueueField, number>>;
}

export function layOut(placement: Placement, layout: "areas" | "record"): StoreLayout {
  const bytes = { 1: 0, 2: 0, 3: 0 };
  const offsets = {} as Record<QueueField, number>;
  for (const field of QUEUE_FIELDS) {
    const space = placement[field], size = FORMS[field].bytes;
    offsets[field] = Math.ceil(bytes[space] / size) * size;
    bytes[space] = offsets[field] + size;
  }
  for (const space of SPACES) bytes[space] = Math.ceil(bytes[space] / GRAIN_BYTES) * GRAIN_BYTES;
  const record = recordBytes({ bytes });
  const stride = layout === "areas" ? { ...bytes } : { 1: record, 2: record, 3: record };
  return { placement, layout, bytes, stride, offsets };
}

export function recordBytes({ bytes }: Pick<StoreLayout, "bytes">): number {
  return bytes[1] + bytes[2] + bytes[3];
}

export interface SpaceBases {
  readonly space1: number;
  readonly space2: number;
  readonly space3: number;
}

export function entryAddress(
  store: StoreLayout,
  bases: SpaceBases,
  { queue, space }: { readonly queue: number; readonly space: Space },
): number {
  return bases[`space${space}`] + queue * store.stride[space];
}

export function storeRanges(
  store: StoreLayout,
  bases: SpaceBases,
  queues: number,
): { readonly from: number; readonly end: number }[] {
  if (store.layout === "record") {
    return [{ from: bases.space1, end: bases.space1 + queues * recordBytes(store) }];
  }
  return SPACES.map((space) => {
    const from = bases[`space${space}`];
    return { from, end: from + queues * store.bytes[space] };
  });
}

export function fieldAddress(
  store: StoreLayout,
  bases: SpaceBases,
  { queue, field }: { readonly queue: number; readonly field: QueueField },
): number {
  return entryAddress(store, bases, { queue, space: store.placement[field] }) +
    store.offsets[field];
}

export function encodeEntry(
  store: StoreLayout,
  space: Space,
  values: Partial<QueueFields>,
): Uint8Array<ArrayBuffer> {
  const bytes = allocate(store.bytes[space]);
  const view = viewOf(bytes);
  for (const field of QUEUE_FIELDS) {
    if (store.placement[field] !== space || values[field] === undefined) continue;
    put(view, store.offsets[field], field, values[field]);
  }
  return bytes;
}

export function encodeField<F extends QueueField>(
  field: F,
  value: QueueFields[F],
): Uint8Array<ArrayBuffer> {
  const bytes = allocate(FORMS[field].bytes);
  FORMS[field].put(viewOf(bytes), 0, value);
  return bytes;
}

function put(view: DataView, at: number, field: QueueField, value: unknown): void {
  (FORMS[field] as Form<unknown>).put(view, at, value);
}

export function decodeEntry(
  store: StoreLayout,
  space: Space,
  bytes: Uint8Array,
): Partial<QueueFields> {
  const view = viewOf(bytes);
  const found: Record<string, unknown> = {};
  for (const field of QUEUE_FIELDS) {
    if (store.placement[field] === space) {
      found[field] = FORMS[field].get(view, store.offsets[field]);
    }
  }
  return found;
}

export function decodeField<F extends QueueField>(field: F, bytes: Uint8Array): QueueFields[F] {
  return FORMS[field].get(viewOf(bytes), 0);
}

export function fieldBytes(field: QueueField): number {
  return FORMS[field].bytes;
}
