/** That a trace is what ui.perfetto.dev takes: the event format, tracks on which nothing overlaps, arrows. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { z } from "zod";
import { writeCaptures } from "../../console/captures/captures.ts";
import { RackBench, type Ran, type RunOf } from "../support/process_rack.ts";

const id = z.int().positive();
const place = { pid: id, tid: z.int().min(0) };
const ts = z.number().min(0);
const args = z.record(z.string(), z.unknown());
const flow = { name: z.literal("request"), cat: z.literal("request"), id, ...place, ts };
/** The part of the trace event format that is used. */
const eventSchema = z.discriminatedUnion("ph", [
  z.strictObject({ ph: z.literal("M"), name: z.string(), ...place, args }),
  z.strictObject({
    ph: z.literal("X"),
    name: z.string(),
    ...place,
    ts,
    dur: z.number().gt(0),
    args,
  }),
  z.strictObject({
    ph: z.literal("i"),
    s: z.literal("t"),
    name: z.string(),
    cat: z.literal("step"),
    ...place,
    ts,
    args,
  }),
  z.strictObject({
    ph: z.literal("C"),
    name: z.string(),
    ...place,
    ts: z.number(),
    args: z.strictObject({ lines: z.number() }),
  }),
  z.strictObject({ ph: z.literal("s"), ...flow }),
  z.strictObject({ ph: z.literal("t"), ...flow }),
  z.strictObject({ ph: z.literal("f"), bp: z.literal("e"), ...flow }),
]);
const traceSchema = z.strictObject({
  displayTimeUnit: z.literal("ns"),
  traceEvents: z.array(eventSchema),
});
type Trace = z.infer<typeof traceSchema>;
type Slice = Extract<Trace["traceEvents"][number], { ph: "X" }>;

/** Rounding of sums of fractions, in microseconds. */
const EPSILON_US = 1e-6;

const PAIR: RunOf = {
  scenario: new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url),
  inputBytes: 64 * 1024,
  size: 4096,
  depth: 4,
  method: "persist-opcode",
  ddio: "off",
  observe: "all",
  packing: "all",
};

class ReadTrace {
  readonly trace: Trace;
  readonly #names = new Map<string, string>();

  constructor(path: string) {
    this.trace = traceSchema.parse(JSON.parse(Deno.readTextFileSync(path)));
    for (const event of this.trace.traceEvents) {
      if (event.ph !== "M") continue;
      const { name, pid, tid } = event;
      if (name === "process_name") this.#names.set(`${pid}`, String(event.args["name"]));
      if (name === "thread_name") this.#names.set(`${pid} ${tid}`, String(event.args["name"]));
    }
  }

  /** `b-rnic | PM module` → its slices; lanes of one name together. */
  slices(): Map<string, Slice[]> {
    const found = new Map<string, Slice[]>();
    for (const event of this.trace.traceEvents) {
      if (event.ph !== "X") continue;
      const track = this.trackOf(event).replace(/ \(\d+\)$/, "");
      found.set(track, [...found.get(track) ?? [], event]);
    }
    return found;
  }

  trackOf({ pid, tid }: { pid: number; tid: number }): string {
    return `${this.#names.get(`${pid}`)} | ${this.#names.get(`${pid} ${tid}`)}`;
  }
}

describe("A rack's trace for Perfetto", () => {
  let bench: RackBench;
  let ran: Ran;
  let read: ReadTrace;

  beforeAll(async () => {
    bench = await RackBench.open();
    ran = await bench.run(PAIR);
    read = await traceOf("one", [ran]);
  });
  afterAll(() => bench.close());

  async function traceOf(name: string, runs: readonly Ran[]): Promise<ReadTrace> {
    const perfetto = `${bench.directory}/${name}.json`;
    const recorded = runs.map(({ prepared: { plan, label }, outcome: { directory } }) => ({
      plan,
      label,
      directory,
    }));
    await writeCaptures(recorded, { perfetto });
    return new ReadTrace(perfetto);
  }

  it("has a process for every device, and tracks for what can be busy in it", () => {
    const tracks = [...read.slices().keys()];
    for (
      const track of [
        "a | core 0",
        "a | IIO",
        "a | completions",
        "a | requests of QP 0x11",
        "a | out 0 to a-rnic:0",
        "a-rnic | QP 0x11",
        "a-rnic | out 1 to tor:0",
        "a-rnic | out 0 to a:0",
        "b | core 0",
        "b | IIO",
        "b-rnic | PM module",
        "b-rnic | out 1 to tor:1",
        "tor | out 0 to a-rnic:1",
        "tor | out 1 to b-rnic:1",
      ]
    ) assert.ok(tracks.includes(track), `${track} is among ${tracks}`);
  });

  it("lets nothing overlap on a track, and a cable carry what its rate allows", () => {
    const lanes = Map.groupBy(
      read.trace.traceEvents.filter((event) => event.ph === "X"),
      ({ pid, tid }) => `${pid} ${tid}`,
    );
    for (const slices of lanes.values()) {
      let end = 0;
      for (const { ts, dur } of slices.toSorted((x, y) => x.ts - y.ts)) {
        assert.ok(ts >= end - EPSILON_US, `${read.trackOf(slices[0]!)} at ${ts} us`);
        end = ts + dur;
      }
    }
    // A write of 4 KiB at 100 Gb/s: 98 B around it and the vendor's word (CALIBRATION).
    const writes = read.slices().get("a-rnic | out 1 to tor:0")!
      .filter(({ name }) => name.startsWith("VENDOR WRITE PERSISTENCE ONLY"));
    assert.equal(writes.length, 16);
    for (const { dur } of writes) assert.ok(Math.abs(dur - (4096 + 102) * 8e-5) < EPSILON_US);
  });

  it("says of every core how long it was busy, as the host's own counters do", () => {
    const [final] = ran.outcome.finals;
    for (const host of ["a", "b"]) {
      const statistics = final!.statistics[host]!;
      for (const [track, slices] of read.slices()) {
        const core = /^(.+) \| core (\d+)$/.exec(track);
        if (core?.[1] !== host) continue;
        const busyPs = slices.reduce((sum, { dur }) => sum + dur * 1e6, 0);
        assert.equal(Math.round(busyPs), statistics[`core${core[2]}.cpuPs`], track);
      }
    }
  });

  it("leads an arrow from each persistent write over RNIC and PM module to its completion", () => {
    const flows = Map.groupBy(
      read.trace.traceEvents.filter((event) =>
        event.ph === "s" || event.ph === "t" || event.ph === "f"
      ),
      ({ id }) => id,
    );
    const ways = [...flows.values()].map((steps) => {
      assert.equal(steps[0]!.ph, "s");
      assert.equal(steps.filter(({ ph }) => ph === "s").length, 1);
      assert.equal(steps.at(-1)!.ph, "f");
      assert.equal(steps.filter(({ ph }) => ph === "f").length, 1);
      const times = steps.map(({ ts }) => ts);
      assert.deepEqual(times, times.toSorted((x, y) => x - y));
      return steps.map((step) => read.trackOf(step).replace(/ \(\d+\)$/, "")).join(" → ");
    });
    const way = "a | requests of QP 0x11 → a-rnic | QP 0x11 → b-rnic | PM module → a | completions";
    assert.equal(ways.filter((each) => each === way).length, 16);
  });

  it("has the ends of every arrow in a slice", () => {
    const slices = Map.groupBy(
      read.trace.traceEvents.filter((event) => event.ph === "X"),
      ({ pid, tid }) => `${pid} ${tid}`,
    );
    for (const event of read.trace.traceEvents) {
      if (event.ph !== "s" && event.ph !== "t" && event.ph !== "f") continue;
      const inside = slices.get(`${event.pid} ${event.tid}`)?.some(({ ts, dur }) =>
        ts <= event.ts && event.ts <= ts + dur
      );
      assert.ok(inside, `${event.ph} of ${event.id} is in a slice of ${read.trackOf(event)}`);
    }
  });

  it("holds several runs below each other, each with its own processes and arrows", async () => {
    const runs = [await bench.run(PAIR), await bench.run({ ...PAIR, ddio: "on" })];
    const both = await traceOf("both", runs);
    const tracks = [...both.slices().keys()];
    for (const { prepared: { label } } of runs) {
      assert.ok(tracks.includes(`${label}: b-rnic | PM module`), label);
    }
    const starts = both.trace.traceEvents.filter(({ ph }) => ph === "s");
    assert.equal(new Set(starts.map((each) => "id" in each && each.id)).size, starts.length);
  });
});
