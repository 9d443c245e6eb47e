/**
 * One rack of processes, watched all the time: by a user that may not drive it, by its steps, by
 * questions to its devices. It stops at a break as a whole, and ends with the digest of the same rack
 * that nobody has watched.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import type { BreakHit } from "../../fabric/clock/breaks.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { bringUp } from "../../console/rack/bring_up.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import { readProcesses } from "../../console/rack/process_table.ts";
import { rackEvents } from "../../console/rack/live/events.ts";
import { inspectDevice, type Inspected } from "../../console/rack/live/inspect.ts";
import { startDevice } from "../../console/rack/live/power.ts";
import { linkedTo, type RackLink, type RackUp } from "../../console/rack/live/racks.ts";
import { type StepBlock, watchSteps } from "../support/watch_steps.ts";
import { pause, resume, until } from "../../console/rack/live/virtual_time.ts";
import { Replay } from "../../console/replay/client.ts";
import { whereStopped, whereText } from "../../console/replay/where.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import { readInputs } from "../../nodes/files.ts";
import type { TraceStep } from "../../fabric/node.ts";
import type { Time } from "../../fabric/base/time.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { parseGoal } from "../../fabric/trace/predicate.ts";
import { eventually } from "../support/eventually.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { contentOf } from "../support/process_rack.ts";
import { removeUnlessKept } from "../support/leavings.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const CHOICES = { method: "persist-opcode", ddio: "off", packing: "node" } as const;
/** So many messages of 4 KiB that it is not over before the first pause. */
const BYTES = 1 << 20;
const STEP = "S907", HITS = 20;

describe("a rack that is watched", () => {
  let cache: string, input: string;
  let rack: RackUp;
  const ending = new AbortController();
  const blocks: StepBlock[] = [];
  let reading: Promise<void>;

  const asViewer = <T>(action: (link: RackLink) => Promise<T>) =>
    linkedTo(rack, action, { as: "viewer" });
  const driving = <T>(action: (link: RackLink) => Promise<T>) => linkedTo(rack, action);

  beforeAll(async () => {
    cache = await Deno.makeTempDir({ prefix: "rackmesh-watching-" });
    Deno.env.set("RACKMESH_CACHE", cache);
    input = `${cache}/data.bin`;
    await Deno.writeFile(input, contentOf(BYTES));
    rack = await bringUp(await readScenario(PAIR), { prepare: { ...CHOICES, input } });
    reading = asViewer(async (link) => {
      for await (const block of watchSteps(link, { signal: ending.signal })) blocks.push(block);
    });
  });

  afterAll(async () => {
    ending.abort();
    await reading;
    await takeRacksDown({ run: rack.id });
    await removeUnlessKept(cache);
  });

  /** The same rack in this process, to an instant; with all steps that are called so. */
  function simulatedTo(end: Time, called = "") {
    const { plan } = rack.file;
    const inputs = readInputs(rack.file, plan.nodes.map(({ name }) => name));
    const create = nodeFactory({
      plan,
      image: () => undefined,
      inputs: (host) => inputs.get(host) ?? {},
    });
    const steps: string[] = [];
    const onTrace = (at: Time, node: string, { step }: TraceStep) => {
      if (step === called) steps.push(`${at} ${node}`);
    };
    const simulator = new Simulator({ plan, create, ...(called !== "" && { onTrace }) });
    simulator.run(end);
    return { digest: simulator.digest, steps };
  }

  let hit: BreakHit;

  it("stops at a break as a whole: at the instant of the hit, with the digest of that instant", async () => {
    await driving(async ({ control }) => {
      const { status: { standsAt, digest } } = await pause(control);
      assert.equal(digest, simulatedTo(standsAt!).digest, "paused");
      const breaks = [{ step: "qp-err" }, { step: STEP, node: "b-rnic", count: HITS }];
      const { status, missed } = await until(control, { breaks });
      assert.equal(missed, undefined);
      [hit] = status.hits as [BreakHit];
      const { steps } = simulatedTo(status.standsAt!, STEP);
      const from = steps.filter((step) => parseInt(step) >= standsAt!);
      assert.deepEqual(status.hits, [
        { break: 1, node: "b-rnic", step: STEP, atPs: parseInt(from[HITS - 1]!), count: HITS },
      ]);
      assert.equal(status.standsAt, hit.atPs + 1);
      assert.equal(from.length, HITS);
      assert.equal(status.digest, simulatedTo(hit.atPs + 1).digest);
      assert.ok(status.why.every(({ next }) => next > hit.atPs));
      const wrong = (text: string) => until(control, parseGoal([text]));
      await assert.rejects(wrong("x:S907"), /a break is device "x": expected one of a, a-rnic, b/);
    });
  });

  it("is told exactly where it stands by the replay of its past: in the step's own instant", async () => {
    const goal = parseGoal(["b-rnic:persistence-ack"], { count: "3" });
    const { status } = await driving(({ control }) => until(control, goal));
    // What had happened before this order is not counted.
    assert.equal(status.watchedFrom, hit.atPs + 1);
    [hit] = status.hits as [BreakHit];
    const replay = await Replay.open({ run: rack.id });
    try {
      const [row] = await whereStopped(replay, status);
      assert.match(whereText(row!), /^b-rnic takes S907 at [\d.]+us: persistence ACK of 4096 B$/);
      assert.equal(row!.time, hit.atPs);
      // The step is in the next instant, and is none of this one.
      const { step } = status.breaks[hit.break]!, node = row!.node, at = row!.time;
      assert.equal(await replay.find({ step, node, after: at - 1, atPs: at }), null);
      assert.deepEqual(await replay.find({ step, node, after: at - 1, atPs: at + 1 }), row);
      assert.equal((await replay.snapshot(at + 1)).lastEventAt, at);
    } finally {
      await replay.close();
    }
  });

  it("answers a viewer what each device is doing", async () => {
    await asViewer(async (link) => {
      const devices = new Map<string, Inspected>();
      for (const { name } of rack.file.plan.nodes) {
        devices.set(name, await inspectDevice(link, name, { loss: true }));
      }
      const { rnic, ports, counters } = devices.get("b-rnic")!;
      const pair = rnic!.queuePairs.find(({ qpn, type }) => qpn > 1 && type === "rc")!;
      assert.equal(pair.state, "rts");
      const far = devices.get("a-rnic")!.rnic!.queuePairs.find(({ peer }) =>
        peer?.qpn === pair.qpn
      )!;
      assert.ok(far.outstanding > 0 && far.persistWaiting > 0, JSON.stringify(far));
      assert.ok(rnic!.regions.some(({ persistent }) => persistent));
      assert.deepEqual(ports.map(({ peer, up }) => [peer, up]), [["b", true], ["tor", true]]);
      assert.ok(Object.keys(counters).length > 10);
      const { loss, programs, hasPower } = devices.get("b")!;
      assert.deepEqual([loss!.domain, hasPower], ["adr", true]);
      // DDIO is off: what waits in the IIO is all that can be lost of what the card has written.
      assert.equal(loss!.ranges.every(({ place }) => place === "iio"), true, JSON.stringify(loss));
      assert.ok(programs.some(({ serves }) => serves));
      assert.ok(devices.get("a")!.programs.some(({ program }) => program.startsWith("put#")));
      await assert.rejects(inspectDevice(link, "x"), /There is no x in .*: expected one of a/);
    });
  });

  it("answers a viewer, who can order nothing", async () => {
    await asViewer(async ({ bus, control }) => {
      assert.equal((await control.status()).run, rack.file.run);
      assert.ok((await control.final("b", { forMs: 0 }))!.statistics["b"]);
      for (const verb of ["pause", "resume", "kill", "fault", "link", "run", "boot", "death"]) {
        await assert.rejects(control.ask(verb, {}), { kind: "forbidden" }, verb);
      }
      bus.publish(subjectOf({ kind: "clock.ask", run: rack.file.run }), Uint8Array.of(1));
      await bus.flush();
    });
  });

  it("ends with the digest of a rack that nobody has watched, and all its steps were told", async () => {
    const { status } = await driving(async ({ control }) => {
      await resume(control);
      return { status: await control.waitFor(({ next }) => next === Infinity) };
    });
    const alone = simulatedTo(Infinity, STEP);
    assert.equal(status.digest, alone.digest);
    const told = () => blocks.flatMap(({ lines }) => lines).filter(({ step }) => step === STEP);
    await eventually("the last step is here", () => told().some(({ time }) => time > hit.atPs));
    const first = Math.min(...told().map(({ time }) => time));
    await eventually("all steps are here", () => {
      const wanted = alone.steps.filter((step) => parseInt(step) >= first);
      return told().length === wanted.length;
    });
    assert.equal(blocks.reduce((sum, { dropped, missed }) => sum + dropped + missed, 0), 0);
    const nodes = new Set(blocks.map(({ node }) => node));
    assert.deepEqual([...nodes].sort(), ["a", "a-rnic", "b", "b-rnic"]);
  });

  it("tells of a process that is killed from outside at once, and of its return", async () => {
    await driving(async (link) => {
      const stop = new AbortController();
      const events = rackEvents(link, stop.signal);
      assert.equal((await events.next()).value!.event, "state");
      const { pid } = readProcesses(rack.directory).find(({ name }) => name === "b")!;
      const nextPower = async () => {
        for (;;) {
          const { value } = await events.next();
          if (value?.event === "power") return value;
        }
      };
      const told = nextPower();
      await sleep(150);
      Deno.kill(pid!, "SIGKILL");
      const { action, nodes } = await told;
      assert.deepEqual([action, nodes], ["kill", ["b"]]);
      await assert.rejects(inspectDevice(link, "b"), /b has no power/);
      const back = nextPower();
      await startDevice(link, "b");
      assert.partialDeepStrictEqual(await back, { action: "start", nodes: ["b"] });
      stop.abort();
      await events.return();
    });
  });
});
