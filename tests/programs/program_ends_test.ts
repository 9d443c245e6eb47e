/** How the end of every own program is known, by the command, in one process and in several. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig, type Ended } from "../support/command.ts";

/** What a program of either side begins with. */
const VERBS = `
import { IBV_ACCESS_LOCAL_WRITE } from "rackmesh";
function* made({ cpu, device }) {
  const { verbs } = device;
  const cq = verbs.must(yield* verbs.createCq(device, { entries: 16 }));
  const mr = verbs.must(yield* verbs.regMr(verbs.allocPd(device), cpu.allocate(4096), {
    access: IBV_ACCESS_LOCAL_WRITE,
  }));
  const qp = { pd: mr.pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, sqSigAll: true };
  return { verbs, cq, mr, qp };
}
`;
const CLIENT = `${VERBS}
export default function* (context) {
  const { verbs, cq, mr, qp } = yield* made(context);
  const connection = yield* verbs.connect(context.device, { to: "b", service: "own", qp });
  if (verbs.refused(connection)) return context.cpu.report("refused", connection.reason);
  const sges = [verbs.sge(mr, 0, 64)];
  verbs.must(yield* verbs.postSend(connection.qp, { opcode: "send", sges }));
  yield* verbs.waitCompletion(cq);
}
`;
/** Accepts one connection with receives posted, then does as `ending` says. */
function server(ending: string): string {
  return `${VERBS}
export default function* (context) {
  const { verbs, cq, mr, qp } = yield* made(context);
  const listener = verbs.must(verbs.listen(context.device, "own"));
  const event = yield* verbs.waitEvent(listener);
  const sges = [verbs.sge(mr, 0, 4096)];
  const connection = yield* verbs.accept(listener, event.request, {
    qp,
    *prepare(made) {
      verbs.must(yield* verbs.postRecv(made, [{ sges }, { sges }]));
    },
  });
  yield* verbs.waitCompletion(cq);
  ${ending}
}
`;
}

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.close());

/** Runs a program on `a`, and perhaps one on `b`, which starts first. */
async function run(
  name: string,
  programs: {
    readonly a: string;
    readonly b?: string;
    readonly more?: string;
    readonly until?: string;
  },
  options: readonly string[] = ["--pack", "all"],
): Promise<Ended> {
  await rig.file(`${name}-a.ts`, programs.a);
  await rig.file(`${name}-b.ts`, programs.b ?? "");
  const onB = programs.b === undefined ? "" : `  - { on: b, program: ./${name}-b.ts }\n`;
  const until = programs.until === undefined ? "" : `until: ${programs.until}\n`;
  const scenario = await rig.file(
    `${name}.yaml`,
    `name: ends\n${until}hosts: { a: {}, b: {} }\nprograms:\n${onB}` +
      `  - { on: a, program: ./${name}-a.ts, at: 100us${programs.more ?? ""} }\n`,
  );
  return await rig.run(["run", scenario, ...options]);
}

function fails({ code, stdout, stderr }: Ended, text: RegExp): void {
  assert.equal(code, 1, stdout + stderr);
  assert.match(stdout, text);
}

const WAITS = `${VERBS}
export default function* (context) {
  const { verbs, cq } = yield* made(context);
  yield* verbs.waitCompletion(cq);
}
`;

/** Posts two WRITEs that ask for no completion, as `asks` says, and waits for one. */
function unasked(asks: string, waits = "yield* verbs.waitCompletion(cq);"): string {
  return `${VERBS.replace("sqSigAll: true", "sqSigAll: false")}
import { IBV_SEND_SIGNALED } from "rackmesh";
export default function* (context) {
  const { verbs, cq, mr, qp } = yield* made(context);
  const connection = yield* verbs.connect(context.device, { to: "b", service: "own", qp });
  const sges = [verbs.sge(mr, 0, 0)];
  const remote = { va: 0, rkey: 0 };
  const write = { opcode: "write", sges, remote };
  ${asks}
  verbs.must(yield* verbs.postSend(connection.qp, [write, write]));
  ${waits}
}
`;
}

describe("a program that waits for a completion it has not asked for", () => {
  const b = server("yield* context.cpu.sleep(1e9);");
  const hint =
    /none of the 2 requests posted since asks for one \(queue pair \d+\): IBV_SEND_SIGNALED/;

  it("is told so where it has not ended", async () => {
    const ended = await run("unasked", { a: unasked(""), b, until: "1ms" });
    fails(ended, /it waits for a completion \(waitCompletion\); none of the 2 requests/);
    fails(ended, hint);
  });

  it("is told so where it polls in a loop, at the end of virtual time", async () => {
    const polls = "while ((yield* verbs.pollCq(cq, 1)).length === 0);";
    const ended = await run("polling", { a: unasked("", polls), b });
    fails(ended, /a completion in a loop of polls \(pollCq\); none of the 2 requests/);
    fails(ended, hint);
  });

  it("and not where a receive may complete there", async () => {
    const receive = "verbs.must(yield* verbs.postRecv(connection.qp, { sges }));";
    const ended = await run("received", { a: unasked(receive), b, until: "1ms" });
    fails(ended, /it waits for a completion \(waitCompletion\) since/);
    assert.doesNotMatch(ended.stdout, hint);
  });
});

describe("a program that has not ended", () => {
  it("fails the run: what it waits for, where in its file and since when; in every packing", async () => {
    const text =
      /FAIL programs-run-through: ends: a: \.\/waits-a\.ts#\d has not ended: it waits for a completion \(waitCompletion\) since [\d.]+ us, at waits-a\.ts:15:\d+/;
    const packed = await run("waits", { a: WAITS });
    fails(packed, text);
    const apart = await run("waits", { a: WAITS }, []);
    fails(apart, text);
    assert.equal(text.exec(apart.stdout)![0], text.exec(packed.stdout)![0]);
  });

  it("is no failure where the scenario calls it a service", async () => {
    const { code, stdout } = await run("serves", { a: WAITS, more: ", service: true" });
    // Nothing was done that a check could judge, either.
    assert.equal(code, 2, stdout);
    assert.match(stdout, /^ok {3}programs-run-through$/m);
  });

  it("is a failure where the scenario's end cuts it off", async () => {
    const a = "export default function* ({ cpu }) { for (;;) yield* cpu.sleep(1_000_000); }\n";
    await rig.file("late-a.ts", a);
    const scenario = await rig.file(
      "late.yaml",
      "name: ends\nuntil: 1ms\nhosts: { a: {}, b: {} }\nprograms:\n" +
        "  - { on: a, program: ./late-a.ts }\n  - { on: b, program: ./late-a.ts, at: 2ms }\n",
    );
    const ended = await rig.run(["run", scenario, "--pack", "all"]);
    fails(ended, /a: \.\/late-a\.ts#\d has not ended: it waits for .* \(sleep\)/);
    fails(ended, /b: \.\/late-a\.ts#\d has not ended: it waits for its start at 2\.\d+ ms/);
  });
});

describe("a program with a listener of its own", () => {
  it("serves while it waits for a connection, or for a message of a client", async () => {
    const waiting = await run("asked", {
      a: CLIENT,
      b: server("yield* verbs.waitEvent(listener);"),
    });
    assert.equal(waiting.code, 0, waiting.stdout);
    const receiving = await run("told", {
      a: CLIENT,
      b: server("yield* verbs.waitCompletion(cq);"),
    });
    assert.equal(receiving.code, 0, receiving.stdout);
  });

  it("serves nobody while it waits for something else, or for a request of its own", async () => {
    const asleep = server("yield* context.cpu.waitSignal('never', Infinity);");
    fails(
      await run("deaf", { a: CLIENT, b: asleep }),
      /b: \.\/deaf-b\.ts#\d has not ended: it waits for the signal never \(waitSignal\)/,
    );
    // The client posts no receive: the server's RNIC tries again for ever.
    const answers = server(
      "verbs.must(yield* verbs.postSend(connection.qp, { opcode: 'send', sges }));\n" +
        "  yield* verbs.waitCompletion(cq);",
    );
    const ended = await run("asks", { a: CLIENT, b: answers, until: "5ms" });
    fails(ended, /b: \.\/asks-b\.ts#\d has not ended: it waits for a completion/);
  });
});

describe("a missing yield*", () => {
  it("fails the program, with the call's name and line", async () => {
    const a =
      "export default function* ({ cpu }) {\n  cpu.sleep(1000);\n  yield* cpu.settle();\n}\n";
    fails(
      await run("sleepless", { a }),
      /FAIL programs-run-through: ends: a: the call of sleep at sleepless-a\.ts:2:7 was not awaited: write yield\*/,
    );
  });
});
