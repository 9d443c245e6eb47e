/** Lost requests, lost answers, and what an ACK speaks for. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { TIMEOUT_UNIT_PS } from "../state/limits.ts";
import { counter, go, losing, packetOf, packets } from "../testing/pair_testing.ts";
import { read, scatteredPair, source, write } from "../testing/transport_testing.ts";

/** Of attribute value 4, the rig's own. */
const TIMEOUT_PS = TIMEOUT_UNIT_PS * 2 ** 4;

describe("loss", () => {
  it("§7 #51: of one middle packet: one NAK 0x60 however many follow, and the rest is sent again", () => {
    const p = scatteredPair();
    p.rig.fate = (from, _frame, count) => from === "a" && count === 2 ? "drop" : "pass";
    write(p, 8000);
    go(p);
    assert.equal(p.rig.b.rnic.statistics()["naksOut"], 1);
    assert.equal(p.rig.a.rnic.statistics()["timeouts"], 0);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 8000), source(p, 0, 8000));
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "SUCCESS");
  });

  it("§3.4: of another packet, when the first gap is closed: a NAK of its own, no time-out", () => {
    const p = scatteredPair();
    // Of eight packets the third; of the six from there on, which come again, the third once more.
    p.rig.fate = (from, _frame, count) => from === "a" && [2, 10].includes(count) ? "drop" : "pass";
    write(p, 8000);
    go(p);
    const naks = packets(p, "b").filter(({ aeth }) => aeth!.syndrome === 0x60);
    assert.deepEqual(naks.map(({ bth }) => bth.psn), [0, 2]);
    assert.equal(counter(p, "a", "timeouts"), 0);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "SUCCESS");
  });

  it("§7 #60: of everything: retry_cnt more attempts, then RETRY_EXC_ERR and the rest is flushed", () => {
    const p = scatteredPair({ fate: (from) => from === "a" ? "drop" : "pass" }, {
      attributes: { retryCnt: 3 },
    });
    write(p, 10);
    write(p, 10);
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ status }) => status), ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
    assert.equal(packets(p, "a").length, 2 * 4);
  });

  it("§7 #70: of a READ response before an ACK: the first WRITE completes, the READ is asked for again", () => {
    const p = scatteredPair();
    let lost = 0;
    p.rig.fate = (from, frame) => {
      const { bth } = packetOf(frame.bytes);
      const isResponse = from === "b" && bth.opcode === OPCODE["RC RDMA READ RESPONSE ONLY"];
      return isResponse && lost++ === 0 ? "drop" : "pass";
    };
    const order = [write(p, 10), read(p, 10, 100), write(p, 10, { at: 200 })];
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), order);
    assert.ok(cqes.every(({ status }) => status === "SUCCESS"));
    assert.equal(p.rig.a.rnic.statistics()["timeouts"], 0);
  });

  it("of a first packet, and of all that follows its NAK: the time-out runs from the NAK", () => {
    const p = scatteredPair();
    p.rig.fate = (from, _frame, count) =>
      from === "a" && (count === 0 || counter(p, "a", "naksIn") > 0) ? "drop" : "pass";
    write(p, 2000);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "a", "naksIn") === 1);
    const nakAt = p.rig.now;
    p.rig.run(() => counter(p, "a", "timeouts") === 1);
    assert.equal(p.rig.now - nakAt, TIMEOUT_PS);
  });

  it("of all ACKs: that more is sent does not put the time-out off (§3.3)", () => {
    const p = scatteredPair({ fate: (from) => from === "b" ? "drop" : "pass" });
    write(p, 8);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => packets(p, "a").length === 1);
    const sentAt = p.rig.now;
    for (let i = 0; i < 3; i++) {
      p.rig.runFor(TIMEOUT_PS / 4);
      write(p, 8);
      p.rig.ring(p.rig.a, p.a.sq);
    }
    p.rig.run(() => counter(p, "a", "timeouts") === 1);
    assert.equal(p.rig.now - sentAt, TIMEOUT_PS);
  });

  it("of one middle packet: what is sent again asks for an ACK in each packet (§3.2)", () => {
    const p = scatteredPair();
    p.rig.fate = (from, _frame, count) => from === "a" && count === 2 ? "drop" : "pass";
    write(p, 8000);
    go(p);
    const sent = packets(p, "a").map(({ bth }) => [bth.psn, bth.ackReq]);
    const again = sent.slice(8);
    assert.deepEqual(sent.slice(0, 8).filter(([, ackReq]) => ackReq).length, 1);
    assert.deepEqual(again, [0, 1, 2, 3, 4, 5].map((psn) => [psn, true]));
  });

  it("of a READ response, again and again: behind a time-out an ACK asks at once once more", () => {
    const p = scatteredPair();
    p.rig.fate = losing("RC RDMA READ RESPONSE ONLY", 3);
    read(p, 10);
    write(p, 10, { at: 200 });
    go(p);
    assert.deepEqual(p.rig.poll(p.rig.a, p.a.sendCq).map(({ status }) => status), [
      "SUCCESS",
      "SUCCESS",
    ]);
    assert.equal(counter(p, "a", "readRequestsOut"), 4);
    assert.equal(counter(p, "a", "timeouts"), 1);
  });

  it("§7 #61: time-out 0 never fires", () => {
    const p = scatteredPair({ fate: () => "drop" }, { attributes: { timeout: 0 } });
    p.rig.leavesRequests = true;
    write(p, 10);
    go(p);
    assert.equal(packets(p, "a").length, 1);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 0);
  });
});

describe("ACK", () => {
  it("of a WRITE leaves when its DMA writes have been handed to the bus, not before", () => {
    const p = scatteredPair({}, { attributes: { pathMtu: 4096 } });
    let checked = 0;
    p.rig.fate = (from) => {
      if (from === "b") {
        const { time } = p.rig.frames.at(-1)!;
        assert.ok(time >= p.rig.b.toHost.freeAt, `${time} is before ${p.rig.b.toHost.freeAt}`);
        checked++;
      }
      return "pass";
    };
    write(p, 4096);
    go(p);
    assert.equal(checked, 1);
  });

  it("§7 #69: of the last of several WRITEs completes all of them in order", () => {
    const p = scatteredPair();
    p.rig.fate = (from, frame) => {
      const { bth } = packetOf(frame.bytes);
      return from === "b" && bth.psn !== 0 ? "drop" : "pass";
    };
    const order = [write(p, 10), write(p, 10, { at: 20 }), write(p, 10, { at: 40 })];
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), order);
    assert.equal(p.rig.a.rnic.statistics()["retransmissions"], 0);
  });
});
