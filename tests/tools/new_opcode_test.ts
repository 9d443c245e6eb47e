/**
 * A new opcode is a row in three files: what crosses the wire, what its WQE asks for, what a responder does. A copy of
 * the tree gets such rows and nothing else. There the command checks a program that posts the opcode, runs it, shows
 * its ladder and leaves a capture, whose frames the copy's own decoder reads.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { toFileUrl } from "../../console/base/paths.ts";
import { CommandRig } from "../support/command.ts";
import { readCapture } from "../support/pcapng_reader.ts";
import { ROOT } from "../../console/base/paths.ts";
import { copyTree, type Insertion, removeTree } from "../support/tree_copy.ts";

/** INVERT WRITE: eight bytes that the responder stores with all bits changed, answered as an ATOMIC WRITE is. */
const CHANGES: Readonly<Record<string, readonly Insertion[]>> = {
  "fabric/wire/roce/opcode.ts": [
    ["export const ANSWERS = {", `"invert-write": "read-response",`],
    ["const CELLS = [", `[0x1e, "RC INVERT WRITE", "rc", "invert-write", "only", ["reth"], 8],`],
  ],
  "fabric/wire/host_bus/wqe_opcode.ts": [
    ["export type WqeOpcode =", `| "invert-write"`],
    [
      "const ROWS: Readonly<Record<WqeOpcode, Given>> = {",
      `"invert-write": { ...ATOMIC, code: 0x46, operands: ["remote"], data: "word", wire: "invert-write" },`,
    ],
  ],
  "nodes/rnic/responder/operations.ts": [
    [
      "const ROWS: Readonly<Record<RequestOperation, Given>> = {",
      `"invert-write": {
        ...ATOMIC,
        need: ACCESS.remoteWrite,
        length: "word",
        atomic: { ...ATOMIC_WRITE, compute: ({ swapAdd }) => BigInt.asUintN(64, ~swapAdd) },
      },`,
    ],
  ],
};

/** Types are checked, which commands of tests are not to do each time. */
const WITH_TYPES = { env: { RACKMESH_NO_CHECK: "" } };

const SCENARIO = `
name: new-opcode
seed: 1
defaults: { services: none, scm: { size: 1MiB } }
hosts: { a: {}, b: {} }
programs:
  - { on: b, program: ./inverting.ts, service: true }
  - { on: a, program: ./inverting.ts, to: b, at: 100us }
`;

const PROGRAM = `
import {
  IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_SEND_SIGNALED, must,
  type ProgramContext, type Steps,
} from "rackmesh";

const QUEUES = { maxSendWr: 4, maxRecvWr: 4, maxInlineData: 64 };

export default function* inverting({ cpu, device, options }: ProgramContext): Steps<void> {
  const { allocPd, createCq, regMr, listen, waitEvent, accept, connect, refused, postSend, waitCompletion, sge } =
    device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const mr = must(yield* regMr(pd, cpu.allocate(64), { access }));
  const qp = { pd, sendCq: cq, recvCq: cq, ...QUEUES };
  if (options.to === undefined) {
    const listener = must(listen(device, "invert"));
    for (;;) {
      const event = yield* waitEvent(listener);
      if (event?.kind !== "request") continue;
      const privateData = new Uint8Array(new BigUint64Array([BigInt(mr.address), BigInt(mr.rkey)]).buffer);
      yield* accept(listener, event.request, { qp, privateData });
    }
  }
  const connection = yield* connect(device, { to: String(options.to), service: "invert", qp });
  if (refused(connection)) throw new Error("refused");
  const view = new DataView(connection.privateData.slice().buffer);
  const remote = { va: Number(view.getBigUint64(0, true)), rkey: Number(view.getBigUint64(8, true)) };
  const sendFlags = IBV_SEND_SIGNALED;
  cpu.store(mr.address, Uint8Array.of(0, 1, 2, 3, 4, 5, 6, 7));
  must(
    yield* postSend(connection.qp, [
      { opcode: "invert-write", sges: [sge(mr, 0, 8)], remote, sendFlags },
      { opcode: "read", sges: [sge(mr, 8, 8)], remote, sendFlags },
    ]),
  );
  const opcodes: string[] = [];
  while (opcodes.length < 2) {
    for (const { opcode, status, reason } of yield* waitCompletion(cq)) {
      if (status !== "SUCCESS") throw new Error(reason);
      opcodes.push(opcode);
    }
  }
  cpu.report("result", { program: "invert", opcodes, read: [...cpu.load(mr.address + 8, 8)] });
}
`;

/** The tree of the test has links to files of this one. */
const LINKED = ["--allow-read", ROOT];

describe("a new opcode, by rows in three files", () => {
  let tree: string, rig: CommandRig, scenario: string;
  beforeAll(async () => {
    assert.equal(Object.keys(CHANGES).length, 3);
    tree = await copyTree(CHANGES);
    rig = await CommandRig.open(tree);
    scenario = await rig.file("new_opcode.yaml", SCENARIO);
    await rig.file("inverting.ts", PROGRAM);
  });
  afterAll(async () => {
    await rig?.close();
    await removeTree(tree);
  });

  it("is known to the check of types, the table's and the program's", async () => {
    const config = ["--config", `${tree}/deno.json`];
    // Of what names operations; the host's side of verbs is checked with the program.
    const tables = [
      "nodes/rnic/responder/operations.ts",
      "nodes/rnic/state/outstanding_wqe.ts",
      "nodes/host/native/numbers.ts",
      "nodes/host/programs/perftest/terms.ts",
    ].map((file) => `${tree}/${file}`);
    const args = ["check", "--quiet", "--cached-only", ...config, ...tables];
    const checked = await new Deno.Command(Deno.execPath(), { args, env: { NO_COLOR: "1" } })
      .output();
    assert.equal(checked.code, 0, new TextDecoder().decode(checked.stderr));
    await rig.must(["validate", scenario, ...LINKED], WITH_TYPES);
    // The project's own command does not know it.
    const own = await CommandRig.open();
    const { code, stderr } = await own.run(["validate", scenario, ...LINKED], WITH_TYPES);
    await own.close();
    assert.notEqual(code, 0);
    assert.match(stderr, /"invert-write"/);
  });

  it("is executed by a responder and completes; its frames are captured and decoded", async () => {
    const pcap = `${rig.cache}/pcap`;
    const args = ["run", scenario, "--pack", "all", "--json", "--pcap", pcap, ...LINKED];
    const [{ value }] = JSON.parse(await rig.must(args)).results;
    assert.deepEqual(value.opcodes, ["invert-write", "read"]);
    assert.deepEqual(value.read, [255, 254, 253, 252, 251, 250, 249, 248]);

    const { describeFrame } = await import(toFileUrl(`${tree}/fabric/trace/describe.ts`).href);
    const { frames } = readCapture(await Deno.readFile(`${pcap}/new-opcode.pcapng`));
    const texts: string[] = frames.map(({ bytes }) => describeFrame(bytes));
    const request = texts.findIndex((text) => text.includes("RC INVERT WRITE"));
    assert.match(texts[request]!, /va=0x[0-9a-f]+ rkey=0x[0-9a-f]+ len=8/);
    const behind = texts.slice(request).filter((text) =>
      text.includes("RC RDMA READ RESPONSE ONLY")
    );
    assert.ok(behind.length > 0, texts.join("\n"));
  });

  it("has a ladder", async () => {
    const ladder = await rig.must(["trace", scenario, ...LINKED]);
    assert.match(ladder, /wqe .* WQE of invert-write at 0/);
    assert.match(ladder, /atomic .* invert-write at VA 0x/);
    assert.match(ladder, /complete .* CQE of invert-write at 0/);
  });
});
