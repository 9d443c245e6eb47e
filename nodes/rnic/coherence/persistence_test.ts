/**
 * What promises persistence, on lines of a shared region (decisions 6, 12): persistent writes, FLUSH and verified
 * writes of `b`, whose own cores have the lines dirty in its remote cache.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { newHostLine } from "../../../fabric/coherence/host_agent_table.ts";
import { LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import type { PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { decodeVerdict } from "../../../fabric/wire/roce/verify_eth.ts";
import { EVERY_ACCESS } from "../testing/pair_testing.ts";
import { FLOW_1, FLOW_2 } from "../testing/pm_testing.ts";
import { byteAt, regionPlan, RegionRig } from "../testing/region_testing.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";
import { VERIFIED_ACCESS } from "../testing/verify_testing.ts";

interface Setup {
  readonly r: RegionRig;
  readonly qp: RigQp;
  readonly homeQp: RigQp;
  readonly mr: RigMr;
  readonly rkey: number;
}

/** Lines 1 and 2 are dirty at `b`: their first byte is 1, byte 40 is 2. */
function setup(flow: PersistencePlan = FLOW_1): Setup {
  const r = new RegionRig(regionPlan({ leasePs: 5000 * PS_PER_US }), {
    plans: { a: { attach: { bitsPerSecond: 126e9 } } },
    persistence: { a: flow, b: flow },
  });
  r.register();
  const mr = r.rig.register(r.rig.b, { length: 4096, access: EVERY_ACCESS });
  const { a: homeQp, b: qp } = r.rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } });
  const rkey = r.registerMemory();
  r.rig.fill(r.rig.b, mr, () => 0x55);
  for (const line of [1, 2]) {
    r.store("far", line, 1);
    r.access("far", "store", line, byteAt(40, 2));
  }
  return { r, qp, homeQp, mr, rkey };
}

/** Posts work of all of `line` and of bytes 0 to 7 of the next one. */
function begin(
  { r, qp, mr, rkey }: Setup,
  opcode: SendWqe["opcode"],
  { line = 1, ...more }: Partial<SendWqe> & { readonly line?: number },
): void {
  const sges = opcode === "flush" ? [] : [{ address: mr.va, length: 72, lkey: mr.key }];
  const remote = { va: BigInt(r.region.address + 64 * line), rkey };
  r.rig.send(r.rig.b, qp, { opcode, sges, remote, ...more });
}

/** Completions of `b`, as text. */
function poll({ r, qp }: Setup): string[] {
  return r.rig.poll(r.rig.b, qp.sendCq).map(({ status, verify }) => {
    const verdict = decodeVerdict(verify);
    return verdict === undefined ? status : [status, verdict.status, ...verdict.checks].join(" ");
  });
}

function end(s: Setup): string[] {
  const cqes: string[] = [];
  s.r.rig.run(() => {
    cqes.push(...poll(s));
    return cqes.length > 0;
  });
  return cqes;
}

/** Bytes 0, 8 and 40 of a line as home's memory has it. */
function kept({ r }: Setup, line: number): (number | undefined)[] {
  const content = r.agent.lines.get(r.region.address / 64 + line)?.memory;
  return content instanceof Uint8Array ? [content[0], content[8], content[40]] : [];
}

const PROMISES: readonly [string, SendWqe["opcode"], Partial<SendWqe>, string][] = [
  ["P-21: a persistent WRITE", "write-persistence", {}, "SUCCESS"],
  ...([
    ["none", "SUCCESS written persisted"],
    ["check", "SUCCESS written crc-before persisted"],
    ["verify", "SUCCESS written crc-before compared persisted"],
    ["verify-crc", "SUCCESS written crc-before crc-after persisted"],
  ] as const).map(([level, good]): typeof PROMISES[number] => [
    `V-09: a verified write, ${level},`,
    "write-verify",
    { verify: { level, persist: true } },
    good,
  ]),
];

const FLUSH = { select: FLUSH_SELECT.range, placement: FLUSH_PLACEMENT.persistence, length: 72 };
const VERIFIED = { verify: { level: "none", persist: true } } as const;

describe("persistence of a shared region's lines", () => {
  for (const [name, opcode, more, good] of PROMISES) {
    it(`decision 6, ${name} recalls dirty lines of a far card, and promises what memory has`, () => {
      const s = setup();
      const { r } = s;
      begin(s, opcode, more);
      assert.deepEqual(end(s), [good]);
      // At its completion: its own bytes, and those that the far core had written beside them.
      assert.deepEqual(kept(s, 1), [0x55, 0x55, 0x55]);
      assert.deepEqual(kept(s, 2), [0x55, 0, 2]);
      assert.equal(r.counter("a", "coherenceRecalls"), 2);
      assert.deepEqual([...r.gone].sort(), [1, 2]);
      assert.equal(r.load("far", 2), 0x55);
    });

    it(`decision 12, ${name} waits until memory has the line`, () => {
      const s = setup();
      const { r } = s;
      let writes = 0;
      // The last line's write-back does not reach memory: the recalled content and the other line do.
      r.holds = (message) => message.kind === "line" && message.op === "WbMtoI" && ++writes > 1;
      begin(s, opcode, more);
      r.rig.runFor(100 * PS_PER_US);
      assert.ok(writes > 1);
      assert.deepEqual(poll(s), []);
      assert.notDeepEqual(kept(s, 2), [0x55, 0, 2]);
      r.release();
      assert.deepEqual(end(s), [good]);
      assert.deepEqual(kept(s, 2), [0x55, 0, 2]);
    });
  }

  it("P-50, decision 12: a FLUSH waits until memory has what the connection wrote before it", () => {
    const s = setup();
    const { r } = s;
    r.holds = (message) => message.kind === "line" && message.op === "WbMtoI";
    begin(s, "write", {});
    r.rig.runFor(20 * PS_PER_US);
    poll(s);
    const flush = {
      select: FLUSH_SELECT.range,
      placement: FLUSH_PLACEMENT.persistence,
      length: 72,
    };
    begin(s, "flush", { flush });
    r.rig.runFor(100 * PS_PER_US);
    assert.deepEqual(poll(s), []);
    r.release();
    assert.deepEqual(end(s), ["SUCCESS"]);
    assert.deepEqual([kept(s, 1), kept(s, 2)], [[0x55, 0x55, 0x55], [0x55, 0, 2]]);
  });

  it("P-50, decision 12: a FLUSH holds where a far core has made the lines dirty since the WRITE", () => {
    const s = setup();
    const { r } = s;
    begin(s, "write", {});
    assert.deepEqual(end(s), ["SUCCESS"]);
    for (const line of [1, 2]) r.access("far", "store", line, byteAt(40, 3));
    const flush = {
      select: FLUSH_SELECT.range,
      placement: FLUSH_PLACEMENT.persistence,
      length: 72,
    };
    begin(s, "flush", { flush });
    assert.deepEqual(end(s), ["SUCCESS"]);
    assert.deepEqual([kept(s, 1), kept(s, 2)], [[0x55, 0x55, 0x55], [0x55, 0, 2]]);
  });

  /** The CPU of flow 2 flushes what completed RECVs name, and says so. */
  function flushByHome({ r: { rig }, homeQp }: Setup): void {
    for (const { opcode, psn } of rig.poll(rig.a, homeQp.recvCq)) {
      if (opcode !== "recv-persistence") continue;
      rig.send(rig.a, homeQp, { opcode: "persistence-ack", immediate: psn });
    }
  }

  const MEANS: readonly [string, PersistencePlan][] = [
    ["LSB read", FLOW_1],
    ["the CPU", FLOW_2],
    ["wsp", { flow: 1, flush: "none", noSnoop: false }],
  ];
  const LATE: readonly (readonly [
    string,
    SendWqe["opcode"],
    Partial<SendWqe>,
    string | undefined,
  ])[] = [
    ["P-21: a persistent WRITE", "write-persistence", {}, undefined],
    ["P-50: a FLUSH", "flush", { flush: FLUSH }, "REM_OP_ERR"],
    ["V-09: a verified write", "write-verify", VERIFIED, "VERIFY_ERR"],
  ];
  for (const [means, flow] of MEANS) {
    for (const [name, opcode, more, refusal] of LATE) {
      it(`decision 13, ${name} promises nothing of a line that is lost and was written in part: ${means}`, () => {
        const s = setup(flow);
        const { r } = s;
        r.agent.lines.set(r.region.address / 64 + 5, newHostLine(LOST));
        assert.equal(r.load("home", 5), "lost");
        if (opcode === "flush") {
          begin(s, "write", { line: 4 });
          assert.deepEqual(end(s), ["SUCCESS"]);
        }
        r.rig.recv(r.rig.a, s.homeQp, []);
        begin(s, opcode, { ...more, line: 4 });
        for (let i = 0; i < 20; i++) {
          r.rig.runFor(10 * PS_PER_US);
          flushByHome(s);
        }
        assert.equal(poll(s)[0]?.split(" ")[0], refusal);
        assert.equal(r.load("home", 5), "lost");
      });

      it(`decision 13, ${name} holds where the line that was lost is written as a whole: ${means}`, () => {
        const s = setup(flow);
        const { r } = s;
        r.agent.lines.set(r.region.address / 64 + 4, newHostLine(LOST));
        if (opcode === "flush") {
          begin(s, "write", { line: 4 });
          assert.deepEqual(end(s), ["SUCCESS"]);
        }
        r.rig.recv(r.rig.a, s.homeQp, []);
        begin(s, opcode, { ...more, line: 4 });
        for (let i = 0; i < 20; i++) {
          r.rig.runFor(10 * PS_PER_US);
          flushByHome(s);
        }
        assert.equal(poll(s)[0]?.split(" ")[0], "SUCCESS");
        assert.equal(r.load("home", 4), 0x55);
      });
    }
  }
});
