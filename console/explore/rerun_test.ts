import { ok } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { Time } from "../../fabric/base/time.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { runRack } from "./rerun.ts";

it("P-41: a card's write is noted to be at its host when it is, right ahead of the read behind it", () => {
  const text =
    "name: one-write\nhosts: { a: {}, b: { ddio: on, domain: eadr, scm: { size: 1MiB } } }\n" +
    "programs: [{ on: a, run: put, to: b, bytes: 200, method: persist-opcode, size: 200 }]\n";
  const [variant] = variants(parseScenario(text, "test.yaml"));
  const plan = makePlan(variant!);
  const reads: Time[] = [];
  let rests = 0;
  const { sendings } = runRack({ plan, inputs: {}, own: {} }, {
    histories: true,
    onRest: () => void rests++,
    onTrace: (time, node, { step }) => {
      if (node === "b" && step === "iio-read") reads.push(time);
    },
  });
  const { at, arrivesAt } = sendings.get("b-rnic")!.busWrites[0]!;
  const readAt = reads.find((time) => time > at)!;
  const { latencyPs } = plan.cables.find(({ kind }) => kind === "bus")!;
  ok(arrivesAt > at + latencyPs, "it takes its time on the bus");
  ok(rests > 0, "what is held at rest is asked");
  ok(readAt > arrivesAt && readAt < arrivesAt + latencyPs, `read at ${readAt}, after ${arrivesAt}`);
});
