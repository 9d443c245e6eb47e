import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RunReport } from "../reports/method_report.ts";
import { captionOf } from "./caption.ts";
import { chartOf, type Choice } from "./choose.ts";
import { figureNamed, pointsOf, unitOf } from "./figures.ts";
import { measuredOf, type Measurement, medianOf } from "./measured.ts";
import { sweepCsv, sweepTable } from "./sweep_table.ts";

interface PutMade {
  readonly method: string;
  readonly ddio?: "on" | "off";
  readonly median: number;
  readonly error?: string;
}

/** A report with these transfers, as far as figures are made of it. */
function reportOf(puts: readonly PutMade[], more: Partial<RunReport> = {}): RunReport {
  const methods = puts.map(({ method, ddio = "on", median, error = null }) => ({
    ...{ method, ddio, from: "a", to: "b", messages: 16, confirmed: 16, promises: true },
    ...{ requestsPerMessage: 2, packetsPerMessage: 4, bytesPerMessage: 4372 },
    latencyPs: { median, p99: 2 * median, max: 3 * median },
    throughputBps: median === 0 ? 0 : 1e15 / median,
    cpuPs: { requester: 10, responder: 20 },
    ...{ scmAmplification: 1, intact: true, loss: null, error, digest: "d" },
  }));
  return {
    ...{ run: "r", scenario: "pair", seed: 7, digest: "d", virtualPs: 1e9, wallMs: 1 },
    ...{ processes: 1, events: 100, directory: "", faults: [], deviceFaults: [], congestion: [] },
    ...{ results: [], refused: [], checks: [], methods },
    ...more,
  };
}

const DEPTHS = [1, 4, 16], SEEDS = [1, 2, 3];
const VARIED = [
  { name: "depth", values: DEPTHS.map(String) },
  { name: "hosts.b.ddio", values: ["off", "on"] },
  { name: "seed", values: SEEDS.map(String) },
];

/** Median latency: 1000 for each message outstanding, twice as much with DDIO, and the seed. */
function swept(): Measurement[] {
  return DEPTHS.flatMap((depth) =>
    (["off", "on"] as const).flatMap((ddio) =>
      SEEDS.map((seed) => ({
        values: { depth: String(depth), "hosts.b.ddio": ddio, seed: String(seed) },
        report: reportOf(["write-read", "write-flush"].map((method, i) => ({
          ...{ method, ddio },
          median: 1_000 * depth * (ddio === "on" ? 2 : 1) + 100 * i + seed,
        }))),
        error: "",
      }))
    )
  );
}

function chart(choice: Choice, measurements = swept(), varied: typeof VARIED = VARIED) {
  return chartOf(measuredOf(measurements, varied), { choice, title: "pair", caption: ["here"] });
}

describe("pointsOf", () => {
  it("takes every number of the report under its name there, and leaves out what was not measured", () => {
    const [point, failed] = pointsOf(
      reportOf([{ method: "write-read", median: 5_000 }, {
        ...{ method: "send-flush", median: 0, error: "timeout" },
      }]),
    );
    assert.equal(point!.figures["latencyPs.median"], 5_000);
    assert.equal(point!.figures["cpuPs.responder"], 20);
    assert.equal(point!.figures["virtualPs"], 1e9);
    assert.equal(point!.keys["method"], "write-read");
    assert.equal(point!.note, "");
    assert.equal(failed!.figures["latencyPs.median"], undefined);
    assert.equal(failed!.figures["throughputBps"], undefined);
    assert.equal(failed!.note, "timeout");
  });

  it("takes results of other programs, each size of a perftest by itself, and counters of congestion", () => {
    const rows = [{ bytes: 2, typicalPs: 10 }, { bytes: 64, typicalPs: 20 }];
    const congestion = [{ variant: "pair", node: "tor", counters: { ecnMarked: 5 } }];
    const variant = "write-flush, ddio on";
    const points = pointsOf(reportOf([], {
      congestion,
      results: [
        { node: "a", variant, value: { program: "append", to: "b", status: "done", told: 9 } },
        { node: "a", variant: "pair", value: { program: "perftest", test: "ib_write_lat", rows } },
        { node: "a", variant: "pair", value: { message: "no", stack: "at x" } },
      ],
    }));
    assert.deepEqual(
      points.map(({ keys: { program, method, ddio, bytes, from } }) =>
        [program, method, ddio, bytes, from].join()
      ),
      [
        "append,write-flush,on,,a",
        "perftest,,,2,a",
        "perftest,,,64,a",
      ],
    );
    assert.equal(points[0]!.figures["told"], 9);
    assert.equal(points[2]!.figures["typicalPs"], 20);
    assert.equal(points[0]!.figures["congestion.tor.ecnMarked"], 5);
  });

  it("Q-11: takes each number of queue pairs by itself, with how the card knows its queues", () => {
    const rows = [{ qps: 1, messagesPerSecond: 5 }, { qps: 16, messagesPerSecond: 7 }];
    const card = { placement: "default", layout: "areas", store: "host", cache: "64, oldest" };
    const queues = rows.flatMap(({ qps }) =>
      ["classic", "three-space"].map((scheme) => ({
        ...card,
        ...{ variant: "pair", node: `${scheme}-rnic`, scheme, qps },
      }))
    );
    const points = pointsOf(reportOf([], {
      queues: queues as unknown as NonNullable<RunReport["queues"]>,
      results: ["classic", "three-space"].map((node) => ({
        ...{ node, variant: "pair", value: { program: "many-queues", to: "b", rows } },
      })),
    }));
    assert.deepEqual(
      points.map(({ keys: { scheme, qps, cache }, figures }) =>
        [scheme, qps, cache, figures["messagesPerSecond"]].join("; ")
      ),
      [
        "classic; 1; 64, oldest; 5",
        "classic; 16; 64, oldest; 7",
        "three-space; 1; 64, oldest; 5",
        "three-space; 16; 64, oldest; 7",
      ],
    );
  });
});

describe("figureNamed", () => {
  const points = pointsOf(reportOf([{ method: "write-read", median: 5_000 }]));

  it("takes the path, the path without units, or an end that only one has", () => {
    for (const name of ["latencyPs.median", "latency.median", "median"]) {
      assert.equal(figureNamed(name, points), "latencyPs.median");
    }
    assert.equal(figureNamed("throughput", points), "throughputBps");
    assert.deepEqual(
      ["latencyPs.p99", "throughputBps", "bytesPerMessage", "messages"].map(unitOf),
      ["ps", "b/s", "B", ""],
    );
  });

  it("refuses any other with what there is", () => {
    assert.throws(
      () => figureNamed("medain", points),
      /--y is "medain": expected latency\.median|expected one of/,
    );
  });
});

describe("chartOf", () => {
  it("draws what the report leads with against the first numbers, medians over seeds with their range", () => {
    const { x, y, series, caption, title } = chart({});
    assert.equal(title, "Median latency by depth: pair");
    assert.deepEqual(x, { label: "depth", unit: "", numbers: DEPTHS });
    assert.deepEqual(y, { label: "Median latency", unit: "ps" });
    assert.deepEqual(
      series.map(({ name }) => name),
      [
        "DDIO off, write-read",
        "DDIO off, write-flush",
        "DDIO on, write-read",
        "DDIO on, write-flush",
      ].toSorted((one, other) =>
        series.findIndex(({ name }) => name === one) -
        series.findIndex(({ name }) => name === other)
      ),
    );
    const flush = series.find(({ name }) => name === "DDIO on, write-flush")!;
    assert.deepEqual(flush.points[1], {
      ...{ x: 4, y: 8_102, least: 8_101, greatest: 8_103, count: 3 },
    });
    const looks = new Set(series.map(({ colour, dash }) => `${colour} ${dash}`));
    assert.equal(looks.size, 4);
    assert.deepEqual(caption, [
      "Points are medians of 3 values, bars reach from the least to the greatest.",
      "here",
    ]);
  });

  it("folds what makes no line, and puts words on the axis that is asked for", () => {
    const { x, series } = chart({ x: "method", y: "throughput", by: ["ddio"] });
    assert.deepEqual(x, { label: "method", unit: "", words: ["write-read", "write-flush"] });
    assert.deepEqual(series.map(({ name }) => name), ["DDIO off", "DDIO on"]);
    // Every depth and seed.
    assert.equal(series[0]!.points[0]!.count, 9);
  });

  it("draws the seed only where nothing else varies, and knows sizes, times and rates as numbers", () => {
    const of = (name: string, values: readonly string[]) =>
      chart(
        {},
        values.map((value, i) => ({
          ...{ values: { [name]: value }, error: "" },
          report: reportOf([{ method: "write-read", median: 1_000 + i }]),
        })),
        [{ name, values: [...values] }],
      ).x;
    assert.deepEqual(of("seed", ["1", "2"]), { label: "seed", unit: "", numbers: [1, 2] });
    assert.deepEqual(of("programs[0].size", ["64", "4KiB"]), {
      ...{ label: "size", unit: "B", numbers: [64, 4096] },
    });
    assert.deepEqual(of("fabric.latency", ["25ns", "1us"]), {
      ...{ label: "latency", unit: "ps", numbers: [25_000, 1_000_000] },
    });
    assert.deepEqual(of("fabric.rate", ["25Gbps", "100Gbps"]), {
      ...{ label: "rate", unit: "b/s", numbers: [25e9, 100e9] },
    });
    assert.deepEqual(of("domain", ["adr", "wsp"]), {
      ...{ label: "domain", unit: "", words: ["adr", "wsp"] },
    });
  });

  it("names a line by its value with the unit", () => {
    const varied = [{ name: "depth", values: ["1"] }, { name: "size", values: ["64", "4KiB"] }];
    const measurements = varied[1]!.values.map((size) => ({
      ...{ values: { depth: "1", size }, error: "" },
      report: reportOf([{ method: "write-read", median: 1_000 }]),
    }));
    const { series } = chart({ x: "depth" }, measurements, varied);
    assert.deepEqual(series.map(({ name }) => name), ["size 64 B", "size 4 KiB"]);
  });

  it("makes panels of what has the fewest values where one would have too many lines", () => {
    const methods = Array.from({ length: 6 }, (_, i) => `method-${i}`);
    const measurements = swept().filter(({ values }) => values["seed"] === "1").map((each) => ({
      ...each,
      report: reportOf(methods.map((method, i) => ({
        ...{ method, ddio: each.values["hosts.b.ddio"] as "on", median: 1_000 + i },
      }))),
    }));
    const { series, panelLabel } = chart({}, measurements, VARIED.slice(0, 2));
    assert.equal(panelLabel, "DDIO");
    assert.deepEqual([...new Set(series.map(({ panel }) => panel))], ["off", "on"]);
    assert.equal(series.length, 12);
    assert.equal(new Set(series.map(({ colour }) => colour)).size, 6);
  });

  it("refuses names of nothing, and a picture of nothing", () => {
    assert.throws(() => chart({ x: "dept" }), /--x is "dept": expected depth \(one of depth, /);
    assert.throws(() => chart({ by: ["mthod"] }), /--by is "mthod": expected method/);
    assert.throws(() => chart({ y: "nothing" }), /--y is "nothing": expected one of/);
    const none = swept().map((each) => ({ ...each, report: null, error: "No end" }));
    assert.throws(() => chart({}, none), /There is nothing to draw/);
  });
});

describe("sweepTable", () => {
  it("has a row for all seeds together, and says in it what failed in which", () => {
    const measurements = swept().map((each, i) =>
      i === 1
        ? { ...each, error: "FAIL objects-are-whole" }
        : i === 17
        ? { ...each, report: null, error: "No end" }
        : each
    );
    const lines = sweepTable(measuredOf(measurements, VARIED), "latencyPs.median").split("\n");
    assert.match(
      lines[0]!,
      /^depth +hosts\.b\.ddio +method +median +least +greatest +of +p99 +thr/,
    );
    assert.equal(lines.filter((line) => /^ +\d/.test(line)).length, 13);
    assert.match(lines[2]!, /^ +1 +off +write-read +1\.002 ns +1\.001 ns +1\.003 ns +3 /);
    assert.match(lines[2]!, /seed 2: FAIL objects-are-whole$/);
    assert.match(lines[4]!, /ok$/);
    assert.match(lines.at(-1)!, /^ +16 +on +0 +seed 3: No end$/);
  });
});

describe("sweepCsv", () => {
  it("has every figure of every point under its name in the report, quoted where it has to be", () => {
    const measurements = swept().slice(0, 2);
    measurements[1] = { ...measurements[1]!, report: null, error: 'No "end", yet' };
    const [head, first, , missing, end] = sweepCsv(measuredOf(measurements, VARIED)).split("\r\n");
    const names = head!.split(","), cells = first!.split(",");
    const cell = (name: string) => cells[names.indexOf(name)];
    assert.deepEqual(names.slice(0, 4), ["depth", "hosts.b.ddio", "seed", "method"]);
    assert.equal(cell("latencyPs.median"), "1001");
    assert.equal(cell("bytesPerMessage"), "4372");
    assert.equal(cell("status"), "ok");
    assert.equal(missing!.endsWith(',"No ""end"", yet"'), true, missing);
    assert.equal(end, "");
  });
});

describe("medianOf", () => {
  it("is the middle, or the mean of two", () => {
    assert.equal(medianOf([5]), 5);
    assert.equal(medianOf([9, 1, 5]), 5);
    assert.equal(medianOf([9, 1, 5, 3]), 4);
  });
});

describe("captionOf", () => {
  it("says scenario, seeds, commit and command", () => {
    const about = { scenarios: ["pair"], commit: "1a2b3c4d5e6f", command: "rack sweep x" };
    assert.deepEqual(captionOf({ ...about, seeds: ["7"] }), [
      "Scenario pair, seed 7, commit 1a2b3c4d5e6f.",
      "rack sweep x",
    ]);
    const [line] = captionOf({ ...about, seeds: ["1", "2", "3"], commit: null, command: "" });
    assert.equal(line, "Scenario pair, seeds 1 to 3.");
  });
});
