import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { udpSourcePort } from "../../fabric/wire/roce/udp.ts";
import type { RigMr, RigQp } from "./testing/rig_parts_testing.ts";
import { Rig } from "./testing/rnic_testing.ts";
import { connectUc, createUd, packetsFrom, statuses } from "./testing/unreliable_testing.ts";

function ports(rig: Rig, from: "a" | "b"): number[] {
  return [...new Set(packetsFrom(rig, from).map((packet) => packet.udpSourcePort))];
}

function memory(rig: Rig): { from: RigMr; to: RigMr } {
  const options = { length: 8192 };
  const from = rig.register(rig.a, options), to = rig.register(rig.b, options);
  rig.fill(rig.a, from, (i) => i * 11 + 3);
  return { from, to };
}

function write(rig: Rig, qp: RigQp, { from, to }: { from: RigMr; to: RigMr }): void {
  rig.send(rig.a, qp, {
    opcode: "write",
    remote: { va: BigInt(to.va), rkey: to.key },
    sges: [{ address: from.va, length: 4096, lkey: from.key }],
  });
  rig.run();
}

describe("UDP source port (rocev2.md §1.1)", () => {
  it("the worked values, in either order", () => {
    const worked = [
      [0x11, 0x22, 0xc242],
      [0x1234, 0xabcdef, 0xe1fb],
      [0xffffff, 0xffffff, 0xff21],
    ] as const;
    for (const [a, b, port] of worked) {
      assert.deepEqual([udpSourcePort(a, b), udpSourcePort(b, a)], [port, port]);
    }
    assert.equal(udpSourcePort(5, 6, 0x1face), 0xfac9, "of a flow label alone");
  });

  it("both directions of a connection have the same one", () => {
    const rig = new Rig();
    const both = memory(rig);
    const { a, b } = rig.connect();
    write(rig, a, both);
    assert.deepEqual(ports(rig, "a"), [udpSourcePort(a.qpn, b.qpn)]);
    assert.deepEqual(ports(rig, "b"), ports(rig, "a"));
  });

  it("§7 #85: 55555 set on an RC queue pair: all its packets have it, and are received", () => {
    const rig = new Rig();
    const both = memory(rig);
    const { a, b } = rig.connect();
    assert.equal(rig.modify(rig.a, a, { udpSourcePort: 55_555 }).status, "ok");
    write(rig, a, both);
    assert.deepEqual(ports(rig, "a"), [55_555]);
    assert.deepEqual(ports(rig, "b"), [udpSourcePort(a.qpn, b.qpn)], "the peer's are its own");
    assert.deepEqual(statuses(rig.poll(rig.a, a.sendCq)), ["SUCCESS"]);
    assert.deepEqual(rig.bytes(rig.b, both.to, 0, 4096), rig.bytes(rig.a, both.from, 0, 4096));
    rig.modify(rig.a, a, { udpSourcePort: 0 });
    rig.frames.length = 0;
    write(rig, a, both);
    assert.deepEqual(ports(rig, "a"), [udpSourcePort(a.qpn, b.qpn)]);
  });

  it("it can be set in RTS only", () => {
    const rig = new Rig();
    const qp = rig.createQp(rig.a);
    const reply = rig.modify(rig.a, qp, { udpSourcePort: 55_555 });
    assert.ok(reply.status === "error" && reply.errno === "EINVAL");
    const ud = createUd(rig, rig.a);
    assert.equal(rig.modify(rig.a, ud, { udpSourcePort: 55_555 }).status, "error");
  });
});

describe("address vector of a connected queue pair", () => {
  it("DSCP, hop limit and flow label are in the outer headers", () => {
    const rig = new Rig();
    const both = memory(rig);
    const { a } = connectUc(rig, { trafficClass: 0x68, hopLimit: 9, flowLabel: 0x1face });
    write(rig, a, both);
    const [packet] = packetsFrom(rig, "a");
    assert.deepEqual([packet?.dscp, packet?.ttl, packet?.udpSourcePort], [26, 9, 0xfac9]);
  });
});
