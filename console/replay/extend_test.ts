/** A replay that goes on with a run that has come further, or with more orders. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { ReplayEngine } from "./engine.ts";
import type { ReplayJob } from "./job.ts";
import type { Loaded } from "./recording.ts";

const SCENARIO = "name: pair\nhosts: { a: {}, b: {} }\n" +
  "programs:\n  - { on: a, run: put, to: b, method: write-flush, bytes: 64KiB, depth: 4 }\n";
const LOADED: Loaded = { own: {}, inputs: new Map(), replace: (create) => create };

function jobOf(more: Partial<ReplayJob> = {}): ReplayJob {
  const plan = makePlan(variants(parseScenario(SCENARIO, "test.yaml"))[0]!);
  const job: Omit<ReplayJob, "runFile"> = {
    ...{ run: "test", variant: "", plan, orders: [], known: [], until: null },
    ...{ unknownEnd: "", expectedPs: null, isLive: true },
  };
  // Only the process reads the run file.
  return { ...job as ReplayJob, ...more };
}

async function engineOf(more: Partial<ReplayJob> = {}): Promise<ReplayEngine> {
  const job = jobOf(more);
  const engine = new ReplayEngine(job, LOADED);
  await engine.run(job.until, () => {});
  return engine;
}
const orderAt = (time: number) => {
  const program = { run: "list", at: 0, service: false, options: { from: "b" } };
  return { time, host: "a", life: 0, counter: 0, program };
};

describe("a replay that goes on", () => {
  it("can where nothing has come of before the instant that it stands at", async () => {
    const until = 100e6, first = orderAt(50e6);
    const engine = await engineOf({ until, orders: [first] });
    const job = jobOf({ orders: [first] }), { plan } = job;
    const can = (more: Partial<ReplayJob>) => engine.canExtend({ ...job, ...more });
    assert.ok(can({}));
    assert.ok(can({ orders: [first, orderAt(until)] }));
    assert.ok(!can({ orders: [first, orderAt(until - 1)] }), "it was passed");
    assert.ok(!can({ orders: [first, orderAt(until), orderAt(until - 1)] }));
    assert.ok(!can({ orders: [] }), "another run");
    const fault = { at: 200e6, action: "kill", node: "b" } as const;
    assert.ok(!can({ plan: { ...plan, faults: [fault] } }));
  });

  it("answers what one would that has known all orders from its beginning", async () => {
    const until = 100e6, at = 250e6, orders = [orderAt(120e6)];
    const all = await engineOf({ orders }), engine = await engineOf({ until });
    const without = await (await engineOf()).digestsAt(at);
    // It has looked at an instant before.
    await engine.digestsAt(until);
    assert.ok(engine.canExtend(jobOf({ orders })));
    await engine.extend(jobOf({ orders }), () => {});
    assert.deepEqual(await engine.digestsAt(at), await all.digestsAt(at));
    assert.notDeepEqual(await engine.digestsAt(at), without, "the order has had an effect");
    assert.deepEqual(engine.end(), all.end());
  });
});
