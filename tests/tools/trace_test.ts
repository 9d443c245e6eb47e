/** Ladders of real operations: that every step which has a number in the document is there, in order. */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Ladder, ladderOf, operationsOf, readTrace } from "../../fabric/trace/trace.ts";
import { stepProblem } from "../../fabric/trace/predicate.ts";
import { stepsOf } from "../../fabric/trace/trace_figures.ts";
import { ladderText } from "../../fabric/trace/trace_text.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

interface Put {
  readonly method: string;
  readonly ddio: "on" | "off";
  readonly size?: number;
  readonly more?: string;
  readonly faults?: string;
}

const MESSAGES = 12;

/** Names of all steps that were traced in these tests. */
const seen = new Set<string>();

/** Ladders of every message of a `put`, four at a time. */
function ladders({ method, ddio, size = 2048, more = "", faults = "[]" }: Put): Ladder[] {
  const options = `bytes: ${MESSAGES * size}, method: ${method}, size: ${size}, depth: 4 ${more}`;
  const rack = new SimulatedRack(
    `
name: ladder
seed: 5
hosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 1MiB } } }
programs: [{ on: a, run: put, to: b, ${options} }]
faults: ${faults}
`,
    { trace: true },
  ).run();
  for (const { step: { step } } of rack.traces) seen.add(step);
  const lines = rack.traces.map(({ time, node, step }) => ({ time, node, ...step }));
  const trace = readTrace(lines, rack.plan);
  return operationsOf(trace).map((operation) => ladderOf(trace, operation));
}

const numbered = ({ rows }: Ladder) =>
  rows.map(({ step }) => step).filter((step) => /^S\d+$/.test(step));

/**
 * What must come before what: chains of the document's arrows. Receives are posted ahead, and the two
 * sides do not wait for each other where nothing goes between them.
 */
const ORDER: Readonly<Record<number, readonly string[]>> = {
  2: ["S201 S202 S203 S204 S205 S206 S207 S208 S209 S210 S211 S212 S213 S214"],
  3: [
    "S301 S302 S303 S304 S305 S306 S307 S308 S309 S310 S313 S314 S315 S316 S317",
    "S311 S312 S313 S319 S320 S321 S322 S323 S324 S325",
    "S310 S312",
    "S317 S318 S324",
  ],
  9: ["S901 S902 S903 S904 S905 S906 S907 S908 S909"],
  10: [
    "S1001 S1002 S1003 S1004 S1006 S1007 S1008 S1014 S1015 S1016 S1018 S1019",
    "S1005 S1006",
    "S1003 S1009 S1010 S1011 S1012",
    "S1011 S1019",
    "S1013 S1018",
    "S1015 S1017",
  ],
};

function inOrder(steps: readonly string[], figure: number): void {
  for (const chain of ORDER[figure]!) {
    const places = chain.split(" ").map((step) => steps.indexOf(step));
    const sorted = places.toSorted((x, y) => x - y);
    same(places, sorted, `${chain} in ${steps.join(" ")}`);
  }
}

const FLOWS: readonly (Put & { readonly figure: 2 | 3 | 9 | 10 })[] = [
  { method: "write-read", ddio: "off", figure: 2 },
  { method: "write-read", ddio: "on", figure: 2 },
  { method: "write-send", ddio: "off", figure: 3 },
  { method: "write-send", ddio: "on", figure: 3 },
  { method: "persist-opcode", ddio: "off", figure: 9 },
  { method: "persist-address", ddio: "off", figure: 9 },
  { method: "persist-opcode", ddio: "on", figure: 10 },
  { method: "persist-address", ddio: "on", figure: 10 },
];

describe("Every step that has a number in the document carries it in the trace", () => {
  for (const { figure, ...put } of FLOWS) {
    const steps = stepsOf(figure);
    const title = `${put.method}, DDIO ${put.ddio}: ${steps[0]} to ${
      steps.at(-1)
    }, in a legal order`;
    // Messages of one packet and of three.
    for (const size of [2048, 10_000]) {
      it(`${title}, in messages of ${size} B`, () => {
        const all = ladders({ ...put, size });
        equal(all.length, MESSAGES);
        for (const ladder of all) {
          equal(ladder.figure, figure);
          same(numbered(ladder).toSorted(byNumber), steps);
          inOrder(numbered(ladder), figure);
        }
      });
    }
  }

  it("P-51: send-flush has no number, and its ladder goes to the responder's CPU and back", () => {
    for (const ladder of ladders({ method: "send-flush", ddio: "on" })) {
      same(numbered(ladder), []);
      const steps = ladder.rows.map(({ step }) => step);
      const places = ["post-send", "recv-cqe", "copy-flush", "post-answer", "flushed"].map((step) =>
        steps.indexOf(step)
      );
      same(places, places.toSorted((x, y) => x - y), steps.join(" "));
      ok(places[0]! >= 0, steps.join(" "));
    }
  });

  it("P-12: write-only ends where the baselines' WRITE ends, with nothing persistent", () => {
    for (const [ddio, first] of [["off", "S202"], ["on", "S302"]] as const) {
      const [ladder] = ladders({ method: "write-only", ddio });
      equal(numbered(ladder!)[0], first);
      equal(numbered(ladder!).length, 5);
      ok(!ladder!.conclusion.text.includes("persistent"));
    }
  });

  it("P-29, claim 9: complete at persistence only, so there is no CQE at reception", () => {
    const [ladder] = ladders({
      method: "persist-opcode",
      ddio: "on",
      more: ", policy: persistence",
    });
    const missing = stepsOf(10).filter((step) => !numbered(ladder!).includes(step));
    same(missing, ["S1010", "S1011", "S1012", "S1013"]);
  });
});

describe("the ladder of a message", () => {
  it("goes over the devices between the two hosts and ends with what the program concluded", () => {
    const [ladder] = ladders({ method: "persist-opcode", ddio: "off" });
    same(ladder!.columns, ["a", "a-rnic", "tor", "b-rnic", "b"]);
    const text = ladderText(ladder!);
    ok(/^a, after .* us: message 0 is persistent$/m.test(text), text);
    // P-03, P-24: the data is in the persistent domain before the ACK says so.
    const steps = ladder!.rows.map(({ step }) => step);
    ok(steps.indexOf("imc") > steps.indexOf("S904"));
    ok(steps.indexOf("imc") < steps.indexOf("S907"));
  });
});

describe("the ladder of a message that was lost", () => {
  it("§3.4: has the NAK by its name, from the responder's RNIC to the requester's", () => {
    const faults = "[{ link: a, loss: all, nth: 3, only: VENDOR WRITE PERSISTENCE }]";
    const all = ladders({ method: "persist-opcode", ddio: "off", faults });
    const naks = all.flatMap(({ rows }) => rows.filter(({ step }) => step === "nak"));
    equal(naks.length, 1);
    const [{ node, to, text }] = naks as [Ladder["rows"][number]];
    equal(node, "b-rnic");
    equal(to, "a-rnic");
    ok(/^NAK PSN sequence error, PSN \d+$/.test(text), text);
    const lost = all.find(({ rows }) => rows.some(({ step }) => step === "nak"))!;
    ok(/ nak .*NAK PSN sequence error/.test(ladderText(lost)), ladderText(lost));
    equal(lost.rows.filter(({ step }) => step === "S903").length, 2, "sent, and sent again");
  });
});

describe("DMA reads of many messages at once", () => {
  const DEPTH = 16, PUTS = 48;

  /** Each ladder's steps and the host's lines of reads in it, and how many LSB reads there were. */
  function readsOf(method: string) {
    const options = `bytes: ${PUTS * 4096}, method: ${method}, size: 4096, depth: ${DEPTH}`;
    const rack = new SimulatedRack(
      `
name: reads
seed: 7
hosts: { a: {}, b: { ddio: off, scm: { size: 1MiB } } }
programs: [{ on: a, run: put, to: b, ${options} }]
`,
      { trace: true },
    ).run();
    const trace = readTrace(
      rack.traces.map(({ time, node, step }) => ({ time, node, ...step })),
      rack.plan,
    );
    const all = operationsOf(trace).map((operation) => ladderOf(trace, operation));
    equal(all.length, PUTS);
    return {
      reads: all.map(({ rows }) => rows.filter(({ step }) => step === "iio-read")),
      steps: all.map(({ rows }) => rows.map(({ step }) => step)),
      count: rack.simulator.statistics()["b-rnic"]!["lsbReads"]!,
    };
  }

  for (const method of ["persist-opcode", "write-flush"]) {
    it(`S906: ${method} has the LSB read of its own message, and no other's`, () => {
      const { reads, steps, count } = readsOf(method);
      same(reads.map(({ length }) => length), new Array(PUTS).fill(1));
      equal(new Set(reads.map(([read]) => read!.time)).size, count);
      equal(count, PUTS);
      for (const each of steps) {
        const [sent, came] = [each.indexOf("S906"), each.indexOf("iio-read")];
        ok(sent >= 0 && sent < came && came < each.indexOf("imc"), each.join(" "));
      }
    });
  }

  it("P-10: a READ has the reads of its own data", () => {
    const { reads, steps } = readsOf("write-read");
    same(reads.map(({ length }) => length), new Array(PUTS).fill(1));
    same(
      // What else it has waited for in the IIO is not the point here.
      reads.map(([read]) => read!.text.split(",")[0]),
      reads.map((_, message) => {
        const last = 0x10000 + (message + 1) * 4096 - 1;
        return `DMA read of 1 B at SCM+0x${last.toString(16)}`;
      }),
    );
    for (const each of steps) {
      const chain = ["S211", "dma-read", "iio-read", "S212"].map((step) => each.indexOf(step));
      same(chain, chain.toSorted((x, y) => x - y), each.join(" "));
      ok(chain[0]! >= 0, each.join(" "));
    }
  });
});

function byNumber(x: string, y: string): number {
  return Number(x.slice(1)) - Number(y.slice(1));
}

describe("words of predicates", () => {
  it("name every step that was traced here, and every one that nodes name in their text", () => {
    ok(seen.size > 60, `${seen.size}`);
    const folders = [new URL("../../nodes/", import.meta.url)];
    for (const folder of folders) {
      for (const { name, isDirectory } of Deno.readDirSync(folder)) {
        if (isDirectory) folders.push(new URL(`${name}/`, folder));
        if (!name.endsWith(".ts") || /_test|_testing/.test(name)) continue;
        const text = Deno.readTextFileSync(new URL(name, folder));
        for (
          const [, step] of text.matchAll(/\b(?:step|post\w*|first|second|recv|reply): "([^"]+)"/g)
        ) {
          seen.add(step!);
        }
      }
    }
    // Parts of devices that are busy, opcodes, messages between a card and the IOMMU, and what a host that is
    // shut down reports of itself.
    const others = [
      "end-programs",
      "give-back",
      "write-back",
      "page-request",
      "page-response",
      "translate",
      "translated",
      "busy",
      "write",
      "write-immediate",
      "read",
      "send",
      "flush",
      "compare",
      "write-verify",
      "write-persistence",
    ];
    const unknown = [...seen].filter((step) => stepProblem(step) !== undefined);
    same(unknown.filter((step) => !others.includes(step)), []);
  });
});
