/**
 * Who has not been given access gets none (`rocev2.md` §3.4, §7.3): a third host that knows everything but
 * is not the peer, a peer that names wrong keys, rights or ranges, and guesses of numbers.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { encodePacket, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  go,
  inject,
  names,
  packetOf,
  packets,
  type Pair,
  pair,
  post,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import type { RigMr } from "../testing/rig_parts_testing.ts";
import { connectUc, createUd, namesFrom, sayTo, udAddress } from "../testing/unreliable_testing.ts";
import { wordOf } from "../state/memory.ts";

const THIRD_HOST = 0x0a00_0009;
const INVALID = NAK_SYNDROMES["invalid-request"];
const REFUSED = NAK_SYNDROMES["remote-access-error"];

type Opcode = SendWqe["opcode"];
type Work = Parameters<typeof post>[2];

const RANGE = { select: FLUSH_SELECT.range, placement: FLUSH_PLACEMENT.persistence, length: 64 };
const ATOMIC = { swapAdd: 1n, compare: 0xeeee_eeee_eeee_eeeen };

/** Each operation on the peer's memory, with the QP's right for it. */
const OPERATIONS: readonly [opcode: Opcode, work: Work, right: number][] = [
  ["write", { length: 64 }, ACCESS.remoteWrite],
  ["write-immediate", { length: 64 }, ACCESS.remoteWrite],
  ["write-persistence", { length: 64 }, ACCESS.remoteWrite],
  ["read", { length: 64 }, ACCESS.remoteRead],
  ["fetch-add", { length: 8, atomic: ATOMIC }, ACCESS.remoteAtomic],
  ["compare-swap", { length: 8, atomic: ATOMIC }, ACCESS.remoteAtomic],
  ["atomic-write", { inline: wordOf(1n) }, ACCESS.remoteWrite],
  ["flush", { flush: RANGE }, ACCESS.flushPersistent],
];
const QP_ACCESS = EVERY_ACCESS | ACCESS.remoteWritePersistence;

function securePair(access = EVERY_ACCESS, accessFlags = QP_ACCESS): Pair {
  const p = pair({}, { attributes: { accessFlags } }, access);
  recvs(p, 1);
  return p;
}

function isUntouched(p: Pair): boolean {
  return p.rig.bytes(p.rig.b, p.to).every((byte) => byte === 0xee);
}

describe("a third host", () => {
  const all = [...OPERATIONS, ["send", { length: 64 }, 0], [
    "send-immediate",
    { length: 64 },
    0,
  ]] as const;
  for (const [opcode, work] of all) {
    it(`§7 #72: that forges the frames of ${opcode}, requests and answers, is not heard`, () => {
      const [honest, forged] = [false, true].map((isForged) => {
        const p = securePair();
        let forgeries = 0;
        p.rig.fate = (from, frame) => {
          if (!isForged) return "pass";
          forgeries++;
          const packet = packetOf(frame.bytes);
          const payload = packet.payload.map((byte) => byte ^ 0xff);
          // Right in everything but its source: it comes first, so it would be taken for the real one.
          p.rig.inject(
            p.rig[from === "a" ? "b" : "a"],
            encodePacket({ ...packet, sourceAddress: THIRD_HOST, payload }),
          );
          return "pass";
        };
        post(p, opcode, work);
        go(p);
        const refused = counter(p, "a", "drop-wrong-peer") + counter(p, "b", "drop-wrong-peer");
        assert.equal(refused, forgeries);
        return {
          names: [names(p, "a"), names(p, "b")],
          statuses: statuses(p),
          memory: [p.rig.bytes(p.rig.a, p.from), p.rig.bytes(p.rig.b, p.to)],
        };
      });
      assert.deepEqual(forged, honest);
    });
  }

  it("§7 #72: that forges a NAK does not end the connection", () => {
    const p = securePair();
    p.rig.fate = (from, frame) => {
      const packet = packetOf(frame.bytes);
      if (from === "b") {
        const aeth = { ...packet.aeth!, syndrome: REFUSED };
        p.rig.inject(p.rig.a, encodePacket({ ...packet, sourceAddress: THIRD_HOST, aeth }));
      }
      return "pass";
    };
    post(p, "write", { length: 64 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(counter(p, "a", "drop-wrong-peer"), 1);
  });

  it("§7 #72: is not heard on UC either; on UD it needs the Q_Key (§7 #80)", () => {
    const p = securePair();
    const { rig } = p;
    const uc = connectUc(rig);
    const ud = { a: createUd(rig, rig.a), b: createUd(rig, rig.b) };
    for (const qp of [uc.b, ud.b]) {
      rig.recv(rig.b, qp, [{ address: p.to.va, length: 4096, lkey: p.to.key }]);
    }
    rig.fate = (_from, frame) => {
      const packet = packetOf(frame.bytes);
      const forged = { ...packet, sourceAddress: THIRD_HOST };
      const deth = packet.deth && { deth: { ...packet.deth, qKey: packet.deth.qKey + 1 } };
      rig.inject(rig.b, encodePacket({ ...forged, ...deth }));
      return "drop";
    };
    const some = [{ address: p.from.va, length: 64, lkey: p.from.key }];
    rig.send(rig.a, uc.a, { opcode: "send", sges: some });
    const to = udAddress(rig.b.plan.address, ud.b.qpn);
    sayTo(rig, { side: rig.a, qp: ud.a, mr: p.from }, { ud: to, length: 64 });
    rig.run();
    assert.ok(isUntouched(p));
    assert.equal(counter(p, "b", "drop-wrong-peer"), 1);
    assert.equal(counter(p, "b", "drop-q-key"), 1);
    assert.deepEqual(namesFrom(rig, "b"), []);
  });
});

describe("guesses by somebody who forges the peer's address", () => {
  /** A WRITE of `a` as it is on the wire. */
  function realWrite(p: Pair): RocePacket {
    post(p, "write", { length: 64 });
    go(p);
    p.rig.poll(p.rig.a, p.a.sendCq);
    p.rig.fill(p.rig.b, p.to, () => 0xee);
    return packets(p, "a").at(-1)!;
  }

  it("§3.4: of a queue pair number fall on nobody", () => {
    const p = securePair();
    const write = realWrite(p);
    const rng = rngFor(1, "qpn");
    for (let i = 0; i < 500; i++) {
      // Numbers of the two real queue pairs are no guess.
      const destQpn = 100 + rng.below(0xff_ff00);
      inject(p, "b", changed(write, { bth: { destQpn, psn: (write.bth.psn + 1) & 0xff_ffff } }));
    }
    p.rig.run();
    assert.ok(isUntouched(p));
    assert.equal(counter(p, "b", "drop-unknown-qp"), 500);
  });

  it("§3.4: of a PSN change nothing: one NAK for all ahead, an ACK for those behind", () => {
    const p = securePair();
    const write = realWrite(p);
    const before = packets(p, "b").length;
    const rng = rngFor(1, "psn");
    const next = (write.bth.psn + 1) & 0xff_ffff;
    for (let i = 0; i < 500; i++) {
      const psn = (next + 1 + rng.below(0xff_fffe)) & 0xff_ffff;
      inject(p, "b", changed(write, { bth: { psn } }));
    }
    p.rig.run();
    assert.ok(isUntouched(p));
    const answers = packets(p, "b").slice(before).map(({ aeth }) => aeth!.syndrome);
    const naks = answers.filter((syndrome) => syndrome === NAK_SYNDROMES["psn-sequence-error"]);
    assert.equal(naks.length, 1);
    p.rig.fate = () => "pass";
    post(p, "write", { length: 64 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"], "the connection is none the worse");
  });

  it("§3.4: of a key end the connection and change nothing", () => {
    const rng = rngFor(1, "rkey");
    for (let i = 0; i < 100; i++) {
      const p = securePair();
      const write = realWrite(p);
      const rkey = rng.next();
      if (rkey === p.to.key) continue;
      const psn = (write.bth.psn + 1) & 0xff_ffff;
      inject(p, "b", changed(write, { bth: { psn }, reth: { ...write.reth!, rkey } }));
      p.rig.run();
      assert.ok(isUntouched(p));
      assert.equal(packets(p, "b").at(-1)!.aeth!.syndrome, REFUSED);
      assert.ok(p.rig.b.host.events.some(({ type }) => type === "QP_ACCESS_ERR"));
    }
  });
});

describe("a peer without the right", () => {
  /** What the operation names instead of the region it may use; the region's key by default. */
  const NAMES: readonly [
    what: string,
    remote: (p: Pair, other: RigMr) => { va: bigint; rkey: number },
  ][] = [
    ["a key of another variant (§7 #39)", ({ to }) => ({ va: BigInt(to.va), rkey: to.key ^ 1 })],
    ["a key that was never given", ({ to }) => ({ va: BigInt(to.va), rkey: 0x7f_ff00 })],
    [
      "a key of another domain (§7 #33)",
      (_p, other) => ({ va: BigInt(other.va), rkey: other.key }),
    ],
    ["bytes before the region (§7 #40)", ({ to }) => ({ va: BigInt(to.va) - 8n, rkey: to.key })],
    [
      "bytes behind the region (§7 #40)",
      ({ to }) => ({ va: BigInt(to.va + to.length), rkey: to.key }),
    ],
    ["bytes that wrap around 2^64 (§7 #40)", ({ to }) => ({ va: 2n ** 64n - 8n, rkey: to.key })],
  ];
  for (const [opcode, work, right] of OPERATIONS) {
    for (const [what, remote] of NAMES) {
      it(`${opcode}: ${what} is a remote access error, nothing is read or changed`, () => {
        const p = securePair();
        const other = p.rig.register(p.rig.b, {
          length: 4096,
          va: 0x6_0000_0000,
          access: EVERY_ACCESS,
          pd: 2,
        });
        post(p, opcode, { ...work, remote: remote(p, other) });
        go(p);
        refusedWith(p, REFUSED);
        assert.ok(p.rig.bytes(p.rig.b, other).every((byte) => byte === 0));
      });
    }

    it(`${opcode}: a region that does not grant it is a remote access error (§7 #34, #36, #47)`, () => {
      const p = securePair(EVERY_ACCESS & ~right);
      post(p, opcode, work);
      go(p);
      refusedWith(p, REFUSED);
    });

    it(`${opcode}: a queue pair that does not grant it is an invalid request (§7 #35)`, () => {
      const p = securePair(EVERY_ACCESS, QP_ACCESS & ~right);
      post(p, opcode, work);
      go(p);
      refusedWith(p, INVALID);
    });
  }

  function refusedWith(p: Pair, syndrome: number): void {
    const answers = packets(p, "b");
    assert.deepEqual(answers.map(({ aeth }) => aeth!.syndrome), [syndrome], "a NAK, and no data");
    const status = syndrome === REFUSED ? "REM_ACCESS_ERR" : "REM_INV_REQ_ERR";
    assert.deepEqual(statuses(p), [status]);
    assert.ok(isUntouched(p));
  }
});
