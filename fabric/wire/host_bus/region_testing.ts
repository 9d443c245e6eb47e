/** For tests only: arbitrary messages of shared regions. */
import fc from "fast-check";
import type { LineChange } from "./line_change.ts";
import {
  BUS_MESSAGES,
  type BusKind,
  FAR_OPS,
  FAR_RESULTS,
  type RegionMessage,
} from "./region_messages.ts";
import { LOST } from "../roce/coherence_messages.ts";

const count = fc.maxSafeNat();
const word = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const offset = fc.integer({ min: 0, max: 7 }).map((at) => at * 8);
export const lineBytes = fc.uint8Array({ minLength: 64, maxLength: 64 })
  .map((from) => new Uint8Array(from));
const content = fc.oneof(lineBytes, fc.constant(LOST));

/** As an object from elsewhere is: with the ordinary prototype. */
function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
}
const is = <T>(value: T): fc.Arbitrary<T> => fc.constant(value);

export const anyLineChange: fc.Arbitrary<LineChange> = fc.oneof(
  record<LineChange>({ kind: is("write"), mask: word, bytes: lineBytes }),
  record<LineChange>({ kind: is("add"), offset, operand: word }),
  record<LineChange>({ kind: is("compare-swap"), offset, compare: word, swap: word }),
);

const kinds = Object.keys(BUS_MESSAGES) as BusKind[];
const address = fc.integer({ min: 0, max: 2 ** 45 }).map((line) => line * 64);

export const anyRegionMessage: fc.Arbitrary<RegionMessage> = fc.oneof(
  record<RegionMessage>({ kind: is("line"), op: fc.constantFrom(...kinds), address }),
  record<RegionMessage>({
    kind: is("line"),
    op: fc.constantFrom(...kinds.filter((kind) => BUS_MESSAGES[kind].carries)),
    address,
    data: content,
  }),
  record<RegionMessage>({
    kind: is("far-access"),
    tag: count,
    region: count,
    line: count,
    op: fc.constantFrom(...FAR_OPS.filter((op) => op !== "store")),
  }),
  record<RegionMessage>({
    kind: is("far-access"),
    tag: count,
    region: count,
    line: count,
    op: is("store"),
    change: anyLineChange,
  }),
  record<RegionMessage>({
    kind: is("far-access"),
    tag: count,
    region: count,
    line: count,
    op: is("flush"),
    lines: fc.integer({ min: 1 }),
  }),
  record<RegionMessage>({ kind: is("line"), op: is("Cmp"), address, data: is(LOST) }),
  record<RegionMessage>({
    kind: is("far-answer"),
    tag: count,
    result: fc.constantFrom(...FAR_RESULTS),
  }),
  record<RegionMessage>({
    kind: is("far-answer"),
    tag: count,
    result: is("done"),
    data: lineBytes,
  }),
  record<RegionMessage>({
    kind: is("far-answer"),
    tag: count,
    result: is("done"),
    data: lineBytes,
    away: is(true),
  }),
  record<RegionMessage>({ kind: is("far-invalidate"), region: count, line: count }),
);
