import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { PcieMessage } from "./pcie.ts";
import { pcieFromArray, pcieToArray } from "./pcie_codec.ts";
import { anyPcieMessage, COMMANDS, EVENTS, REPLIES } from "./pcie_testing.ts";
import { seeded } from "../../base/property_testing.ts";

describe("pcieFromArray", () => {
  it("gives back every message that pcieToArray is given", () => {
    fc.assert(
      fc.property(anyPcieMessage, (message) => {
        assert.deepEqual(pcieFromArray(structuredClone(pcieToArray(message))), message);
      }),
      seeded({ numRuns: 500 }),
    );
  });

  it("gives back one of every command, reply and event", () => {
    for (const command of COMMANDS) {
      const message: PcieMessage = { kind: "command", id: 1, command };
      assert.deepEqual(pcieFromArray(pcieToArray(message)), message, command.op);
    }
    for (const reply of REPLIES) {
      const message: PcieMessage = { kind: "reply", id: 1, reply };
      assert.deepEqual(pcieFromArray(pcieToArray(message)), message);
    }
    for (const event of EVENTS) {
      const message: PcieMessage = { kind: "event", event };
      assert.deepEqual(pcieFromArray(pcieToArray(message)), message);
    }
  });

  it("makes a plain Uint8Array of a subclass, whose slice might not copy", () => {
    const data = Object.setPrototypeOf(
      new Uint8Array([1, 2, 3]),
      Object.create(Uint8Array.prototype),
    );
    const message = pcieFromArray([0, 4096, data, false]);
    assert.ok(message?.kind === "memory-write");
    assert.equal(Object.getPrototypeOf(message.data), Uint8Array.prototype);
    assert.deepEqual([...message.data], [1, 2, 3]);
  });

  it("refuses numbers that are no exact count, anywhere on the data path", () => {
    const good: unknown[][] = [
      [0, 1, new Uint8Array(1), false],
      [1, 1, 1, 1, false],
      [2, 1, true, new Uint8Array(1)],
      [3, 1],
      [10, 1],
      [4, 1, new Uint8Array(1)],
      [5, 1, { op: "query-statistics" }],
      [6, 1, { status: "ok", op: "done" }],
    ];
    for (const array of good) {
      assert.notEqual(pcieFromArray(array), undefined);
      for (const [at, value] of array.entries()) {
        if (typeof value !== "number") continue;
        for (const bad of [-1, 1.5, NaN, Infinity, 2 ** 53, 1n, "1", null, undefined]) {
          assert.equal(
            pcieFromArray(array.with(at, bad)),
            undefined,
            `${array} with ${at} = ${bad}`,
          );
        }
      }
      assert.equal(pcieFromArray([...array, "more"]), undefined);
      assert.equal(pcieFromArray(array.slice(0, -1)), undefined);
    }
  });

  it("Q-11: a doorbell may have a note of the pointer that was stored", () => {
    const doorbell = { kind: "register-write", offset: 0x800, data: new Uint8Array(4) } as const;
    assert.equal(pcieToArray(doorbell).length, 3);
    assert.deepEqual(pcieFromArray(pcieToArray(doorbell)), doorbell);
    const noted = { ...doorbell, stored: { pointer: 3, stamp: 7 } };
    assert.deepEqual(pcieFromArray(pcieToArray(noted)), noted);
    for (const bad of [-1, 1.5, "1", null, undefined]) {
      assert.equal(pcieFromArray([4, 0x800, new Uint8Array(4), 7, bad]), undefined);
      if (bad === null) continue;
      assert.equal(pcieFromArray([4, 0x800, new Uint8Array(4), bad, 3]), undefined);
    }
    assert.equal(pcieFromArray([4, 0x800, new Uint8Array(4), 7]), undefined);
  });

  it("V-03 (in part): knows a read of the medium itself, which only says so where it is one", () => {
    const read = { kind: "memory-read", tag: 1, address: 2, length: 3, noSnoop: true } as const;
    assert.equal(pcieToArray(read).length, 5);
    assert.deepEqual(pcieFromArray([1, 1, 2, 3, true, true]), { ...read, medium: true });
    for (const bad of [false, 1, null, undefined, "medium"]) {
      assert.equal(pcieFromArray([1, 1, 2, 3, true, bad]), undefined);
    }
    assert.equal(pcieFromArray([1, 1, 2, 3, true, true, true]), undefined);
  });

  it("refuses bytes that are none, shared, too many, or where there must be none", () => {
    const shared = new Uint8Array(new SharedArrayBuffer(1));
    for (const bad of [[1], "a", null, new Uint16Array(1), shared]) {
      assert.equal(pcieFromArray([0, 1, bad, false]), undefined);
      assert.equal(pcieFromArray([2, 1, true, bad]), undefined);
      assert.equal(pcieFromArray([4, 1, bad]), undefined);
    }
    assert.equal(pcieFromArray([4, 1, new Uint8Array(65)]), undefined);
    assert.equal(pcieFromArray([2, 1, false, new Uint8Array(1)]), undefined);
  });

  it("refuses a command with any field missing, added or of another type", () => {
    for (const command of COMMANDS) {
      for (const damaged of damagesOf(command)) {
        assert.equal(pcieFromArray([5, 1, damaged]), undefined, Deno.inspect(damaged));
      }
    }
  });

  it("refuses a reply or an event with any field missing, added or of another type", () => {
    for (const reply of REPLIES) {
      for (const damaged of damagesOf(reply)) {
        assert.equal(pcieFromArray([6, 1, damaged]), undefined, JSON.stringify(damaged));
      }
    }
    for (const event of EVENTS) {
      for (const damaged of damagesOf(event)) {
        assert.equal(pcieFromArray([7, damaged]), undefined, JSON.stringify(damaged));
      }
    }
  });

  it("takes what only a card with queue information of its own needs", () => {
    const lock = {
      kind: "command",
      id: 1,
      command: { op: "lock-space2", queue: 1, by: 2 },
    } as const;
    const init = { status: "ok", op: "init", address: 1, mac: 2, mtu: 4096, kept: 3 } as const;
    for (const message of [lock, { kind: "reply", id: 1, reply: init } as const]) {
      assert.deepEqual(pcieFromArray(pcieToArray(message)), message);
    }
    assert.equal(
      pcieFromArray([9, 1, 2, 3, 3, 4]),
      undefined,
      "none may store into space 3 wrongly",
    );
  });

  it("refuses names that every object has", () => {
    for (const name of ["constructor", "toString", "__proto__"]) {
      assert.equal(pcieFromArray([5, 1, { op: name }]), undefined);
      assert.equal(pcieFromArray([7, { type: name, qpn: 1 }]), undefined);
      assert.equal(pcieFromArray([6, 1, { status: "ok", op: name }]), undefined);
    }
  });

  it("never throws, whatever it is given", () => {
    const odd = fc.anything({ withBigInt: true, withTypedArray: true, withNullPrototype: true });
    const nearly = fc.tuple(fc.nat(9), odd, odd, odd);
    fc.assert(
      fc.property(fc.oneof(odd, nearly, fc.array(odd)), (value) => {
        const message = pcieFromArray(value);
        if (message !== undefined) assert.deepEqual(pcieFromArray(pcieToArray(message)), message);
      }),
      seeded({ numRuns: 2000 }),
    );
  });
});

/** The fields that may be absent. */
const OPTIONAL = new Set(["qpn", "rq", "rqStride", "srq", "weight"]);

/** The object with each of its fields dropped, replaced by what it cannot be, or with one more. */
function damagesOf(original: object): object[] {
  const entries = Object.entries(original);
  const optional = (name: string) =>
    "op" in original && original.op === "create-qp" && OPTIONAL.has(name);
  return [
    { ...original, extra: 1 },
    ...entries.filter(([name]) => !optional(name)).map(([name]) =>
      Object.fromEntries(entries.filter(([other]) => other !== name))
    ),
    ...entries.flatMap(([name]) =>
      [-1, 0.5, "no such word", [], { extra: 1 }, undefined].filter((bad) =>
        !(name === "reason" && typeof bad === "string") &&
        !(name === "counters" && JSON.stringify(bad) === '{"extra":1}')
      ).map((bad) => ({ ...original, [name]: bad }))
    ),
  ];
}
