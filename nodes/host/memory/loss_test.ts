/** What a power failure would lose is exactly what it does lose, in every domain. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { type HostLoss, LOSS_PLACES, type LossPlace } from "../../../fabric/inspection.ts";
import { HostRig, pattern, type PlanChanges } from "../testing/host_testing.ts";
import type { Host } from "../host.ts";
import type { Cpu } from "../cpu/program.ts";
import { SCM_BASE } from "./address_map.ts";
import { overlay } from "./sparse_bytes.ts";

const BOOT = 1_000_000;

/** A rig whose host stores into SCM, and to which the card writes. */
function busy(changes: PlanChanges): HostRig {
  const rig = new HostRig(changes, {
    programs: {
      *stores(cpu: Cpu) {
        cpu.store(cpu.scm.address, pattern(80));
        cpu.ntstore(cpu.scm.address + 4_096, pattern(24));
        yield* cpu.sleep(1_000);
      },
    },
  });
  rig.run(BOOT + 10_000);
  const data = pattern(256, 2);
  // The second goes over bytes of the first.
  for (const [at, offset] of [[20_000, 8_192], [30_000, 8_320]] as const) {
    const address = SCM_BASE + offset;
    rig.arrive(BOOT + at, { kind: "memory-write", address, data, noSnoop: false });
  }
  rig.run(BOOT + 40_000);
  return rig;
}

describe("lossOf", () => {
  const at = (place: LossPlace, from: number, to: number) => ({ place, from, to });
  const iio = at("iio", 8_192, 8_576), wcb = at("wcb", 4_096, 4_120), llc = at("llc", 0, 128);
  for (
    const [domain, bytes, changed, ranges] of [
      ["adr", { iio: 384, llc: 128, wcb: 24 }, 384 + 80 + 24, [iio, llc, wcb]],
      ["eadr", { iio: 384, llc: 0, wcb: 24 }, 384 + 24, [iio, wcb]],
      ["wsp", { iio: 0, llc: 0, wcb: 0 }, 0, []],
    ] as const
  ) {
    it(`has each byte at its place, and what would be another: ${domain}`, () => {
      const rig = busy({ domain });
      const loss = { domain, bytes, changedBytes: changed, ranges, rangesLeft: 0 };
      assert.deepEqual(rig.node.loss!(), loss satisfies HostLoss);
    });
  }

  it("has nothing of what has come to the iMC, and changes nothing by being asked", () => {
    const asked = busy({}), unasked = busy({});
    asked.node.loss!();
    for (const rig of [asked, unasked]) rig.run(BOOT + 1_000_000);
    assert.deepEqual(asked.node.statistics(), unasked.node.statistics());
    assert.deepEqual(asked.survivors, unasked.survivors);
    assert.equal(asked.node.loss!().bytes.iio, 0);
    // Of bytes that are dirty again with what is in memory already, none would change.
    assert.deepEqual(asked.survivors.subarray(8_320, 8_576), pattern(256, 2));
  });

  it("says how many ranges have no room", () => {
    const rig = new HostRig({ llc: { bytes: 1 << 20, ways: 4, ddioWays: 2, evict: "lru" } }, {
      programs: {
        *stores(cpu: Cpu) {
          for (let i = 0; i < 600; i++) cpu.store(cpu.scm.address + i * 192, pattern(1));
          yield* cpu.sleep(1_000);
        },
      },
    });
    rig.run(BOOT + 10_000_000);
    const { ranges, rangesLeft, bytes } = rig.node.loss!();
    assert.deepEqual([ranges.length, rangesLeft, bytes.llc], [512, 88, 600 * 64]);
  });

  it("counts each byte once, and as what it would change: where places overlap, in every domain", () => {
    for (const domain of ["adr", "eadr", "wsp"] as const) {
      let places = 0, changes = 0;
      for (let seed = 1; seed <= 12; seed++) {
        const rng = rngFor(seed, "loss"), below = (most: number) => Math.floor(rng.unit() * most);
        const rig = new HostRig({ domain, ddio: seed % 2 === 0 }, {
          programs: {
            *stores(cpu: Cpu) {
              for (let i = 0; i < 12; i++) {
                const at = cpu.scm.address + below(480),
                  bytes = pattern(1 + below(90), 1 + below(3));
                if (below(3) === 0) cpu.ntstore(at, bytes);
                else cpu.store(at, bytes);
                if (below(4) === 0) yield* cpu.flush(at, bytes.length);
                yield* cpu.sleep(5_000);
              }
            },
          },
        });
        for (let i = 0; i < 6; i++) {
          const address = SCM_BASE + below(480), data = pattern(1 + below(300), 1 + below(3));
          const message = { kind: "memory-write", address, data, noSnoop: false } as const;
          rig.arrive(BOOT + below(300_000), message);
        }
        for (let at = BOOT; at < BOOT + 500_000; at += 17_000) {
          rig.run(at);
          const { memory, iio } = rig.node as Host;
          const newest = memory.peek(SCM_BASE, 1024);
          const pending = iio.pending();
          overlay(newest, SCM_BASE, pending);
          // What has left for memory is on its way no more.
          const buffered = pending.reduce((sum, { data }) => sum + data.length, 0);
          assert.equal(buffered, iio.bufferedBytes);
          const loss = rig.node.loss!(), left = rig.survivors;
          const changed = newest.reduce((sum, byte, i) => sum + Number(byte !== left[i]), 0);
          assert.equal(loss.changedBytes, changed, `${domain}, seed ${seed}, at ${at - BOOT} ps`);
          const lost = new Set(loss.ranges.map(({ place }) => place));
          places = Math.max(places, lost.size);
          changes += changed;
          for (const place of LOSS_PLACES) {
            const inPlace = loss.ranges.filter((range) => range.place === place);
            const sum = inPlace.reduce((bytes, { from, to }) => bytes + to - from, 0);
            assert.equal(loss.bytes[place], sum);
            assert.ok(inPlace.every(({ from }, i) => i === 0 || from > inPlace[i - 1]!.to));
          }
        }
      }
      const expected = { adr: 3, eadr: 2, wsp: 0 }[domain];
      assert.equal(places, expected, `places at once: ${domain}`);
      assert.equal(changes > 0, domain !== "wsp");
    }
  });
});
