/** H-07: what hints are in, and what that changes: bytes of the wire and nothing else. */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  HINT_PLAN,
  type HintPlan,
  type HintWay,
  refuseEncoding,
} from "../../../fabric/rack/plan/hint_plan.ts";
import {
  detachHint,
  type HintEntry,
  type HintGroup,
  hintOf,
} from "../../../fabric/wire/roce/hint.ts";
import { HINT_ENCODINGS, type HintEncoding } from "../../../fabric/wire/roce/hint_eth.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  changed,
  coldMemory,
  counter,
  EVERY_ACCESS,
  go,
  inject,
  packetOf,
  packets,
  type Pair,
  PAIR_BYTES,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { connectUc } from "../testing/unreliable_testing.ts";

const MTU = 1024, PAGE = 4096, US = 1_000_000;
/** As many as one read of the ring brings. */
const WRITES = 4;

interface Options {
  readonly type?: "rc" | "uc";
  readonly carrier?: "rc" | "uc";
  readonly b?: "none";
}

/** A pair whose target memory is on demand, and a carrier, where there is one. */
function hinted(
  a: Partial<HintPlan> | "none",
  options: Options = {},
  isLost: (packet: RocePacket) => boolean = () => false,
) {
  const { type = "rc", carrier, b } = options;
  const rig = new Rig({
    plans: {
      a: a === "none" ? {} : { hints: { ...HINT_PLAN, ...a } },
      b: { pageFault: "pause", ...(b !== "none" && { hints: HINT_PLAN }) },
    },
  });
  rig.fate = (_, { bytes }) => isLost(packetOf(bytes)) ? "drop" : "pass";
  const { from, to } = coldMemory(rig);
  const attributes = { accessFlags: EVERY_ACCESS, timeout: 9 };
  const connect = (service: "rc" | "uc", hints?: "carrier") => {
    const part = hints && { hints };
    if (service === "rc") return rig.connect({ ...part, attributes });
    return connectUc(rig, { pathMtu: MTU, accessFlags: EVERY_ACCESS }, part);
  };
  const ends = connect(type);
  const managing = carrier && connect(carrier, "carrier");
  rig.run();
  const p: Pair = { rig, ...ends, from, to };
  return { ...p, managing: managing && { ...p, ...managing } };
}

/** A WRITE of a few bytes, and others into pages behind it. */
function writes(p: Pair, length = 64): void {
  for (let i = 0; i < WRITES; i++) post(p, "write", { at: i * PAGE, length });
}

interface Hint {
  readonly packet: RocePacket;
  readonly entries: readonly HintEntry[];
}

/** What `a` has announced, packet by packet. */
function announced(p: Pair): Hint[] {
  return packets(p, "a").flatMap((packet) => {
    const { message = hintOf(packet), range } = detachHint(packet)!;
    if (range !== undefined) return [{ packet, entries: [range] }];
    if (message?.type !== "announce") return [];
    return [{ packet, entries: message.groups.flatMap(({ entries }) => entries) }];
  });
}

const isWhole = ({ rig, from, to }: Pair, length = 64) =>
  Array.from({ length: WRITES }, (_, i) => i * PAGE).every((at) =>
    rig.bytes(rig.b, to, at, length).toHex() === rig.bytes(rig.a, from, at, length).toHex()
  );

const isRidden = (encoding: HintEncoding) => encoding === "header" || encoding === "payload";
const SUCCESSES = new Array<string>(WRITES).fill("SUCCESS");
const places = (p: Pair) =>
  announced(p).flatMap(({ entries }) => entries.map(({ va }) => (Number(va) - p.to.va) / PAGE));
const psns = (p: Pair) =>
  packets(p, "a").filter(({ bth, reth }) => reth !== undefined && reth.length > 0 && bth.opcode > 5)
    .map(({ bth }) => bth.psn);

/** Names of the packets that hints were in, and how many bytes of a WRITE's frame are the hint's. */
const KINDS: Readonly<Record<HintEncoding, { readonly name: string; readonly bytes: number }>> = {
  opcode: { name: "VENDOR HINT", bytes: 58 + 16 + 8 + 24 * WRITES },
  // One element less, as the packet that they ride on needs no hint any more.
  header: { name: "RC RDMA WRITE ONLY", bytes: 16 + 8 + 24 * (WRITES - 1) },
  payload: { name: "RC RDMA WRITE ONLY", bytes: 16 + 8 + 24 * (WRITES - 1) + 4 },
  flagged: { name: "RC RDMA WRITE ONLY", bytes: (58 + 16) * WRITES },
};

describe("H-07: hints in packets", () => {
  for (const encoding of ["header", "payload"] as const) {
    it(`H-07: have what room the payload leaves of the path MTU, and no byte more: ${encoding}`, () => {
      const counts = new Set<number>();
      // Room for one entry more or less, and for each number of bytes between.
      for (let length = MTU - 320; length <= MTU - 240; length += 4) {
        const p = hinted({ encoding, batch: 16, depth: 64 });
        for (let i = 0; i < 30; i++) post(p, "write", { at: i * 1024, length });
        go(p);
        ok(statuses(p).every((status) => status === "SUCCESS"));
        for (const packet of packets(p, "a")) {
          const hint = detachHint(packet)?.message;
          if (hint !== undefined) counts.add(hint.groups[0]!.entries.length);
        }
      }
      ok(counts.size > 2, `entries: ${[...counts]}`);
    });
  }
});

describe("H-07: four encodings", () => {
  for (const encoding of HINT_ENCODINGS) {
    it(`H-07: ${encoding}: the bytes that it says, pages are there, PSNs as without`, () => {
      const p = hinted({ encoding, batch: WRITES }), plain = hinted("none");
      for (const each of [p, plain]) {
        writes(each);
        go(each);
        same(statuses(each), SUCCESSES);
        ok(isWhole(each));
      }
      same(psns(p), psns(plain));
      const hints = announced(p);
      const { name, bytes } = KINDS[encoding];
      same([...new Set(hints.map(({ packet }) => opcodeRow(packet.bth.opcode)!.name))], [name]);
      const isRidden = encoding === "header" || encoding === "payload";
      same(places(p), isRidden ? [1, 2, 3] : [0, 1, 2, 3]);
      const sequences = hints.flatMap(({ entries }) => entries.map(({ sequence }) => sequence));
      same(sequences, psns(p).slice(isRidden ? 1 : 0), "H-03: of the requests themselves");
      equal(counter(p, "b", "hintPagesAsked"), isRidden ? WRITES - 1 : WRITES);
      ok(counter(p, "b", "pageStallPs") < 0.5 * counter(plain, "b", "pageStallPs"));
      // H-30: what hints take of the wire, to the byte, besides the two words by which they are agreed on.
      const words = packets(p, "a").filter((packet) => hintOf(packet)?.type === "wanted").length;
      equal(counter(p, "a", "hintBytesOut"), bytes + words * (58 + 16));
      equal(counter(p, "a", "bytesOut") - counter(plain, "a", "bytesOut"), bytes + words * 74);
    });

    it(`H-07: ${encoding}: work waits for the ACK, which has an operation code`, () => {
      const p = hinted({ encoding, follow: "after-ack", batch: WRITES });
      writes(p);
      go(p);
      same(statuses(p), SUCCESSES);
      ok(isWhole(p));
      const answers = packets(p, "b").map((packet) => hintOf(packet)?.type);
      equal(
        answers.filter((type) => type === "prepared").length,
        encoding === "flagged" ? WRITES : 1,
      );
      equal(counter(p, "a", "hintsPrepared"), counter(p, "a", "hintsSent"));
      equal(counter(p, "a", "hintsUnanswered"), 0);
      ok(counter(p, "a", "hintHoldPs") > 20 * US);
      // What rides has the first request with it, whose page is asked for as without hints.
      const first = encoding === "header" || encoding === "payload" ? 1 : 0;
      equal(counter(p, "b", "hintPagesUseful"), WRITES - first);
      equal(counter(p, "b", "hintPagesLate"), 0);
    });

    it(`H-07, H-09: ${encoding}: none to a peer that has not agreed, or knows no hints`, () => {
      const p = hinted({ encoding }, { b: "none" });
      writes(p);
      go(p);
      same(statuses(p), SUCCESSES);
      same(announced(p), []);
      ok(packets(p, "a").every(({ bth }) => bth.reserved7 === 0));
    });
  }

  it("H-07: an extra header goes on a READ request, an extra payload does not", () => {
    for (const [encoding, count] of [["header", WRITES - 1], ["payload", 0]] as const) {
      const p = hinted({ encoding });
      for (let i = 0; i < WRITES; i++) post(p, "read", { at: i * PAGE, length: 64 });
      go(p);
      same(statuses(p), SUCCESSES);
      equal(places(p).length, count);
      equal(counter(p, "b", "hintPagesAsked"), count);
    }
  });

  it("H-07: a packet has a hint as far as it has room within the path MTU", () => {
    // 16 B of header, 8 B of a group, and 24 B for each of two elements.
    const p = hinted({ encoding: "header" });
    writes(p, MTU - 16 - 8 - 2 * 24);
    go(p);
    same(statuses(p), SUCCESSES);
    same(announced(p).map(({ entries }) => entries.length), [2, 1]);
    same(places(p), [1, 2, 3]);
    ok(packets(p, "a").every(({ payload }) => payload.length <= MTU));
    const full = hinted({ encoding: "header" });
    writes(full, 2 * MTU);
    go(full);
    same(statuses(full), SUCCESSES);
    same(announced(full), []);
  });

  it("H-01, H-03: lists of objects go in each encoding that has room for them, within the path MTU", () => {
    const objects = [1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n];
    for (const encoding of HINT_ENCODINGS) {
      const p = hinted({ encoding });
      // What follows a long message, whose packets are full, has time to come to the chip.
      post(p, "write", { length: 4 * PAGE });
      // 16 B of header, 8 B of a group, 24 B and 64 B for one element, and a trailer.
      const length = MTU - 16 - 8 - 24 - 64 - (encoding === "payload" ? 4 : 0);
      for (let i = 0; i < WRITES; i++) post(p, "write", { at: i * PAGE, length, objects });
      go(p);
      same(statuses(p), [...SUCCESSES, "SUCCESS"]);
      const hints = announced(p);
      const lists = hints.flatMap(({ entries }) => entries.map((each) => each.objects))
        .filter((list) => list.length > 0);
      const isRidden = encoding === "header" || encoding === "payload";
      // What rides is what has come to the chip by then.
      const most = isRidden ? hints.length : encoding === "flagged" ? 0 : WRITES;
      ok(!isRidden || most >= 2, `${most}`);
      same(lists, new Array(most).fill(objects), encoding);
      if (isRidden) ok(hints.every(({ entries }) => entries.length === 1));
      ok(packets(p, "a").every(({ payload }) => payload.length <= MTU));
      const counts = ["hintObjectLists", "hintCallsSaved"].map((name) => counter(p, "a", name));
      same([...counts, counter(p, "b", "hintObjectsUnknown")], [most, 7 * most, 8 * most]);
    }
  });

  it("H-03 [0086]: operand data goes in each encoding that has room for it, within the path MTU", () => {
    const objects = [1n, 2n], parts = [{ offset: 8, length: 16 }, { offset: 0, length: 1 }];
    const cases = HINT_ENCODINGS.flatMap((each) => [[each, 0], [each, 8]] as const);
    for (const [encoding, missing] of cases) {
      const p = hinted({ encoding, operands: true });
      // Their WQEs are long: they come to the chip behind a message that takes longer.
      post(p, "write", { length: 8 * PAGE });
      // 16 B of header, 8 B of a group, 24 B for one element, 2 objects with a part each, and a trailer.
      const room = 16 + 8 + 24 + 2 * (8 + 8) + (encoding === "payload" ? 4 : 0) - missing;
      const length = MTU - room;
      for (let i = 0; i < WRITES; i++) post(p, "write", { at: i * PAGE, length, objects, parts });
      go(p);
      same(statuses(p), [...SUCCESSES, "SUCCESS"]);
      const told = announced(p).flatMap(({ entries }) => entries).filter((each) =>
        each.objects.length > 0
      );
      if (encoding === "flagged" || (isRidden(encoding) && missing > 0)) equal(told.length, 0);
      else ok(told.length > 0, encoding);
      for (const each of told) same([each.objects, each.parts], [objects, parts]);
      if (isRidden(encoding)) ok(announced(p).every(({ entries }) => entries.length === 1));
      ok(packets(p, "a").every(({ payload }) => payload.length <= MTU));
    }
  });

  it("H-07: a packet that is sent again has no hint any more", () => {
    const p = hinted({ encoding: "payload" });
    let lost = 0;
    p.rig.fate = (from, { bytes }) =>
      from === "a" && packetOf(bytes).bth.reserved7 !== 0 && lost++ === 0 ? "drop" : "pass";
    writes(p);
    go(p);
    same(statuses(p), SUCCESSES);
    ok(isWhole(p));
    equal(announced(p).length, 1);
    equal(counter(p, "b", "hintsIn"), 0, "a lost hint is a hint less");
  });

  it("H-07: a range is rounded up, and ends with its region", () => {
    const p = hinted({ encoding: "flagged" });
    const at = PAIR_BYTES - 3 * PAGE;
    post(p, "write", { at, length: 3 * PAGE });
    go(p);
    same(statuses(p), ["SUCCESS"]);
    same(announced(p)[0]!.entries.map(({ length }) => length), [4 * PAGE]);
    same([counter(p, "b", "hintPagesAsked"), counter(p, "b", "hintsNoAccess")], [3, 0]);
    // H-24: a key that opens nothing starts nothing.
    const flag = announced(p)[0]!.packet;
    const reth = { ...flag.reth!, rkey: p.to.key + 1 };
    inject(p, "b", changed(flag, { reth, bth: { ackReq: true } }));
    p.rig.run();
    equal(counter(p, "b", "hintsNoAccess"), 1);
    // H-22: its answer names it by its PSN.
    const answer = packets(p, "b").map(hintOf).at(-1)!;
    const { groups: [{ sourceQpn, destQpn, entries }] } = answer as typeof answer & {
      groups: readonly [HintGroup];
    };
    same([answer.type, answer.reason, sourceQpn, destQpn], [
      "refused",
      "no-access",
      p.a.qpn,
      p.b.qpn,
    ]);
    same(entries.map(({ sequence }) => sequence), [flag.bth.psn]);
  });

  it("H-24: a packet that says it has a hint, and has none, is as good as lost", () => {
    const p = hinted({});
    post(p, "write", { length: 64 });
    go(p);
    const [write] = packets(p, "a").filter(({ payload, reth }) =>
      reth !== undefined && payload.length === 64
    );
    const { psn } = write!.bth;
    for (const reserved7 of [1, 2, 3]) {
      inject(p, "b", changed(write!, { bth: { psn: psn + 1, reserved7 } }));
    }
    p.rig.run();
    equal(counter(p, "b", "hintsMalformed"), 3);
    post(p, "write", { at: PAGE, length: 64 });
    go(p);
    same(statuses(p), ["SUCCESS", "SUCCESS"]);
  });
});

describe("H-07 × H-08: which encodings go which way", () => {
  const RIDDEN = ["header", "payload"] as const;
  const CARRIERS = ["rc", "uc"] as const;

  for (
    const [encoding, carrier] of RIDDEN.flatMap((each) => CARRIERS.map((by) => [each, by] as const))
  ) {
    it(`H-08, [0113]: ${encoding}: packets of a carrier, ${carrier}, have the hints of all`, () => {
      const p = hinted({ encoding }, { carrier });
      for (let round = 0; round < 4; round++) writes(p, PAGE);
      // The carrier's own command goes when other work waits.
      post(p.managing!, "write", { at: 7 * PAGE, length: 8 });
      p.rig.ring(p.rig.a, p.a.sq);
      go(p.managing!);
      equal(statuses(p).filter((status) => status === "SUCCESS").length, 4 * WRITES);
      ok(isWhole(p, PAGE));
      const hints = announced(p);
      ok(hints.length > 0);
      ok(hints.every(({ packet }) => packet.bth.destQpn === p.managing!.b.qpn));
      ok(counter(p, "b", "hintPagesAsked") > 0);
      equal(counter(p, "b", "hintsUnknownQp"), 0);
    });
  }

  for (const encoding of HINT_ENCODINGS) {
    it(`[0113]: ${encoding}: UC has its own, agreed on and answered by itself`, () => {
      const p = hinted({ encoding, transport: "own", follow: "after-ack" }, { type: "uc" });
      writes(p);
      go(p);
      same(statuses(p), SUCCESSES);
      ok(isRidden(encoding) || isWhole(p), "the first page of what rides on its WRITE is lost");
      ok(announced(p).length > 0);
      ok(announced(p).every(({ packet }) => packet.bth.destQpn === p.b.qpn));
      equal(counter(p, "a", "hintsPrepared"), counter(p, "a", "hintsSent"));
      equal(counter(p, "a", "hintsUnanswered"), 0);
      ok(packets(p, "b").every((packet) => packet.bth.destQpn === p.a.qpn), "answers come back");
    });
  }

  for (const type of CARRIERS) {
    it(`H-08, [0113]: a carrier of UC has the hints of ${type}, and answers by the reverse way`, () => {
      const p = hinted({ follow: "after-ack" }, { type, carrier: "uc" });
      writes(p);
      go(p);
      same(statuses(p), SUCCESSES);
      ok(isWhole(p));
      const hints = announced(p);
      ok(hints.length > 0);
      for (const { packet } of hints) {
        equal(packet.bth.destQpn, p.managing!.b.qpn);
        equal(opcodeRow(packet.bth.opcode)!.name, "VENDOR UC HINT");
      }
      const answers = packets(p, "b").filter((packet) => hintOf(packet)?.type === "prepared");
      equal(answers.length, hints.length);
      ok(answers.every(({ bth }) => bth.destQpn === p.managing!.a.qpn));
      same(["hintsUnknownQp", "hintsNoAccess"].map((name) => counter(p, "b", name)), [0, 0]);
      equal(counter(p, "b", "hintPagesUseful"), WRITES);
    });
  }

  it("§7 #78, [0113]: a UC queue pair that takes no part drops VENDOR UC HINT, counts it, and goes on", () => {
    const p = hinted({}, { type: "uc", b: "none" });
    // It is asked again, as it may not have been connected yet.
    p.rig.runFor(200 * US);
    writes(p);
    go(p);
    same(statuses(p), SUCCESSES);
    same(announced(p), []);
    const asked = packets(p, "a").filter((packet) => hintOf(packet)?.type === "wanted");
    same(asked.map(({ bth }) => opcodeRow(bth.opcode)!.name), ["VENDOR UC HINT", "VENDOR UC HINT"]);
    equal(counter(p, "b", "drop-vendor-operation"), 1);
    same(packets(p, "b"), []);
  });

  it("H-09, [0113]: a question of a carrier that gets lost is asked again, when others have work", () => {
    const p = hinted({}, { carrier: "uc" });
    const lost = hinted({}, { carrier: "uc" }, (packet) => hintOf(packet)?.type === "wanted");
    for (const each of [p, lost]) {
      writes(each);
      go(each);
      same(statuses(each), SUCCESSES);
    }
    ok(announced(p).length > 0);
    same(announced(lost), []);
    // Nothing is lost any more.
    lost.rig.fate = () => "pass";
    lost.rig.runFor(200 * US);
    writes(lost);
    go(lost);
    writes(lost);
    go(lost);
    ok(announced(lost).length > 0);
    ok(announced(lost).every(({ packet }) => packet.bth.destQpn === lost.managing!.b.qpn));
  });

  it("H-08: the plan's transport: each its own, though there is a carrier", () => {
    const p = hinted({ transport: "own" }, { carrier: "rc" });
    writes(p);
    go(p);
    ok(announced(p).length > 0);
    ok(announced(p).every(({ packet }) => packet.bth.destQpn === p.b.qpn));
  });

  it("H-07: what cannot be is refused, with the reason", () => {
    const ways: readonly HintWay[] = ["rc", "uc", "ud", "carrier", "multicast"];
    same(
      HINT_ENCODINGS.map((encoding) => ways.filter((way) => !refuseEncoding(encoding, way))),
      [
        ["rc", "uc", "carrier", "multicast"],
        ["rc", "uc", "carrier"],
        ["rc", "uc", "carrier"],
        ["rc", "uc"],
      ],
    );
    const rig = new Rig({});
    const cq = rig.createCq(rig.a);
    const ring = { address: rig.a.host.allocate(4096), units: 64 };
    const create = (type: "rc" | "uc" | "ud", hintEncoding: HintEncoding, hints = "on") =>
      rig.command(rig.a, {
        op: "create-qp",
        type,
        sq: ring,
        rq: ring,
        rqStride: 16,
        sendCq: cq.cqn,
        recvCq: cq.cqn,
        pd: 1,
        persistCompletion: "persistence",
        hints: hints as "on" | "carrier",
        hintEncoding,
      });
    same(create("uc", "flagged", "carrier"), {
      status: "error",
      errno: "EINVAL",
      reason:
        "Hints by carrier cannot be flagged: a READ or WRITE of no bytes names no other queue pair",
    });
    same(create("ud", "opcode", "carrier"), {
      status: "error",
      errno: "EINVAL",
      reason:
        "Hints of all queue pairs with a peer go by one that is connected with it, of type rc or uc: it is ud",
    });
    equal(create("uc", "opcode").status, "ok");
    equal(create("uc", "header", "carrier").status, "ok");
    equal(create("ud", "payload").status, "error");
    equal(create("uc", "flagged").status, "ok");
  });

  it("H-07: chosen per queue pair, by its program", () => {
    const p = hinted({});
    const attributes = { accessFlags: EVERY_ACCESS, timeout: 9 };
    const other = { ...p, ...p.rig.connect({ hintEncoding: "header", attributes }) };
    p.rig.run();
    for (const each of [p, other]) {
      writes(each);
      each.rig.ring(each.rig.a, each.a.sq);
    }
    p.rig.run();
    const forms = (qpn: number) => [
      ...new Set(
        announced(p).filter(({ packet }) => packet.bth.destQpn === qpn)
          .map(({ packet }) => packet.bth.reserved7),
      ),
    ];
    same([forms(p.b.qpn), forms(other.b.qpn)], [[0], [1]]);
  });
});
