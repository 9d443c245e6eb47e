import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { framedSteps } from "../../fabric/capture/framed_steps.ts";
import { eventsOf } from "../../fabric/capture/instants.ts";
import type { Observation } from "../../fabric/capture/observation.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { ladderOf, operationsOf, readTrace } from "../../fabric/trace/trace.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import { ladderDocumentOf } from "./ladder_document.ts";

/** The ladder of the first message of a put by a method. */
function ladder(method: string, ddio: "on" | "off") {
  const scenario = parseScenario(
    `
name: pair
seed: 7
profile: clx-optane-cx5
hosts: { a: {}, b: { ddio: ${ddio} } }
programs: [{ on: a, to: b, run: put, bytes: 4096, size: 4096, depth: 1, method: ${method} }]
`,
    "pair.yaml",
  );
  const [variant] = variants(scenario);
  const plan = makePlan(variant!);
  const seen: Observation[] = [];
  new Simulator({
    plan,
    create: nodeFactory({
      plan,
      image: () => (_, n) => new Uint8Array(n),
      inputs: () => ({}),
      own: {},
    }),
    onDurable: () => {},
    onReport: () => {},
    observer: { scope: "frames", see: (each) => void seen.push(each), commit: () => {} },
  }).run();
  const observed = { plan, label: method, ...framedStepsOf(plan, seen) };
  const trace = readTrace(observed.lines, plan);
  return ladderDocumentOf(observed, ladderOf(trace, operationsOf(trace)[0]!));
}

function framedStepsOf(plan: Parameters<typeof framedSteps>[0], seen: readonly Observation[]) {
  const { lines, frames, notes } = framedSteps(plan, eventsOf([seen]));
  return { lines, frames, notes };
}

describe("ladderDocumentOf", () => {
  const persist = ladder("persist-opcode", "off");

  it("has the frame of each step that sends one, with its fields and its way", () => {
    const row = persist.rows.find(({ step }) => step === "S903")!;
    const frame = persist.frames[row.frame!]!;
    assert.match(frame.text, /^a→b VENDOR WRITE PERSISTENCE ONLY/);
    assert.deepEqual(frame.passes.map(({ node, kind }) => `${node} ${kind}`), [
      "a-rnic sent",
      "tor received",
      "tor sent",
      "b-rnic received",
    ]);
    assert.ok(
      frame.fields.some(({ header, name }) => header === "PersistETH" && name === "version"),
    );
    assert.equal(frame.bytes.length, 2 * 1024);
    assert.ok(frame.length > 4096);
    const ack = persist.rows.find(({ step }) => step === "S907")!;
    assert.match(persist.frames[ack.frame!]!.text, /PERSISTENCE ACKNOWLEDGE/);
    // The step that the ACK's arrival causes has the same frame.
    const taken = persist.rows.find(({ step }) => step === "S908")!;
    assert.equal(taken.frame, ack.frame);
  });

  it("says where each step leaves the bytes", () => {
    const placeOf = (step: string) => persist.rows.find((row) => row.step === step)!.place;
    assert.deepEqual(["S903", "imc", "S907", "S909"].map(placeOf), [
      "in flight",
      "durable",
      "durable",
      "none",
    ]);
    assert.equal(
      ladder("write-flush", "on").rows.find(({ step }) => step === "llc")?.place,
      "volatile",
    );
  });

  it("says what its program may rely on at the end", () => {
    assert.match(
      persist.promise,
      /^After 3\.\d{3} µs, a is promised that 4096 B in the SCM of b \(ADR, DDIO off\) survive a power cut\.$/,
    );
    assert.match(ladder("write-only", "on").promise, /does not promise|Nothing is promised/);
  });

  it("is plain data", () => {
    assert.deepEqual(JSON.parse(JSON.stringify(persist)), persist);
  });
});
