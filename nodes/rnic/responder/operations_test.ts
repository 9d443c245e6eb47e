/**
 * Every operation at every position of a packet, held to what `rocev2.md` §3.4 to §3.7 says of it: the right
 * and the slot that it needs, the receive WQE that it takes, what it waits for, its lengths, its answer and
 * that of a duplicate. The expectations stand here a second time, so that a changed row is noticed.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NAK_SYNDROMES, parseSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import {
  OPCODE_ROWS,
  opcodeFor,
  type OpcodeRow,
  type Position,
  type RequestOperation,
} from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { PERSIST_ETH } from "../../../fabric/wire/roce/persist_eth.ts";
import { makeVerifyEth, type VerifyLevel } from "../../../fabric/wire/roce/verify_eth.ts";
import { ACCESS, type QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { LIMITS } from "../state/limits.ts";
import { psnAdd } from "../state/psn.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  FIRST_PSN,
  go,
  inject,
  names,
  packets,
  type Pair,
  pair,
  post,
  recvs,
} from "../testing/pair_testing.ts";
import { FLOW_1 } from "../testing/pm_testing.ts";
import { VERIFIED_ACCESS } from "../testing/verify_testing.ts";
import { CARD_CLASSES } from "../coherence/state/coherence_state.ts";
import { OPERATIONS } from "./operations.ts";

interface Expected {
  /** ACCESS bit of the queue pair, and of the region where one is named. */
  readonly right: number;
  readonly takesSlot: boolean;
  readonly takesRecv: "first" | "immediate" | "never";
  /** Whether it waits for an atomic before it, and for checked data that is not placed yet. */
  readonly waits: "never" | "always" | "for atomics";
  readonly answer: string;
  readonly counter: string | undefined;
}

const ATOMIC: Expected = {
  right: ACCESS.remoteAtomic,
  takesSlot: true,
  takesRecv: "never",
  waits: "never",
  answer: "RC ATOMIC ACKNOWLEDGE",
  counter: "atomicsExecuted",
};
/** Messages between cards go to no queue pair of a program (`coherence/`). */
const EXPECTED: Readonly<Record<Exclude<RequestOperation, `coherence-${string}`>, Expected>> = {
  "send": {
    right: 0,
    takesSlot: false,
    takesRecv: "first",
    waits: "always",
    answer: "RC ACKNOWLEDGE",
    counter: undefined,
  },
  "write": {
    right: ACCESS.remoteWrite,
    takesSlot: false,
    takesRecv: "immediate",
    waits: "always",
    answer: "RC ACKNOWLEDGE",
    counter: undefined,
  },
  "read-request": {
    ...ATOMIC,
    right: ACCESS.remoteRead,
    answer: "RC RDMA READ RESPONSE ONLY",
    counter: undefined,
  },
  "compare-swap": ATOMIC,
  "fetch-add": ATOMIC,
  "atomic-write": {
    ...ATOMIC,
    right: ACCESS.remoteWrite,
    answer: "RC RDMA READ RESPONSE ONLY",
  },
  "flush": {
    right: ACCESS.flushPersistent,
    takesSlot: false,
    takesRecv: "never",
    waits: "always",
    answer: "RC RDMA READ RESPONSE ONLY",
    counter: "flushesExecuted",
  },
  "write-verify": {
    right: ACCESS.remoteWrite,
    takesSlot: true,
    takesRecv: "never",
    waits: "for atomics",
    answer: "RC RDMA READ RESPONSE ONLY",
    counter: "verifyWritesIn",
  },
};

const INVALID = NAK_SYNDROMES["invalid-request"];
const MTU = 256;
const SHORT = 100;

/** Requests of connected queue pairs that a responder takes; what SENDs invalidate is not these tests' concern. */
const ROWS = OPCODE_ROWS.filter((row) =>
  row.service === "rc" && row.direction === "request" && row.operation in EXPECTED &&
  !row.invalidate
);

function expectedOf({ operation }: OpcodeRow): Expected {
  return EXPECTED[operation as keyof typeof EXPECTED];
}

/** What a manufacturer's operation has to be agreed on by. */
function vendorRight({ vendor, persistence }: OpcodeRow): number {
  if (!vendor) return 0;
  return persistence ? ACCESS.remoteWritePersistence : ACCESS.remoteWriteVerify;
}

function isBegin({ position }: OpcodeRow): boolean {
  return position === "first" || position === "only";
}

function isEnd({ position }: OpcodeRow): boolean {
  return position === "last" || position === "only";
}

/** A pair of which the test plays the requester: all rights and slots, receives where they are asked for. */
function responderPair(
  { attributes = {}, access, receives = 1 }: {
    readonly attributes?: QpAttributes;
    readonly access?: number;
    readonly receives?: number;
  } = {},
): Pair {
  const flags = { accessFlags: VERIFIED_ACCESS, pathMtu: MTU, ...attributes } as const;
  const p = pair({ persistence: { b: FLOW_1 } }, { attributes: flags }, access ?? EVERY_ACCESS);
  recvs(p, receives);
  return p;
}

/** A packet of the pairs above, without its header: names and addresses of all of them are the same. */
const { reth: _reth, ...BARE } = template();

function template(): RocePacket {
  const p = responderPair();
  post(p, "write", { length: 8 });
  go(p);
  return packets(p, "a")[0]!;
}

interface Change {
  readonly index?: number;
  /** Of the RETH; else what fits. */
  readonly length?: number;
  readonly bytes?: number;
  readonly level?: VerifyLevel;
}

function payloadOf(row: OpcodeRow, bytes = bytesOf(row)): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes).fill(0x5a);
}

function bytesOf({ payload, position }: OpcodeRow): number {
  if (typeof payload === "number") return payload;
  return position === "first" || position === "middle" ? MTU : SHORT;
}

/** Bytes that a message of this row's announces: those before, its own, more where more are to come. */
function lengthOf(row: OpcodeRow): number {
  if (row.operation === "atomic-write") return 8;
  if (row.position === "middle") return 2 * MTU + SHORT;
  return row.position === "only" ? SHORT : MTU + SHORT;
}

/** The request with this opcode, as packet `index` of all that this requester sends. */
function request(p: Pair, row: OpcodeRow, change: Change = {}): RocePacket {
  const { index = 0, length = lengthOf(row), bytes, level = "check" } = change;
  const payload = payloadOf(row, bytes);
  const va = BigInt(p.to.va), rkey = p.to.key;
  const before = isBegin(row) ? 0 : MTU;
  return changed({
    ...BARE,
    ...(row.headers.includes("reth") && { reth: { va, rkey, length } }),
    persistEth: PERSIST_ETH,
    verifyEth: makeVerifyEth({ level, persist: false }),
    digestEth: { crc: crc32(new Uint8Array(before + payload.length).fill(0x5a)) },
    atomicEth: { va, rkey, swapAdd: 1n, compare: 0xeeee_eeee_eeee_eeeen },
    immdt: { immediate: 1 },
    ieth: { rkey: 0 },
    feth: { reserved: 0, select: FLUSH_SELECT.range, placement: FLUSH_PLACEMENT.persistence },
    payload,
  }, { bth: { opcode: row.code, psn: psnAdd(FIRST_PSN, index), ackReq: true } });
}

/** How many packets this requester has sent before. */
function indexOf({ bth }: RocePacket): number {
  return (bth.psn - FIRST_PSN) & 0xff_ffff;
}

/** The message's first packet with nothing peculiar, where `row` is not the first itself. */
function begin(p: Pair, row: OpcodeRow, change: Change = {}): number {
  if (isBegin(row)) return 0;
  const { service, operation, persistence } = row;
  const first = opcodeFor({ service, operation, persistence }, "first");
  inject(p, "b", request(p, first, { length: lengthOf(row), ...change }));
  p.rig.run();
  return 1;
}

/** What `b` has answered from here on, by opcode, PSN and, of an acknowledgement, kind. */
function answersSince(p: Pair, count: number): string[] {
  return packets(p, "b").slice(count).map((packet, index) => {
    const syndrome = parseSyndrome(packet.aeth!.syndrome);
    const kind = syndrome.kind === "nak" ? syndrome.code : syndrome.kind;
    return `${names(p, "b")[count + index]} ${indexOf(packet)} ${kind}`;
  });
}

/** Sends the packet behind those before it, and runs. @returns what it was answered. */
function ask(p: Pair, packet: RocePacket): string[] {
  const count = packets(p, "b").length;
  inject(p, "b", packet);
  p.rig.run();
  return answersSince(p, count);
}

/** The answer to a packet that is taken. */
function goodAnswer(row: OpcodeRow, index: number): string[] {
  const inside = !isEnd(row);
  const ack = `RC ACKNOWLEDGE ${index} ack`;
  const persists = row.persistence && isEnd(row);
  if (persists) return [ack, `VENDOR PERSISTENCE ACKNOWLEDGE ${index} ack`];
  return [inside ? ack : `${expectedOf(row).answer} ${index} ack`];
}

const refusedAt = (index: number) => [`RC ACKNOWLEDGE ${index} invalid-request`];

describe("rows", () => {
  it("there is one for each operation of the table below, under its name", () => {
    const ofCards = CARD_CLASSES as readonly string[];
    const names = [...Object.keys(EXPECTED), ...ofCards].sort();
    assert.deepEqual(Object.keys(OPERATIONS).sort(), names);
    for (const [name, row] of Object.entries(OPERATIONS)) assert.equal(row.name, name);
    assert.equal(INVALID, 0x61);
  });

  it("every position of a packet is among the opcodes", () => {
    const positions = new Set<Position>(ROWS.map(({ position }) => position));
    assert.deepEqual([...positions].sort(), ["first", "last", "middle", "only"]);
    assert.equal(ROWS.length, 27);
  });
});

for (const row of ROWS) {
  const { right, takesSlot, takesRecv, waits } = expectedOf(row);

  describe(row.name, () => {
    it("§3.4: is taken and answered, and counted once", () => {
      const p = responderPair({ receives: 2 });
      const index = begin(p, row);
      assert.deepEqual(ask(p, request(p, row, { index })), goodAnswer(row, index));
      const name = expectedOf(row).counter;
      if (name !== undefined) assert.equal(counter(p, "b", name), isEnd(row) ? 1 : 0);
    });

    it("§3.5: a duplicate is answered again, without effect", () => {
      const p = responderPair({ receives: 2 });
      const index = begin(p, row);
      const packet = request(p, row, { index });
      ask(p, packet);
      const before = p.rig.b.rnic.statistics();
      p.rig.fill(p.rig.b, p.to, () => 0x11);
      // A READ is served from the memory of now, all others from what is remembered.
      assert.deepEqual(ask(p, packet), goodAnswer(row, index));
      assert.ok(p.rig.bytes(p.rig.b, p.to).every((byte) => byte === 0x11), "nothing is written");
      const name = expectedOf(row).counter;
      if (name !== undefined) assert.equal(counter(p, "b", name), before[name]);
      assert.equal(counter(p, "b", "duplicatesIn"), 1);
      assert.equal(counter(p, "b", "cqes"), before["cqes"]);
    });

    it(`§3.4, step 5: the queue pair's right is asked for: ${right === 0 ? "none" : right}`, () => {
      const p = responderPair();
      const index = begin(p, row);
      p.rig.modify(p.rig.b, p.b, { accessFlags: VERIFIED_ACCESS & ~right });
      const answer = ask(p, request(p, row, { index }));
      assert.deepEqual(answer, right === 0 ? goodAnswer(row, index) : refusedAt(index));
      if (right !== 0) return;
      // A right that a queue pair can have, and this operation does not ask for, changes nothing.
      const q = responderPair({ attributes: { accessFlags: 0 } });
      assert.deepEqual(ask(q, request(q, row, { index: begin(q, row) })), goodAnswer(row, index));
    });

    it("§2.3, §3.4, step 5: no right but its own and its maker's is asked for", () => {
      const p = responderPair();
      const index = begin(p, row);
      p.rig.modify(p.rig.b, p.b, { accessFlags: right | vendorRight(row) });
      assert.deepEqual(ask(p, request(p, row, { index })), goodAnswer(row, index));
    });

    if (right !== 0 && isBegin(row)) {
      it("§3.4, step 6: the region's right is the same, and is refused otherwise", () => {
        const granted = responderPair({ access: right | ACCESS.localWrite });
        const refusal = responderPair({ access: EVERY_ACCESS & ~right });
        assert.deepEqual(ask(refusal, request(refusal, row)), [
          "RC ACKNOWLEDGE 0 remote-access-error",
        ]);
        assert.deepEqual(ask(granted, request(granted, row)), goodAnswer(row, 0));
      });
    }

    it(`§3.4: ${takesSlot && isBegin(row) ? "takes a slot" : "takes no slot"}`, () => {
      const p = responderPair({ attributes: { maxDestRdAtomic: 1 } });
      const index = begin(p, row);
      if (!isBegin(row)) {
        assert.deepEqual(ask(p, request(p, row, { index })), goodAnswer(row, index));
        return;
      }
      // A READ that is being answered has the one slot.
      const read = opcodeFor({ service: "rc", operation: "read-request" }, "only");
      inject(p, "b", request(p, read));
      const answer = ask(p, request(p, row, { index: 1 }));
      const first = "RC RDMA READ RESPONSE ONLY 0 ack";
      assert.deepEqual(answer, [first, ...(takesSlot ? refusedAt(1) : goodAnswer(row, 1))]);
    });

    const takesOne = takesRecv === "first" ? isBegin(row) : takesRecv === "immediate" &&
      row.immediate;
    it(`§3.4: ${takesOne ? "takes a receive WQE" : "takes no receive WQE"}`, () => {
      const before = takesRecv === "first" && !isBegin(row) ? 1 : 0;
      const p = responderPair({ receives: before });
      const index = begin(p, row);
      const answer = ask(p, request(p, row, { index }));
      const expected = takesOne ? [`RC ACKNOWLEDGE ${index} rnr-nak`] : goodAnswer(row, index);
      assert.deepEqual(answer, expected);
    });

    it("§3.4: a payload against the opcode's rule is refused", () => {
      const wrong = row.payload === "mtu"
        ? [MTU - 1, MTU + 1]
        : row.payload === "1..mtu"
        ? [0, MTU + 1]
        : row.payload === "0..mtu"
        ? [MTU + 1]
        : [row.payload + 4];
      for (const bytes of wrong) {
        const p = responderPair();
        const index = begin(p, row);
        const length = row.position === "only" ? bytes : lengthOf(row);
        const packet = request(p, row, { index, bytes, length });
        assert.deepEqual(ask(p, packet), refusedAt(index), `${bytes} B`);
      }
    });

    if (row.operation === "write" || row.operation === "write-verify") {
      it("§3.4: its bytes are those that the RETH has announced", () => {
        const fill = isBegin(row) ? bytesOf(row) : MTU + bytesOf(row);
        const wrong = isEnd(row) ? [fill - 1, fill + 1] : [fill, fill - 1];
        for (const length of wrong) {
          const p = responderPair();
          const index = begin(p, row, { length: Math.max(length, MTU + 1) });
          const answer = ask(p, request(p, row, { index, length }));
          assert.deepEqual(answer, refusedAt(index), `${length} B announced`);
        }
      });
    }

    if (row.operation === "atomic-write") {
      it("§2.2: an ATOMIC WRITE announces eight bytes", () => {
        for (const length of [0, 7, 16]) {
          const p = responderPair();
          assert.deepEqual(ask(p, request(p, row, { length })), refusedAt(0), `${length} B`);
        }
      });
    }

    if (row.headers.includes("reth")) {
      it("§3.1: no message is longer than 2^31 bytes", () => {
        const p = responderPair();
        assert.deepEqual(ask(p, request(p, row, { length: 2 ** 31 + 4 })), refusedAt(0));
      });
    }

    const other = row.operation === "send" ? "write" : "send";
    it(`§3.4: ${isBegin(row) ? "comes in no open message" : "comes in its own message alone"}`, () => {
      const p = responderPair({ receives: 2 });
      const first = opcodeFor({ service: "rc", operation: other }, "first");
      inject(p, "b", request(p, first, { length: 4 * MTU }));
      p.rig.run();
      assert.deepEqual(ask(p, request(p, row, { index: 1 })), refusedAt(1));
    });

    if (!isBegin(row)) {
      it("§3.4: is refused where no message is open", () => {
        const p = responderPair();
        assert.deepEqual(ask(p, request(p, row)), refusedAt(0));
      });
      return;
    }

    /** Whether the request is taken at once, which its own duplicate tells, or waits. */
    function isTaken(p: Pair, packet: RocePacket, isBusy: () => boolean): boolean {
      inject(p, "b", packet);
      inject(p, "b", packet);
      p.rig.run(() => counter(p, "b", "requestsIn") === indexOf(packet) + 2);
      assert.ok(isBusy(), "what it may wait for is still under way");
      return counter(p, "b", "duplicatesIn") === 1;
    }

    it(`§3.7: ${waits === "never" ? "has its turn behind" : "waits for"} an atomic before it`, () => {
      const p = responderPair({ receives: 4 });
      beginWithSend(p);
      inject(p, "b", request(p, ATOMIC_ROW, { index: 1 }));
      const isBusy = () => counter(p, "b", "atomicsExecuted") === 0;
      assert.equal(isTaken(p, request(p, row, { index: 2 }), isBusy), waits === "never");
    });

    const isAcked = expectedOf(row).answer === "RC ACKNOWLEDGE";
    if (row.position === "only") {
      it(`§3.5: a duplicate is ${isAcked ? "acknowledged" : "dropped"} where too many wait`, () => {
        const p = responderPair();
        ask(p, request(p, row));
        const read = opcodeFor({ service: "rc", operation: "read-request" }, "only");
        const many = LIMITS.waitingReads + 8;
        inject(p, "b", request(p, ATOMIC_ROW, { index: 1 }));
        for (let i = 0; i < many; i++) inject(p, "b", request(p, read, { index: 2 }));
        p.rig.run(() => counter(p, "b", "requestsIn") === 2 + many);
        const dropped = counter(p, "b", "drop-stale-duplicate");
        assert.ok(dropped > 0, "no more answers can wait");
        inject(p, "b", request(p, row));
        p.rig.run(() => counter(p, "b", "requestsIn") === 3 + many);
        assert.equal(counter(p, "b", "atomicsExecuted"), row.operation in ATOMIC_NAMES ? 1 : 0);
        assert.equal(counter(p, "b", "drop-stale-duplicate"), dropped + (isAcked ? 0 : 1));
      });
    }

    for (const level of row.operation === "write-verify" ? ["check", "none"] as const : []) {
      it(`V-02: of level ${level}, behind checked data that is not placed`, () => {
        const p = responderPair();
        const packet = request(p, row, { index: stage(p), level });
        assert.equal(isTaken(p, packet, () => isPlacing(p)), level === "check");
      });
    }
    if (row.operation !== "write-verify") {
      it(`V-02: ${waits === "never" ? "does not wait" : "waits"} for checked data before it`, () => {
        const p = responderPair({ receives: 4 });
        beginWithSend(p);
        const packet = request(p, row, { index: stage(p, 1) });
        assert.equal(isTaken(p, packet, () => isPlacing(p)), waits === "never");
      });
    }
  });
}

const ATOMIC_ROW = opcodeFor({ service: "rc", operation: "fetch-add" }, "only");
const ATOMIC_NAMES = { "compare-swap": 1, "fetch-add": 1, "atomic-write": 1 };

/** A SEND has brought further receive WQEs onto the chip, so that none has to be waited for. */
function beginWithSend(p: Pair): void {
  ask(p, request(p, opcodeFor({ service: "rc", operation: "send" }, "only")));
}

/** Packets of a verified write whose data takes the bus longer than the next packets are apart. */
const STAGED_PACKETS = 64;

/** Sends such a write, as packets from `index` on. @returns the next packet's index. */
function stage(p: Pair, index = 0): number {
  const length = STAGED_PACKETS * MTU;
  const data = new Uint8Array(length).fill(0x5a);
  const end = index + STAGED_PACKETS;
  for (let at = index; at < end; at++) {
    const position = at === index ? "first" : at === end - 1 ? "last" : "middle";
    const row = opcodeFor({ service: "rc", operation: "write-verify" }, position);
    const packet = request(p, row, { index: at, length, bytes: MTU });
    inject(p, "b", { ...packet, digestEth: { crc: crc32(data) } });
  }
  p.rig.run(() => counter(p, "b", "requestsIn") === end);
  return end;
}

function isPlacing(p: Pair): boolean {
  return counter(p, "b", "dmaWrites") < STAGED_PACKETS;
}
