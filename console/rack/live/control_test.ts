import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { BusError } from "../../../fabric/bus/bus.ts";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { createMemoryBroker } from "../../../fabric/bus/memory_bus_testing.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { patternOf } from "../../../fabric/bus/subjects.ts";
import { Refusal } from "../../../fabric/rack/plan/problem.ts";
import { orderLinkFault } from "./cables.ts";
import { ControlClient } from "./control.ts";

describe("ControlClient", () => {
  let rack: Bus;
  let bus: Bus;
  let control: ControlClient;

  beforeEach(() => {
    const broker = createMemoryBroker();
    const onError = (error: Error) => assert.fail(error);
    rack = broker.connect({ onError });
    bus = broker.connect({ onError });
    control = new ControlClient(bus, "r");
  });

  afterEach(async () => {
    await bus.close();
    await rack.close();
  });

  /** Answers a verb with these, one after the other. @returns what was asked. */
  function answers(verb: string, ...replies: readonly unknown[]): unknown[] {
    const asked: unknown[] = [];
    rack.subscribe(patternOf({ kind: "control", run: "r", verb }), (payload, _, reply) => {
      reply?.(encode(replies[asked.length]));
      asked.push(decode(payload));
    });
    return asked;
  }

  it("answers { ok } or { refused }, whatever word stands for a refusal on the bus", async () => {
    answers("fault", { ok: true }, { error: "past" }, { refusal: "no power" }, null);
    assert.deepEqual(await control.ask("fault", {}), { ok: { ok: true } });
    assert.deepEqual(await control.ask("fault", {}), { refused: "past" });
    assert.deepEqual(await control.ask("fault", {}), { refused: "no power" });
    assert.deepEqual(await control.ask("fault", {}), { ok: {} });
  });

  it("tells an order that may be taken later from one that is refused", async () => {
    answers("run", { busy: true, error: "full" }, { busy: false, error: "too large" });
    assert.deepEqual(await control.ask("run", {}), { refused: "full", isBusy: true });
    assert.deepEqual(await control.ask("run", {}), { refused: "too large" });
  });

  it("refuses what must be with what was wanted", async () => {
    answers("boot", { refusal: "b has power" });
    await assert.rejects(control.demand("boot", {}, { to: "start b" }), (error) => {
      assert.ok(error instanceof Refusal);
      assert.equal(error.message, "Cannot start b: b has power");
      return true;
    });
  });

  it("throws where no process listens, and an attempt answers nothing", async () => {
    await assert.rejects(control.ask("status", {}, { forMs: 0 }), (error) => {
      assert.ok(error instanceof BusError);
      assert.equal(error.kind, "no-responders");
      return true;
    });
    assert.equal(await control.attempt("status", {}), undefined);
    assert.equal(await control.final("b", { forMs: 100 }), undefined);
  });

  it("asks no more once its signal is aborted, with the signal's reason", async () => {
    const down = new Error("down");
    const aborts = async (ask: (signal: AbortSignal) => Promise<unknown>) => {
      const ending = new AbortController();
      const asked = ask(ending.signal);
      // While no process listens, or one does not answer.
      setTimeout(() => ending.abort(down), 20);
      await assert.rejects(asked, (error) => error === down);
      await assert.rejects(ask(ending.signal), (error) => error === down);
    };
    const all = async () => {
      await aborts((signal) => control.ask("run", {}, { signal }));
      await aborts((signal) => control.status({ signal }));
      await aborts((signal) => control.waitFor(() => true, { signal }));
      await aborts((signal) => control.final("b", { forMs: Infinity, signal }));
    };
    await all();
    for (const verb of ["run", "status", "final-b"]) {
      rack.subscribe(patternOf({ kind: "control", run: "r", verb }), () => {});
    }
    await all();
  });

  it("asks for a final report until all of its pages are there", async () => {
    const page = (reports: unknown[], reportsLeft: number) => ({
      partition: "b",
      reports,
      reportsLeft,
    });
    const asked = answers("final-b", page([1, 2], 1), { error: "busy" }, page([3], 0));
    assert.deepEqual(await control.final("b", { forMs: PATIENCE_MS }), {
      partition: "b",
      reports: [1, 2, 3],
    });
    assert.deepEqual(asked, [{ after: 0 }, { after: 2 }, { after: 2 }]);
  });

  it("asks on for a final report while the partition is not back on the bus", async () => {
    const asked = control.final("b", { forMs: PATIENCE_MS });
    await sleep(200);
    answers("final-b", { partition: "b", reports: [], reportsLeft: 0 });
    assert.deepEqual(await asked, { partition: "b", reports: [] });
  });

  it("has no final report where a page is missing", async () => {
    answers("final-b", { partition: "b", reports: [1], reportsLeft: 1 }, {});
    assert.equal(await control.final("b", { forMs: 100 }), undefined);
  });

  it("waits for the report of a process that is busy, as long as it has power", async () => {
    const rows = (status: string) => ({ ok: true, why: [{ partition: "b", status }] });
    const asked = answers(
      "status",
      rows("running"),
      rows("running"),
      rows("running"),
      rows("dead"),
      rows("running"),
    );
    const busy = control.finalIfPowered("b");
    while (asked.length < 2) await sleep(5);
    answers("final-b", { partition: "b", reports: [], reportsLeft: 0 });
    assert.deepEqual(await busy, { partition: "b", reports: [] });
    while (asked.length < 3) await control.status();
    assert.equal(await control.finalIfPowered("b"), undefined);
    assert.equal(await control.finalIfPowered("elsewhere"), undefined);
  });

  it("orders a fault of a cable with one token until it has its time", async () => {
    const asked = answers("link", {}, {}, { at: 7, fault: 3 }) as { token: string }[];
    const ask = (verb: string, body: unknown) => control.ask(verb, body);
    const fault = { action: "cut", cable: 0, direction: "both" } as const;
    assert.deepEqual(await orderLinkFault(ask, fault), { ok: { at: 7, fault: 3 } });
    assert.deepEqual([asked.length, new Set(asked.map(({ token }) => token)).size], [3, 1]);
    assert.equal(await orderLinkFault(ask, fault, () => false), undefined);
  });
});
