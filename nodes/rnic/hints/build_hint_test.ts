import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { encodeHint, type HintGroup } from "../../../fabric/wire/roce/hint.ts";
import { HINT_ETH_BYTES, HINT_KINDS } from "../../../fabric/wire/roce/hint_eth.ts";
import { DOCUMENT_HINT } from "../../../fabric/wire/roce/vendor_testing.ts";
import { groupElements, kindsOf, splitGroups, type WorkElement } from "./build_hint.ts";

const { prefetch, warmUp, atomic, receive } = HINT_KINDS;

function element(sourceQpn: number, change: Partial<WorkElement>): WorkElement {
  return {
    sourceQpn,
    destQpn: 0x100 + sourceQpn,
    operation: "read",
    sequence: 0,
    rkey: 0,
    va: 0n,
    length: 0,
    objects: [],
    ...change,
  };
}

/** The document's table 1; PSNs are ours. */
const TABLE_1 = [
  element(14, { sequence: 100, rkey: 30, va: 0x1000n, length: 0x8000, destQpn: 0x114 }),
  element(17, {
    operation: "write",
    sequence: 200,
    rkey: 40,
    va: 0x100000n,
    length: 0x3000,
    destQpn: 0x117,
  }),
  element(14, { sequence: 132, rkey: 30, va: 0x50000n, length: 0x1000, destQpn: 0x114 }),
  element(23, {
    operation: "fetch-add",
    sequence: 300,
    rkey: 50,
    va: 0x60000n,
    length: 8,
    destQpn: 0x123,
  }),
];

describe("groupElements", () => {
  it("H-03, H-31: the document's four elements give the hint that groups them by queue pair", () => {
    // For the atomic, the document's hint asks for its operand alone.
    const groups = groupElements(TABLE_1, prefetch | atomic).map((group): HintGroup => ({
      ...group,
      entries: group.entries.map((entry) =>
        entry.operation === "fetch-add" ? { ...entry, kinds: atomic } : entry
      ),
    }));
    same(groups, DOCUMENT_HINT.groups);
    equal(kindsOf(groups), DOCUMENT_HINT.kinds);
  });

  it("H-31: one queue pair (4) with six elements, and a prefetch hint on it [0101]", () => {
    const six = Array.from(
      { length: 6 },
      (_, i) => element(4, { sequence: i, rkey: 9, va: BigInt(i * 4096), length: 64 }),
    );
    const [group, ...others] = groupElements(six, prefetch);
    same(others, []);
    same([group!.sourceQpn, group!.entries.length], [4, 6]);
    same(
      group!.entries.map(({ sequence }) => sequence),
      [0, 1, 2, 3, 4, 5],
      "in the queue's order",
    );
    ok(group!.entries.every(({ kinds }) => kinds === prefetch));
  });

  it("H-03: the objects of an untagged message are those of its own entry", () => {
    const send = (sequence: number, objects: bigint[] = []) =>
      element(4, { operation: "send", sequence, objects });
    const [group] = groupElements([send(0), send(1, [7n]), send(2, [8n])], receive);
    const entries = group!.entries.map((
      { messages, sequence, objects },
    ) => [messages, sequence, objects]);
    same(entries, [[1, 0, []], [1, 1, [7n]], [1, 2, [8n]]]);
  });

  it("H-23: a WRITE of any byte of the word of an atomic behind it is told, and no other one", () => {
    const word = { rkey: 9, va: 64n, length: 8 };
    const isTold = (write: Partial<WorkElement>, sourceQpn = 4) => {
      const add = element(4, { operation: "fetch-add", ...word });
      const groups = groupElements([
        element(sourceQpn, { operation: "write", rkey: 9, ...write }),
        add,
      ], atomic);
      return groups.flatMap(({ entries }) => entries).some(({ operation }) =>
        operation === "write"
      );
    };
    for (const [from, to] of [[56, 65], [64, 65], [71, 72], [71, 90], [0, 90]] as const) {
      ok(isTold({ va: BigInt(from), length: to - from }), `[${from}, ${to})`);
    }
    for (const [from, to] of [[56, 64], [72, 80], [0, 1]] as const) {
      ok(!isTold({ va: BigInt(from), length: to - from }), `[${from}, ${to})`);
    }
    ok(!isTold({ ...word, rkey: 8 }), "another region");
    ok(!isTold(word, 5), "another queue pair");
    ok(!isTold({ ...word, destQpn: 7 }), "another peer");
  });

  it("H-03: of untagged messages the count, in their place among the others", () => {
    const send = (sequence: number) => element(4, { operation: "send", sequence });
    const write = element(4, { operation: "write", sequence: 3, rkey: 1, length: 8 });
    const [group] = groupElements([send(0), send(1), send(2), write, send(4)], receive | prefetch);
    same(
      group!.entries.map(({ operation, messages, sequence }) => [operation, messages, sequence]),
      [
        ["send", 3, 0],
        ["write", 1, 3],
        ["send", 1, 4],
      ],
    );
  });

  it("H-04 (in part): kinds are mixed as the responder wants them; what needs none of them is left out", () => {
    same(groupElements(TABLE_1, receive), []);
    const kinds = groupElements(TABLE_1, warmUp | atomic).flatMap(({ entries }) =>
      entries.map((entry) => entry.kinds)
    );
    same(kinds, [warmUp, warmUp, warmUp, warmUp | atomic]);
  });

  it("H-03 [0086]: an atomic's operands go along where its word is to be read, else not", () => {
    const operands = { swapAdd: 1n, compare: 2n };
    const swap = element(4, { operation: "compare-swap", length: 8, operands });
    const told = (kinds: number) => groupElements([swap], kinds)[0]!.entries[0]!.operands;
    same([told(prefetch), told(prefetch | atomic)], [undefined, operands]);
  });

  it("H-01: objects go with their element", () => {
    const [group] = groupElements([element(4, { length: 8, objects: [7n, 9n] })], prefetch);
    same(group!.entries[0]!.objects, [7n, 9n]);
  });
});

describe("splitGroups", () => {
  const many = Array.from(
    { length: 40 },
    (_, i) => element(4 + i % 3, { sequence: i, length: 8, objects: i % 5 === 0 ? [1n, 2n] : [] }),
  );

  it("[0082]: a hint that is longer than a packet is several, with each element once, in order", () => {
    const groups = groupElements(many, prefetch);
    const messages = splitGroups(groups, 256);
    ok(messages.length > 3);
    for (const each of messages) {
      const bytes = encodeHint({ ...DOCUMENT_HINT, groups: each }).length - HINT_ETH_BYTES;
      ok(bytes <= 256, `${bytes} B`);
    }
    const elements = (of: readonly HintGroup[]) =>
      of.flatMap(({ sourceQpn, entries }) => entries.map(({ sequence }) => [sourceQpn, sequence]));
    same(elements(messages.flat()), elements(groups));
  });

  it("what fits one packet is one message", () => {
    const groups = groupElements(TABLE_1, prefetch);
    same(splitGroups(groups, 256), [groups]);
    same(splitGroups([], 256), []);
  });

  it("[0082]: keeps each entry, in order, in messages that have room for it and counts of eight bits", () => {
    const entry = fc.record({
      rkey: fc.nat(99),
      objects: fc.array(fc.constant<bigint>(1n), { maxLength: 4 }),
    });
    const group = fc.record({
      sourceQpn: fc.nat(3),
      destQpn: fc.nat(3),
      entries: fc.oneof(
        fc.array(entry, { minLength: 1, maxLength: 20 }),
        // More than a count can tell.
        fc.nat(400).map((count) =>
          Array.from({ length: count + 1 }, (_, rkey) => ({ rkey, objects: [] as bigint[] }))
        ),
      ),
    });
    const rooms = fc.constantFrom(256, 1024, 4096, 65_536);
    fc.assert(
      fc.property(fc.array(group, { minLength: 1, maxLength: 5 }), rooms, (given, room) => {
        const none = { kinds: 1, operation: "read", messages: 1, sequence: 0, va: 0n } as const;
        const groups = given.map(({ entries, ...ends }): HintGroup => ({
          ...ends,
          entries: entries.map((each) => ({ ...none, length: 8, ...each })),
        }));
        const flat = (of: readonly HintGroup[]) =>
          of.flatMap(({ entries, ...ends }) => entries.map((each) => ({ ...ends, ...each })));
        const messages = splitGroups(groups, room);
        same(flat(messages.flat()), flat(groups));
        for (const message of messages) {
          const about = { type: "announce", kinds: 1, reason: "none", sequence: 0 } as const;
          const bytes = encodeHint({ ...about, answer: false, groups: message }).length;
          ok(bytes - HINT_ETH_BYTES <= room && message.length > 0);
          ok(message.every(({ entries }) => entries.length > 0 && entries.length <= 255));
        }
      }),
      seeded({ numRuns: 60 }),
    );
  });
});
