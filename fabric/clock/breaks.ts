/**
 * Breaks: conditions at which a running rack stops. A break is a step of a ladder (`S907`, `qp-err`),
 * on one device or on any, for the first time or a later one.
 */
import type { Time } from "../base/time.ts";

/** Stop when a device does this. */
export interface Break {
  /** Name of a trace step: the document's number or a verb. */
  readonly step: string;
  /** The device; absent: any. */
  readonly node?: string;
  /** The how-many-th time since the order, on any of the devices together. Default: 1. */
  readonly count?: number;
}

/** A break was hit: the exact event. Several breaks may be hit at one instant. */
export interface BreakHit {
  /** Place in the order's list of breaks. */
  readonly break: number;
  readonly node: string;
  readonly step: string;
  readonly atPs: Time;
  /** How often it had happened by then, this one included. */
  readonly count: number;
}
