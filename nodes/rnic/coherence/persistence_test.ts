/**
 * What promises persistence, on lines of a shared region (decisions 6, 12): persistent writes, FLUSH and verified
 * writes of `b`, whose own cores have the lines dirty in its remote cache.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { decodeVerdict } from "../../../fabric/wire/roce/verify_eth.ts";
import { EVERY_ACCESS } from "../testing/pair_testing.ts";
import { FLOW_1 } from "../testing/pm_testing.ts";
import { byteAt, regionPlan, RegionRig } from "../testing/region_testing.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";
import { VERIFIED_ACCESS } from "../testing/verify_testing.ts";

interface Setup {
  readonly r: RegionRig;
  readonly qp: RigQp;
  readonly mr: RigMr;
  readonly rkey: number;
}

/** Lines 1 and 2 are dirty at `b`: their first byte is 1, byte 40 is 2. */
function setup(): Setup {
  const r = new RegionRig(regionPlan({ leasePs: 5000 * PS_PER_US }), {
    plans: { a: { attach: { bitsPerSecond: 126e9 } } },
    persistence: { a: FLOW_1, b: FLOW_1 },
  });
  r.register();
  const mr = r.rig.register(r.rig.b, { length: 4096, access: EVERY_ACCESS });
  const { b: qp } = r.rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } });
  const rkey = r.registerMemory();
  r.rig.fill(r.rig.b, mr, () => 0x55);
  for (const line of [1, 2]) {
    r.store("far", line, 1);
    r.access("far", "store", line, byteAt(40, 2));
  }
  return { r, qp, mr, rkey };
}

/** Posts work of all of line 1 and of bytes 0 to 7 of line 2. */
function begin({ r, qp, mr, rkey }: Setup, opcode: SendWqe["opcode"], more: Partial<SendWqe>) {
  const sges = opcode === "flush" ? [] : [{ address: mr.va, length: 72, lkey: mr.key }];
  const remote = { va: BigInt(r.region.address + 64), rkey };
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
});
