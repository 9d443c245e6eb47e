/**
 * Verified writes over the whole rack: what they cost against a WRITE and a READ that the program compares
 * (V-10), over a switch and without one (V-07), cut off by power failures (V-09), with lost answers (V-08),
 * with a sender's history (V-05). What each level catches is in `verify_catch_test.ts`; that its digest is
 * one in every packing, in `tests/rig/determinism_test.ts`.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import type { Time } from "../../fabric/base/time.ts";
import { VERIFY_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { VERIFY_LEVELS } from "../../fabric/wire/roce/verify_eth.ts";
import { deviceFaultRows } from "../../console/reports/device_fault_report.ts";
import { faultRows } from "../../console/reports/fault_report.ts";
import { firstLoss, isIntact, isPutResult, type PutResult } from "../../console/checks/survival.ts";
import { countVerified } from "../../console/checks/verified.ts";
import { contentOf, RackBench } from "../support/process_rack.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

interface Put {
  readonly method: string;
  /** More options of the `put`. */
  readonly more?: string;
  readonly host?: string;
  readonly faults?: readonly string[];
  readonly topology?: "star" | "direct";
  readonly bytes?: number;
  readonly size?: number;
  readonly depth?: number;
  readonly unsound?: string;
  readonly trace?: boolean;
}

interface Done {
  readonly rack: SimulatedRack;
  readonly put: PutResult;
  readonly file: Uint8Array;
  readonly survived: Uint8Array;
  /** Counters of the receiver's card. */
  readonly card: Readonly<Record<string, number>>;
}

function run(of: Put): Done {
  const { method, more, host = "ddio: off", faults = [], topology = "star" } = of;
  const { bytes = 64 * 1024, size = 4096, depth = 4, unsound, trace } = of;
  const file = contentOf(bytes);
  const options = [`method: ${method}`, "file: data", `size: ${size}`, `depth: ${depth}`];
  const rack = new SimulatedRack(
    `name: verify
seed: 3
fabric: { topology: ${topology} }
hosts: { a: {}, b: { ${host}, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, ${[...options, ...(more === undefined ? [] : [more])].join(", ")} }
faults: [${faults.join(", ")}]
`,
    {
      inputs: { data: file },
      ...(unsound !== undefined && { unsound }),
      ...(trace && { trace }),
    },
  ).run();
  const [put] = rack.reported("result", "a") as readonly unknown[];
  assert.ok(isPutResult(put), JSON.stringify(rack.reported("program-failed")));
  const { scmOffset, length } = put.object;
  const survived = rack.scm.get("b")!.slice(scmOffset, scmOffset + length);
  return { rack, put, file, survived, card: rack.simulator.statistics()["b-rnic"]! };
}

const HOSTS = [
  { name: "DDIO off", host: "ddio: off" },
  { name: "no-snoop", host: "ddio: on, architecture: ddio+ns" },
  { name: "DDIO on", host: "ddio: on" },
] as const;

const LOOKED_AT = ["verify", "verify-crc", "read-back", "crc-after"];

describe("verified writes over the rack", () => {
  for (const topology of ["star", "direct"] as const) {
    it(`V-01, V-04, V-07: ${topology}: every level writes all and is told so once`, () => {
      for (const method of ["write-verify", "verify-persist"]) {
        for (const level of VERIFY_LEVELS) {
          const { put, file, survived, card } = run({ method, more: `level: ${level}`, topology });
          assert.equal(put.status, "done", put.error);
          assert.equal(put.unexpected, 0);
          assert.deepEqual(put.requests, { write: 16, read: 0, send: 0, flush: 0, recv: 0 });
          assert.ok(isIntact(file, survived));
          const isLookedAt = LOOKED_AT.includes(level);
          assert.deepEqual(put.verified!.looked, isLookedAt ? [[0, file.length]] : []);
          assert.equal(card.verifyWritesIn, 16);
          assert.equal(card.verifyReadBacks, isLookedAt ? 16 : 0);
          assert.deepEqual([put.verified!.level, put.verified!.rewrites], [level, 0]);
        }
      }
    });
  }

  it("V-06: the ladder of a verified write has the document's steps in its order", () => {
    const steps = (level: string, bytes = 4096) => {
      const of = { more: `level: ${level}`, bytes, size: bytes, depth: 1, trace: true };
      const { rack } = run({ method: "write-verify", ...of });
      const all = rack.traces.map(({ step }) => step.step);
      return all.filter((step) => /^4[56]\d\d$/.test(step));
    };
    const figure5 = ["4501", "4502", "4503", "4504", "4505"];
    assert.deepEqual(steps("check").filter((step, i, all) => all.indexOf(step) === i), figure5);
    const figure6 = ["4601", "4602", "4603", "4604", "4605", "4606", "4607", "4608"];
    for (const bytes of [4096, 64 * 1024]) {
      assert.deepEqual(
        steps("verify-crc", bytes).filter((step, i, all) => all.indexOf(step) === i),
        figure6,
      );
    }
  });

  it("V-08: a lost answer is no failure, and nothing is written or looked at twice", () => {
    for (const level of VERIFY_LEVELS) {
      const clean = run({ method: "write-verify", more: `level: ${level}`, depth: 1 });
      for (const nth of [1, 5, 16]) {
        const item =
          `{ link: b-rnic->tor, loss: all, nth: ${nth}, only: "RC RDMA READ RESPONSE ONLY" }`;
        const lossy = run({
          method: "write-verify",
          more: `level: ${level}`,
          depth: 1,
          faults: [item],
        });
        const { put, file, survived, card } = lossy;
        assert.equal(put.status, "done", put.error);
        assert.ok(isIntact(file, survived));
        assert.deepEqual(put.verified, clean.put.verified);
        assert.equal(card.verifyRepeats, 1);
        assert.equal(card.verifyReadBacks, clean.card.verifyReadBacks);
        assert.equal(card.dmaWriteBytes, clean.card.dmaWriteBytes);
        assert.equal(put.unexpected, 0);
      }
    }
  });

  for (const { name, host } of HOSTS) {
    it(`V-09, P-41: ${name}: what verify-persist reported survives a power failure at any instant`, () => {
      // Of several packets, too, which are looked at while the rest is on its way (V-03).
      for (
        const [level, size, bytes] of [
          ["none", 1024, 65_536],
          ["verify-crc", 1024, 65_536],
          ["verify", 16_384, 262_144],
        ] as const
      ) {
        const of = { method: "verify-persist", more: `level: ${level}`, host, size, bytes };
        const whole = run(of);
        assert.ok(whole.put.promises);
        assert.deepEqual(whole.put.confirmed, [[0, whole.file.length]]);
        const { startPs, endPs } = whole.put;
        let some = 0;
        for (let i = 0; i < 12; i++) {
          const at: Time = Math.round(startPs + (endPs - startPs) * (i + 0.5) / 12);
          const cut = run({ ...of, faults: [`{ at: ${at}ps, kill: b }`] });
          assert.equal(firstLoss(cut.put, cut.file, cut.survived), undefined, `${level} at ${at}`);
          if (cut.put.confirmedMessages > 0 && cut.put.confirmedMessages < cut.put.messages) some++;
        }
        assert.ok(some >= 8, `${some} of 12 failures were in the middle`);
      }
    });
  }

  it("V-09: in flow 1 the read-back is the flush, and no LSB read goes beside it", () => {
    const of = { method: "verify-persist", more: "level: verify-crc" };
    assert.equal(run(of).card.lsbReads, 0);
    assert.ok(run({ ...of, more: "level: check" }).card.lsbReads! > 0);
  });

  for (const { name, host } of HOSTS) {
    it(`V-10: ${name}: half the requests, fewer packets and bytes, hardly ever more latency`, () => {
      for (const size of [64, 256, 4096, 16_384, 65_536, 131_072]) {
        const of = { host, size, bytes: 4 * size, depth: 1 };
        const baseline = run({ ...of, method: "write-compare" }).put;
        const verified = run({ ...of, method: "write-verify" }).put;
        assert.deepEqual([baseline.requests.write, baseline.requests.read], [4, 4]);
        assert.deepEqual([verified.requests.write, verified.requests.read], [4, 0]);
        assert.ok(verified.wire!.frames < baseline.wire!.frames, `${size} B: frames`);
        assert.ok(verified.wire!.bytes < baseline.wire!.bytes, `${size} B: bytes`);
        // Though all data waits for its CRC (V-02): the look goes along with the write (V-03).
        const ratio = verified.latencyPs!.median / baseline.latencyPs!.median;
        // At 4 KiB both wait for one module of SCM.
        assert.ok(
          ratio < (size === 4096 ? 1.01 : 1),
          `${size} B: latency ${ratio} of the baseline's`,
        );
        assert.ok(verified.cpuPs < baseline.cpuPs, `${size} B: the requester's work`);
      }
    });
  }
});

describe("history of a sender", () => {
  const HISTORY = "verifyHistory: { samples: 8, sample: 4, threshold: 99% }";
  const of = { method: "write-verify", bytes: 128 * 1024, size: 1024, depth: 1 };
  const host = `ddio: off, ${HISTORY}`;

  it("V-05, V-10: good checks stand for later ones, which takes less time and is told", () => {
    const always = run(of), sometimes = run({ ...of, host });
    const { put, card, file, survived } = sometimes;
    assert.ok(isIntact(file, survived));
    const { skipped, looked } = put.verified!;
    assert.equal(skipped, card.verifySkipped);
    assert.equal(card.verifyReadBacks! + skipped, 128);
    // 8 samples, then three of four: the sampling keeps the estimate alive.
    assert.ok(skipped > 60 && skipped < 120, `${skipped}`);
    assert.ok(looked.length > 1, "what was skipped does not count as looked at");
    assert.ok(put.latencyPs!.median < always.put.latencyPs!.median);
    assert.ok(card.verifyReadBackPs! < always.card.verifyReadBackPs!);
    // What the card says that a look takes is what the sender sees of it.
    const lookPs = card.verifyReadBackPs! / card.verifyReadBacks!;
    const seenPs = always.put.latencyPs!.median - put.latencyPs!.median;
    assert.equal(card.verifySkippedPs, 0);
    assert.ok(Math.abs(seenPs - lookPs) < 0.1 * lookPs, `${seenPs} of ${lookPs}`);
    assert.equal(always.put.verified!.skipped, 0);
  });

  it("V-05: the CRC before the write is never skipped", () => {
    const item = "{ rnic: b, flip: all, where: buffer, nth: 100 }";
    const { put, file, survived } = run({ ...of, host, faults: [item] });
    assert.equal(put.verified!.caught["crc-mismatch"], 1);
    assert.ok(isIntact(file, survived));
  });

  it("V-05: a sample that fails ends the skipping until the window is clean again", () => {
    const more = { ...of, bytes: 256 * 1024, host };
    const good = run(more);
    const { startPs, endPs } = good.put;
    const from = Math.round(startPs + 0.2 * (endPs - startPs));
    const faults = [`{ rnic: b, flip: 30%, where: bus, from: ${from}ps }`];
    const { put, file, survived, card } = run({
      ...more,
      more: "rewrites: 20",
      faults,
      unsound: "what was skipped is not seen",
    });
    assert.equal(put.status, "done", put.error);
    const { missed, overlooked, caught } = countVerified(put, { file, survived })!;
    assert.equal(overlooked, 0, "what was looked at is right");
    assert.ok(missed! > 0, "some was damaged before a sample showed it");
    assert.ok(caught > 2 * missed!, `${caught} caught, ${missed} missed`);
    assert.ok(card.verifySkipped! < good.card.verifySkipped! / 2);
  });

  it("V-05: of level check, which has no read-back, nothing is skipped", () => {
    const { put, card } = run({ ...of, host, more: "level: check" });
    assert.deepEqual([put.verified!.skipped, card.verifySkipped], [0, 0]);
  });

  it("V-05, V-09: skipping a read-back does not skip the flush", () => {
    const kept = run({ ...of, method: "verify-persist", host });
    assert.ok(kept.card.verifySkipped! > 0);
    assert.ok(kept.card.verifySkippedPs! > 0, "the flush takes its time, which nothing saves");
    const { startPs, endPs } = kept.put;
    for (const share of [0.5, 0.7, 0.9]) {
      const at = Math.round(startPs + share * (endPs - startPs));
      const faults = [`{ at: ${at}ps, kill: b }`];
      const cut = run({ ...of, method: "verify-persist", host, faults });
      assert.ok(cut.put.confirmedMessages > 0);
      assert.equal(firstLoss(cut.put, cut.file, cut.survived), undefined);
    }
  });
});

describe("the shipped scenarios of verified writes", () => {
  const textOf = (name: string) =>
    Deno.readTextFileSync(new URL(`../../scripts/scenarios/${name}`, import.meta.url));
  let bench: RackBench;
  beforeAll(async () => {
    bench = await RackBench.open();
  });
  afterAll(() => bench.close());

  for (const ddio of ["off", "on"] as const) {
    it(`V-08, V-10: verify_faults.yaml, DDIO ${ddio}: each fault strikes, all of it is caught`, async () => {
      const scenario = textOf("verify_faults.yaml");
      const ran = await bench.run({ scenario, ddio, inputBytes: 512 * 1024, packing: "all" });
      const { prepared: { plan }, outcome: { finals }, rows } = ran;
      const hits = [...deviceFaultRows("", { plan, finals }), ...faultRows("", { plan, finals })];
      for (const { terms, hit } of hits) assert.ok(hit! > 0, terms);
      const [row] = rows;
      assert.deepEqual([row?.error, row?.loss, row?.intact], [null, null, true]);
      const { caught, missed } = row!.verified!;
      const lost = hits.at(-1)!.hit!;
      const injected = hits.reduce((sum, { hit }) => sum + hit!, 0) - lost;
      assert.equal(missed, 0);
      // Two hits of one message are caught at once.
      assert.ok(caught > injected / 2 && caught <= injected, `${caught} of ${injected}`);
    });
  }

  it("V-10: verify_pair.yaml: verified writes take half the packets of comparing", async () => {
    const scenario = textOf("verify_pair.yaml");
    const of = { scenario, ddio: "off", inputBytes: 64 * 1024, packing: "all" } as const;
    const packets: number[] = [];
    for (const method of VERIFY_METHODS) {
      const { rows: [row] } = await bench.run({ ...of, method });
      assert.equal(row?.error, null);
      assert.equal(row.verified?.missed, 0);
      packets.push(row.packetsPerMessage!);
    }
    // Of the write that persists there are two ACKs (P-28).
    assert.deepEqual(packets, [4, 2, 2, 5]);
  });
});

describe("V-02: data that waits in the card", () => {
  for (const level of ["check", "verify"]) {
    it(`has its turns though others keep the bus full for a millisecond (${level})`, () => {
      const rack = new SimulatedRack(
        `name: full
seed: 1
fabric: { pfc: on, bus: { latency: 150ns, rate: 50Gbps } }
defaults: { ddio: off, scm: { size: 8MiB } }
hosts: { a: {}, b: {}, c: {} }
programs:
  - { on: a, run: put, to: b, method: write-only, file: plain, size: 64KiB, depth: 16, name: plain }
  - { on: c, run: put, to: b, method: write-verify, level: ${level}, file: data, size: 16KiB, depth: 2 }
`,
        { inputs: { plain: contentOf(2 ** 22), data: contentOf(2 ** 20) } },
      ).run();
      const [plain, verified] = ["a", "c"].map((host) => {
        const [result] = rack.reported("result", host) as readonly unknown[];
        assert.ok(isPutResult(result));
        return result;
      });
      assert.ok(plain!.endPs - plain!.startPs > 1_000_000_000);
      const [longest, own] = [plain!.latencyPs!.max, verified!.latencyPs!.max];
      assert.ok(own < 2 * longest, `${own} ps, and a WRITE ${longest} ps`);
    });
  }
});
