/**
 * Types of own programs are checked before anything runs, by every command that runs one; nothing is
 * checked twice, and `--no-check` goes on without.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";

const HELPER = `export interface Place { readonly at: number }
export function* pause(): Generator<never, void> {}
`;
const PROTOCOL = `import { type ProgramContext, type Steps } from "rackmesh";
import { type Place } from "./place.ts";

export default function* protocol({ cpu }: ProgramContext): Steps<void> {
  const place: Place = { at: 1 };
  cpu.report("result", { at: place.at });
  yield* cpu.sleep(1_000);
}
`;
const SCENARIO = `name: typed
seed: 7
profile: clx-optane-cx5
hosts: { a: {} }
programs: [{ on: a, program: ./typed.ts }]
`;
/** Calls in the words of librdmacm, from line 6 on. */
const PORT = `import { type Cq, IBV_ACCESS_LOCAL_WRITE, must, type Pd } from "rackmesh";
import { type ProgramContext, type Qp, type RdmaId, type Steps } from "rackmesh";
declare const [id, pd, qp, cq]: [RdmaId, Pd, Qp, Cq];
export default function* port({ device }: ProgramContext): Steps<void> {
  const v = device.verbs;
  must(yield* v.rdma_disconnect(id));
  const { ibvPostSend } = device.verbs; ibvPostSend();
  v.ibv_fork_init(); v.ibv_fork_init();
  must(yield* v.postSend(qp, { opcode: "send", sgse: [] }));
  must(yield* v.postSend(qp, [{ opcode: "send", sgse: [] }]));
  must(yield* v.postRecv(qp, { wrid: 1 }));
  must(yield* v.rdmaCreateQp(id, pd));
  must(yield* v.postSend(qp, { opcode: "send", sendFlags: IBV_ACCESS_LOCAL_WRITE }));
  must(yield* v.postSend(qp, { opcode: "IBV_WR_SEND" }));
  const options = { sendCq: cq, recvCq: cq, max_send_wr: 1, maxRecvWr: 1 };
  must(yield* v.rdmaCreateQp(id, pd, options));
  v.rdmaDestroyQp(id);
  const { rdmaDisconnect } = v;
  if (rdmaDisconnect(id) === undefined) return;
  v.rdma_post_send(qp);
}
`;
/** The rig's commands do not check types, but these. */
const CHECKS = { env: { RACKMESH_NO_CHECK: "" } };

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
  await rig.file("typed.yaml", SCENARIO);
  await rig.file("place.ts", HELPER);
});

afterAll(() => rig.close());

function at(file: string): string {
  return `${rig.cache}/${file}`;
}

describe("types of own programs", () => {
  it("are checked before anything runs, with file and line, by every command that runs them", async () => {
    const text = PROTOCOL.replace("yield* cpu.sleep(1_000)", "cpu.sleep(1_000)")
      .replace("{ at: 1 }", '{ at: "1" }');
    await rig.file("typed.ts", text);
    const first = await rig.run(["check", at("typed.ts")], CHECKS);
    assert.equal(first.code, 64, first.stderr);
    const [checking, wrong, unused, ...rest] = first.stderr.trim().split("\n");
    assert.equal(checking, "checking types");
    const where = at("typed.ts");
    const type = "Type 'string' is not assignable to type 'number'";
    assert.equal(wrong, `${where}:5: at: found ${type} (TS2322)`);
    assert.equal(
      unused,
      `${where}:7: found a call of cpu.sleep without yield*, which does nothing, ` +
        "expected yield* cpu.sleep(…)",
    );
    assert.deepEqual(rest, []);

    const scenario = at("typed.yaml");
    const said = await rig.each([
      ["check", scenario],
      ["validate", scenario],
      ["run", scenario, "--pack", "all"],
      ["up", scenario],
      ["explore", scenario],
      ["chaos", scenario],
      ["sweep", scenario, "--vary", "seed=1,2"],
      ["trace", scenario],
      ["perftest", "ib_write_lat", scenario],
      ["compose", scenario, "--out", at("composed")],
    ], CHECKS);
    for (const { code, stdout, stderr } of said) {
      assert.equal(code, 64, stdout + stderr);
      assert.match(stderr, /typed\.ts:5: at: found Type 'string'/);
      // No file has changed.
      assert.doesNotMatch(stderr, /checking types/);
    }
    assert.deepEqual(rig.runs(), []);
    assert.throws(() => Deno.statSync(at("composed")), Deno.errors.NotFound);
    // The watch at run time finds the call as well.
    const ran = await rig.run(["run", scenario, "--pack", "all", "--no-check"], CHECKS);
    assert.equal(ran.code, 1);
    assert.match(ran.stdout, /the call of sleep at typed\.ts:7:7 was not awaited/);
  });

  it("hold as long as no file has changed, those of imported types included", async () => {
    await rig.file("typed.ts", PROTOCOL);
    const check = ["check", at("typed.ts"), "--json"];
    const [first, second] = await rig.each([check, check], CHECKS);
    assert.deepEqual(
      [first, second].map((said) => JSON.parse(said!.stdout)).map(({ ok, kept }) => [ok, kept]),
      [[true, false], [true, true]],
    );
    await rig.file("place.ts", HELPER.replace("at:", "offset:"));
    // By the user's own configuration, from now on.
    await rig.file("deno.jsonc", '{ // mine\n "compilerOptions": { "noUnusedLocals": true, }, }\n');
    await rig.file("typed.ts", PROTOCOL.replace("const place", "const unused = 1;\n  const place"));
    const { code, stdout } = await rig.run(check, CHECKS);
    assert.equal(code, 64, stdout);
    const { problems } = JSON.parse(stdout) as { problems: { line: number; found: string }[] };
    assert.deepEqual(problems.map(({ line }) => line), [5, 6, 7]);
    assert.match(problems[0]!.found, /'unused' is declared but its value is never read/);
    assert.match(problems[1]!.found, /^at, which Place has not/);
  });

  it("say what a newcomer from libibverbs meant: calls, fields, arguments, flags", async () => {
    await rig.file("port.ts", PORT);
    const { code, stdout } = await rig.run(["check", at("port.ts"), "--json"], CHECKS);
    assert.equal(code, 64, stdout);
    const { problems } = JSON.parse(stdout) as { problems: Record<string, string>[] };
    const said = problems.map(({ line, path, found, expected }) =>
      `${line} ${path}: ${found!.replace(/ \(TS\d+\)$/, "")} > ${expected}`
    );
    const sends = (field: string) =>
      new RegExp(`${field}, which SendRequest has not > sges \\(one of `);
    const wanted = [
      /^6 : rdma_disconnect, which device.verbs has not > rdmaDisconnect$/,
      /^7 : ibvPostSend, which device.verbs has not > postSend$/,
      /^8 : ibv_fork_init, which device.verbs has not: the programs .* > a call of .*FROM_LIB.*md$/,
      sends("9 : sgse"),
      sends("10 : sgse"),
      /^11 : wrid, which RecvRequest has not > wrId \(one of wrId, sges\)$/,
      /^12 : 2 arguments of rdmaCreateQp > rdmaCreateQp\(id, pd, options\)$/,
      /^13 sendFlags: IBV_ACCESS_… flags > IBV_SEND_… flags$/,
      /^14 opcode: "IBV_WR_SEND" > "send"$/,
      /^16 : an object that lacks maxSendWr and has max_send_wr > maxSendWr$/,
      /^17 : a call of rdmaDestroyQp without yield\*, which does nothing > yield\* rdmaDestroyQp/,
      /^19 : a call of rdmaDisconnect without yield\*, which does nothing > yield\* rdmaDisconnect/,
      /^20 : rdma_post_send, which device.verbs has not > postSend$/,
    ];
    assert.equal(said.length, wanted.length, said.join("\n"));
    for (const [i, pattern] of wanted.entries()) assert.match(said[i]!, pattern);
  });
});
