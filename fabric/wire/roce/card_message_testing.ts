/** For tests only: any message between coherent cards, with what its packet says beside it. */
import fc from "fast-check";
import {
  type CardMessage,
  type ControlMessage,
  isControlKind,
  LOST,
  type WireKind,
} from "./coherence_messages.ts";
import { type LineChange, WHOLE_LINE } from "../host_bus/line_change.ts";
import { LINE_BYTES } from "../../base/cache_line.ts";
import { COHERENCE_COMMANDS, FORMS } from "./coherence_eth.ts";
import type { CardContext } from "./card_message.ts";

const u32 = fc.oneof(fc.nat(9), fc.nat().map((n) => (2 * n + 1) % 2 ** 32));
const u64 = fc.bigInt(0n, (1n << 64n) - 1n);
const line = fc.oneof(fc.nat(9), fc.constant(2 ** 46 - 1), fc.maxSafeNat().map((n) => n % 2 ** 46));
const lineBytes = fc.uint8Array({
  minLength: LINE_BYTES,
  maxLength: LINE_BYTES,
}).map((bytes) => new Uint8Array(bytes));
const placement = fc.record({
  place: fc.constantFrom("local" as const, "remote" as const),
  version: u32,
}, { noNullPrototype: true });
const pair = { agent: fc.integer({ min: 1, max: 255 }), life: u32, homeLife: u32 };

const offset = fc.nat(7).map((index) => index * 8);
const change: fc.Arbitrary<LineChange> = fc.oneof(
  fc.record({
    kind: fc.constant("write" as const),
    mask: fc.oneof(u64, fc.constant(WHOLE_LINE)),
    bytes: lineBytes,
  }, { noNullPrototype: true }),
  fc.record({ kind: fc.constant("add" as const), offset, operand: u64 }, { noNullPrototype: true }),
  fc.record(
    { kind: fc.constant("compare-swap" as const), offset, compare: u64, swap: u64 },
    { noNullPrototype: true },
  ),
);

const absent = fc.constant(undefined);
const counts = fc.record({ loads: u32, stores: u32, hits: u32 }, { noNullPrototype: true });

/** A member that is there or not, as the row of the kind says; `undefined` members are left out afterwards. */
function member<T>(rule: "always" | "maybe" | "never", values: fc.Arbitrary<T>) {
  return rule === "always" ? values : rule === "never" ? absent : fc.option(values, {
    nil: undefined,
  });
}

function withoutUndefined<T extends object>(message: T): T {
  return Object.fromEntries(
    Object.entries(message).filter(([, value]) => value !== undefined),
  ) as T;
}

const wireKinds = Object.values(COHERENCE_COMMANDS).flat().filter((kind): kind is WireKind =>
  !isControlKind(kind)
);
const DATA = { line: "always", maybe: "maybe", none: "never" } as const;

function wireMessage(kind: WireKind, region: number): fc.Arbitrary<CardMessage> {
  const { data, placed } = FORMS[kind];
  const content = fc.oneof(lineBytes, fc.constant(LOST));
  return fc.record({
    kind: fc.constant(kind),
    line: kind === "FlushRange" || kind === "FlushAck"
      ? line.map((n) => Math.min(n, 2 ** 46 - 2 ** 16))
      : FORMS[kind].lines === "none" && !/Hello|Welcome/.test(kind)
      ? fc.constant(0)
      : line,
    ...pair,
    stamp: fc.option(fc.maxSafeNat(), { nil: undefined }),
    lines: kind === "FlushRange"
      ? fc.integer({ min: 1, max: 0xffff })
      : kind === "FlushAck"
      ? fc.option(fc.integer({ min: 2, max: 0xffff }), { nil: undefined })
      : absent,
    counts: kind === "Counts" ? counts : absent,
    data: member(DATA[data], content),
    change: kind === "Write" ? change : absent,
    placement: member(placed, placement),
  }, { noNullPrototype: true }).map((message) =>
    withoutUndefined({
      ...message,
      region: kind === "Counts" || (message.placement && /Retry|Welcome/.test(kind))
        ? region
        : undefined,
    }) as CardMessage
  );
}

const bytes = fc.maxSafeNat();
const control: fc.Arbitrary<ControlMessage> = fc.oneof(
  fc.record({ kind: fc.constant("Register" as const), ...pair, bytes }, { noNullPrototype: true }),
  fc.record({
    kind: fc.constant("Registered" as const),
    ...pair,
    result: fc.constantFrom("done" as const, "refused" as const),
    line,
    bytes,
    placement,
  }, { noNullPrototype: true }),
  fc.record({
    kind: fc.constantFrom("Deregister" as const, "Deregistered" as const),
    ...pair,
  }, { noNullPrototype: true }),
);

/** Any message that a card can send. */
export const anyCardMessage: fc.Arbitrary<{ message: CardMessage; context: CardContext }> = fc
  .record({ region: u32, transaction: u32 }, { noNullPrototype: true })
  .chain((context) =>
    fc.oneof(
      { weight: 2, arbitrary: fc.constantFrom(...wireKinds) },
      fc.constant(null),
    ).chain((kind) => kind === null ? control : wireMessage(kind, context.region))
      .map((message) => ({ message, context }))
  );
