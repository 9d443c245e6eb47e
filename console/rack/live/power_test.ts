import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { createMemoryBroker } from "../../../fabric/bus/memory_bus_testing.ts";
import { patternOf } from "../../../fabric/bus/subjects.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { RackError } from "../../base/rack_error.ts";
import { isProcessOf } from "../process_table.ts";
import { ControlClient } from "./control.ts";
import { killDevice, killService, startDevice } from "./power.ts";
import type { RackLink, RackUp } from "./racks.ts";

describe("power of a device in a container", () => {
  let rack: Bus;
  let bus: Bus;
  let link: RackLink;
  const told: string[] = [];

  beforeEach(() => {
    const broker = createMemoryBroker();
    const onError = (error: Error) => assert.fail(error);
    rack = broker.connect({ onError });
    bus = broker.connect({ onError });
    const card = { name: "b-rnic", kind: "rnic", config: { host: "b" } };
    const file = {
      plan: { nodes: [{ name: "b", kind: "host" }, card] },
      stayUp: true,
      partitions: ["b", "b-rnic"].map((name) => ({ name, nodes: [name] })),
      elsewhere: ["b", "b-rnic"],
    };
    link = {
      rack: { id: "r", directory: "/", supervisor: { pid: null }, file } as never,
      bus,
      control: new ControlClient(bus, "r"),
    };
    told.length = 0;
  });

  afterEach(async () => {
    await bus.close();
    await rack.close();
  });

  function answers(verb: string, reply: (body: unknown) => unknown): void {
    rack.subscribe(patternOf({ kind: "control", run: "r", verb }), (payload, _, answer) => {
      told.push(verb);
      answer?.(encode(reply(decode(payload))));
    });
  }

  const fault = (action: string, at: number) => ({ at, action, partition: "b", nodes: ["b"] });

  it("is its parent's to cut and to give back, that of its card with it", async () => {
    answers("kill-b", (order) => ({ ok: true, instance: Object(order).token && "b-1" }));
    answers("boot-b", () => ({ started: ["b"], instance: "b-2", pid: 7 }));
    answers("boot-b-rnic", () => ({ refusal: "b-rnic has power" }));
    answers("process-b", () => ({ instance: "b-2", pid: 7 }));
    const faults = [fault("kill", 5), fault("start", 9)];
    answers("faults", () => ({ ok: true, faults, count: 2, powered: { b: "b-2" } }));
    assert.deepEqual(await killDevice(link, "b"), { nodes: ["b"], at: 5 });
    assert.deepEqual(await startDevice(link, "b"), { nodes: ["b"], started: ["b"], at: 9 });
    const orders = told.filter((verb) => verb !== "faults" && verb !== "process-b");
    assert.deepEqual(orders, ["kill-b", "boot-b", "boot-b-rnic"]);
  });

  it("is refused to be cut where the process ended as it was coming up, of which nothing is on record", async () => {
    answers("kill-b", () => ({ ok: true, instance: "b-2" }));
    let looks = 0;
    answers("faults", (request) => {
      const { from, of } = Object(request);
      if (of === undefined) return { ok: true, faults: [], count: 3, powered: {} };
      assert.deepEqual([from, of], [3, ["b", "b-2"]]);
      return { ok: true, faults: [], count: 3, powered: {}, isOver: ++looks > 2 };
    });
    await assert.rejects(killDevice(link, "b"), /it was coming up, .*expected rack start b/);
    assert.equal(looks, 3);
  });

  it("start ends where the new process has ended", async () => {
    answers("boot-b", () => ({ started: ["b"], instance: "b-2", pid: 7 }));
    answers("boot-b-rnic", () => ({ started: ["b-rnic"], instance: "b-rnic-2", pid: 8 }));
    answers("process-b", () => ({ instance: "b-2", pid: null }));
    answers("faults", () => ({ ok: true, faults: [], count: 0, powered: {} }));
    await assert.rejects(
      startDevice(link, "b"),
      /the process of b ended before the device had power/,
    );
  });

  it("is not changed behind the end of the run, of which nothing is on record", async () => {
    answers("status", () => ({ ok: true, finished: true }));
    const ended = { ...link, rack: { ...link.rack, file: { ...link.rack.file, stayUp: false } } };
    await assert.rejects(killDevice(ended, "b"), /Cannot kill b: r has come to its end/);
    await assert.rejects(startDevice(ended, "b"), /Cannot start b: r has come to its end/);
    assert.deepEqual(told, ["status", "status"]);
  });

  it("says what to do where nobody is in the container", async () => {
    answers("faults", () => ({ ok: true, faults: [], count: 0, powered: {} }));
    await assert.rejects(
      killDevice(link, "b"),
      /no answer from the parent of b .*docker-compose start b/,
    );
    assert.throws(() => killService(link.rack, "nats"), /nats: it is on another machine/);
    await assert.rejects(killDevice(link, "c"), /There is no c in r: expected one of b, b-rnic/);
  });
});

describe("power of a device whose first process is killed while the rack comes up", () => {
  const NONE = { faults: [], count: 0 };
  let directory: string;
  let supervisor: Deno.ChildProcess;
  let rack: Bus;
  let bus: Bus;
  let link: RackLink;

  beforeEach(async () => {
    directory = await Deno.makeTempDir();
    const entry = { name: "tor", kind: "partition", pid: null, nodes: ["tor"] };
    await Deno.writeTextFile(`${directory}/processes.json`, JSON.stringify([entry]));
    // Any process that names the run's directory counts as one of the run.
    const args = ["-c", "read line", `${directory}/run.json`];
    supervisor = new Deno.Command("sh", { args, stdin: "piped" }).spawn();
    // A process that has just been started has no command line for a moment.
    while (!isProcessOf(directory, supervisor.pid)) await sleep(1);
    const broker = createMemoryBroker();
    const onError = (error: Error) => assert.fail(error);
    rack = broker.connect({ onError });
    bus = broker.connect({ onError });
    const up = { id: "r", directory, supervisor: { pid: supervisor.pid } } as unknown as RackUp;
    link = {
      rack: {
        ...up,
        file: {
          stayUp: true,
          plan: { nodes: [{ name: "tor", kind: "switch" }] },
          partitions: [{ name: "tor", nodes: ["tor"] }],
        },
      } as never,
      bus,
      control: new ControlClient(bus, "r"),
    };
  });

  afterEach(async () => {
    await supervisor.stdin.close();
    await supervisor.status;
    await bus.close();
    await rack.close();
    await Deno.remove(directory, { recursive: true });
  });

  /** Answers a verb with these, one after the other, and with the last one for ever. */
  function answers(verb: string, ...replies: readonly unknown[]): void {
    let asked = 0;
    rack.subscribe(patternOf({ kind: "control", run: "r", verb }), (_payload, _, reply) => {
      reply?.(encode({ ok: true, ...replies[Math.min(asked++, replies.length - 1)]! }));
    });
  }

  it("start returns the run's begin, where no return of power is on record", async () => {
    answers("boot", { started: ["tor"], instance: "tor-2", pid: supervisor.pid });
    answers("faults", { ...NONE, powered: {} }, { ...NONE, powered: {} }, {
      ...NONE,
      powered: { tor: "tor-2" },
    });
    assert.equal((await startDevice(link, "tor")).at, 0);
  });

  it("start waits for a process that has no command line yet", async () => {
    const young = new Deno.Command("sh", { args: ["-c", "read line"], stdin: "piped" }).spawn();
    answers("boot", { started: ["tor"], instance: "tor-2", pid: young.pid });
    const none = { ...NONE, powered: { tor: "tor-1" } };
    answers("faults", none, none, none, { ...NONE, powered: { tor: "tor-2" } });
    assert.equal((await startDevice(link, "tor")).at, 0);
    await young.stdin.close();
    await young.status;
  });

  it("start ends where the new process has ended, too", async () => {
    answers("boot", { started: ["tor"], instance: "tor-2", pid: 0 });
    answers("faults", { ...NONE, powered: { tor: "tor-1" } });
    await assert.rejects(startDevice(link, "tor"), (error) => {
      assert.ok(error instanceof RackError);
      const message = "Found that the process of tor ended before the device had power";
      assert.equal(error.message, message);
      return true;
    });
  });

  it("kill ends where another process has come up in its place", async () => {
    answers("kill", { instance: "tor-1" });
    answers("faults", { ...NONE, powered: {} }, { ...NONE, powered: { tor: "tor-1" } }, {
      ...NONE,
      powered: { tor: "tor-2" },
    });
    await assert.rejects(
      killDevice(link, "tor"),
      /Cannot kill tor: it had not come up yet; its process was killed, and is started/,
    );
  });

  it("both return the instant that is on record", async () => {
    answers("kill", { instance: "tor-1" });
    answers("boot", { started: ["tor"], instance: "tor-2", pid: supervisor.pid });
    const fault = (action: string, at: number) => ({
      at,
      action,
      partition: "tor",
      nodes: ["tor"],
    });
    const faults = [fault("kill", 5), fault("start", 9)];
    answers("faults", { faults, count: 2, powered: { tor: "tor-2" } });
    assert.equal((await killDevice(link, "tor")).at, 5);
    assert.equal((await startDevice(link, "tor")).at, 9);
  });
});
