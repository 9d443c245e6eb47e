/**
 * The same rack with its cards on PCIe and on the coherent bus (C-02): every method leaves the same bytes and
 * promises the same; what the buses order differently no core sees; a power failure takes the same.
 */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { exploreCell, type MatrixPlace } from "../../console/explore/matrix.ts";
import { firstLoss, isIntact, isPutResult, type PutResult } from "../../console/checks/survival.ts";
import type { PerftestResult } from "../../nodes/host/programs/perftest/client.ts";
import { whyUnsafe } from "../crash/matrix_rules.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const FILE = "data.bin";
const ATTACHMENTS = ["pcie", "coherent"] as const;
type Attachment = typeof ATTACHMENTS[number];
const SWITCHES = ["off", "on"] as const;

interface Run {
  readonly attach: Attachment;
  readonly method: string;
  readonly ddio: "off" | "on";
  readonly host?: string;
  readonly faults?: string;
  readonly trace?: boolean;
}

/** An odd length, so that messages end within lines. */
const CONTENT = Uint8Array.from({ length: 15 * 1024 + 301 }, (_, i) => (i * 197 + (i >> 8)) % 251);

function put({ attach, method, ddio, host = "", faults = "[]", trace }: Run): {
  rack: SimulatedRack;
  result: PutResult;
} {
  const rack = new SimulatedRack(
    `
name: both-buses
seed: 11
defaults: { attach: ${attach} }
hosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 1MiB } ${host} } }
programs:
  - { on: a, run: put, to: b, file: ${FILE}, method: ${method}, size: 1000B, depth: 4 }
faults: ${faults}
`,
    { inputs: { [FILE]: CONTENT }, ...(trace && { trace }) },
  ).run();
  const result = (rack.reported("result") as unknown[]).find(isPutResult);
  ok(result, `No result: ${JSON.stringify(rack.reported("program-failed"))}`);
  return { rack, result };
}

function survivor(rack: SimulatedRack, { object }: PutResult): Uint8Array {
  return rack.scm.get("b")!.subarray(object.scmOffset, object.scmOffset + object.length);
}

describe("C-02: cards on PCIe and on the coherent bus", () => {
  for (const method of METHODS) {
    for (const ddio of SWITCHES) {
      it(`C-02: ${method}, DDIO ${ddio}: the same promises, requests and surviving bytes`, () => {
        const [pcie, coherent] = ATTACHMENTS.map((attach) => {
          const { rack, result } = put({ attach, method, ddio });
          const { status, promises, requests, confirmed } = result as PutResult & {
            readonly requests: unknown;
          };
          const isWhole = isIntact(CONTENT, survivor(rack, result));
          return { status, promises, requests, confirmed, isWhole };
        });
        same(coherent, pcie);
        equal(coherent!.status, "done");
      });
    }
  }

  for (const method of ["persist-opcode", "write-flush", "write-read", "send-flush"]) {
    it(`P-31: ${method}: what was reported survives a power failure at any of 12 instants`, () => {
      for (const ddio of SWITCHES) {
        const run = { attach: "coherent", method, ddio } as const;
        const { result: { startPs, endPs, promises } } = put(run);
        if (!promises) continue;
        for (let i = 0; i < 6; i++) {
          const at = Math.round(startPs + (endPs - startPs) * (i + 0.5) / 6);
          const { rack, result } = put({ ...run, faults: `[{ at: ${at}ps, kill: b }]` });
          equal(firstLoss(result, CONTENT, survivor(rack, result)), undefined, `${ddio}, ${at} ps`);
        }
      }
    });
  }

  it("P-24: the ladder waits for the bus's completions, and reads nothing", () => {
    const texts = (attach: Attachment) => {
      const { rack } = put({ attach, method: "persist-opcode", ddio: "off", trace: true });
      const lsb = rack.traces.filter(({ step }) => step.step === "S906");
      ok(lsb.length > 0);
      const { lsbReads, dmaReads } = rack.simulator.statistics()["b-rnic"]!;
      return { text: lsb[0]!.step.text, lsbReads, dmaReads };
    };
    equal(texts("pcie").text, "DMA LSB read to the host");
    const { text } = texts("coherent");
    equal(text, "no LSB read: waits until the coherent bus has completed the writes so far");
  });
});

/** Median of perftest's latency test, direct cable, in ns. */
function latencyNs(attach: Attachment, test: string, size: string): number {
  const rack = new SimulatedRack(`
name: latency
fabric: { topology: direct }
hosts: { a: { attach: ${attach} }, b: { attach: ${attach} } }
programs:
  - { on: b, run: perftest-server }
  - { on: a, run: perftest, to: b, test: ${test}, size: ${size}, iterations: 20 }
`).run();
  const [result] = rack.reported("result", "a") as unknown as readonly PerftestResult[];
  const row = result!.rows[0]!;
  ok(result!.status === "done" && row.measures === "latency", result!.error);
  return Math.round(row.typicalPs / 1000);
}

describe("C-02: what the conversion to PCIe costs", () => {
  // Exact, as all times are modelled: `profile.ts` has the sources of both buses' parts.
  for (
    const [test, size, pcie, coherent] of [
      ["ib_read_lat", "64B", 1686, 1260],
      ["ib_read_lat", "4KiB", 2697, 2094],
      ["ib_write_lat", "64B", 756, 619],
      ["ib_write_lat", "4KiB", 2580, 1967],
    ] as const
  ) {
    it(`C-02: ${test} of ${size}: ${pcie} ns on PCIe, ${coherent} ns on the coherent bus`, () => {
      same(ATTACHMENTS.map((attach) => latencyNs(attach, test, size)), [pcie, coherent]);
    });
  }
});

describe("C-02: the crash matrix on the coherent bus", () => {
  /** Each method on both flows in ADR and in eADR, and on one in WSP, which drains either; the rest in turn. */
  const places = METHODS.flatMap((method, i) =>
    (["adr", "eadr", "wsp"] as const).flatMap((domain, j) =>
      (domain === "wsp" ? [SWITCHES[i % 2]!] : SWITCHES).map((ddio, k): MatrixPlace => ({
        method,
        update: "single",
        arch: (i + j + k) % 2 === 0 ? "ddio" : "ddio+ns",
        ddio,
        domain,
        receiveBuffer: j % 2 === 0 ? "scm" : "dram",
        attach: "coherent",
      }))
    )
  );
  for (const method of METHODS) {
    it(`C-02, P-41: ${method}: holds where PCIe's rules say so, and nowhere else`, async () => {
      for (const place of places.filter((each) => each.method === method)) {
        const { safe, crashPoints, counterexample } = await exploreCell(place);
        const why = whyUnsafe(place);
        const found = counterexample?.found ?? "nothing";
        const said = `${JSON.stringify(place)}: ${why ?? "safe by the rules"}; found ${found}`;
        equal(safe, why === undefined, said);
        ok(crashPoints > 0, said);
      }
    });
  }
});
