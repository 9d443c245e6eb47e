/**
 * What the transport offers beyond WRITE, READ and SEND, by verbs on a whole rack: atomics, FLUSH,
 * ATOMIC WRITE. A program appends records to a log in the peer's SCM and then moves the log's tail,
 * as the memory placement extensions mean it: WRITE, FLUSH, ATOMIC WRITE (P-50).
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";

const RECORDS = 8, RECORD_BYTES = 256, ADDS = 5;

/** Server: flushes what the RNIC tells it to (flow 2). Client: appends, moves the tail, counts. */
const PROGRAM = `
import {
  IBV_ACCESS_FLUSH_GLOBAL,
  IBV_ACCESS_FLUSH_PERSISTENT,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_FLUSH_PERSISTENT,
  IBV_SEND_SIGNALED,
} from "rackmesh";
const ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
export default function* program(context) {
  yield* context.options.role === "server" ? serve(context) : append(context);
}
function* serve({ cpu, device, options }) {
  const v = device.verbs;
  const { at: offset, bytes: length } = options.regions.log;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 64 }));
  const log = v.must(yield* v.regMr(pd, cpu.scm, { offset, length, access: ACCESS }));
  const listener = v.must(v.listen(device, "log"));
  const event = yield* v.waitEvent(listener);
  const place = new DataView(new ArrayBuffer(16));
  place.setBigUint64(0, BigInt(log.address));
  place.setUint32(8, log.rkey);
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 32, maxRecvWr: 32 };
  const connection = v.must(
    yield* v.accept(listener, event.request, { qp, privateData: new Uint8Array(place.buffer) }),
  );
  v.must(yield* v.postRecv(connection.qp, Array.from({ length: 16 }, () => ({ sges: [] }))));
  let told = 0;
  for (;;) {
    const completions = yield* v.waitCompletion(cq, { deadline: cpu.now + 1e9 });
    if (completions.length === 0) break;
    for (const { opcode, va, byteLen, psn } of completions) {
      if (opcode !== "recv-persistence") continue;
      told++;
      v.must(yield* v.postRecv(connection.qp, { sges: [] }));
      yield* cpu.flush(va, byteLen);
      v.must(yield* v.postSend(connection.qp, { opcode: "persistence-ack", immediate: psn, sendFlags: 0 }));
    }
  }
  cpu.report("result", { role: "server", told });
}
function* append({ cpu, device, options }) {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 64 }));
  const buffer = cpu.allocate(4096);
  const mr = v.must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 32, maxRecvWr: 32 };
  const sendFlags = IBV_SEND_SIGNALED;
  const connection = yield* v.connect(device, { to: "b", service: "log", qp });
  if (v.refused(connection)) throw new Error("refused");
  yield* cpu.sleep(50e6);
  const { buffer: bytes, byteOffset } = connection.privateData;
  const place = new DataView(bytes, byteOffset);
  const at = (offset) => ({ va: Number(place.getBigUint64(0)) + offset, rkey: place.getUint32(8) });
  const statuses = [], opcodes = [];
  function* wait(count) {
    while (count > 0) {
      for (const { status, opcode } of yield* v.waitCompletion(cq)) {
        statuses.push(status);
        opcodes.push(opcode);
        count--;
      }
    }
  }
  const length = ${RECORD_BYTES};
  for (let i = 0; i < ${RECORDS}; i++) {
    cpu.store(buffer.address, new Uint8Array(length).fill(i + 1));
    const tail = new Uint8Array(8);
    new DataView(tail.buffer).setBigUint64(0, BigInt(i + 1), true);
    cpu.store(buffer.address + 1024, tail);
    const placement = IBV_FLUSH_PERSISTENT;
    v.must(yield* v.postSend(connection.qp, [
      { opcode: "write", sges: [v.sge(mr, 0, length)], remote: at(64 + i * length), sendFlags: 0 },
      { opcode: "flush", sendFlags, remote: at(64 + i * length), flush: { placement, selectivity: "range", length } },
      { opcode: "atomic-write", sendFlags, remote: at(0), sges: [v.sge(mr, 1024, 8)] },
      { opcode: "flush", sendFlags, remote: at(0), flush: { placement, selectivity: "range", length: 8 } },
    ]));
    yield* wait(3);
  }
  for (let i = 0; i < ${ADDS}; i++) {
    v.must(yield* v.postSend(connection.qp, [
      { opcode: "fetch-add", sendFlags, remote: at(8), sges: [v.sge(mr, 2048, 8)], atomic: { swapAdd: 3n, compare: 0n } },
      { opcode: "compare-swap", sendFlags, remote: at(16), sges: [v.sge(mr, 2056, 8)],
        atomic: { compare: BigInt(i), swapAdd: BigInt(i + 1) } },
    ]));
    yield* wait(2);
  }
  v.must(yield* v.postSend(connection.qp, { opcode: "flush", sendFlags, remote: at(0), flush: { placement: IBV_FLUSH_PERSISTENT, selectivity: "mr" } }));
  yield* wait(1);
  const loaded = cpu.load(buffer.address + 2048, 16);
  const view = new DataView(loaded.buffer, loaded.byteOffset);
  cpu.report("result", {
    role: "client", statuses, opcodes: [...new Set(opcodes)],
    lastSum: Number(view.getBigUint64(0, true)), lastSwapped: Number(view.getBigUint64(8, true)),
  });
}
`;

function scenario(ddio: "on" | "off"): string {
  return `name: operations
hosts:
  a: {}
  b: { ddio: ${ddio}, scm: { size: 4MiB, regions: { log: { at: 1MiB, size: 16KiB } } } }
programs:
  - { on: b, program: ./operations.ts, role: server }
  - { on: a, program: ./operations.ts, role: client, at: 200us }
`;
}

interface Client {
  readonly role: "client";
  readonly statuses: readonly string[];
  readonly opcodes: readonly string[];
  readonly lastSum: number;
  readonly lastSwapped: number;
}

interface Server {
  readonly role: "server";
  readonly told: number;
}

describe("RC operations on a rack", () => {
  let rig: CommandRig;

  beforeAll(async () => {
    rig = await CommandRig.open();
    await rig.file("operations.ts", PROGRAM);
  });

  afterAll(async () => {
    await rig.close();
  });

  // DDIO off is in every packing what it is in one process, as `determinism_test.ts` holds of all runs.
  for (const [ddio, packings] of [["off", ["all"]], ["on", ["all", "node"]]] as const) {
    it(`P-50: WRITE, FLUSH, ATOMIC WRITE and atomics, DDIO ${ddio}: what is answered is in the SCM`, async () => {
      const file = await rig.file(`operations-${ddio}.yaml`, scenario(ddio));
      const digests = new Set<string>();
      for (const pack of packings) {
        const { code, stdout, stderr } = await rig.run(["run", file, "--pack", pack, "--json"]);
        assert.equal(code, 0, stdout + stderr);
        const { digest, directory, results } = JSON.parse(stdout) as {
          digest: string;
          directory: string;
          results: { value: Client | Server }[];
        };
        digests.add(digest);
        const values = results.map(({ value }) => value);
        const client = values.find((value): value is Client => value.role === "client")!;
        const server = values.find((value): value is Server => value.role === "server")!;
        assert.ok(client.statuses.every((status) => status === "SUCCESS"));
        assert.equal(client.statuses.length, 3 * RECORDS + 2 * ADDS + 1);
        assert.deepEqual([...client.opcodes].sort(), [
          "atomic-write",
          "compare-swap",
          "fetch-add",
          "flush",
        ]);
        assert.deepEqual([client.lastSum, client.lastSwapped], [3 * (ADDS - 1), ADDS - 1]);
        assert.equal(server.told, ddio === "on" ? 2 * RECORDS + 1 : 0);
        checkScm(await Deno.readFile(`${directory}/scm/b.scm`));
      }
      assert.equal(digests.size, 1, "as processes and in one: the same run");
    });
  }
});

function checkScm(scm: Uint8Array): void {
  const log = scm.subarray(1 << 20);
  const words = new DataView(log.buffer, log.byteOffset);
  assert.equal(words.getBigUint64(0, true), BigInt(RECORDS), "the tail");
  assert.equal(words.getBigUint64(8, true), BigInt(3 * ADDS), "the sum");
  assert.equal(words.getBigUint64(16, true), BigInt(ADDS), "what was swapped in");
  for (let i = 0; i < RECORDS; i++) {
    const record = log.subarray(64 + i * RECORD_BYTES, 64 + (i + 1) * RECORD_BYTES);
    assert.ok(record.every((byte) => byte === i + 1), `record ${i}`);
  }
}
