import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { exportedSteps } from "./exported_steps.ts";
import { unusedSteps } from "./unused_steps.ts";

const PLUGIN = unusedSteps({ "/p/helper.ts": ["send", "default", "Sender.all"] });

/** The functions whose steps nothing does, by line. */
function unusedIn(text: string): string[] {
  return Deno.lint.runPlugin(PLUGIN, "/p/a.ts", text).map(({ range: [at], message }) =>
    `${text.slice(0, at).split("\n").length} ${message}`
  );
}

describe("unusedSteps", () => {
  it("finds calls whose steps nothing does: of verbs, of the core, of the user's generators", () => {
    assert.deepEqual(
      unusedIn(`import other, { send, plain } from "./helper.ts";
function* own() {}
const { postSend, regMr: register, sge } = device.verbs;
postSend(qp, []);
register(pd, buffer);
device.verbs.pollCq(cq, 1);
cpu.sleep(5);
context.cpu.flush(0, 64);
own();
send();
other();
void cpu.sfence();
`),
      [
        "4 postSend",
        "5 register",
        "6 pollCq",
        "7 cpu.sleep",
        "8 cpu.flush",
        "9 own",
        "10 send",
        "11 other",
        "12 cpu.sfence",
      ],
    );
  });

  it("knows the calls of shared regions, by the variable or parameter that has one", () => {
    assert.deepEqual(
      unusedIn(`export default function* ({ cpu }) {
  const s = yield* cpu.region("s");
  s.store(0, bytes);
  yield* s.flush(0, 64);
  const t: Region = open();
  t.fetchAdd(0, 1n);
}
function* work(mine: Region, other: Map<string, string>) {
  mine.flush(0, 64);
  other.load(1);
  const plain = cpu.region("s");
  plain.store(0, bytes);
}
`),
      ["3 s.store", "6 t.fetchAdd", "9 mine.flush"],
    );
    // Two things of one name: left to the watch at run time.
    assert.deepEqual(
      unusedIn(
        `const s = yield* context.cpu.region("s"); s.fence(); function f(s) { s.load(0, 1); }`,
      ),
      [],
    );
  });

  it("follows other names of device.verbs, of the core, and of their functions", () => {
    assert.deepEqual(
      unusedIn(`function* first({ device, cpu: core }: ProgramContext, more: Verbs, x = cpu) {
  const v = device.verbs, w = v;
  v.rdmaDestroyQp(c);
  w.postSend(qp, []);
  const { rdmaDestroyQp, rdmaCreateQp: create } = v;
  rdmaDestroyQp(c);
  create(id, pd, {});
  core.sleep(5);
  more.pollCq(cq, 1);
  x.sfence();
  const { verbs: named, verbs: { regMr } } = device;
  named.createCq(device, {});
  regMr(pd, buffer, {});
  const post = v.postRecv;
  post(qp, []);
  v.allocPd(device);
}
function* second(device) { const v = device.verbs; v.destroyQp(qp); }
function third(w) { w.postSend(qp, []); }
`),
      [
        "3 rdmaDestroyQp",
        "4 postSend",
        "6 rdmaDestroyQp",
        "7 create",
        "8 cpu.sleep",
        "9 pollCq",
        "10 cpu.sfence",
        "12 createCq",
        "13 regMr",
        "15 post",
        "18 destroyQp",
      ],
      // The `w` of `third` is another one.
    );
  });

  it("finds calls whose steps are taken for their answer", () => {
    assert.deepEqual(
      unusedIn(`const v = device.verbs;
function* own() {}
const unread = v.rdmaDestroyQp(c);
const asked = v.rdmaDisconnect(c);
if (asked !== undefined) return;
if (!asked || v.postSend(qp, [])) return;
if (v.postRecv(qp, [])) return;
while (!v.pollCq(cq, 1)) {}
const [wc] = v.waitCompletion(cq);
for (const wc of v.pollCq(cq, 8)) {}
queues.forEach((qp) => v.destroyQp(qp));
const text = own() ? "yes" : "no";
`),
      [
        "3 rdmaDestroyQp",
        "4 rdmaDisconnect",
        "6 postSend",
        "7 postRecv",
        "8 pollCq",
        "9 waitCompletion",
        "10 pollCq",
        "11 destroyQp",
        "12 own",
      ],
    );
    assert.deepEqual(
      unusedIn(`const v = device.verbs;
function* own() {}
const later = v.postSend(qp, []), given = v.postRecv(qp, []), kept = cpu.sleep(5);
if (later !== undefined) yield* later;
start(given);
all.push({ kept: kept || given });
export const steps = v.destroyQp(qp);
const [first] = own();
for (const each of own()) use(each);
const made = queues.map((qp) => v.destroyQp(qp));
`),
      [],
    );
  });

  it("finds them wherever their value is dropped or their steps are text", () => {
    assert.deepEqual(
      unusedIn(`const v = device.verbs, { postSend } = v;
true && postSend(qp, []);
ok ? postSend(qp, []) : 5;
5, postSend(qp, []);
for (postSend(qp, []);; v.pollCq(cq, 1)) break;
while (v.pollCq(cq, 1)) break;
switch (postSend(qp, [])) {}
if (failed(postSend(qp, []))) return;
use(\`\${v.pollCq(cq, 1)}\`, "" + postSend(qp, []));
let later; later = postSend(qp, []);
const { length } = v.pollCq(cq, 1);
use({ ...postSend(qp, []) });
queues.forEach(v.destroyQp);
queues.map((qp) => v.destroyQp(qp));
queues.some((qp) => v.destroyQp(qp));
`),
      [
        "2 postSend",
        "3 postSend",
        "4 postSend",
        "5 postSend",
        "5 pollCq",
        "6 pollCq",
        "7 postSend",
        "8 postSend",
        "9 pollCq",
        "9 postSend",
        "10 postSend",
        "11 pollCq",
        "12 postSend",
        "13 destroyQp",
        "14 destroyQp",
        "15 destroyQp",
      ],
    );
  });

  it("finds them however the function is named: optional, cast, called by call, in a variable's scope", () => {
    assert.deepEqual(
      unusedIn(`const v = device.verbs;
v?.postSend(qp, []);
v!.postSend(qp, []);
(x as Verbs).postSend(qp, []);
v["postSend"](qp, []);
v.postSend.call(v, qp, []);
v.postSend.bind(v)(qp, []);
function one(v: Map<string, number>) { v.postSend(1); }
function other(send: Verbs["postSend"], run: () => Steps<void>) { send(qp, []); run(); }
{ const v = { postSend: (n) => n }; v.postSend(5); }
const table = { v, post: v.postRecv };
table.v.destroyQp(qp); table.post(qp, []);
`),
      [
        "2 postSend",
        "3 postSend",
        "4 postSend",
        "5 postSend",
        "6 postSend",
        "7 postSend",
        "9 send",
        "9 run",
        "12 destroyQp",
        "12 post",
      ],
    );
  });

  it("knows members of classes and of types, and functions that return steps", () => {
    assert.deepEqual(
      unusedIn(`import { Sender } from "./helper.ts";
import * as helper from "./helper.ts";
interface Side { readonly v: Verbs; work(): Steps<void>; }
class Base { readonly core: ProgramCpu; *all() { this.core.sleep(1); } }
class Mine extends Base {
  #v = x as Verbs;
  constructor(readonly verb: Verbs) {}
  *run() { this.#v.destroyQp(qp); this.all(); this.verb.postSend(qp, []); this.plain(); }
  plain() { return 5; }
}
new Mine(v).run();
function of({ v }: Side, side: Side) { v.postSend(qp, []); side.work(); side.v.pollCq(cq, 1); }
const sender = new Sender(); sender.all(); sender.other();
helper.send(); helper.plain();
const post = () => cpu.sleep(5); post();
function waits() { return cpu.sleep(5); } waits();
function typed(): Steps<void> { return made; } typed();
`),
      [
        "4 cpu.sleep",
        "8 destroyQp",
        "8 all",
        "8 postSend",
        "11 run",
        "12 postSend",
        "12 work",
        "12 pollCq",
        "13 all",
        "14 send",
        "15 post",
        "16 waits",
        "17 typed",
      ],
    );
  });

  it("says nothing of what is done, of other functions, and of names that are declared twice", () => {
    assert.deepEqual(
      unusedIn(`import { send, plain } from "./helper.ts";
const { postSend, sge } = device.verbs;
function* g() { yield* postSend(qp, []); yield* steps; }
const steps = cpu.sleep(5);
sge(mr, 0, 1);
plain();
cpu.store(0, bytes);
cpu.report("x", 1);
postRecv(1);
file.read(0, 1);
function f(send) { send(); }
class Tree extends Tree { of() { return this.of(); } get() { this.of(); this.none(); return new Tree().get(); } }
const own = () => own(), one = () => other(), other = () => one(), self = self;
own(); one(); self();
`),
      [],
    );
  });
});

describe("exportedSteps", () => {
  it("names generator functions that a file exports", () => {
    const text = `export function* a() {}
export default function* main() {}
export function plain() {}
function* inner() {}
export function *b() {}
`;
    assert.deepEqual(exportedSteps(text), ["a", "default", "b"]);
  });

  it("and functions whose type says so, under the names that they are exported by, and methods of classes", () => {
    const text = `export function typed(
  { v, qp }: Side, ready = () => {},
): Steps<void> { return made; }
export function plain(x: Steps<void>) {}
export const kept = function* (v: Verbs) {};
export const arrow = (v: Verbs, done: () => void): Steps<void> => v.work();
export let count;
const hidden = function* () {};
function* inner() {}
export { inner, inner as other, count as number };
export default inner;
export class Sender {
  readonly v = 5;
  *send(): Steps<void> {
    yield* this.all();
  }
  override *all() {}
  plain() {}
}
class Hidden {
  *send() {}
}
`;
    const steps = ["typed", "kept", "arrow", "inner", "other", "default"];
    assert.deepEqual(exportedSteps(text), [...steps, "Sender.send", "Sender.all"]);
  });
});
