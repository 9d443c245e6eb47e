import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { exportedSteps, unusedSteps } from "./unused_steps.ts";

const PLUGIN = unusedSteps({ "/p/helper.ts": ["send", "default"] });

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
      // `w` is two things.
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
});
