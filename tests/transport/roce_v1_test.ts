/**
 * Whole racks in RoCEv1 (C-01): the shipped scenarios leave the same as in RoCEv2, later by no more than
 * twelve bytes a frame, and have one digest in every packing. Groups: `unreliable_rack_test.ts`; pauses:
 * `congestion_test.ts`; what Wireshark reads: `tests/tools/capture_test.ts`.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { parse, stringify } from "yaml";
import { isPutResult, type PutResult } from "../../console/checks/survival.ts";
import { transferTime } from "../../fabric/base/time.ts";
import type { Observation } from "../../fabric/capture/observation.ts";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { frameOpcode } from "../../fabric/wire/roce/frame_peek.ts";
import { OPCODE } from "../../fabric/wire/roce/opcode.ts";
import { RackBench } from "../support/process_rack.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const VERSIONS = ["v2", "v1"] as const;
const FILE = "data.bin";
const CONTENT = Uint8Array.from({ length: 40_000 }, (_, i) => (i * 197 + (i >> 8) * 31) % 251 + 1);

function shipped(name: string): string {
  const file = new URL(`../../scripts/scenarios/${name}.yaml`, import.meta.url);
  return Deno.readTextFileSync(file);
}

/** A shipped scenario of one `put` with a method, DDIO and version of its own. */
function variantOf(
  name: string,
  { method, ddio, roce }: { readonly method: string; readonly ddio: string; readonly roce: string },
): string {
  const scenario = parse(shipped(name));
  scenario.fabric.roce = roce;
  scenario.hosts.b.ddio = ddio;
  Object.assign(scenario.programs[0], { method, file: FILE });
  return stringify(scenario);
}

function putBy(text: string): { readonly scm: Uint8Array; readonly result: PutResult } {
  const rack = new SimulatedRack(text, { inputs: { [FILE]: CONTENT } }).run();
  const [result] = rack.reported("result") as unknown[];
  assert.ok(isPutResult(result), JSON.stringify(rack.reports));
  assert.equal(result.status, "done", result.error);
  return { scm: rack.scm.get("b")!, result };
}

describe("persist_pair.yaml in RoCEv1", () => {
  for (const ddio of ["off", "on"] as const) {
    it(`C-01: leaves the same memory as RoCEv2 by every method, DDIO ${ddio}`, () => {
      for (const method of METHODS) {
        const [v2, v1] = VERSIONS.map((roce) =>
          putBy(variantOf("persist_pair", { method, ddio, roce }))
        ) as [ReturnType<typeof putBy>, ReturnType<typeof putBy>];
        const same = ({ requests, promises, confirmed, messages, object }: PutResult) => ({
          requests,
          promises,
          confirmed,
          messages,
          object,
        });
        assert.deepEqual(same(v1.result), same(v2.result), method);
        const { scmOffset, length } = v1.result.object;
        const [old, own] = [v2, v1].map(({ scm }) => scm.subarray(scmOffset, scmOffset + length));
        assert.deepEqual(own, old, method);
        if (v1.result.promises) assert.deepEqual(own, CONTENT, method);
      }
    });
  }

  it("C-01: has one digest as a process per node, per machine and in all", async () => {
    const bench = await RackBench.open();
    try {
      const scenario = variantOf("persist_pair", {
        method: "persist-opcode",
        ddio: "on",
        roce: "v1",
      });
      const text = scenario.replace(`, file: ${FILE}`, "");
      const run = { scenario: text, inputBytes: 4 * 1024, size: 1024, depth: 4 };
      const digests: string[] = [];
      for (const packing of ["all", "machine", "node"] as const) {
        const { outcome, puts } = await bench.run({ ...run, packing });
        assert.deepEqual(puts.map(({ status }) => status), ["done"]);
        digests.push(outcome.digest);
      }
      assert.equal(new Set(digests).size, 1, digests.join());
    } finally {
      await bench.close();
    }
  });
});

describe("lossy_pair.yaml in RoCEv1", () => {
  it("C-01: loss, damage, duplicates, reordering and cuts are recovered from, as in RoCEv2", () => {
    for (const method of ["write-read", "send-flush", "persist-opcode", "verify-persist"]) {
      const { scm, result } = putBy(variantOf("lossy_pair", { method, ddio: "off", roce: "v1" }));
      const { scmOffset, length } = result.object;
      assert.deepEqual(scm.subarray(scmOffset, scmOffset + length), CONTENT, method);
    }
  });
});

describe("a WRITE of 64 B", () => {
  const RATE = 100e9;
  const EXTRA_PS = transferTime(12, RATE);

  /** From the WRITE's first bit at its sender to the ACK's last bit there. */
  function roundTrip(roce: string, fabric: string): number {
    const seen: Observation[] = [];
    const observer = {
      scope: "frames",
      see: (each: Observation) => void seen.push(each),
      commit: () => {},
    } as const;
    const rack = new SimulatedRack(
      `
name: one-write
fabric: { rate: 100Gbps, roce: ${roce}, ${fabric} }
hosts: { a: {}, b: { scm: { size: 1MiB } } }
programs: [{ on: a, run: put, to: b, method: write-only, bytes: 64, size: 64, depth: 1 }]
`,
      { observer },
    ).run();
    const card = rack.plan.nodes.findIndex(({ name }) => name === "a-rnic");
    const frames = seen.flatMap((each) =>
      (each.kind === "sent" || each.kind === "received") && each.node === card && each.frame
        ? [{ ...each, opcode: frameOpcode(each.frame) }]
        : []
    );
    const at = frames.findIndex(({ kind, opcode }) =>
      kind === "sent" && opcode === OPCODE["RC RDMA WRITE ONLY"]
    );
    const ack = frames.slice(at).find(({ kind, opcode }) =>
      kind === "received" && opcode === OPCODE["RC ACKNOWLEDGE"]
    );
    return ack!.endPs - frames[at]!.startPs;
  }

  const FABRICS = [
    // On each way one device waits for the frame's last bit: the card.
    ["over one cable", "topology: direct", 2],
    ["through a switch that cuts through", "topology: star", 2],
    ["through a switch that stores", "switch: { mode: store-and-forward }", 4],
  ] as const;
  for (const [name, fabric, waits] of FABRICS) {
    it(`C-01: takes ${waits} × 12 B of the line longer in RoCEv1 ${name}`, () => {
      const v2 = roundTrip("v2", fabric), v1 = roundTrip("v1", fabric);
      assert.equal(v1 - v2, waits * EXTRA_PS, `${v1} ps against ${v2} ps`);
    });
  }
});
