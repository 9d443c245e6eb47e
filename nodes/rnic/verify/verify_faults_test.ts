import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FlipPlace, FlipPlan, VerifyHistoryPlan } from "../../../fabric/rack/plan/plan.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { encodePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  readsBack,
  VERIFY_LEVELS,
  type VerifyLevel,
} from "../../../fabric/wire/roce/verify_eth.ts";
import {
  counter,
  go,
  losing,
  names,
  packetOf,
  type Pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import type { FrameFate, RigOptions } from "../testing/rig_parts_testing.ts";
import {
  isCopied,
  isUntouched,
  outcomes,
  postVerified,
  textOf,
  VERIFIED_ACCESS,
  verifiedPair,
  writeVerified,
} from "../testing/verify_testing.ts";

/** What becomes of one damaged bit: nobody notices, or it is found before or after the write. */
type Fate = "missed" | "unwritten" | "found";

/** V-08: where the bit turns over, and what each level makes of it. */
const TABLE:
  readonly (readonly [where: FlipPlace | "wire", Readonly<Record<VerifyLevel, Fate>>])[] = [
    // Past the ICRC: as though a switch had damaged a packet and signed it again.
    ["wire", {
      "none": "missed",
      "check": "unwritten",
      "verify": "unwritten",
      "verify-crc": "unwritten",
      "read-back": "missed",
      "crc-after": "found",
    }],
    ["buffer", {
      "none": "missed",
      "check": "unwritten",
      "verify": "unwritten",
      "verify-crc": "unwritten",
      "read-back": "missed",
      "crc-after": "found",
    }],
    // What a comparison takes for right is damaged as what was written is: the CRC alone tells.
    ["checked", {
      "none": "missed",
      "check": "missed",
      "verify": "missed",
      "verify-crc": "found",
      "read-back": "missed",
      "crc-after": "found",
    }],
    ["bus", {
      "none": "missed",
      "check": "missed",
      "verify": "found",
      "verify-crc": "found",
      "read-back": "found",
      "crc-after": "found",
    }],
    // The card's own CRC is of what it got (V-02).
    ["fetch", {
      "none": "missed",
      "check": "missed",
      "verify": "missed",
      "verify-crc": "missed",
      "read-back": "missed",
      "crc-after": "missed",
    }],
  ];

function flips(where: FlipPlace, more: Partial<FlipPlan> = {}): RigOptions {
  const plan = { flips: [{ id: 0, where, at: 0, ...more }] };
  return { plans: where === "fetch" ? { a: plan } : { b: plan } };
}

/** Turns a bit of the nth packet with data, and gives it the ICRC that it should have then. */
function damagedWire(nth: number): NonNullable<RigOptions["fate"]> {
  let seen = 0;
  return (from, frame): FrameFate => {
    if (from !== "a" || frame.packet === undefined || frame.packet.payload.length === 0) {
      return "pass";
    }
    if (++seen !== nth) return "pass";
    const packet = packetOf(frame.bytes);
    const payload = packet.payload.slice();
    payload[payload.length >> 1]! ^= 2;
    return { replaceBy: encodePacket({ ...packet, payload }) };
  };
}

function faultyPair(where: FlipPlace | "wire", nth: number): Pair {
  return verifiedPair(where === "wire" ? { fate: damagedWire(nth) } : flips(where, { nth }));
}

function fateOf(p: Pair, length: number): Fate {
  const [outcome] = outcomes(p);
  const status = outcome!.verdict!.status;
  if (status === "crc-mismatch") {
    assert.ok(isUntouched(p, { length }), "what fails the check is not written (V-02)");
    return "unwritten";
  }
  assert.ok(!isCopied(p, { length }), "the fault has hit");
  if (status === "read-back-differs") return "found";
  assert.equal(status, "written");
  return "missed";
}

describe("V-08: one damaged bit", () => {
  for (const [where, row] of TABLE) {
    for (const level of VERIFY_LEVELS) {
      for (const [length, packets] of [[700, 1], [3000, 3]] as const) {
        it(`${where}, ${level}, ${length} B: ${row[level]}`, () => {
          for (let nth = 1; nth <= packets; nth++) {
            const p = faultyPair(where, nth);
            postVerified(p, { level, length });
            go(p);
            assert.equal(fateOf(p, length), row[level], `packet ${nth}`);
            // Sent again it is in order, and nothing of it ends the connection.
            assert.equal(writeVerified(p, { level, length })[0]!.completion, "SUCCESS");
            assert.ok(isCopied(p, { length }));
          }
        });
      }
    }

    it(`${where}: a plain WRITE is hit as well, and says SUCCESS`, () => {
      const p = faultyPair(where, 2);
      post(p, "write", { length: 3000 });
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS"]);
      assert.ok(!isCopied(p, { length: 3000 }));
    });
  }

  it("bytes of a frame are as they came: only what the card makes of them is damaged", () => {
    for (const where of ["buffer", "checked", "bus"] as const) {
      const p = verifiedPair(flips(where));
      writeVerified(p, { level: "check", length: 3000 });
      const sent = p.rig.frames.filter(({ from }) => from === "a")
        .map(({ bytes }) => packetOf(bytes)).flatMap(({ payload }) => [...payload]);
      assert.deepEqual(sent, [...p.rig.bytes(p.rig.a, p.from, 0, 3000)]);
    }
  });

  it("on the sender's bus: the program's own CRC tells, of every level that has one", () => {
    for (const level of VERIFY_LEVELS) {
      for (const length of [700, 3000]) {
        for (let nth = 1; nth <= Math.ceil(length / 1024); nth++) {
          const p = faultyPair("fetch", nth);
          const crc = crc32(p.rig.bytes(p.rig.a, p.from, 0, length).slice());
          postVerified(p, { level, length, crc });
          go(p);
          const fates = { "none": "missed", "read-back": "missed", "crc-after": "found" } as const;
          const fate = level in fates ? fates[level as keyof typeof fates] : "unwritten";
          assert.equal(fateOf(p, length), fate);
          assert.equal(writeVerified(p, { level, length, crc })[0]!.completion, "SUCCESS");
          assert.ok(isCopied(p, { length }));
        }
      }
    }
  });

  it("on the sender's bus: what is fetched again to be sent again is damaged by itself", () => {
    // The CRC is of what left first: damage of the second fetch shows, whoever made the CRC (V-02).
    const p = verifiedPair({
      ...flips("fetch", { nth: 4 }),
      fate: losing("VENDOR WRITE VERIFY FIRST", 1),
    });
    const [outcome] = writeVerified(p, { level: "check", length: 3000 });
    assert.equal(textOf(outcome!), "VERIFY_ERR crc-mismatch: crc-before");
  });

  it("faults of a bus do not concern SENDs, nor what a peer READs", () => {
    for (const side of ["a", "b"] as const) {
      const plan = { flips: [{ id: 0, where: "fetch", at: 0 }] } as const;
      const p = verifiedPair({ plans: { [side]: plan } });
      post(p, "read", { length: 3000 });
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS"]);
      assert.ok(isCopied(p, { length: 3000 }));
    }
    for (const where of ["fetch", "buffer", "checked", "bus"] as const) {
      const p = verifiedPair(flips(where));
      p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 4096, lkey: p.to.key }]);
      post(p, "send", { length: 3000 });
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS"]);
      assert.ok(isCopied(p, { length: 3000 }));
    }
  });

  it("on the wire below the ICRC it is as a lost packet", () => {
    for (const level of VERIFY_LEVELS) {
      let hit = false;
      const p = verifiedPair({
        fate: (from, { bytes }) => {
          const isLast = packetOf(bytes).bth.opcode === OPCODE["VENDOR WRITE VERIFY LAST"];
          if (from !== "a" || !isLast || hit) return "pass";
          hit = true;
          return { flipBit: 8 * bytes.length - 100 };
        },
      });
      assert.equal(writeVerified(p, { level, length: 3000 })[0]!.completion, "SUCCESS");
      assert.ok(hit && isCopied(p, { length: 3000 }));
      assert.equal(counter(p, "b", "drop-undecodable"), 1);
    }
  });
});

describe("V-08: a lost response", () => {
  for (const level of VERIFY_LEVELS) {
    for (const length of [0, 100, 5000]) {
      it(`${level}, ${length} B: is no failure of what succeeded`, () => {
        const p = verifiedPair({ fate: losing("RC RDMA READ RESPONSE ONLY", 3) });
        const [outcome] = writeVerified(p, { level, length });
        assert.equal(outcome!.completion, "SUCCESS");
        assert.equal(outcome!.verdict!.status, "written");
        assert.equal(counter(p, "b", "verifyWritesIn"), 1);
        assert.equal(counter(p, "b", "verifyRepeats"), 3);
        const looks = length > 0 && readsBack(level) ? 1 : 0;
        if (length > 0) assert.equal(counter(p, "b", "verifyReadBacks"), looks);
      });
    }
  }

  it("a failure stays one, with its checks: what was found is what is answered", () => {
    const p = verifiedPair({ fate: losing("RC RDMA READ RESPONSE ONLY", 2) });
    const [outcome] = writeVerified(p, { level: "verify", length: 3000, crc: 1 });
    assert.equal(textOf(outcome!), "VERIFY_ERR crc-mismatch: crc-before");
    assert.equal(counter(p, "b", "verifyCrcFailures"), 1);
    assert.ok(isUntouched(p, { length: 3000 }));
  });

  it("memory that has changed since is not looked at again", () => {
    const p = verifiedPair({ fate: losing("RC RDMA READ RESPONSE ONLY", 1) });
    postVerified(p, { level: "verify", length: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "b", "verifyWritesIn") === 1);
    p.rig.b.host.memory.fill(0, p.to.address, p.to.address + 100);
    p.rig.run();
    assert.equal(textOf(outcomes(p)[0]!), "SUCCESS written: crc-before compared");
  });

  it("each packet of a message lost in turn, twice: written once, answered once", () => {
    for (const level of VERIFY_LEVELS) {
      const faultless = verifiedPair();
      writeVerified(faultless, { level, length: 5000 });
      const frames = faultless.rig.frames.length;
      for (let at = 0; at < frames; at++) {
        for (let second = at; second < frames + 2; second++) {
          let seen = 0;
          const p = verifiedPair({
            fate: () => {
              const number = seen++;
              return number === at || number === second ? "drop" : "pass";
            },
          });
          const [outcome] = writeVerified(p, { level, length: 5000 });
          const where = `${level}: frames ${at} and ${second}`;
          assert.equal(outcome!.completion, "SUCCESS", where);
          assert.ok(isCopied(p, { length: 5000 }), where);
          assert.equal(counter(p, "b", "verifyWritesIn"), 1, where);
        }
      }
    }
  });

  it("a message of which only a part came a second time is answered all the same", () => {
    const p = verifiedPair();
    let answers = 0;
    p.rig.fate = (from, frame) => {
      if (from === "a") return "pass";
      const isAck = packetOf(frame.bytes).bth.opcode === OPCODE["RC ACKNOWLEDGE"];
      // No ACK comes, so that the requester begins at the first packet again.
      return isAck || answers++ === 0 ? "drop" : "pass";
    };
    postVerified(p, { level: "verify-crc", length: 5000 });
    go(p);
    assert.equal(outcomes(p)[0]!.completion, "SUCCESS");
    assert.ok(names(p, "a").filter((name) => name === "VENDOR WRITE VERIFY FIRST").length > 1);
    assert.equal(counter(p, "b", "verifyWritesIn"), 1);
  });
});

const HISTORY: VerifyHistoryPlan = { thresholdPpm: 900_000, samples: 8, sampleOneIn: 4 };

describe("V-05: history on the card", () => {
  const plans = (more: Partial<VerifyHistoryPlan> = {}) => ({
    b: { verifyHistory: { ...HISTORY, ...more } },
  });
  const SKIPPED = "SUCCESS written: crc-before skipped";
  const LOOKED = "SUCCESS written: crc-before compared";

  it("looks at the first samples, then at one in so many, and says which", () => {
    const p = verifiedPair({ plans: plans() });
    const texts: string[] = [];
    for (let i = 0; i < 100; i++) {
      texts.push(textOf(writeVerified(p, { level: "verify", length: 300 })[0]!));
    }
    assert.deepEqual(texts.slice(0, 8), Array(8).fill(LOOKED));
    const skipped = texts.filter((text) => text === SKIPPED).length;
    assert.equal(texts.filter((text) => text === LOOKED).length, 100 - skipped);
    assert.ok(skipped > 55 && skipped < 82, `${skipped} of 92, 69 expected`);
    assert.equal(counter(p, "b", "verifySkipped"), skipped);
    assert.equal(counter(p, "b", "verifyReadBacks"), 100 - skipped);
  });

  it("a rack without it looks at every one", () => {
    const p = verifiedPair();
    for (let i = 0; i < 30; i++) writeVerified(p, { level: "verify", length: 300 });
    assert.equal(counter(p, "b", "verifyReadBacks"), 30);
  });

  it("what is skipped is answered sooner, and checked by its CRC all the same", () => {
    const p = verifiedPair({ plans: plans({ samples: 1, sampleOneIn: 1_000_000 }) });
    const times = [0, 1].map(() => {
      const begun = p.rig.now;
      writeVerified(p, { level: "verify", length: 300 });
      const answered = p.rig.frames.findLast(({ from }) => from === "b")!;
      return answered.time - begun;
    });
    assert.equal(counter(p, "b", "verifySkipped"), 1);
    // A read by DMA: twice the bus, and the host's memory.
    assert.ok(times[0]! - times[1]! > 500_000, `${times}`);
    const [bad] = writeVerified(p, { level: "verify", length: 300, crc: 1 });
    assert.equal(textOf(bad!), "VERIFY_ERR crc-mismatch: crc-before");
  });

  it("a failure lets it look at all again, also if the CRC before has found it", () => {
    const p = verifiedPair({ plans: plans({ thresholdPpm: 999_000, sampleOneIn: 1_000_000 }) });
    for (let i = 0; i < 10; i++) writeVerified(p, { level: "verify", length: 300 });
    assert.equal(counter(p, "b", "verifySkipped"), 2);
    writeVerified(p, { level: "check", length: 300, crc: 1 });
    for (let i = 0; i < 8; i++) writeVerified(p, { level: "verify", length: 300 });
    assert.equal(counter(p, "b", "verifySkipped"), 2);
    writeVerified(p, { level: "verify", length: 300 });
    assert.equal(counter(p, "b", "verifySkipped"), 3);
  });

  it("is the sender's: another of its queue pairs is trusted at once; writes unseen prove nothing", () => {
    const p = verifiedPair({ plans: plans({ sampleOneIn: 1_000_000 }) });
    for (let i = 0; i < 20; i++) writeVerified(p, { level: "check", length: 300 });
    assert.equal(textOf(writeVerified(p, { level: "verify", length: 300 })[0]!), LOOKED);
    for (let i = 0; i < 7; i++) writeVerified(p, { level: "verify", length: 300 });
    const other = { ...p, ...p.rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } }) };
    assert.equal(textOf(writeVerified(other, { level: "verify", length: 300 })[0]!), SKIPPED);
  });

  it("V-09: it saves no flush: what is persisted is persisted by other means", () => {
    const p = verifiedPair({ plans: plans({ samples: 1, sampleOneIn: 1_000_000 }) });
    const work = { level: "verify", length: 300, persist: true } as const;
    const texts = [0, 1].map(() => textOf(writeVerified(p, work)[0]!));
    assert.deepEqual(texts, [
      `${LOOKED} persisted`,
      "SUCCESS written: crc-before persisted skipped",
    ]);
    assert.equal(counter(p, "b", "lsbReads"), 1);
  });
});
