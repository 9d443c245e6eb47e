import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { Child } from "./children.ts";
import { DeviceSlot } from "./device_slot.ts";
import type { Answer } from "./live/control.ts";

const KILLED = { success: false, code: 137, signal: "SIGKILL" } as const;

/** A slot whose processes are none: they end when they are killed. */
function slotWith(answerTo: (instance: string) => Answer | undefined) {
  const started: string[] = [], told: string[] = [], never: string[] = [];
  const end: (() => void)[] = [];
  const slot = new DeviceSlot({
    name: "b",
    nodes: ["b"],
    spawn: (instance): Child => {
      started.push(instance);
      const { promise, resolve } = Promise.withResolvers<Deno.CommandStatus>();
      end.push(() => resolve(KILLED));
      const kill = () => resolve(KILLED);
      return { name: "b", pid: started.length, exited: promise, lastWords: () => "", kill };
    },
    onEnd: () => true,
    tell: ({ instance }) => {
      told.push(instance);
      return Promise.resolve(answerTo(instance));
    },
    onNeverUp: (found) => never.push(found),
  });
  return { slot, started, told, never, endLast: () => end.at(-1)!() };
}

const SETTLED = { ok: { settled: true } };

describe("DeviceSlot", () => {
  it("cuts the power once for each order, and not that of a later process", async () => {
    const { slot, started } = slotWith(() => SETTLED);
    assert.deepEqual(slot.cut("x"), { refusal: "it has no power" });
    assert.ok(slot.start() && !slot.start());
    const [first] = started;
    assert.deepEqual(slot.cut("x"), { instance: first });
    await sleep(1);
    assert.ok(slot.start());
    assert.deepEqual(slot.cut("x"), { instance: first });
    await sleep(1);
    assert.notEqual(slot.child, undefined);
  });

  it("tells of a death until it is on record", async () => {
    const answers = [undefined, { ok: { settled: false } }, { refused: "not now" }, SETTLED];
    const { slot, started, told } = slotWith(() => answers.shift());
    slot.start();
    slot.kill();
    while (told.length < 4) await sleep(10);
    await sleep(150);
    assert.deepEqual(told, Array(4).fill(started[0]));
    assert.equal(slot.child, undefined);
  });

  it("starts a process again that was ended before it had joined, and gives up in the end", async () => {
    const { slot, started, never, endLast } = slotWith(() => ({
      ok: { settled: true, awaited: true },
    }));
    slot.start();
    for (let i = 0; i < 5; i++) {
      endLast();
      await sleep(1);
    }
    assert.equal(started.length, 5);
    assert.deepEqual(never, ["b was killed 5 times before it had joined the rack"]);
  });

  it("obeys the plan's orders, of which one that comes late hits no later process", async () => {
    const { slot, started, told } = slotWith(() => SETTLED);
    slot.obey(["start", "b", 0, ""]);
    const [first] = started;
    slot.obey(["kill", "b", 0, first!]);
    await sleep(1);
    slot.obey(["start", "b", 0, ""]);
    slot.obey(["kill", "b", 0, first!]);
    await sleep(1);
    assert.ok(started.length === 2 && slot.child !== undefined);
    // The timekeeper has not heard of that death yet, or it would not repeat the order.
    assert.deepEqual(told, [first, first]);
  });

  it("starts nothing and tells nothing once it is closed", async () => {
    const { slot, told } = slotWith(() => SETTLED);
    slot.start();
    slot.close();
    slot.kill();
    await sleep(1);
    assert.ok(!slot.start() && told.length === 0);
  });
});
