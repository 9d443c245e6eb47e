/**
 * The suite that every bus passes: `memory_bus_test.ts` and, over a real server,
 * `tests/rig/nats_bus_test.ts`.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { InvariantError } from "../base/assert.ts";
import { PATIENCE_MS } from "../base/patience.ts";
import { type Bus, BusError, type BusErrorKind } from "./bus.ts";
import { sleep, wallMs } from "./wall_time.ts";

export interface BusRig {
  connect(name: string, onError: (error: BusError) => void): Promise<Bus>;
  outage(): Promise<void>;
  heal(): Promise<void>;
  close(): Promise<void>;
}

export function busContract(name: string, openRig: () => Promise<BusRig>): void {
  describe(name, () => {
    let rig: BusRig;
    let a: Bus;
    let b: Bus;
    let reported: BusError[];

    beforeEach(async () => {
      reported = [];
      rig = await openRig();
      a = await rig.connect("a", (error) => reported.push(error));
      b = await rig.connect("b", (error) => reported.push(error));
    });

    afterEach(async () => {
      await Promise.all([a.close(), b.close()]);
      await rig.close();
    });

    it("delivers 20,000 messages in the order of their publishing, bytes intact", async () => {
      const count = 20_000;
      const got: Uint8Array[] = [];
      b.subscribe("rack.r.wire.a.b", (payload) => got.push(payload));
      await b.flush();
      for (let i = 0; i < count; i++) a.publish("rack.r.wire.a.b", numbered(i));
      await until(() => got.length >= count);
      assert.equal(got.length, count);
      // Looked at only now: a payload that was kept must not have been overwritten by later ones.
      got.forEach((payload, i) => assertNumbered(payload, i));
    });

    it("hands over plain Uint8Arrays, whose slice() is a copy", async () => {
      const got: Uint8Array[] = [];
      b.subscribe("t", (payload) => got.push(payload));
      await b.flush();
      a.publish("t", Uint8Array.of(0, 13, 10, 255));
      await until(() => got.length === 1);
      assert.deepEqual(got, [Uint8Array.of(0, 13, 10, 255)]);
      assert.equal(got[0]!.constructor, Uint8Array);
    });

    it("calls no handler inside publish", async () => {
      let calls = 0;
      a.subscribe("t", () => calls++);
      await a.flush();
      a.publish("t", Uint8Array.of(1));
      assert.equal(calls, 0);
      await until(() => calls === 1);
    });

    it("matches * to one token and > to the rest, and tells the subject", async () => {
      const got: Record<string, string[]> = {};
      for (const pattern of ["w.*.b", "w.a.*", "w.>", "w.a.b", "*.a.b", "w.*", "w.a.b.>"]) {
        got[pattern] = [];
        b.subscribe(pattern, (_payload, subject) => got[pattern]!.push(subject));
      }
      let end = false;
      b.subscribe("end", () => end = true);
      await b.flush();
      for (const subject of ["w.a.b", "w.c.b", "w.a", "w.a.b.c", "w", "end"]) {
        a.publish(subject, new Uint8Array());
      }
      await until(() => end);
      assert.deepEqual(got, {
        "w.*.b": ["w.a.b", "w.c.b"],
        "w.a.*": ["w.a.b"],
        "w.>": ["w.a.b", "w.c.b", "w.a", "w.a.b.c"],
        "w.a.b": ["w.a.b"],
        "*.a.b": ["w.a.b"],
        "w.*": ["w.a"],
        "w.a.b.>": ["w.a.b.c"],
      });
    });

    it("delivers to every subscription, the publisher's own included", async () => {
      const got: string[] = [];
      a.subscribe("t", () => got.push("a"));
      b.subscribe("t", () => got.push("b"));
      b.subscribe("t", () => got.push("b"));
      await Promise.all([a.flush(), b.flush()]);
      a.publish("t", Uint8Array.of(1));
      await until(() => got.length >= 3);
      assert.deepEqual(got.sort(), ["a", "b", "b"]);
    });

    it("hears what it publishes in the turn in which it has subscribed, and asks in it", async () => {
      const got: number[] = [];
      b.subscribe("double", (payload, _subject, reply) => reply!(Uint8Array.of(payload[0]! * 2)));
      await b.flush();
      a.publish("t", Uint8Array.of(1));
      a.subscribe("t", (payload) => got.push(payload[0]!));
      a.publish("t", Uint8Array.of(2));
      const answer = await a.request("double", Uint8Array.of(4), {
        by: "b",
        timeoutMs: PATIENCE_MS,
      });
      await until(() => got.length > 0);
      assert.deepEqual([got, [...answer]], [[2], [8]]);
    });

    it("delivers nothing that was published before the subscription", async () => {
      const got: number[] = [];
      a.publish("t", Uint8Array.of(1));
      await a.flush();
      b.subscribe("t", (payload) => got.push(payload[0]!));
      await b.flush();
      a.publish("t", Uint8Array.of(2));
      await until(() => got.length > 0);
      assert.deepEqual(got, [2]);
    });

    it("carries nothing, 512 KiB and maxPayload whole, and asserts on one byte more", async () => {
      const sizes = [0, 1, 512 << 10, b.maxPayload];
      const got: Uint8Array[] = [];
      b.subscribe("t", (payload) => got.push(payload));
      await b.flush();
      for (const size of sizes) a.publish("t", pattern(size));
      await until(() => got.length === sizes.length);
      for (const [i, size] of sizes.entries()) {
        assert.ok(sameBytes(got[i]!, pattern(size)), `${size} bytes`);
      }
      const tooMuch = new Uint8Array(a.maxPayload + 1);
      assert.throws(() => a.publish("t", tooMuch), InvariantError);
    });

    it("asserts on what is no subject and no pattern", () => {
      for (const subject of ["", "a..b", ".a", "a.", "a b", "a.*", "a.>", "a\r\nPUB"]) {
        assert.throws(() => a.publish(subject, new Uint8Array()), InvariantError, subject);
      }
      for (const pattern of ["", "a..b", "a*", "a.>.b", "a b"]) {
        assert.throws(() => a.subscribe(pattern, () => {}), InvariantError, pattern);
      }
    });

    it("brings every request its own answer", async () => {
      b.subscribe("double", (payload, _subject, reply) => reply!(Uint8Array.of(payload[0]! * 2)));
      b.subscribe("t", (_payload, _subject, reply) => assert.equal(reply, undefined));
      await b.flush();
      a.publish("t", Uint8Array.of(1));
      const asked = Array.from({ length: 50 }, (_, i) => i);
      const answers = await Promise.all(
        asked.map((i) =>
          a.request("double", Uint8Array.of(i), { by: "b", timeoutMs: PATIENCE_MS })
        ),
      );
      assert.deepEqual(answers.map((answer) => answer[0]), asked.map((i) => i * 2));
      assert.deepEqual(reported, []);
    });

    it("fails a request without a subscriber at once", async () => {
      const failed = a.request("nobody", Uint8Array.of(1), { by: "b", timeoutMs: PATIENCE_MS });
      await rejects(failed, "no-responders");
    });

    it("fails a request that is not answered in time", async () => {
      b.subscribe("mute", () => {});
      await b.flush();
      await rejects(a.request("mute", Uint8Array.of(1), { by: "b", timeoutMs: 30 }), "timeout");
    });

    it("calls a handler no more once its subscription is closed", async () => {
      const got: number[] = [];
      const first = b.subscribe("t", (payload) => {
        got.push(payload[0]!);
        if (payload[0] === 2) first.close();
      });
      let end = false;
      b.subscribe("end", () => end = true);
      await b.flush();
      for (let i = 0; i < 5; i++) a.publish("t", Uint8Array.of(i));
      a.publish("end", new Uint8Array());
      await until(() => end);
      first.close();
      assert.deepEqual(got, [0, 1, 2]);
    });

    it("survives a handler that throws: reports it, goes on", async () => {
      const got: number[] = [];
      b.subscribe("t", (payload) => {
        if (payload[0] === 1) throw new RangeError("one is not welcome");
        got.push(payload[0]!);
      });
      await b.flush();
      for (let i = 0; i < 4; i++) a.publish("t", Uint8Array.of(i));
      await until(() => got.length === 3);
      assert.deepEqual(got, [0, 2, 3]);
      assert.deepEqual(reported.map((error) => error.kind), ["handler"]);
      assert.ok(reported[0]!.cause instanceof RangeError);
    });

    it("sends before it closes what was published before", async () => {
      let got = 0;
      b.subscribe("t", () => got++);
      await b.flush();
      for (let i = 0; i < 200; i++) a.publish("t", new Uint8Array(100_000));
      await a.close();
      await until(() => got === 200);
    });

    it("closes once for all: waiting calls fail, later publishes are dropped", async () => {
      const statuses: string[] = [];
      a.onStatus((status) => statuses.push(status));
      b.subscribe("mute", () => {});
      await b.flush();
      const asked = rejects(
        a.request("mute", Uint8Array.of(1), { by: "b", timeoutMs: PATIENCE_MS }),
        "closed",
      );
      await Promise.all([a.close(), a.close()]);
      await a.close();
      await asked;
      assert.equal(await a.closed, undefined);
      assert.equal(a.connected, false);
      a.publish("t", Uint8Array.of(1));
      await rejects(
        a.request("t", Uint8Array.of(1), { by: "b", timeoutMs: PATIENCE_MS }),
        "closed",
      );
      await rejects(a.flush(), "closed");
      assert.throws(() => a.subscribe("t", () => {}), { name: "BusError", kind: "closed" });
      await until(() => statuses.length > 0);
      assert.deepEqual(statuses, ["closed"]);
    });

    it("loses what is published in an outage, and hears again after it", async () => {
      const statuses: string[] = [];
      const got: number[] = [];
      a.onStatus((status) => statuses.push(status));
      b.subscribe("t", (payload) => got.push(payload[0]!));
      await b.flush();
      a.publish("t", Uint8Array.of(1));
      await until(() => got.length === 1);

      await rig.outage();
      await until(() => !a.connected && !b.connected);
      a.publish("t", Uint8Array.of(2));
      await rejects(a.flush(), "disconnected");
      await rejects(a.request("t", Uint8Array.of(2), { by: "b", timeoutMs: 30 }), "timeout");

      await rig.heal();
      await until(() => a.connected && b.connected);
      await b.flush();
      a.publish("t", Uint8Array.of(3));
      await until(() => got.length > 1);
      assert.deepEqual(got, [1, 3]);
      assert.deepEqual(statuses, ["disconnected", "connected"]);
    });

    it("can be closed in an outage", async () => {
      await rig.outage();
      await until(() => !a.connected);
      await a.close();
      assert.equal(await a.closed, undefined);
    });
  });
}

export async function until(condition: () => boolean): Promise<void> {
  const deadline = wallMs() + PATIENCE_MS;
  while (!condition()) {
    assert.ok(wallMs() < deadline, `Did not happen within ${PATIENCE_MS / 1_000} s: ${condition}`);
    await sleep(1);
  }
}

async function rejects(promise: Promise<unknown>, kind: BusErrorKind): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof BusError);
    assert.equal(error.kind, kind);
    return true;
  });
}

function numbered(i: number): Uint8Array {
  const payload = new Uint8Array(4 + i % 64).fill(i & 0xff);
  new DataView(payload.buffer).setUint32(0, i);
  return payload;
}

function assertNumbered(payload: Uint8Array, i: number): void {
  if (sameBytes(payload, numbered(i))) return;
  assert.fail(`Message ${i} is not what was sent: ${payload}`);
}

function pattern(size: number): Uint8Array {
  const payload = new Uint8Array(size);
  for (let i = 0; i < size; i++) payload[i] = (i * 31 + (i >> 8)) & 0xff;
  return payload;
}

function sameBytes(x: Uint8Array, y: Uint8Array): boolean {
  if (x.length !== y.length) return false;
  for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return false;
  return true;
}
