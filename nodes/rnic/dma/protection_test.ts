import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { go, names, packets } from "../testing/pair_testing.ts";
import { scatteredPair, write } from "../testing/transport_testing.ts";

describe("protection (rocev2.md §7.3)", () => {
  const inside = { length: 100, at: 0, key: 0, flags: ACCESS.localWrite | ACCESS.remoteWrite };
  const cases: [string, Partial<typeof inside>, string][] = [
    ["a key with another variant", { key: 1 }, "REM_ACCESS_ERR"],
    ["a range that leaves the region", { at: 32767, length: 2 }, "REM_ACCESS_ERR"],
    ["a region of the whole address space", { at: -0x1_0000_0000, length: 100 }, "REM_ACCESS_ERR"],
    ["a region without remote write", { flags: ACCESS.localWrite }, "REM_ACCESS_ERR"],
  ];
  for (const [name, change, status] of cases) {
    it(`WRITE to ${name} is refused and changes nothing`, () => {
      const { length, at, key, flags } = { ...inside, ...change };
      const p = scatteredPair();
      const { rig, a, from } = p;
      const to = rig.register(rig.b, { length: 32768, access: flags, va: 0x2_0000_0000 });
      const before = rig.b.host.memory.slice(to.address, to.address + to.length);
      rig.send(rig.a, a, {
        opcode: "write",
        remote: { va: BigInt(to.va + at), rkey: to.key + key },
        sges: [{ address: from.va, length, lkey: from.key }],
      });
      rig.run();
      assert.equal(rig.poll(rig.a, a.sendCq)[0]?.status, status);
      assert.deepEqual(rig.b.host.memory.slice(to.address, to.address + to.length), before);
      assert.deepEqual(rig.b.host.events.map(({ type }) => type), ["QP_ACCESS_ERR"]);
    });
  }

  it("WRITE to a region of another protection domain is refused", () => {
    const p = scatteredPair();
    const to = p.rig.register(p.rig.b, { length: 4096, pd: 2, va: 0x3_0000_0000 });
    write({ ...p, to }, 10);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_ACCESS_ERR");
  });

  it("a VA near 2^64 does not wrap into a region", () => {
    const p = scatteredPair();
    p.rig.send(p.rig.a, p.a, {
      opcode: "write",
      remote: { va: 2n ** 64n - 4n, rkey: p.to.key },
      sges: [{ address: p.from.va, length: 100, lkey: p.from.key }],
    });
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_ACCESS_ERR");
  });

  it("§7 #41: zero-length WRITE and READ need neither key nor address and use one PSN each", () => {
    const p = scatteredPair();
    for (const opcode of ["write", "read"] as const) {
      p.rig.enqueueSend(p.rig.a, p.a, { opcode, remote: { va: 0n, rkey: 0 } });
    }
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ status }) => status), ["SUCCESS", "SUCCESS"]);
    assert.deepEqual(packets(p, "a").map(({ bth }) => bth.psn), [0xff_fffe, 0xff_ffff]);
  });

  it("a queue pair without the access flag refuses with 0x61", () => {
    const p = scatteredPair({}, { attributes: { accessFlags: ACCESS.localWrite } });
    write(p, 10);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_INV_REQ_ERR");
  });

  it("a bad local key fails here, with nothing on the wire, and flushes the rest in order", () => {
    const p = scatteredPair();
    const { rig, a, from, to } = p;
    const good = write(p, 10);
    rig.enqueueSend(rig.a, a, {
      opcode: "write",
      remote: { va: BigInt(to.va), rkey: to.key },
      sges: [{ address: from.va, length: 10, lkey: from.key + 1 }],
    });
    write(p, 10);
    go(p);
    const cqes = rig.poll(rig.a, a.sendCq);
    assert.deepEqual(cqes.map(({ status }) => status), ["SUCCESS", "LOC_PROT_ERR", "WR_FLUSH_ERR"]);
    assert.equal(cqes[0]!.wqeIndex, good);
    assert.equal(names(p, "a").length, 1);
  });

  it("a deregistered region is refused, its index comes back with another key", () => {
    const p = scatteredPair();
    p.rig.command(p.rig.b, { op: "deregister-mr", key: p.to.key });
    const next = p.rig.register(p.rig.b, { length: 32768 });
    assert.equal(next.key >>> 8, p.to.key >>> 8);
    assert.notEqual(next.key, p.to.key);
    write(p, 10);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_ACCESS_ERR");
  });

  it("memory that the host refuses fails the work that needs it", () => {
    const p = scatteredPair();
    p.rig.a.host.refuseReads = false;
    write(p, 2000);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() =>
      p.rig.a.rnic.statistics()["wqeReads"] === 1 &&
      p.rig.a.host.log.at(-1)?.kind === "memory-read" && p.rig.a.rnic.statistics()["dmaReads"]! >= 2
    );
    p.rig.a.host.refuseReads = true;
    p.rig.run(() => p.rig.a.rnic.statistics()["dmaErrors"]! > 0);
    p.rig.a.host.refuseReads = false;
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "LOC_PROT_ERR");
  });
});
