/** Verified writes by the verbs of two hosts, over a connection as any program makes one (V-01, V-06, V-07). */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { VERIFY_LEVELS } from "../../fabric/wire/roce/verify_eth.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import type { VerifyRequest, WorkCompletion } from "../../nodes/host/verbs/objects.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";

const SERVICE = "verified";
const REGION_BYTES = 128 * 1024;
/** Lies outside of every write's place. */
const LAST_WORD = REGION_BYTES - 8;

function scenario(topology: "star" | "direct"): string {
  return `
name: verified
fabric: { topology: ${topology} }
hosts: { a: {}, b: {} }
programs: [{ on: b, run: ./right.ts }, { on: a, run: ./left.ts, at: 100us }]
`;
}

/** Offers a region for verified writes; what lies in it at the end goes to `memory`. */
function* offer(context: ProgramContext, memory: { bytes: Uint8Array }): Steps<void> {
  const { cpu, device } = context;
  const { allocPd, createCq, regMr, listen, waitEvent, accept, must } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const mr = must(yield* regMr(pd, cpu.allocate(REGION_BYTES), { access }));
  const listener = must(listen(device, SERVICE));
  const event = yield* waitEvent(listener);
  assert(event?.kind === "request");
  const place = new DataView(new ArrayBuffer(16));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 16, maxRecvWr: 16, sqSigAll: true };
  yield* accept(listener, event.request, { qp, privateData: new Uint8Array(place.buffer) });
  while (cpu.load(mr.address + LAST_WORD, 1)[0] === 0) yield* cpu.sleep(1_000_000);
  memory.bytes = cpu.load(mr.address, REGION_BYTES);
}

interface Write {
  readonly at: number;
  readonly length: number;
  readonly verify: VerifyRequest;
}

/** Writes them one after the other, byte `i` of the memory as {@link byteAt} has it. */
function* write(
  { cpu, device }: ProgramContext,
  writes: readonly Write[],
  completions: WorkCompletion[],
): Steps<void> {
  const { allocPd, createCq, regMr, connect, refused, postSend, waitCompletion, must, sge } =
    device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(REGION_BYTES);
  cpu.store(buffer.address, Uint8Array.from({ length: REGION_BYTES }, (_, i) => byteAt(i)));
  const mr = must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 16, maxRecvWr: 16, sqSigAll: true };
  const connection = yield* connect(device, { to: "b", service: SERVICE, qp });
  assert(!refused(connection));
  const { buffer: bytes, byteOffset } = connection.privateData;
  const place = new DataView(bytes, byteOffset);
  const remote = (at: number) => ({
    va: Number(place.getBigUint64(0)) + at,
    rkey: place.getUint32(8),
  });
  for (const { at, length, verify } of writes) {
    const sges = [sge(mr, at, length)];
    const request = { opcode: "write-verify", sges, remote: remote(at), verify } as const;
    must(yield* postSend(connection.qp, request));
    completions.push(...(yield* waitCompletion(cq)));
  }
  const sges = [sge(mr, LAST_WORD, 8)];
  must(yield* postSend(connection.qp, { opcode: "write", sges, remote: remote(LAST_WORD) }));
  assert.equal((yield* waitCompletion(cq))[0]?.status, "SUCCESS");
}

function byteAt(i: number): number {
  return (i * 7 + (i >> 8)) % 255 + 1;
}

/** @returns what each write completed with, and `b`'s memory behind the last. */
function run(
  topology: "star" | "direct",
  writes: readonly Write[],
): { completions: WorkCompletion[]; memory: Uint8Array } {
  const completions: WorkCompletion[] = [];
  const memory = { bytes: new Uint8Array(0) };
  const left: Program = (context) => write(context, writes, completions);
  const right: Program = (context) => offer(context, memory);
  const programs = { "./left.ts": left, "./right.ts": right };
  const rack = new SimulatedRack(scenario(topology), { programs }).run(1e11);
  assert.deepEqual(rack.reported("program-failed"), []);
  assert.equal(memory.bytes.length, REGION_BYTES, "the programs have not come to their end");
  return { completions, memory: memory.bytes };
}

function isWritten(memory: Uint8Array, { at, length }: Write): boolean {
  return memory.subarray(at, at + length).every((byte, i) => byte === byteAt(at + i));
}

const CHECKS = {
  "none": [],
  "check": ["crc-before"],
  "verify": ["crc-before", "compared"],
  "verify-crc": ["crc-before", "crc-after"],
  "read-back": ["compared"],
  "crc-after": ["crc-after"],
} as const;

describe("verified writes by verbs", () => {
  for (const topology of ["star", "direct"] as const) {
    it(`V-01, V-04, V-07: ${topology}: each level says what it has checked`, () => {
      const writes = VERIFY_LEVELS.flatMap((level, i) =>
        [1, 4096, 10_000].map((length, j): Write => ({
          at: 14_336 * i + [0, 64, 4160][j]!,
          length,
          verify: { level },
        }))
      );
      const { completions, memory } = run(topology, writes);
      assert.deepEqual(
        completions.map(({ opcode, status, verify }) => ({ opcode, status, verify })),
        writes.map(({ verify: { level } }) => ({
          opcode: "write-verify",
          status: "SUCCESS",
          verify: { status: "written", checks: CHECKS[level] },
        })),
      );
      for (const each of writes) assert.ok(isWritten(memory, each));
    });
  }

  it("V-01, V-02: a CRC that does not fit is told, nothing is written, the connection goes on", () => {
    const bad: Write = { at: 0, length: 5000, verify: { level: "check", crc: 0xbad } };
    const good: Write = { at: 8192, length: 5000, verify: { level: "check" } };
    const { completions, memory } = run("star", [bad, good]);
    assert.deepEqual(completions.map(({ status, verify }) => [status, verify?.status]), [
      ["VERIFY_ERR", "crc-mismatch"],
      ["SUCCESS", "written"],
    ]);
    assert.ok(memory.subarray(0, 5000).every((byte) => byte === 0));
    assert.ok(isWritten(memory, good));
  });
});
