import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { until } from "../../../fabric/bus/bus_contract.ts";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { createMemoryBroker } from "../../../fabric/bus/memory_bus_testing.ts";
import { spanNumber } from "../../../fabric/clock/clock.ts";
import type { RackLink } from "./racks.ts";
import { type StepBlock, watchSteps } from "./steps.ts";

describe("watchSteps", () => {
  let rack: Bus, bus: Bus;
  let link: RackLink;
  let leases: unknown[];
  let ending: AbortController;

  beforeEach(() => {
    const broker = createMemoryBroker();
    const onError = (error: Error) => assert.fail(error);
    rack = broker.connect({ onError });
    bus = broker.connect({ onError });
    link = { rack: { file: { run: "r" } }, bus } as unknown as RackLink;
    leases = [];
    rack.subscribe("rack.r.control.steps", (payload) => leases.push(decode(payload)));
    ending = new AbortController();
  });

  afterEach(async () => {
    await bus.close();
    await rack.close();
  });

  const say = (node: string, ...row: unknown[]) =>
    rack.publish(`rack.r.trace.${node}`, encode(row));
  const steps = (count: number) =>
    Array.from({ length: count }, () => [5, { step: "x", text: "" }]);

  it("asks for steps as long as it is read, and gives blocks with what was lost before them", async () => {
    const blocks: StepBlock[] = [];
    const reading = (async () => {
      for await (const block of watchSteps(link, { nodes: ["a"], signal: ending.signal })) {
        blocks.push(block);
      }
    })();
    await until(() => leases.length === 1);
    assert.deepEqual(leases, [{ forMs: 3_000, nodes: ["a"] }]);
    say("a", 1, 7, 0, steps(1));
    say("b", 1, 0, 0, steps(1));
    say("a", 2, 9, 4, steps(2));
    // Another life begins to count anew.
    say("a", spanNumber(1, 1), 0, 0, steps(1));
    say("a", "no block");
    say("a", spanNumber(1, 2), 1, 0, [["never", null]]);
    await until(() => blocks.length === 3);
    assert.deepEqual(
      blocks.map(({ node, span, lines, dropped, missed }) => [
        ...[node, span, lines.length, dropped, missed],
      ]),
      [["a", 1, 1, 0, 0], ["a", 2, 2, 4, 1], ["a", spanNumber(1, 1), 1, 0, 0]],
    );
    assert.deepEqual(blocks[0]!.lines, [{ time: 5, node: "a", step: "x", text: "" }]);
    ending.abort();
    await reading;
    await until(() => true);
    assert.equal(leases.length, 1);
  });

  it("drops the oldest blocks where the reader does not keep up, and says how many steps", async () => {
    const blocks = watchSteps(link, { signal: ending.signal });
    const first = blocks.next();
    await until(() => leases.length === 1);
    for (let i = 0; i < 2_003; i++) say("a", i + 1, i, 0, steps(2));
    // All of them come in one turn, before the reader has its own.
    for (const [block, dropped] of [[first, 6], [blocks.next(), 0]] as const) {
      const { value } = await block;
      assert.deepEqual([value!.lines.length, value!.dropped, value!.missed], [2, dropped, 0]);
    }
    ending.abort();
    assert.equal((await blocks.next()).done, true);
  });
});
