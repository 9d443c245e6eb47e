/** What is found in own programs, by the compiler and the rule about steps, the way each command asks for it. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { formatProblem, Refusal } from "../../../../fabric/rack/plan/problem.ts";
import { checkTypes, ownFilesOf } from "./check_types.ts";

const HEAD = `import { type Cq, must, type Pd, type Qp, type Mr, type RdmaId } from "rackmesh";
import type { Buffer, Cpu, ProgramContext, ProgramCpu, Region, Steps, Verbs } from "rackmesh";
declare const cpu: ProgramCpu, device: ProgramContext["device"], context: ProgramContext;
declare const v: Verbs, qp: Qp, cq: Cq, pd: Pd, mr: Mr, id: RdmaId, buffer: Buffer, queues: Qp[];
declare const bytes: Uint8Array<ArrayBuffer>, x: unknown, ok: boolean;
declare function use(...given: unknown[]): void;
`;
const LINES = HEAD.split("\n").length - 1;

const FILES = {
  "helper.ts": `import type { Steps, Wait } from "rackmesh";
declare const made: Steps<void>;
export function* send(): Generator<Wait, void> {}
export default function* main() {}
export function plain() {}
export class Sender { *all() {} other() {} }
export { made };
`,
  "dropped.ts": `${HEAD}import other, { plain, send } from "./helper.ts";
function* own() {}
const { postSend, regMr: register, sge } = device.verbs;
postSend(qp, []);
register(pd, buffer, { access: 0 });
device.verbs.pollCq(cq, 1);
cpu.sleep(5);
context.cpu.flush(0, 64);
own();
send();
other();
void cpu.sfence();
plain();
sge(mr, 0, 1);
cpu.report("x", 1);
`,
  "regions.ts": `${HEAD}export default function* (): Steps<void> {
  const s = yield* cpu.region("s");
  s.store(0, bytes);
  yield* s.flush(0, 64);
  const t: Region = s;
  t.fetchAdd(0, 1n);
}
export function* work(mine: Region, other: Map<string, string>): Steps<void> {
  mine.flush(0, 64);
  other.get("x");
}
`,
  "named.ts":
    `${HEAD}export function* first({ device, cpu: core }: ProgramContext, more: Verbs, y = cpu) {
  const w = device.verbs, u = w;
  u.rdmaDestroyQp(id);
  const { rdmaDestroyQp, destroyQp: end } = w;
  rdmaDestroyQp(id);
  end(qp);
  core.sleep(5);
  more.pollCq(cq, 1);
  y.sfence();
  const { verbs: named, verbs: { postRecv } } = device;
  named.destroyQp(qp);
  postRecv(qp, []);
  const post = w.postSend;
  post(qp, []);
  w.allocPd(device);
}
v?.postSend(qp, []);
v!.postSend(qp, []);
(x as Verbs).postSend(qp, []);
v["postSend"](qp, []);
v.postSend.call(v, qp, []);
v.postSend.bind(v)(qp, []);
export function one(v: Map<string, number>) { v.get("1"); }
export function other(send: Verbs["postSend"], run: () => Steps<void>) { send(qp, []); run(); }
{ const v = { postSend: (n: number) => n }; v.postSend(5); }
const table = { v, post: v.postRecv };
table.v.destroyQp(qp); table.post(qp, []);
`,
  "asked.ts": `${HEAD}function* own() {}
export function* all(): Steps<void> {
  const unread = v.rdmaDestroyQp(id);
  const asked = v.rdmaDisconnect(id);
  if (asked !== undefined) return;
  if (!asked || v.postSend(qp, [])) return;
  if (v.postRecv(qp, [])) return;
  while (!v.pollCq(cq, 1)) {}
  queues.forEach((qp) => v.destroyQp(qp));
  const text = own() ? "yes" : "no";
  use(text);
}
`,
  "kept.ts": `${HEAD}function* own() { yield 1; }
const later = v.postSend(qp, []), given = v.postRecv(qp, []), kept = cpu.sleep(5);
export function* all(): Steps<void> {
  if (later !== undefined) yield* later;
  use(given);
  use({ kept: kept ?? given });
  const [first] = own();
  for (const each of own()) use(each, first);
  const made = queues.map((qp) => v.destroyQp(qp));
  use(made);
  const short = v.destroyQp(qp);
  use({ short });
}
let made: Steps<unknown> | undefined;
const queue: Steps<unknown>[] = [], table = new Map<string, Steps<unknown>>();
export function lists(next: () => Steps<void> | undefined, state: { made?: Steps<unknown> }) {
  made ??= v.destroyQp(qp);
  state.made ||= v.destroyQp(qp);
  queue.shift();
  const there = table.get("x");
  if (there === undefined || !table.get("y") || next() === undefined) next();
}
export const steps = v.destroyQp(qp);
class Tree { of(): this { return this.of(); } }
new Tree().of();
`,
  "places.ts": `${HEAD}const { postSend } = v;
export function* all(): Steps<void> {
  true && postSend(qp, []);
  ok ? postSend(qp, []) : 5;
  use(), postSend(qp, []);
  for (postSend(qp, []);; v.pollCq(cq, 1)) break;
  while (v.pollCq(cq, 1)) break;
  switch (postSend(qp, [])) {}
  if (Boolean(postSend(qp, []))) return;
  use(\`\${v.pollCq(cq, 1)}\`, "" + postSend(qp, []));
  let later; later = postSend(qp, []);
  const { return: end } = v.pollCq(cq, 1);
  use({ ...postSend(qp, []) }, end);
  queues.forEach(v.destroyQp);
  queues.map((qp) => v.destroyQp(qp));
  queues.some((qp) => v.destroyQp(qp));
}
`,
  "members.ts": `${HEAD}import { Sender } from "./helper.ts";
import * as helper from "./helper.ts";
interface Side { readonly v: Verbs; work(): Steps<void> }
class Base { constructor(readonly core: Cpu) {} *all() { this.core.sleep(1); } }
class Mine extends Base {
  #v = x as Verbs;
  *run() { this.#v.destroyQp(qp); this.all(); this.plain(); }
  plain() { return 5; }
}
new Mine(cpu).run();
export function of({ v }: Side, side: Side) { v.postSend(qp, []); side.work(); side.v.pollCq(cq, 1); }
const sender = new Sender(); sender.all(); sender.other();
helper.send(); helper.plain();
const post = () => cpu.sleep(5); post();
function waits() { return cpu.sleep(5); } waits();
function typed(): Steps<void> { return helper.made; } typed();
const listed = [cpu.sleep]; listed[0]!(5);
`,
  "wrong.ts":
    `${HEAD}import { IBV_ACCESS_LOCAL_WRITE as W, IBV_SEND_INLINE, IBV_SEND_SIGNALLED } from "rackmesh";
import { IBV_QPT_RC } from "rackmesh";
import * as all from "rackmesh";
export function* p(): Steps<void> {
  const made = must(v.createCq(device, { entries: 16 }));
  const c = yield* v.connect(device, { to: "b", service: 5, qp: v.createQp(pd, x as never) });
  must(yield* v.postSend(c.qp, { opcode: "send", sgse: [] }));
  use(IBV_SEND_FENCE, IBV_WR_RDMA_WRITE, ibv_post_send, all.IBV_QPT_RC, made);
  v.allocPd(device, 1);
  must(yield* v.deregMr());
  for (const each of v.pollCq(cq, 8)) use(each, ...v.pollCq(cq, 1));
  must(yield* v.postSend(qp, { opcode: "send", sg_list: [] }));
  must(yield* v.modifyQp(qp, { qpState: "rtr" }));
  must(yield* v.modifyQp(qp, { pathMtu: 3, destAddress: "b" }));
  must(yield* v.regMr(pd, buffer, { access: IBV_SEND_INLINE }));
  must(yield* v.postSend(qp, { opcode: "wirte" }));
  must(yield* v.deallocPd(pd));
  const [wc] = must(yield* v.pollCq(cq, 1));
  if (wc!.status === "IBV_WC_RNR_RETRY_EXC_ERR") use(W);
  const late: Qp = { pd };
  await cpu.sleep(10);
  own();
}
declare function own(a: number, b?: string): void;
`,
  "torn.ts": `const x = { a: 1; b: 2 };
const y: number = "1";
`,
  "missing.ts": `import { none } from "./none.ts";
import { some } from "some";
import { files } from "node:fs";
import { odd } from "./100%.ts";
export default none + some + files + odd;
`,
};

/** Problems of each file, without its path. */
const said = new Map<string, string[]>();
let folder: string;

beforeAll(async () => {
  folder = await Deno.makeTempDir();
  for (const [name, text] of Object.entries(FILES)) {
    await Deno.writeTextFile(`${folder}/${name}`, text);
    said.set(name, []);
  }
  const whole = Object.keys(FILES).filter((name) => name !== "torn.ts");
  // Of programs with an error of syntax nothing else is said.
  for (const names of [whole, ["torn.ts"]]) {
    const problems = await problemsIn(names.map((name) => `${folder}/${name}`));
    for (const { file = "", line = 0, ...rest } of problems) {
      const name = file.slice(folder.length + 1) as keyof typeof FILES;
      const at = line - (FILES[name].startsWith(HEAD) ? LINES : 0);
      said.get(name)!.push(formatProblem({ ...rest, file: name, line: at }).slice(name.length + 1));
    }
  }
});

afterAll(() => Deno.remove(folder, { recursive: true }));

async function problemsIn(programs: readonly string[]) {
  try {
    await checkTypes(programs);
    return [];
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error.problems;
  }
}

/** Calls without `yield*` in a file of which nothing else is said. */
function unusedIn(name: keyof typeof FILES): string[] {
  return said.get(name)!.map((text) => {
    const [, line, call] =
      /^(\d+): found a call of (\S+) without yield\*, which does nothing, expected yield\* \2\(…\)$/
        .exec(text) ?? assert.fail(`${name}: ${text}`);
    return `${line} ${call}`;
  });
}

describe("calls without yield*", () => {
  it("are found where their answer is dropped: of verbs, of the core, of the user's generators", () => {
    assert.deepEqual(unusedIn("dropped.ts"), [
      "4 postSend",
      "5 register",
      "6 pollCq",
      "7 cpu.sleep",
      "8 cpu.flush",
      "9 own",
      "10 send",
      "11 other",
      "12 cpu.sfence",
    ]);
  });

  it("are found of shared regions, by the variable that has one", () => {
    assert.deepEqual(unusedIn("regions.ts"), ["3 s.store", "6 t.fetchAdd", "9 mine.flush"]);
  });

  it("are found by whatever name: another variable, a cast, optional, by call and bind", () => {
    assert.deepEqual(unusedIn("named.ts"), [
      "3 rdmaDestroyQp",
      "5 rdmaDestroyQp",
      "6 end",
      "7 cpu.sleep",
      "8 pollCq",
      "9 cpu.sfence",
      "11 destroyQp",
      "12 postRecv",
      "14 post",
      "17 postSend",
      "18 postSend",
      "19 postSend",
      "20 postSend",
      "21 postSend",
      "22 postSend",
      "24 send",
      "24 run",
      "27 destroyQp",
      "27 post",
    ]);
  });

  it("are found where their steps are taken for their answer", () => {
    assert.deepEqual(unusedIn("asked.ts"), [
      "3 rdmaDestroyQp",
      "4 rdmaDisconnect",
      "6 postSend",
      "7 postRecv",
      "8 pollCq",
      "9 destroyQp",
      "10 own",
    ]);
  });

  it("are found wherever their value is dropped, or their steps are text", () => {
    assert.deepEqual(unusedIn("places.ts"), [
      "3 postSend",
      "4 postSend",
      "5 postSend",
      "6 postSend",
      "6 pollCq",
      "7 pollCq",
      "8 postSend",
      "9 postSend",
      "10 pollCq",
      "10 postSend",
      "11 postSend",
      "12 pollCq",
      "13 postSend",
      "14 destroyQp",
      "15 destroyQp",
      "16 destroyQp",
    ]);
  });

  it("are found as members of classes and lists, and of functions that return steps", () => {
    assert.deepEqual(unusedIn("members.ts"), [
      "4 cpu.sleep",
      "7 destroyQp",
      "7 all",
      "10 run",
      "11 postSend",
      "11 work",
      "11 pollCq",
      "12 all",
      "13 send",
      "14 post",
      "15 waits",
      "16 typed",
      "17 listed[0]",
    ]);
  });

  it("are not found where they are kept, handed on or iterated as generators of one's own", () => {
    assert.deepEqual(said.get("kept.ts"), []);
    assert.deepEqual(said.get("helper.ts"), []);
  });
});

describe("what the compiler finds", () => {
  const line = (at: number) => said.get("wrong.ts")!.filter((text) => text.startsWith(`${at}: `));

  it("is said in words of a protocol, with its place", () => {
    assert.deepEqual(line(1), [
      "1: found IBV_SEND_SIGNALLED, which rackmesh does not export (TS2724), expected IBV_SEND_SIGNALED",
    ]);
    assert.deepEqual(line(2), [
      '2: found IBV_QPT_RC, which rackmesh does not export (TS2305), expected the text "rc"',
    ]);
    assert.deepEqual(line(5), [
      "5: found a call without yield*, whose steps (Steps<Cq | VerbError>) nothing has done (TS2345), " +
      "expected yield* in front of the call",
    ]);
    const [field, steps] = line(6);
    assert.equal(
      field,
      "6: service: found Type 'number' is not assignable to type 'string' (TS2322)",
    );
    assert.match(steps!, /^6: qp: found a call without yield\*, whose steps \(Steps<.*TS2322/);
    const [refusal, unknown] = line(7);
    assert.match(
      refusal!,
      /^7: found qp of what may be a refusal \(.*Refusal.*TS2339.*refused\(…\)/,
    );
    assert.match(
      unknown!,
      /^7: found sgse, which SendRequest has not .*, expected sges \(one of opco/,
    );
    assert.deepEqual(line(8), [
      '8: found IBV_SEND_FENCE, which is not imported (TS2304), expected it from "rackmesh"',
      '8: found IBV_WR_RDMA_WRITE, which is a text here (TS2304), expected "write"',
      "8: found ibv_post_send, which is no name of the file (TS2304), expected device.verbs.postSend",
      '8: found IBV_QPT_RC, which rackmesh does not export (TS2339), expected the text "rc"',
    ]);
  });

  it("says how a call is called, which takes no time, and what waits in real time", () => {
    assert.deepEqual(line(9), [
      "9: found 2 arguments of allocPd (TS2554), expected allocPd(device)",
    ]);
    assert.deepEqual(line(10), ["10: found 0 arguments of deregMr (TS2554), expected deregMr(mr)"]);
    const steps =
      /^11: found a call without yield\*, whose steps \(Steps<.*TS276\d.* in front of the call$/;
    for (const text of line(11)) assert.match(text, steps);
    assert.equal(line(11).length, 2);
    assert.match(
      line(17)[0]!,
      /^17: found yield\* of a call that takes no time, whose answer is .*VerbError.* \(TS2488\), expec/,
    );
    assert.match(
      line(21)[0]!,
      /^21: found await, which waits in real time \(TS1308\), expected yield/,
    );
    assert.match(line(22)[0]!, /^22: found 0 arguments of own \(TS2554\), expected own\(a, b\?\)$/);
  });

  it("says what libibverbs' fields and constants are here, and what a field may have", () => {
    assert.deepEqual(line(12), [
      "12: found sg_list, which SendRequest has not (TS2353), expected sges",
    ]);
    assert.match(
      line(13)[0]!,
      /^13: found qpState, which QpAttributes has not \(TS2\d+\), expected state$/,
    );
    assert.deepEqual(line(14), [
      "14: pathMtu: found 3 (TS2322), expected one of 256, 512, 1024, 2048, 4096",
      "14: destAddress: found Type 'string' is not assignable to type 'number' (TS2322)",
    ]);
    assert.deepEqual(line(15), [
      "15: access: found IBV_SEND_… flags (TS2322), expected IBV_ACCESS_… flags",
    ]);
    assert.match(line(16)[0]!, /^16: opcode: found "wirte" \(TS2820\), expected write \(one of /);
    assert.deepEqual(line(19), [
      '19: found "IBV_WC_RNR_RETRY_EXC_ERR" (TS2367), expected "RNR_RETRY_EXC_ERR"',
    ]);
  });

  it("is said in the compiler's words where there are no others", () => {
    assert.match(
      line(20)[0]!,
      /^20: found Type '\{ pd: Pd; \}' is missing .* from type 'Qp'.* \(TS2740\)$/,
    );
  });

  it("says of a file that cannot be parsed only that", () => {
    const [first] = said.get("torn.ts")!;
    assert.equal(first, "1: found ',' expected (TS1005)");
    assert.equal(said.get("torn.ts")!.filter((text) => text.startsWith("2: ")).length, 0);
  });

  it("says which imports are not there", () => {
    assert.deepEqual(said.get("missing.ts"), [
      '1: found an import of "./none.ts", which is not there (TS2307), expected a file',
      '2: found an import of "some", which is not there (TS2307), ' +
      'expected "rackmesh", a file, or a name of deno.json',
      '3: found an import of "node:fs", which is not there (TS2591), ' +
      'expected "rackmesh", a file, or a name of deno.json',
      '4: found an import of "./100%.ts", which is not there (TS2307), expected a file',
    ]);
  });
});

describe("checkTypes", () => {
  it("keeps what it found, unless an import is missing, which may come", async () => {
    const [kept, missing] = ["kept.ts", "missing.ts"].map((name) => [`${folder}/${name}`]);
    let began = 0;
    const onBegin = () => void began++;
    assert.equal((await checkTypes(kept!, { onBegin })).isKept, false);
    assert.deepEqual(await checkTypes(kept!, { onBegin }), { files: kept, isKept: true });
    assert.equal(began, 1);
    for (const times of [2, 3]) {
      await assert.rejects(checkTypes(missing!, { onBegin }), Refusal);
      assert.equal(began, times);
    }
  });
});

describe("ownFilesOf", () => {
  it("names text, JavaScript whose types are elsewhere, and types of the configuration and its workspace", async () => {
    const mixed = `${folder}/mixed`;
    await Deno.mkdir(mixed);
    const files = {
      "../deno.json": `{ "workspace": ["./mix*"], "compilerOptions": { "strict": false },
        "imports": { "told": "./mixed/told.js" } }`,
      "deno.json": `{ "compilerOptions": { "types": ["./all.d.ts"] } }`,
      "all.d.ts": "declare const ALL: number;\n",
      "main.ts": `// @ts-types="./told.d.ts"
import { told } from "told";
import { tells } from "./tells.js";
import text from "./words.txt" with { type: "text" };
export const none: string = null, texts: string[] = [told, tells, text], all: number = ALL;
`,
      "told.d.ts": "export const told: string;\n",
      "told.js": "export const told = 5;\n",
      "tells.d.ts": "export const tells: string;\n",
      "tells.js": `/* @ts-self-types="./tells.d.ts" */\nexport const tells = 5;\n`,
      "words.txt": "no code\n",
    };
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${mixed}/${name}`, text);
    }
    const main = [`${mixed}/main.ts`];
    assert.deepEqual(await problemsIn(main), []);
    const names = Object.keys(files).map((name) => new URL(name, `file://${mixed}/`).pathname);
    assert.deepEqual((await ownFilesOf(main)).toSorted(), names.toSorted());
    await Deno.remove(`${folder}/deno.json`);
  });

  it("names a program's files and the configuration above it, whose mistakes are told, too", async () => {
    const below = `${folder}/below`;
    await Deno.mkdir(below);
    await Deno.writeTextFile(`${below}/deno.jsonc`, `{ "imports": { "help": "../helper.ts", }, }`);
    await Deno.writeTextFile(`${below}/main.ts`, `import { plain } from "help";\nplain();\n`);
    assert.deepEqual(
      (await ownFilesOf([`${below}/main.ts`])).sort(),
      [`${below}/deno.jsonc`, `${below}/main.ts`, `${folder}/helper.ts`],
    );
    assert.deepEqual(await problemsIn([`${below}/main.ts`]), []);
    const configs = [
      [`{ "importMap": "./100%.json" }`, /^deno\.jsonc: found Cannot read file .*100%\.json/],
      [`{ "imports": {`, /^deno\.jsonc:1: found '\}' expected \(TS1005\)$/],
      [
        `{ "compilerOptions": { "strictt": true }, "imports": { "help": null },
          "scopes": { "http://[": {}, "/x": null } }`,
        /^deno\.jsonc: found .*'strictt'.* \(TS5025\)$/,
        /^main\.ts:1: found an import of "help", which is not there/,
      ],
    ] as const;
    for (const [text, ...expected] of configs) {
      await Deno.writeTextFile(`${below}/deno.jsonc`, text);
      const problems = await problemsIn([`${below}/main.ts`]);
      for (const [i, each] of expected.entries()) {
        assert.match(formatProblem(problems[i]!).slice(below.length + 1), each);
      }
    }
  });
});
