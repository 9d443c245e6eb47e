/**
 * The six methods of making data persistent on another host, over the whole rack in one process: that
 * they do what the document says, step by step, and that what promises nothing is lost by a power failure
 * at some instant.
 */
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Time } from "../../fabric/base/time.ts";
import { firstLoss, isIntact, isPutResult, type PutResult } from "../../console/checks/survival.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const FILE = "data.bin";
const SWITCHES = ["off", "on"] as const;
type Switch = typeof SWITCHES[number];

/** What differs between runs. */
interface Run {
  readonly method: string;
  readonly ddio: Switch;
  readonly bytes?: number;
  readonly size?: number;
  readonly depth?: number;
  readonly more?: string;
  readonly hostB?: string;
  readonly faults?: string;
  readonly trace?: boolean;
}

function contentOf(bytes: number): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => (i * 197 + (i >> 8) * 31 + 7) % 251 + 1);
}

function put(run: Run): { rack: SimulatedRack; file: Uint8Array } {
  const { method, ddio, size = 1024, depth = 4, more = "", hostB = "", faults = "[]" } = run;
  const file = contentOf(run.bytes ?? 15 * 1024 + 300);
  const rack = new SimulatedRack(
    `
name: persist-methods
seed: 11
hosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 1MiB } ${hostB} } }
programs:
  - { on: a, run: put, to: b, file: ${FILE}, method: ${method}, size: ${size}, depth: ${depth} ${more} }
faults: ${faults}
`,
    { inputs: { [FILE]: file }, ...(run.trace && { trace: true }) },
  ).run();
  return { rack, file };
}

function resultsOf(rack: SimulatedRack): PutResult[] {
  return (rack.reported("result") as unknown[]).filter(isPutResult);
}

function resultOf(rack: SimulatedRack): PutResult & Record<string, unknown> {
  const results = resultsOf(rack);
  equal(results.length, 1, `One result: ${JSON.stringify(rack.reported("program-failed"))}`);
  return results[0] as PutResult & Record<string, unknown>;
}

/** What a power failure of b at the end of the run would leave of the object. */
function survivor(rack: SimulatedRack, result: PutResult): Uint8Array {
  const { scmOffset, length } = result.object;
  return rack.scm.get("b")!.subarray(scmOffset, scmOffset + length);
}

/** Requests per message, CPU flush or not, promise or not: `persistence.md` P-10 to P-30. */
const EXPECTED: Readonly<
  Record<string, { write: number; read: number; send: number; flush: number; recv: number }>
> = {
  "write-only off": { write: 1, read: 0, send: 0, flush: 0, recv: 0 },
  "write-only on": { write: 1, read: 0, send: 0, flush: 0, recv: 0 },
  "write-read off": { write: 1, read: 1, send: 0, flush: 0, recv: 0 },
  "write-read on": { write: 1, read: 1, send: 0, flush: 0, recv: 0 },
  "send-flush off": { write: 0, read: 0, send: 1, flush: 0, recv: 1 },
  "send-flush on": { write: 0, read: 0, send: 1, flush: 0, recv: 1 },
  "write-send off": { write: 1, read: 0, send: 1, flush: 0, recv: 1 },
  "write-send on": { write: 1, read: 0, send: 1, flush: 0, recv: 1 },
  "persist-opcode off": { write: 1, read: 0, send: 0, flush: 0, recv: 0 },
  "persist-opcode on": { write: 1, read: 0, send: 0, flush: 0, recv: 1 },
  "persist-address off": { write: 1, read: 0, send: 0, flush: 0, recv: 0 },
  "persist-address on": { write: 1, read: 0, send: 0, flush: 0, recv: 1 },
  "write-flush off": { write: 1, read: 0, send: 0, flush: 1, recv: 0 },
  "write-flush on": { write: 1, read: 0, send: 0, flush: 1, recv: 0 },
  "send-read off": { write: 0, read: 1, send: 1, flush: 0, recv: 0 },
  "send-read on": { write: 0, read: 1, send: 1, flush: 0, recv: 0 },
  "librpma-apm off": { write: 1, read: 1, send: 0, flush: 0, recv: 0 },
  "librpma-apm on": { write: 1, read: 1, send: 0, flush: 0, recv: 0 },
  "emulated-flush off": { write: 1, read: 1, send: 0, flush: 0, recv: 0 },
  "emulated-flush on": { write: 1, read: 1, send: 0, flush: 0, recv: 0 },
  "write-imm off": { write: 1, read: 0, send: 0, flush: 0, recv: 1 },
  "write-imm on": { write: 1, read: 0, send: 0, flush: 0, recv: 1 },
  "write-imm-flush off": { write: 1, read: 0, send: 0, flush: 0, recv: 1 },
  "write-imm-flush on": { write: 1, read: 0, send: 0, flush: 0, recv: 1 },
  "librpma-gpspm off": { write: 1, read: 0, send: 1, flush: 0, recv: 1 },
  "librpma-gpspm on": { write: 1, read: 0, send: 1, flush: 0, recv: 1 },
  "write-send-workers off": { write: 1, read: 0, send: 1, flush: 0, recv: 1 },
  "write-send-workers on": { write: 1, read: 0, send: 1, flush: 0, recv: 1 },
};

/** Numbers of the methods that stand beside the document's own. */
const NUMBERS: Readonly<Record<string, string>> = {
  "write-read": "P-51, appliance: ",
  "send-flush": "P-51, general purpose: ",
  "write-flush": "P-50: ",
};

/** No CPU flushes for them. */
const BY_READ_OR_ANSWER = ["write-read", "librpma-apm", "emulated-flush", "write-imm"];

/** The receive buffers are in DRAM here: what is only in them is no promise (`receive_buffers_test.ts`). */
function promises(method: string, ddio: Switch): boolean {
  return method !== "write-only" && method !== "send-read" &&
    !(BY_READ_OR_ANSWER.includes(method) && ddio === "on");
}

describe("P-40, P-50, P-51: put", () => {
  for (const method of METHODS) {
    for (const ddio of SWITCHES) {
      it(`${NUMBERS[method] ?? ""}P-40: ${method}, DDIO ${ddio}: writes all, with the requests counted`, () => {
        const { rack, file } = put({ method, ddio });
        const result = resultOf(rack);
        equal(result.status, "done", result.error);
        equal(result.messages, 16);
        equal(result.unexpected, 0);
        const each = EXPECTED[`${method} ${ddio}`]!;
        const counted = Object.entries(each).map(([name, count]) => [name, 16 * count]);
        same(result.requests, Object.fromEntries(counted));
        equal(result.promises, promises(method, ddio));
        same(result.confirmed, promises(method, ddio) ? [[0, file.length]] : []);
        const isStored = method === "send-read" || ddio === "off";
        equal(isIntact(file, survivor(rack, result)), promises(method, ddio) || isStored);
      });
    }
  }
});

/** Instants between the first post and the end of an undisturbed run, the same for every run of it. */
function instants(run: Run, count: number): Time[] {
  const { startPs, endPs } = resultOf(put(run).rack);
  return Array.from({ length: count }, (_, i) => {
    return Math.round(startPs + (endPs - startPs) * (i + 0.5) / count);
  });
}

function killAt(run: Run, at: Time): { result: PutResult; file: Uint8Array; survived: Uint8Array } {
  const { rack, file } = put({ ...run, faults: `[{ at: ${at}ps, kill: b }]` });
  const result = resultOf(rack);
  return { result, file, survived: survivor(rack, result) };
}

// What each method promises is cut off at every instant in `tests/crash/seeded_bugs_test.ts` and
// `matrix_test.ts`, and with several messages at once in `compound_test.ts` and `several_requesters_test.ts`.
describe("a power failure of the responder", () => {
  for (
    const [method, ddio] of [["write-only", "off"], ["write-only", "on"], [
      "write-read",
      "on",
    ]] as const
  ) {
    it(`P-12: ${method}, DDIO ${ddio}: loses at some instant what it took for persistent`, () => {
      const run = { method, ddio };
      const losses = instants(run, 12).map((at) => {
        const { result, file, survived } = killAt(run, at);
        const claimed = result as unknown as { written: PutResult["confirmed"] };
        return firstLoss({ ...result, confirmed: claimed.written }, file, survived);
      });
      ok(losses.some((loss) => loss !== undefined));
    });
  }
});

/** Steps of the first message by all nodes, in the order in which they happened. */
function ladder(method: string, ddio: Switch, posted: string): string[] {
  const { rack } = put({ method, ddio, bytes: 2048, size: 1024, depth: 1, trace: true });
  const steps = rack.traces.map(({ step }) => step.step);
  const first = steps.indexOf(posted);
  return steps.slice(first, steps.indexOf(posted, first + 1)).filter((step) => /^S\d+$/.test(step));
}

/** Whether steps happened one after the other; `S202|S302` is either. */
function inOrder(steps: readonly string[], expected: string): void {
  let from = 0;
  for (const step of expected.split(" ")) {
    const at = steps.findIndex((each, i) => i >= from && step.split("|").includes(each));
    ok(at >= 0, `${step} is not behind ${steps.slice(0, from).join(" ")} in ${steps.join(" ")}`);
    from = at + 1;
  }
}

/** What an RNIC does of a plain WRITE has two numbers in the document, one in each baseline. */
const WRITE_STEPS = "S202|S302 S203|S303 S204|S304 S205|S305 S206|S306";

describe("the ladder of a message", () => {
  it("P-10: S201 to S214 in the document's order", () => {
    const steps = ladder("write-read", "off", "S201");
    inOrder(steps, `S201 ${WRITE_STEPS} S207 S208 S209 S210 S211 S212 S213 S214`);
  });

  it("P-11: S301 to S325, from the WRITE to the answer", () => {
    const steps = ladder("write-send", "on", "S301");
    inOrder(steps, `S301 ${WRITE_STEPS} S307 S308 S309 S310`);
    inOrder(steps, "S308 S313 S319 S320 S321 S322 S323 S324 S325");
    inOrder(steps, "S308 S314 S315 S316 S317");
  });

  it("P-24, P-25: S901 to S909", () => {
    const steps = ladder("persist-opcode", "off", "S901");
    inOrder(steps, "S901 S902 S903 S904 S905 S906 S907 S908 S909");
  });

  it("P-26, P-27: S1001 to S1019, written before persistent", () => {
    const steps = ladder("persist-opcode", "on", "S1001");
    inOrder(steps, "S1001 S1002 S1003 S1004 S1006 S1007 S1008 S1014 S1015 S1016");
    inOrder(steps, "S1003 S1009 S1010 S1011");
    inOrder(steps, "S1011 S1012 S1013 S1018 S1019");
    inOrder(steps, "S1016 S1018 S1019");
  });
});

describe("the write that persists", () => {
  it("P-40: takes fewer requests and less time than the baseline of its flow", () => {
    const cost = (method: string, ddio: Switch) => {
      const { latencyPs, requests } = resultOf(put({ method, ddio, depth: 1 }).rack);
      const { recv: _, ...posted } = requests;
      const sum = Object.values(posted).reduce((all, count) => all + count, 0);
      return { median: latencyPs!.median, posted: sum };
    };
    for (const [baseline, ddio] of [["write-read", "off"], ["write-send", "on"]] as const) {
      const ours = cost("persist-opcode", ddio), theirs = cost(baseline, ddio);
      ok(ours.median < theirs.median, baseline);
      equal(2 * ours.posted, theirs.posted, baseline);
    }
  });

  it("P-50: takes one trip fewer than WRITE and READ, which wait for each other", () => {
    for (const ddio of SWITCHES) {
      const median = (method: string) => {
        return resultOf(put({ method, ddio, depth: 1 }).rack).latencyPs!.median;
      };
      const other = ddio === "off" ? "write-read" : "write-send";
      ok(median("write-flush") < median(other), `${other}, DDIO ${ddio}`);
    }
  });

  it("P-29: may complete once, at persistence, in flow 2 as well (claim 9)", () => {
    const { rack, file } = put({
      method: "persist-opcode",
      ddio: "on",
      more: ", policy: persistence",
    });
    const result = resultOf(rack);
    same([result.status, result.policy, result.requests.recv], ["done", "persistence", 0]);
    ok(isIntact(file, survivor(rack, result)));
  });

  it("P-02: takes flow 1 where the processor looks at the NS bit, though DDIO is on", () => {
    const hostB = ", architecture: ddio+ns";
    const { rack, file } = put({ method: "persist-address", ddio: "on", hostB });
    const result = resultOf(rack);
    same([result.status, result.flow], ["done", 1]);
    ok(isIntact(file, survivor(rack, result)));
  });

  it("P-30: works over several packets per message, with many outstanding", () => {
    for (const ddio of SWITCHES) {
      const run = { method: "persist-opcode", ddio, bytes: 200_000, size: 10_000, depth: 8 };
      const { rack, file } = put(run);
      const result = resultOf(rack);
      equal(result.status, "done", result.error);
      ok(isIntact(file, survivor(rack, result)));
    }
  });
});

describe("programs", () => {
  it("sleep on interrupts where the host is told to, at both ends", () => {
    for (const method of ["persist-opcode", "send-flush"]) {
      const { rack, file } = put({
        method,
        ddio: "on",
        more: ", completion: interrupt",
        hostB: ", completion: interrupt",
      });
      const result = resultOf(rack);
      equal(result.status, "done", result.error);
      ok(isIntact(file, survivor(rack, result)));
      ok(rack.simulator.statistics().b!.interrupts! > 4);
    }
  });

  it("end with a reason where the host they want is dead: nobody waits for ever", () => {
    const { rack } = put({
      method: "persist-opcode",
      ddio: "off",
      faults: "[{ at: 1us, kill: b }]",
    });
    const [result] = rack.reported("result");
    equal(result!.status, "failed");
    ok(String(result!.error).startsWith("connect: timeout"));
  });

  it("P-05: a restarted host serves what had been made persistent", () => {
    const file = contentOf(20_000);
    const rack = new SimulatedRack(
      `
name: restart
hosts: { a: {}, b: { ddio: on, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, file: ${FILE}, method: persist-opcode, size: 1KiB, depth: 4 }
  - { on: a, run: get, from: b, name: ${FILE}, size: 2KiB, depth: 4, at: 3ms }
  - { on: a, run: list, from: b, at: 6ms }
faults: [{ at: 2ms, kill: b }, { at: 2500us, start: b }]
`,
      { inputs: { [FILE]: file } },
    ).run();
    const [output] = rack.reported("output");
    same([output!.path, output!.bytes], [FILE, file]);
    const list = rack.reported("result").find(({ program }) => program === "list");
    same(list!.objects, [{ name: FILE, length: 20_000 }]);
  });

  it("P-41: whichever device dies and returns when, no program is lost and a later put succeeds", () => {
    const file = contentOf(9_000);
    const victims = ["a", "a-rnic", "b", "b-rnic"];
    for (let i = 0; i < 24; i++) {
      // From before the boot is done until the last put is, at instants that share no period.
      const at = 5 + i * 17.3, back = at + (i % 3 === 0 ? 90 : 1_100);
      const victim = victims[i % 4]!, method = METHODS[i % 6]!;
      const rack = new SimulatedRack(
        `
name: whichever
seed: ${i}
hosts: { a: {}, b: { ddio: ${SWITCHES[i % 2]}, scm: { size: 1MiB } }, c: {} }
programs:
  - { on: a, run: put, to: b, file: ${FILE}, name: one, method: ${method}, size: 1KiB, depth: 3 }
  - { on: c, run: put, to: b, file: ${FILE}, name: two, method: ${method}, size: 1KiB, depth: 3, at: 60ms }
faults: [{ at: ${at.toFixed(1)}us, kill: ${victim} }, { at: ${
          back.toFixed(1)
        }us, start: ${victim} }]
`,
        { inputs: { [FILE]: file } },
      ).run();
      const what = `${i}: ${victim} at ${at} us, ${method}`;
      same(rack.reported("program-failed"), [], what);
      for (const result of resultsOf(rack)) {
        equal(firstLoss(result, file, survivor(rack, result)), undefined, what);
      }
      const two = rack.reported("result", "c").at(-1);
      equal(two?.status, "done", `${what}: ${two?.error}`);
    }
  });
});
