/**
 * Messages of shared regions on the bus between a host and its coherent RNIC (`coherence.md`, C-02). At
 * home they are the protocol's own: a {@link LineMessage} is a snoop, a request or a response of
 * {@link BUS_MESSAGES}. On a far host they are non-coherent (decision 2): a core's {@link FarAccess}, which
 * its card answers.
 */
import { type LineChange, WHOLE_LINE } from "./line_change.ts";
import type { Data, LOST } from "../roce/coherence_messages.ts";
import { FLIT_BYTES } from "./flit.ts";
import { LINE_BYTES } from "../../base/cache_line.ts";

/**
 * Messages on home's bus, as in QPI's and UPI's protocol layers. `Dirty` is the document's notice
 * [0060].
 */
export const BUS_MESSAGES = {
  // home card → host agent.
  RdData: { class: "request", carries: false },
  RdInvOwn: { class: "request", carries: false },
  WbMtoI: { class: "request", carries: true },
  WbMtoS: { class: "request", carries: true },
  WbMtoE: { class: "request", carries: true },
  BusFlush: { class: "request", carries: false },
  BusDirty: { class: "request", carries: false },
  // With data where the line was lent exclusively.
  RspI: { class: "response", carries: true },
  RspS: { class: "response", carries: true },
  // host agent → home card.
  GrantS: { class: "grant", carries: true },
  GrantE: { class: "grant", carries: true },
  Cmp: { class: "grant", carries: false },
  SnpInv: { class: "snoop", carries: false },
  SnpData: { class: "snoop", carries: false },
} as const;
/** A message on home's bus, by its name. */
export type BusKind = keyof typeof BUS_MESSAGES;

/** A message on home's bus, as the protocol's tables see it. */
export interface BusMessage {
  readonly kind: BusKind;
  readonly line: number;
  /** A line's content; in `Cmp` {@link LOST} if memory has poison, else nothing. */
  readonly data?: Data | undefined;
}

/** Its form on the bus, both ways: {@link BUS_MESSAGES} has the direction. */
export interface LineMessage {
  readonly kind: "line";
  readonly op: BusKind;
  /** Of the line's first byte, in home's memory. */
  readonly address: number;
  /** 64 B, or poison (decision 13), which a `Cmp` may have, too. */
  readonly data?: Uint8Array<ArrayBuffer> | typeof LOST;
}

/** `own` is a load that asks for ownership. */
export const FAR_OPS = ["load", "own", "store", "flush"] as const;
export type FarOp = typeof FAR_OPS[number];

export interface FarAccess {
  readonly kind: "far-access";
  readonly tag: number;
  /** Number of the region in the scenario's list. */
  readonly region: number;
  readonly line: number;
  readonly op: FarOp;
  readonly change?: LineChange;
  /** For `flush`: number of lines from `line` on; 1 by default (decision 8). */
  readonly lines?: number;
}

/**
 * `lost`: the line's content is gone (C-10). `fenced`: the lease is over; with or without an effect
 * (decision 13). `refused`: no effect, as the card does not know the region.
 */
export const FAR_RESULTS = ["done", "lost", "fenced", "refused"] as const;
export type FarResult = typeof FAR_RESULTS[number];

export interface FarAnswer {
  readonly kind: "far-answer";
  readonly tag: number;
  readonly result: FarResult;
  /** For a load: the line, 64 B. For an atomic: the line before it. */
  readonly data?: Uint8Array<ArrayBuffer>;
  /**
   * For a load of a region with `placement: remote`: home's card keeps the copies, and no {@link
   * FarInvalidate} will report a change.
   */
  readonly away?: true;
}

/**
 * The far card lost its copy: a core that waits for the line's change looks again (decision 19).
 */
export interface FarInvalidate {
  readonly kind: "far-invalidate";
  readonly region: number;
  readonly line: number;
}

export type RegionMessage = LineMessage | FarAccess | FarAnswer | FarInvalidate;

export function isRegionMessage<M extends { readonly kind: string }>(
  message: M | RegionMessage,
): message is RegionMessage {
  return message.kind === "line" || message.kind.startsWith("far-");
}

const HEADER = FLIT_BYTES, MASKED_HEADER = 3 * FLIT_BYTES, LINE = 8 * FLIT_BYTES;

/** CRC included. */
export function regionWireBytes(message: RegionMessage): number {
  switch (message.kind) {
    case "line":
    case "far-answer":
      return HEADER + (message.data === undefined ? 0 : LINE);
    case "far-access":
      return message.change === undefined ? HEADER : changeBytes(message.change);
    case "far-invalidate":
      return HEADER;
  }
}

/** A partial write and an atomic's operands have a byte mask. */
function changeBytes(change: LineChange): number {
  const isWhole = change.kind === "write" && change.mask === WHOLE_LINE;
  return (isWhole ? HEADER : MASKED_HEADER) + LINE;
}

/** The line's number as the protocol counts them. */
export function lineOf(address: number): number {
  return address / LINE_BYTES;
}

export function isBusKind(value: unknown): value is BusKind {
  return typeof value === "string" && Object.hasOwn(BUS_MESSAGES, value);
}
