/**
 * Receive buffers in SCM (`receive: scm`): a SEND is persistent where it has arrived, before any CPU has
 * looked at it, and the host's next life stores it where it belongs. Over the whole rack.
 */
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { withReceived } from "../../console/checks/received.ts";
import { firstLoss, isIntact, isPutResult, type PutResult } from "../../console/checks/survival.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const FILE = "data.bin";
const SIZE = 1024;

function contentOf(bytes: number, salt = 0): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(
    { length: bytes },
    (_, i) => (i * 197 + (i >> 8) * 31 + 7 + salt) % 251 + 1,
  );
}

/** Hosts in which a READ behind a SEND makes it persistent. */
const PERSISTING = {
  "DDIO off": "ddio: off",
  "ddio+ns": "ddio: on, architecture: ddio+ns",
  "eADR": "ddio: on, domain: eadr",
  "whole-system persistence": "ddio: on, domain: wsp",
} as const;
const NAMES = Object.keys(PERSISTING) as (keyof typeof PERSISTING)[];

interface Run {
  readonly host: string;
  readonly method?: string;
  readonly receive?: "dram" | "scm";
  readonly bytes?: number;
  readonly depth?: number;
  readonly more?: string;
  readonly faults?: string;
}

interface Ran {
  readonly rack: SimulatedRack;
  readonly put: PutResult;
  readonly file: Uint8Array;
  /** The object's place as it is, and as the next life would have it. */
  readonly raw: Uint8Array;
  readonly survived: Uint8Array;
}

function run(of: Run): Ran {
  const { host, method = "send-read", receive = "scm", depth = 4, more = "", faults = "[]" } = of;
  const file = contentOf(of.bytes ?? 12 * SIZE);
  const rack = new SimulatedRack(
    `
name: receive-buffers
seed: 3
hosts: { a: {}, b: { ${host}, receive: ${receive}, completion: interrupt, scm: { size: 2MiB } } }
programs:
  - { on: a, run: put, to: b, file: ${FILE}, method: ${method}, size: ${SIZE}, depth: ${depth} }
${more}
faults: ${faults}
`,
    { inputs: { [FILE]: file } },
  ).run();
  const [put] = (rack.reported("result", "a") as readonly unknown[]).filter(isPutResult);
  assert.ok(put, JSON.stringify(rack.reports));
  const { scmOffset, length } = put.object;
  const scm = rack.scm.get("b")!;
  const image = { read: (from: number, to: number) => scm.subarray(from, to) };
  const end = scmOffset + length;
  const raw = scm.slice(scmOffset, end);
  const survived = withReceived(rack.plan, { host: "b", image }).read(scmOffset, end).slice();
  return { rack, put, file, raw, survived };
}

/** Instants between the first post and the end of the undisturbed run. */
function instants(of: Run, count: number): number[] {
  const { put: { startPs, endPs } } = run(of);
  return Array.from({ length: count }, (_, i) => {
    return Math.round(startPs + (endPs - startPs) * (i + 0.5) / count);
  });
}

const GET =
  `  - { on: a, run: get, from: b, name: ${FILE}, size: 2KiB, depth: 4, partial: true, at: 3ms }`;

function outputOf(rack: SimulatedRack): Uint8Array {
  const [output] = rack.reported("output");
  assert.ok(output, JSON.stringify(rack.reported("result")));
  return output.bytes as Uint8Array;
}

describe("send-read", () => {
  for (const name of NAMES) {
    it(`P-10, P-51: ${name}: a SEND and a READ each, no CPU in between, and all of it is persistent`, () => {
      const { put, file, raw } = run({ host: PERSISTING[name] });
      assert.equal(put.status, "done", put.error);
      assert.deepEqual(put.requests, { write: 0, read: 12, send: 12, flush: 0, recv: 0 });
      assert.deepEqual([put.promises, put.confirmed], [true, [[0, file.length]]]);
      assert.ok(isIntact(file, raw), "all of it is stored in the end");
    });

    it(`P-05, P-41: ${name}: what was told is served after a power failure at any instant`, () => {
      const of: Run = { host: PERSISTING[name] };
      let recovered = 0, onlyInBuffers = 0;
      for (const at of instants(of, 8)) {
        const faults = `[{ at: ${at}ps, kill: b }, { at: 2ms, start: b }]`;
        const after = run({ ...of, more: GET, faults });
        const { put, file, rack } = after;
        const served = outputOf(rack);
        assert.equal(firstLoss(put, file, served), undefined);
        for (let from = 0; from < file.length; from += SIZE) {
          const message = served.subarray(from, from + SIZE);
          const isWhole = isIntact(file.subarray(from, from + SIZE), message);
          assert.ok(isWhole || message.every((byte) => byte === 0), `message at ${from} is torn`);
        }
        recovered += rack.reported("recovered", "b").length;
        const dead = run({ ...of, faults: `[{ at: ${at}ps, kill: b }]` });
        assert.equal(firstLoss(dead.put, file, dead.survived), undefined);
        assert.deepEqual(dead.survived, served, "the checker and the host find the same");
        onlyInBuffers += firstLoss(dead.put, file, dead.raw) === undefined ? 0 : 1;
      }
      assert.ok(recovered > 0, "some life had stored less than was told");
      assert.ok(onlyInBuffers > 0, "something that was told lay only in the buffers");
    });
  }

  it("P-05: a power failure while the next life stores what it has found loses nothing", () => {
    const of: Run = { host: "ddio: off", depth: 12 };
    const lives = instants(of, 6).map((at) => {
      const faults = `{ at: ${at}ps, kill: b }, { at: 2ms, start: b }`;
      const { rack } = run({ ...of, faults: `[${faults}]` });
      const report = rack.reports.find(({ topic }) => topic === "recovered");
      return { faults, time: report?.time ?? 0, deposits: Number(report?.value["deposits"] ?? 0) };
    });
    const { faults, time, deposits } = lives.toSorted((x, y) => y.deposits - x.deposits)[0]!;
    assert.ok(deposits > 1, "more than one is to be stored");
    const left = new Set<number>();
    for (let back = 50_000; back < deposits * 800_000; back += 170_000) {
      const again = `${faults}, { at: ${time - back}ps, kill: b }, { at: 2500us, start: b }`;
      const { put, file, rack } = run({ ...of, more: GET, faults: `[${again}]` });
      assert.equal(firstLoss(put, file, outputOf(rack)), undefined, `${back} ps before its end`);
      const [report] = rack.reported("recovered", "b");
      left.add(Number(report?.["deposits"] ?? 0));
    }
    assert.ok(
      [...left].some((count) => count > 0 && count < deposits),
      "some life had stored a part",
    );
    assert.ok(left.has(deposits), "some life had stored none");
  });

  it("P-41: a card that fails takes nothing with it that was told", () => {
    const of: Run = { host: "ddio: off" };
    for (const at of instants(of, 6)) {
      const faults = `[{ at: ${at}ps, kill: b-rnic }, { at: 2ms, start: b-rnic }]`;
      const { put, file, raw } = run({ ...of, faults });
      assert.equal(firstLoss(put, file, raw), undefined, "stored by the life that goes on");
    }
  });

  for (
    const [name, of] of Object.entries(
      {
        "with a volatile LLC": { host: "ddio: on" },
        "with receive buffers in DRAM": { host: "ddio: off", receive: "dram" },
      } as const,
    )
  ) {
    it(`P-04, P-12: ${name} it promises nothing, and loses what it took for persistent`, () => {
      const { put, file, raw } = run(of);
      assert.deepEqual([put.status, put.promises, put.confirmed], ["done", false, []]);
      assert.ok(isIntact(file, raw), "though all is stored where nothing fails");
      const losses = instants(of, 12).map((at) => {
        const cut = run({ ...of, faults: `[{ at: ${at}ps, kill: b }]` });
        return firstLoss({ ...cut.put, confirmed: cut.put.written }, file, cut.survived);
      });
      assert.ok(losses.some((loss) => loss !== undefined));
    });
  }

  it("stores nothing again that a later writer has replaced", () => {
    const first = contentOf(8 * SIZE), second = contentOf(8 * SIZE, 100);
    const rack = new SimulatedRack(
      `
name: replaced
hosts: { a: {}, b: { ddio: off, receive: scm, scm: { size: 2MiB } }, c: {} }
programs:
  - { on: a, run: put, to: b, file: one, name: x, method: send-read, size: 1KiB, depth: 4 }
  - { on: c, run: put, to: b, file: two, name: x, method: persist-opcode, size: 1KiB, at: 1ms }
  - { on: a, run: get, from: b, name: x, size: 1KiB, at: 4ms }
faults: [{ at: 2ms, kill: b }, { at: 3ms, start: b }]
`,
      { inputs: { one: first, two: second } },
    ).run();
    assert.deepEqual(rack.reported("result").map(({ status }) => status), ["done", "done", "done"]);
    assert.ok(isIntact(second, outputOf(rack)));
  });
});

describe("receive: scm", () => {
  for (const method of METHODS) {
    it(`P-40, P-41: ${method} works as before`, () => {
      for (const host of ["ddio: off", "ddio: on"]) {
        const here = run({ host, method }), there = run({ host, method, receive: "dram" });
        assert.equal(here.put.status, "done", here.put.error);
        assert.deepEqual(here.put.requests, there.put.requests);
        if (method !== "send-read") assert.equal(here.put.promises, there.put.promises);
        if (here.put.promises) assert.ok(isIntact(here.file, here.raw));
      }
    });
  }

  it("shows and gives nobody the areas, and uses them again", () => {
    const put = (at: string, name: string) =>
      `  - { on: a, run: put, to: b, bytes: 4KiB, name: ${name}, method: send-flush, size: 1KiB, ` +
      `depth: 2, at: ${at} }`;
    const rack = new SimulatedRack(`
name: areas
hosts: { a: {}, b: { receive: scm, scm: { size: 2MiB } } }
programs:
${put("0us", "one")}
${put("2ms", "two")}
${put("4ms", '".recv/0/1088"')}
  - { on: a, run: get, from: b, name: ".recv/0/1088", at: 6ms }
  - { on: a, run: list, from: b, at: 8ms }
faults: [{ at: 3ms, kill: b }, { at: 3500us, start: b }]
`).run();
    const [one, two, stolen, got, list] = rack.reported("result");
    assert.deepEqual([one!.status, two!.status], ["done", "done"]);
    assert.equal(stolen!.error, "the responder refused it: no-space");
    assert.equal(got!.error, "the responder refused it: not-found");
    assert.deepEqual(list!.objects, [{ name: "one", length: 4096 }, { name: "two", length: 4096 }]);
    const names = new TextDecoder("latin1").decode(rack.scm.get("b")!).match(/\.recv\/\d+\/1088/g);
    assert.deepEqual(names, [".recv/0/1088"], "one area for all of the same sizes, over lives");
  });
});
