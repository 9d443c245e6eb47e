import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RackPlan } from "../rack/plan/plan.ts";
import { type Ladder, ladderOf, operationsOf, readTrace, type TraceLine } from "./trace.ts";
import { arrowOf, documentText, figureOfPost, stepIn, stepsOf } from "./trace_figures.ts";
import { foldRepeats, ladderText } from "./trace_text.ts";

/** As much of a plan as a ladder needs: hosts a and b-2, their cards, a switch. */
const PLAN = {
  nodes: [
    { name: "a", kind: "host" },
    { name: "a-rnic", kind: "rnic", config: { host: "a" } },
    { name: "b-2", kind: "host" },
    { name: "b-2-rnic", kind: "rnic", config: { host: "b-2" } },
    { name: "tor", kind: "switch" },
  ],
  addresses: { a: 0x0a000001, "b-2": 0x0a000002 },
} as unknown as RackPlan;

const BY_NAME = "a:17-b-2:18", BY_ADDRESS = "10.0.0.1:17-10.0.0.2:18";

/** The write that persists, flow 1, as the devices trace it. `n` moves everything but the names. */
function persist(n: number): TraceLine[] {
  const time = 1_000 * n, psn = (0xff_fffe + 2 * n) & 0xff_ffff, lastPsn = (psn + 1) & 0xff_ffff;
  const scm = [4096 * n, 4096 * (n + 1)] as const;
  const host = { node: "a", qpn: 17, connection: BY_NAME, operation: n };
  const card = { node: "a-rnic", qpn: 17, connection: BY_ADDRESS, psn, wqe: 3 + n };
  const far = { node: "b-2-rnic", qpn: 18, connection: BY_ADDRESS, psn, inbound: true } as const;
  return [
    { time, step: "S901", text: "posts", wrId: 2 * n, scm, ...host },
    { time, node: "a", step: "wqe", text: "WQE", wrId: 2 * n, qpn: 17, wqe: 3 + n },
    { time: time + 1, step: "S902", text: "starts", lastPsn, ...card },
    { time: time + 2, step: "S903", text: "sends", lastPsn, ...card },
    { time: time + 3, step: "S904", text: "DMA", ...far },
    { time: time + 4, node: "b-2", step: "imc", text: "in the iMC", scm },
    { time: time + 5, step: "S907", text: "ACK", ...far },
    { time: time + 6, step: "S908", text: "CQE", lastPsn, ...card },
    { time: time + 7, step: "S909", text: "takes the CQE: is persistent", ...host, psn: lastPsn },
  ];
}

function inTime(lines: TraceLine[]): TraceLine[] {
  return lines.toSorted((x, y) => x.time - y.time);
}

function ladder(lines: TraceLine[], index = 0): Ladder {
  const trace = readTrace(inTime(lines), PLAN);
  return ladderOf(trace, operationsOf(trace)[index]!);
}

const stepsIn = (of: Ladder) => of.rows.map(({ step }) => step);

const ONE = ["S901", "wqe", "S902", "S903", "S904", "imc", "S907", "S908", "S909"];

describe("operationsOf", () => {
  it("finds what programs number, in the order in which they began", () => {
    const lines = inTime([...persist(2), ...persist(0), ...persist(1)]);
    const operations = operationsOf(readTrace(lines, PLAN));
    same(operations.map(({ node, number, startPs }) => [node, number, startPs]), [
      ["a", 0, 0],
      ["a", 1, 1_000],
      ["a", 2, 2_000],
    ]);
  });

  it("separates a number that comes again in a later life of the queue pair from the first", () => {
    const later = persist(0).map((line) => ({ ...line, time: line.time + 50_000 }));
    const lines = [...persist(0), ...later];
    equal(operationsOf(readTrace(lines, PLAN)).length, 2);
    same(stepsIn(ladder(lines, 0)), ONE);
    same(stepsIn(ladder(lines, 1)), ONE);
    ok(ladder(lines, 1).rows.every(({ time }) => time >= 50_000));
  });

  it("falls back on work requests where no program numbers anything", () => {
    const lines = persist(0).filter(({ operation }) => operation === undefined);
    const operations = operationsOf(readTrace(lines, PLAN));
    same(operations.map(({ connection, number }) => [connection, number]), [[BY_NAME, 0]]);
    same(stepsIn(ladder(lines)), ["wqe", "S902", "S903", "S904", "S907", "S908"]);
  });

  it("is empty where nothing was traced", () => {
    same(operationsOf(readTrace([], PLAN)), []);
  });
});

describe("ladderOf", () => {
  it("joins program, WQE, PSNs across their wrap and the bytes in SCM, and nothing else", () => {
    const lines = [0, 1, 2].flatMap(persist);
    for (const index of [0, 1, 2]) {
      const { rows, operation } = ladder(lines, index);
      same(rows.map(({ step }) => step), ONE);
      ok(rows.every(({ time }) => Math.floor(time / 1_000) === operation.number));
    }
  });

  it("takes the peer's packets of the same number for another message", () => {
    const [, , start] = persist(0);
    const others: TraceLine = {
      ...start!,
      node: "b-2-rnic",
      qpn: 18,
      time: 3,
      step: "S322",
      text: "answer of something else",
    };
    same(stepsIn(ladder([...persist(0), others])), ONE);
  });

  describe("DMA reads", () => {
    const TAG = 5;
    const use = (n: number, time: number): TraceLine => ({
      ...persist(n).find(({ step }) => step === "S904")!,
      time,
      step: "S906",
      text: `LSB read for ${n}`,
      tag: TAG,
    });
    // All of the same byte, which is the first message's, as those of a real PM module are.
    const come = (time: number, text: string, tag = TAG): TraceLine => {
      return { time, node: "b-2", step: "iio-read", text, scm: [0, 1], tag };
    };
    const readsOf = (lines: TraceLine[], index: number) =>
      ladder([0, 1].flatMap(persist).concat(lines), index).rows
        .filter(({ step }) => step === "iio-read").map(({ text }) => text);

    it("are the operation's whose line has the tag as its latest use, whatever their address", () => {
      const lines = [use(0, 3), come(4, "of 0"), use(1, 1_003), come(1_004, "of 1")];
      same([0, 1].map((index) => readsOf(lines, index)), [["of 0"], ["of 1"]]);
    });

    it("are no more the operation's when its tag is another's", () => {
      const late = persist(0).at(-1)!;
      const lines = [use(0, 3), come(4, "of 0"), use(1, 1_003), come(1_004, "of 1")];
      const longer = [...lines, { ...late, time: 3_000 }];
      same([0, 1].map((index) => readsOf(longer, index)), [["of 0"], ["of 1"]]);
    });

    it("P-24 (in part): are each message's that shares them, in whichever order it is named", () => {
      const late = persist(0).at(-1)!;
      for (const order of [[0, 1], [1, 0]]) {
        const lines = order.map((n) => use(n, 1_003));
        lines.push(come(1_004, "of both"), { ...late, time: 3_000 });
        same([0, 1].map((index) => readsOf(lines, index)), [["of both"], ["of both"]]);
      }
    });

    it("belong to no operation where no line of the RNIC has their tag, such as a WQE's", () => {
      const foreign = { ...use(0, 3), node: "a-rnic", inbound: undefined, step: "elsewhere" };
      const { inbound: _, ...elsewhere } = foreign;
      same(readsOf([elsewhere, come(4, "of a WQE"), come(5, "of another", 6)], 0), []);
    });

    it("go by their address in a trace without tags", () => {
      const { tag: _, ...untagged } = come(4, "by address");
      same(readsOf([untagged], 0), ["by address"]);
      same(readsOf([untagged], 1), []);
    });
  });

  it("adds the post of the receive that was consumed", () => {
    const post: TraceLine = {
      time: 0,
      node: "b-2",
      step: "S1005",
      text: "posts 2 RECV",
      qpn: 18,
      recvs: [7, 8],
    };
    const foreign = { ...post, qpn: 19, text: "of another queue pair" };
    const lines = persist(1).map((line) => line.step === "S907" ? { ...line, recvs: [8] } : line);
    const { rows } = ladder([post, foreign, ...lines]);
    same(rows.map(({ step }) => step), ["S1005", ...ONE]);
    equal(rows[0]!.text, "posts 2 RECV");
  });

  it("has the destination of each arrow, and the program's conclusion", () => {
    const { rows, columns, conclusion } = ladder(persist(0));
    same(columns, ["a", "a-rnic", "tor", "b-2-rnic", "b-2"]);
    same(rows.map(({ node, to }) => [node, to]), [
      ["a", "a-rnic"],
      ["a", "a-rnic"],
      ["a-rnic", undefined],
      ["a-rnic", "b-2-rnic"],
      ["b-2-rnic", "b-2"],
      ["b-2", undefined],
      ["b-2-rnic", "a-rnic"],
      ["a-rnic", "a"],
      ["a", undefined],
    ]);
    equal(conclusion.step, "S909");
  });
});

describe("ladderText", () => {
  it("draws a column for each device and an arrow for what goes between two", () => {
    const lines = ladderText(ladder(persist(0))).split("\n");
    equal(lines.length, ONE.length + 2);
    const send = lines.find((line) => line.includes("S903"))!;
    ok(/│ +●─+▶│ +│ +sends the RDMA write request: sends$/.test(send), send);
    const ack = lines.find((line) => line.includes("S907"))!;
    ok(/│ +│◀─+● +│ /.test(ack), ack);
    equal(lines.at(-1), "a, after 7 ps: is persistent");
  });
});

describe("foldRepeats", () => {
  it("makes one row of a step that the same device repeats in the same words", () => {
    const row = (us: number, step: string, text: string) => {
      return { time: us * 1_000_000, node: "a-rnic", to: "b-rnic", step, text };
    };
    const sent = [1, 3, 5].map((us) => row(us, "S203", "write at 0"));
    const other = row(6, "S203", "write at 1"), again = row(7, "S203", "write at 0");
    const elsewhere = { ...again, node: "b-rnic", to: "a-rnic" };
    const error = row(9, "error-cqe", "write at 0");
    const folded = { ...sent[0]!, text: "write at 0 … 2 more, to 5.000000 us" };
    same(foldRepeats([...sent, other, again, elsewhere, error, error]), [
      ...[folded, other, again, elsewhere],
      { ...error, text: "write at 0 … 1 more, to 9.000000 us" },
    ]);
    same(foldRepeats([]), []);
  });
});

describe("what prepares an operation", () => {
  const far = { node: "b-2-rnic", qpn: 18, connection: BY_ADDRESS, inbound: true } as const;

  it("H-03: has a hint that counts several messages in the ladder of each of them, and of no other", () => {
    const lines = [0, 1, 2].flatMap(persist);
    const psn = 0xff_fffe;
    // Of messages 0 and 1, whose PSNs are 0xfffffe to 1.
    lines.push({ time: 1, step: "hint-in", text: "2 SENDs", psn, lastPsn: 0, ...far });
    const has = [0, 1, 2].map((index) => stepsIn(ladder(lines, index)).includes("610"));
    same(has, [true, false, false], "a ladder begins with its operation");
    const early = lines.map((line) => line.step === "hint-in" ? { ...line, time: 1_001 } : line);
    same([0, 1, 2].map((index) => stepsIn(ladder(early, index)).includes("610")), [
      ...[true, true, false],
    ]);
  });

  it("H-03: has it of messages of several packets, too, whose last PSN the requester alone knows", () => {
    const lines = [0, 1, 2].flatMap(persist), psn = 0xff_fffe;
    const near = { node: "a-rnic", qpn: 17, connection: BY_ADDRESS } as const;
    // Of all three, whose PSNs are 0xfffffe to 3; the responder takes them for packets 0xfffffe to 0.
    lines.push({ time: 2_001, step: "hint-out", text: "", hint: 5, psn, lastPsn: 3, ...near });
    lines.push({ time: 2_002, step: "hint-in", text: "", psn, lastPsn: 0, ...far });
    lines.push({ time: 2_003, step: "hint-answer", text: "", psn, lastPsn: 0, ...far });
    lines.push({ time: 2_003, step: "hint-answer", text: "", psn: 4, ...far });
    const steps = stepsIn(ladder(lines, 2)).filter((step) => /^6/.test(step));
    same(steps, ["608", "610", "612.5"]);
  });

  it("Q-06: has the WQE's own doorbell, and what its RNIC reads until it is begun", () => {
    const card = { node: "a-rnic", qpn: 17, queue: 4, text: "" };
    const of = (n: number, lines: readonly TraceLine[]) => [
      ...persist(n).map((line) => line.step === "wqe" ? { ...line, queue: 4 } : line),
      { time: 1_000 * n, node: "a", step: "doorbell", text: "", queue: 4, stamp: 50 + n },
      ...lines,
    ];
    const lines = [
      ...of(0, [
        { time: 0, ...card, step: "doorbell-taken", stamp: 50 },
        { time: 0, ...card, step: "queue-read" },
        { time: 0, ...card, step: "queue-read", queue: 5 },
        // The next doorbell finds this one's look-up under way.
        { time: 0, ...card, step: "doorbell-taken", stamp: 51 },
        { time: 0, ...card, step: "queue-known" },
        { time: 0, ...card, step: "pointer-compared", stamp: 50 },
        { time: 0, ...card, step: "pointer-compared", stamp: 51 },
        { time: 0, ...card, step: "wqe-read", units: [0, 3] },
        { time: 0, ...card, step: "wqe-read", units: [3, 4] },
      ]),
    ];
    const found = ladder(lines);
    same(stepsIn(found).filter((step) => /^20/.test(step)), [
      ...["202.1", "202.2", "203.2", "203.3", "203.4", "204.1"],
    ]);
    const fetched = found.rows.filter(({ step }) => step === "204.1");
    equal(fetched.length, 1, "the read that brings its unit");
  });

  it("Q-07: has the look-up of the context that a packet waits for, and no later one", () => {
    const psn = 0xff_fffe, card = { node: "b-2-rnic", text: "", queue: 9 };
    const steps = stepsIn(ladder([
      ...persist(0),
      { time: 1, ...card, step: "queue-known" },
      { time: 2, ...card, step: "queue-read" },
      { time: 2, ...far, step: "context-wait", text: "", psn, queue: 9 },
      { time: 2, ...card, step: "queue-read", queue: 8 },
      { time: 3, ...card, step: "queue-known" },
      { time: 3, ...card, step: "queue-read" },
    ]));
    same(steps.filter((step) => /^203|context/.test(step)), ["203.2", "context-wait", "203.3"]);
  });

  it("H-21: has what happens to the pages that it waits for, until they are there, and to no others", () => {
    const psn = 0xff_fffe, b = { node: "b-2", text: "" }, card = { node: "b-2-rnic", text: "" };
    const paging = [
      { time: 2, ...far, step: "hint-decision", text: "", psn, pages: [7, 4, 6] },
      { time: 2, ...card, step: "hint-page-request", pages: [7, 4, 6] },
      { time: 2, ...card, step: "hint-page-request", pages: [8, 4, 6] },
      { time: 2, ...b, step: "pages-in", pages: [7, 5, 6] },
      { time: 2, ...card, step: "pages-mapped", pages: [7, 5, 6] },
      { time: 2, ...card, step: "pages-mapped", pages: [7, 6, 9] },
      { time: 3, ...card, step: "pages-mapped", pages: [7, 0, 5] },
      // Taken back meanwhile, and asked for by another.
      { time: 3, ...card, step: "page-request", pages: [7, 4, 5] },
    ] as const;
    const steps = stepsIn(ladder([...persist(0), ...paging]));
    same(steps.filter((step) => /^612|page/.test(step)), [
      ...["612.1", "612.2", "pages-in", "pages-mapped", "pages-mapped"],
    ]);
  });
});

describe("stepIn", () => {
  it("takes the number of the figure that the program plays in", () => {
    const own = { isOwn: true, write: 2 } as const;
    equal(stepIn(2, { step: "S303", ...own }), "S203");
    equal(stepIn(3, { step: "S204", ...own }), "S304");
    equal(stepIn(10, { step: "S902", ...own }), "S1002");
    equal(stepIn(9, { step: "S907", ...own }), "S907");
  });

  it("distinguishes request and answer in the third figure by the requester", () => {
    equal(stepIn(3, { step: "S322", isOwn: true, write: 2 }), "S309");
    equal(stepIn(3, { step: "S309", isOwn: false, write: 2 }), "S322");
    equal(stepIn(3, { step: "S314", isOwn: false, write: 2 }), "send-ack");
  });

  it("has no number for a SEND that is in no figure of the document", () => {
    equal(stepIn(undefined, { step: "S309", isOwn: true, write: 2 }), "send-start");
    equal(stepIn(undefined, { step: "S204", isOwn: true, write: 3 }), "S304");
  });
});

describe("stepsOf", () => {
  it("has every step of the document, with its words and the figure that begins with it", () => {
    const figures = [2, 3, 9, 10, 45, 46] as const;
    same(figures.map((figure) => stepsOf(figure).length), [14, 25, 9, 19, 5, 8]);
    for (const figure of figures) {
      const [first] = stepsOf(figure);
      equal(figureOfPost(first!), figure);
      equal(arrowOf(first!), "card");
      for (const step of stepsOf(figure)) ok(documentText(step)!.length > 0);
    }
    equal(documentText("wqe"), undefined);
  });
});
