import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { reportToBytes } from "../../../fabric/rack/assembly/report_message.ts";
import { createMemoryBroker, type MemoryBus } from "../../../fabric/bus/memory_bus_testing.ts";
import { patternOf, subjectOf } from "../../../fabric/bus/subjects.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import { RackError } from "../../base/rack_error.ts";
import { ControlClient } from "./control.ts";
import type { RackLink } from "./racks.ts";
import { shutDownHost } from "./shutdown.ts";

const STEP = { begun: 5_000, order: 7, step: "write-back", lines: 12 };
const REPORT = {
  ...{ begun: 5_000, order: 7, complete: 8_000, stopped: 1 },
  ...{ regions: ["s"], failed: [] as string[], lines: 3 },
};

describe("C-09: shutDownHost", () => {
  let rack: Bus;
  let bus: MemoryBus;
  let link: RackLink;
  /** What is on record of power, and what the host keeps. */
  let faults: unknown[];
  let kept: unknown[];
  let orders: unknown[];

  beforeEach(() => {
    const broker = createMemoryBroker();
    const onError = (error: Error) => assert.fail(error);
    rack = broker.connect({ onError });
    bus = broker.connect({ onError });
    const nodes = ["a", "b"].map((name) => ({ name, kind: "host" }));
    const partitions = ["a", "b"].map((name) => ({ name, nodes: [name] }));
    const file = { run: "r", plan: { nodes }, stayUp: true, partitions };
    link = {
      // In containers: no process is looked for.
      rack: { id: "r", directory: "/", supervisor: { pid: null }, file } as never,
      bus,
      control: new ControlClient(bus, "r"),
    };
    [faults, kept, orders] = [[], [], []];
    answers("faults", ({ from }) => {
      const count = faults.length;
      return { ok: true, count, faults: faults.slice(from as number), powered: {} };
    });
    answers("final-b", () => {
      if (kept.length > 0) killed();
      return { ok: true, reports: kept, reportsLeft: 0 };
    });
  });

  afterEach(async () => {
    await bus.close();
    await rack.close();
  });

  function answers(verb: string, reply: (body: Record<string, unknown>) => unknown): void {
    rack.subscribe(patternOf({ kind: "control", run: "r", verb }), (payload, _, answer) => {
      answer?.(encode(reply(decode(payload) as Record<string, unknown>)));
    });
  }

  const report = (topic: string, value: unknown) =>
    rack.publish(
      subjectOf({ kind: "report", run: "r", node: "b" }),
      reportToBytes({ topic, value, time: 9 }),
    );
  const killed = () => {
    faults.push({ at: 9_000, action: "kill", partition: "b", nodes: ["b"] });
  };
  const status = (more: object = {}) => ({
    ok: true,
    ...{ finished: false, ordersFrom: 0, recalled: [], next: Infinity, now: 0, limit: Infinity },
    ...{ paused: false, pace: 0, why: [{ partition: "b", status: "idle" }], ...more },
  });
  /** Gives the order the number 7; then this happens. */
  const ordered = (then: () => unknown) =>
    answers("shutdown", (order) => {
      orders.push(order);
      then();
      return { ok: true, order: 7 };
    });
  const shutDown = () => shutDownHost(link, "b", { withinPs: 4_000, timeoutSeconds: 20 });
  const fails = (message: RegExp, code: number) =>
    assert.rejects(shutDown(), (error) => {
      assert.ok(error instanceof RackError);
      assert.match(error.message, message);
      assert.equal(error.code, code);
      return true;
    });

  it("returns what the host has reported, when its power is off", async () => {
    ordered(() => {
      report("shutdown-step", STEP);
      report("shutdown", { ...REPORT, order: 6, lines: 99 });
      report("shutdown", REPORT);
      killed();
    });
    const { order: _, failed: __, ...done } = REPORT;
    assert.deepEqual(await shutDown(), { ...done, nodes: ["b"], offAt: 9_000 });
    assert.deepEqual(orders, [{ host: "b", withinPs: 4_000 }]);
  });

  it("asks the host for a report that the bus has lost", async () => {
    answers("status", () => status());
    ordered(() => kept.push({ time: 1, node: "b", topic: "shutdown", value: REPORT }));
    assert.equal((await shutDown()).lines, 3);
  });

  it("fails where the power goes off before its end, and says what was left", async () => {
    ordered(() => {
      report("shutdown-step", STEP);
      killed();
    });
    await fails(
      /^b's power went off at 9 ns, 4 ns after its shutdown had begun and before it had written back the last 12 lines/,
      EXIT.failed,
    );
  });

  it("fails where the power fails before its begin", async () => {
    ordered(killed);
    await fails(/^b's power went off at 9 ns before its shutdown had begun$/, EXIT.failed);
  });

  it("cannot tell where a report may have been lost with the bus", async () => {
    ordered(() =>
      // Behind the answer.
      setTimeout(() => {
        bus.disconnect();
        bus.reconnect();
        killed();
      })
    );
    await fails(/whether its shutdown had ended is not known: the bus was away/, EXIT.unclear);
  });

  it("fails where a region was not given back", async () => {
    ordered(() => {
      report("shutdown", { ...REPORT, regions: [], failed: ["s: the card has no power"] });
      killed();
    });
    await fails(
      /^b is shut down, and has not given back s: the card has no power$/,
      EXIT.failed,
    );
  });

  it("gives an order again that ended with its timekeeper", async () => {
    answers("status", () => status({ ordersFrom: 1_000 }));
    ordered(() => {
      if (orders.length < 2) return;
      report("shutdown", REPORT);
      killed();
    });
    assert.equal((await shutDown()).offAt, 9_000);
    assert.equal(orders.length, 2);
  });
});
