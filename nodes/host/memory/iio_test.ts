import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { MemoryRead, MemoryWrite, PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { SCM_BASE } from "./address_map.ts";
import {
  HostRig,
  pattern,
  type PlanChanges,
  RIG_TIMING,
  type Sent,
} from "../testing/host_testing.ts";
import { flowOf } from "./iio.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

/** Boot is over and the host idle. */
const START = 2_000_000;
const { iioPs, dmaReadLlcPs, dmaReadDramPs, dmaReadScmPs, scmMediumPs } = RIG_TIMING;
/** The medium is written a block of 256 B. */
const BLOCK_PS = 20_480;
const MEDIUM_READ_PS = dmaReadScmPs + scmMediumPs;
/** 64 B at the drain's rate. */
const PIECE_PS = 4000;

function write(address: number, data: Uint8Array<ArrayBuffer>, noSnoop = false): MemoryWrite {
  return { kind: "memory-write", address, data, noSnoop };
}

function read(tag: number, address: number, length: number, noSnoop = false): MemoryRead {
  return { kind: "memory-read", tag, address, length, noSnoop };
}

function rig(changes: PlanChanges = {}): HostRig {
  const host = new HostRig(changes);
  host.run(START);
  return host;
}

function completions(sent: readonly Sent[]): [tag: number, departAt: number, data: number[]][] {
  return sent.map(({ message, departAt }) => {
    assert.ok(message.kind === "completion" && message.status === "success");
    return [message.tag, departAt, [...message.data]];
  });
}

describe("flowOf", () => {
  it("P-02: is flow 2 where DDIO is on and, with +NS only, the packet's NS bit is 0", () => {
    const table: [
      architecture: "ddio" | "ddio+ns",
      ddio: boolean,
      noSnoop: boolean,
      flow: 1 | 2,
    ][] = [
      ["ddio", false, false, 1],
      ["ddio", false, true, 1],
      ["ddio", true, false, 2],
      ["ddio", true, true, 2],
      ["ddio+ns", false, false, 1],
      ["ddio+ns", false, true, 1],
      ["ddio+ns", true, false, 2],
      ["ddio+ns", true, true, 1],
    ];
    for (const [architecture, ddio, noSnoop, flow] of table) {
      assert.equal(
        flowOf({ architecture, ddio }, noSnoop),
        flow,
        `${architecture} ${ddio} ${noSnoop}`,
      );
    }
  });
});

describe("Iio", () => {
  it("P-03: holds a write for its time, then it is in the iMC and durable, piece by piece", () => {
    const host = rig();
    host.arrive(START, write(SCM_BASE + 100, pattern(100)));
    host.run(START + iioPs);
    assert.equal(host.durable.length, 0);
    assert.equal(host.node.statistics().iioBytes, 100);
    host.run(START + iioPs + PIECE_PS);
    assert.deepEqual(host.durable.map(({ offset, data }) => [offset, data.length]), [[100, 28]]);
    assert.equal(host.node.nextDurableAt!(), START + iioPs + 1750 + 4000, "64 B up to the next 64");
    host.run();
    assert.deepEqual([...host.survivors.subarray(100, 200)], [...pattern(100)]);
    assert.deepEqual(host.durable.map(({ offset }) => offset), [100, 128, 192]);
  });

  it("P-41: a power failure between two pieces leaves what had left, though only the last is an event", () => {
    const flows: PlanChanges[] = [{}, { ddio: true, domain: "eadr" }];
    for (
      const [flow, hasEvents] of flows.flatMap((flow) => [[flow, false], [flow, true]] as const)
    ) {
      const host = rig(flow);
      host.arrive(START, write(SCM_BASE + 100, pattern(412)));
      // A read that comes in between changes nothing, and sees what has left.
      if (hasEvents) {
        for (let at = 1; at < 6; at++) {
          host.arrive(START + iioPs + at * 3_000, read(at, 0, 64));
        }
      }
      const ends = [28, 92, 156, 220, 284, 348];
      for (const [i, left] of ends.entries()) {
        const before = START + iioPs + 1750 + i * PIECE_PS;
        host.run(before - 1);
        assert.equal(
          host.durable.reduce((sum, { data }) => sum + data.length, 0),
          ends[i - 1] ?? 0,
        );
        host.run(before);
        assert.equal(host.durable.reduce((sum, { data }) => sum + data.length, 0), left);
      }
      host.run();
      assert.deepEqual([...host.survivors.subarray(100, 512)], [...pattern(412)]);
      if (!hasEvents) assert.equal(host.now, START + iioPs + 1750 + 6 * PIECE_PS);
    }
  });

  it("P-41: the same holds where nothing has looked at memory before the power failure", () => {
    for (const flow of [{}, { ddio: true, domain: "eadr" }] satisfies PlanChanges[]) {
      for (const pieces of [0, 1, 2, 3, 4, 5]) {
        // The piece after these leaves at this very instant, and a power failure comes before it.
        const host = rig(flow), at = START + iioPs + 1750 + pieces * PIECE_PS;
        host.arrive(START, write(SCM_BASE + 100, pattern(412)));
        host.run(at - 1);
        const left = host.durable.reduce((sum, { data }) => sum + data.length, 0);
        assert.equal(left, pieces === 0 ? 0 : 28 + 64 * (pieces - 1), `${pieces} pieces`);
      }
    }
  });

  it("has an event for the last piece of a write alone, in either flow", () => {
    for (const ddio of [false, true]) {
      const host = rig({ ddio });
      host.arrive(START, write(0, pattern(4096)));
      const { steps } = host;
      host.run();
      assert.equal(host.steps - steps, 2, "it comes, it has left");
      assert.equal(host.node.nextDurableAt!(), Infinity);
    }
  });

  it("P-04: flow 2 leaves data in the LLC, where a power failure loses it", () => {
    const host = rig({ ddio: true });
    host.arrive(START, write(SCM_BASE, pattern(64)));
    host.arrive(START + 500_000, read(1, SCM_BASE, 64));
    host.run();
    assert.equal(host.durable.length, 0);
    assert.deepEqual(completions(host.sent), [[1, START + 500_000 + dmaReadLlcPs, [
      ...pattern(64),
    ]]]);
  });

  it("P-01: under eADR flow 2 is durable when it reaches the LLC, not before", () => {
    const host = rig({ ddio: true, domain: "eadr" });
    host.arrive(START, write(SCM_BASE, pattern(64)));
    host.run(START + iioPs);
    assert.equal(host.durable.length, 0);
    host.run(START + iioPs + PIECE_PS);
    assert.deepEqual([...host.survivors.subarray(0, 64)], [...pattern(64)]);
  });

  it("P-05: under wsp a write is durable as a whole when it has come, wherever it goes", () => {
    for (const ddio of [false, true]) {
      const host = rig({ ddio, domain: "wsp" });
      host.arrive(START, write(SCM_BASE + 100, pattern(412)));
      host.arrive(START + 1, write(SCM_BASE + 200, pattern(8, 2)));
      host.arrive(START + 2, write(0, pattern(64)));
      const expected = pattern(412);
      host.run(START);
      assert.deepEqual(host.survivors.subarray(100, 512), expected);
      expected.set(pattern(8, 2), 100);
      // The pieces that go to memory afterwards take nothing back.
      for (let at = START + 1; at < START + 200_000; at += 1000) {
        host.run(at);
        assert.deepEqual(host.survivors.subarray(100, 512), expected, `${at - START} ps later`);
      }
      assert.deepEqual(host.durable.map(({ offset, data }) => [offset, data.length]), [
        [100, 412],
        [200, 8],
      ]);
      host.arrive(host.now, read(1, SCM_BASE + 100, 412));
      host.run();
      assert.deepEqual(completions(host.sent)[0]![2], [...expected], "and memory has it");
    }
  });

  it("V-03: a read of the medium takes its data when the write pending queue has let go of it", () => {
    // A line takes 2 µs to its module, so that the queue keeps what a read soon asks for.
    const timing = { scmLinePs: 2_000_000 };
    const stuckBits = [{ offset: 256, bit: 0, value: 1 }, {
      offset: 300,
      bit: 7,
      value: 0,
    }] as const;
    const data = new Uint8Array(64).fill(0xfe);
    const seen = data.slice();
    seen[0] = 0xff;
    seen[44] = 0x7e;
    const host = rig({ timing, stuckBits });
    host.arrive(START, write(SCM_BASE + 256, data));
    host.arrive(START, read(1, SCM_BASE + 256, 64));
    host.arrive(START, { ...read(3, SCM_BASE + 1024, 64), medium: true });
    host.arrive(START, { ...read(2, SCM_BASE + 256, 64), medium: true });
    host.arrive(START, { ...read(4, SCM_BASE - 1, 64), medium: true });
    host.run();
    const accepted = START + iioPs + PIECE_PS;
    const [bad, ...good] = host.sent;
    assert.ok(bad?.message.kind === "completion" && bad.message.status === "unsupported-request");
    assert.deepEqual(completions(good), [
      [1, accepted + dmaReadScmPs, [...data]],
      [3, accepted + MEDIUM_READ_PS, Array(64).fill(0)],
      [2, accepted + 2_000_000 + BLOCK_PS + MEDIUM_READ_PS, [...seen]],
    ]);
    assert.deepEqual(
      host.survivors.subarray(256, 320),
      seen,
      "what survives is what the cells hold",
    );
  });

  it("P-03: a read completes only after earlier writes have left, wherever they go", () => {
    const host = rig();
    host.arrive(START, write(SCM_BASE, pattern(192)));
    host.arrive(START, read(1, SCM_BASE + 4096, 1));
    host.arrive(START + 10, write(SCM_BASE + 8192, pattern(64)));
    while (host.sent.length === 0) host.next();
    assert.deepEqual([...host.survivors.subarray(0, 192)], [...pattern(192)]);
    const left = START + iioPs + 3 * PIECE_PS;
    assert.deepEqual(completions(host.sent), [[1, left + MEDIUM_READ_PS, [0]]]);
  });

  it("P-03: a read with nothing ahead of it does not wait, and writes behind it pass", () => {
    const host = rig();
    host.arrive(START, read(1, 0, 64));
    host.arrive(START, write(SCM_BASE, pattern(64)));
    host.run();
    assert.deepEqual(completions(host.sent)[0]!.slice(0, 2), [1, START + dmaReadDramPs]);
    assert.equal(host.durable.length, 1);
  });

  it("P-03: reads overlap, and complete in the order in which their data is there", () => {
    const host = rig();
    host.arrive(START, read(1, SCM_BASE, 64));
    host.arrive(START, read(2, 0, 512));
    host.arrive(START + 5, read(3, 0, 64));
    host.run();
    assert.deepEqual(completions(host.sent).map(([tag, departAt]) => [tag, departAt - START]), [
      [3, 5 + dmaReadDramPs],
      [2, dmaReadDramPs + 7 * 8000],
      [1, MEDIUM_READ_PS],
    ]);
  });

  it("P-02, P-24: an NS read of a +NS host looks at memory, on another host at the LLC", () => {
    for (const architecture of ["ddio", "ddio+ns"] as const) {
      const host = rig({ architecture, ddio: true });
      host.arrive(START, write(SCM_BASE, pattern(64), false));
      host.arrive(START, read(1, SCM_BASE, 1, true));
      host.run();
      const passes = architecture === "ddio+ns";
      const expected = passes ? MEDIUM_READ_PS : dmaReadLlcPs;
      assert.deepEqual(completions(host.sent), [
        [1, START + iioPs + PIECE_PS + expected, [passes ? 0 : pattern(1)[0]]],
      ]);
    }
  });

  it("P-24: an NS write of a +NS host is durable when a read behind it completes", () => {
    const host = rig({ architecture: "ddio+ns", ddio: true });
    host.arrive(START, write(SCM_BASE, pattern(640), true));
    host.arrive(START, read(1, 0, 1, true));
    while (host.sent.length === 0) host.next();
    assert.deepEqual([...host.survivors.subarray(0, 640)], [...pattern(640)]);
  });

  it("keeps an interrupt behind the writes before it", () => {
    const raised: number[] = [];
    const host = new HostRig({}, {
      programs: {
        *waits(cpu) {
          yield* cpu.waitInterrupt(5, Infinity);
          raised.push(cpu.now);
        },
      },
    });
    host.run(START);
    host.arrive(START, write(0, pattern(64)));
    host.arrive(START, { kind: "interrupt", vector: 5 });
    host.run();
    assert.deepEqual(raised, [START + iioPs + PIECE_PS + RIG_TIMING.interruptPs]);
  });

  it("P-03: of a card that is gone, its writes, interrupts and events arrive in their order, and its reads are dropped", () => {
    const raised: number[] = [];
    const host = new HostRig({}, {
      programs: {
        *waits(cpu) {
          yield* cpu.waitInterrupt(5, Infinity);
          raised.push(cpu.now);
        },
      },
    });
    host.run(START);
    host.arrive(START, write(SCM_BASE, pattern(64)));
    host.arrive(START, read(1, SCM_BASE, 64));
    host.arrive(START, { kind: "event", event: { type: "QP_FATAL", qpn: 20 } });
    host.arrive(START, { kind: "interrupt", vector: 5 });
    host.run(START + 10);
    host.step({ kind: "link", port: 0, up: false });
    const events = () =>
      host.reports.flatMap(({ topic, value, at }) =>
        topic === "rnic-event" && (value as { type: string }).type === "QP_FATAL" ? [at] : []
      );
    assert.deepEqual(events(), [], "it stands behind the write");
    host.run();
    assert.deepEqual([...host.survivors.subarray(0, 64)], [...pattern(64)]);
    assert.deepEqual(raised, [START + iioPs + PIECE_PS + RIG_TIMING.interruptPs]);
    assert.deepEqual(events(), [START + iioPs + PIECE_PS]);
    assert.deepEqual(host.sent, [], "no completion");
  });

  it("DDIO: a write waits for room for the lines that those before it drove out of the LLC", () => {
    const linePs = 2_000_000, lines = 8;
    const last = [0, linePs].map((scmLinePs) => {
      // One way of DDIO: each line drives the one before out.
      const llc = { bytes: 4 * 64, ways: 4, ddioWays: 1, evict: "lru" } as const;
      const timing = { wpqLines: 2, ...(scmLinePs > 0 && { scmLinePs }) };
      const host = rig({ ddio: true, llc, timing });
      for (let i = 0; i < lines; i++) host.arrive(START, write(SCM_BASE + 64 * i, pattern(64)));
      host.arrive(START, read(1, 0, 64));
      host.run();
      return host.sent[0]!.departAt;
    });
    // Two lines of seven wait in the queue, one is with the module, the last is in the LLC.
    assert.equal(last[0], START + iioPs + lines * PIECE_PS + dmaReadDramPs);
    assert.ok(last[1]! > last[0]! + 3 * linePs, `${last[1]! - last[0]!} ps`);
  });

  it("waits for room in the write pending queue, and so does a read behind it", () => {
    const linePs = 2_000_000;
    const host = rig({ timing: { scmLinePs: linePs, wpqLines: 2 } });
    for (let block = 0; block < 4; block++) {
      host.arrive(START, write(SCM_BASE + 256 * block, pattern(64, block)));
    }
    host.arrive(START, read(1, SCM_BASE, 1));
    while (host.sent.length === 0) host.next();
    for (let block = 0; block < 4; block++) {
      const from = 256 * block;
      assert.deepEqual([...host.survivors.subarray(from, from + 64)], [...pattern(64, block)]);
    }
    const accepted = START + iioPs + PIECE_PS + 2 * linePs;
    assert.equal(host.sent[0]!.departAt, accepted + dmaReadScmPs);
    const { wpqStalls, wpqStallPs } = host.node.statistics();
    assert.deepEqual([wpqStalls, wpqStallPs! > linePs], [2, true]);
  });

  it("answers a read of no memory with unsupported-request, and drops a write to none", () => {
    const host = rig();
    const bad: PcieMessage[] = [
      write(SCM_BASE + host.plan.scmBytes - 32, pattern(64)),
      write(host.plan.dramBytes, pattern(1)),
      read(7, SCM_BASE - 1, 2),
      read(8, 0, 0),
      write(0, new Uint8Array(0)),
    ];
    for (const message of bad) host.arrive(START, message);
    host.run();
    const answers = host.sent.map(({ message }) => message);
    assert.deepEqual(
      answers.map((m) => m.kind === "completion" && [m.tag, m.status, m.data.length]),
      [
        [7, "unsupported-request", 0],
        [8, "success", 0],
      ],
    );
    const { dmaBadReads, dmaBadWrites, iioBytesMax } = host.node.statistics();
    assert.deepEqual({ dmaBadReads, dmaBadWrites, iioBytesMax }, {
      dmaBadReads: 1,
      dmaBadWrites: 2,
      iioBytesMax: 0,
    });
  });

  it("refuses timings under which a word could tear or a piece never fit", () => {
    assert.throws(() => rig({ timing: { iioDrainBytes: 12 } }), /P-41/);
    assert.throws(() => rig({ timing: { iioDrainBytes: 1024, wpqLines: 16 } }), /never has room/);
  });

  it("P-03, P-41: at every instant, what survives is whole words of a prefix of the writes", () => {
    const drains = fc.constantFrom(8, 24, 64, 256);
    const sizes = fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(drains, sizes, (iioDrainBytes, words) => {
        const host = rig({ scmBytes: 4096, timing: { iioDrainBytes } });
        let at = 8;
        for (const [i, count] of words.entries()) {
          host.arrive(START + i, write(SCM_BASE + at, pattern(8 * count, i)));
          at += 8 * count;
        }
        for (;;) {
          const first = host.survivors.findIndex((byte, i) => i >= 8 && byte === 0);
          const rest = host.survivors.subarray(first);
          assert.ok(first % 8 === 0 && rest.every((byte) => byte === 0), `torn at ${first}`);
          if (!host.next()) break;
        }
        assert.equal(host.survivors.findIndex((byte, i) => i >= 8 && byte === 0), at);
      }),
      seeded({ numRuns: 40 }),
    );
  });
});
