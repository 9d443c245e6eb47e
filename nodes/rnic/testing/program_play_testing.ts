/**
 * Plays a program that is laid out (`program_rig_testing.ts`): posts work and receives at the hosts'
 * leisure, lets the CPUs of flow 2 flush, and collects what came of it.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Cqe } from "../../../fabric/wire/host_bus/cqe.ts";
import {
  decodePersistRanges,
  PERSIST_RANGE_BYTES,
} from "../../../fabric/wire/host_bus/persist_ranges.ts";
import type { SendWqe, Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { postShared } from "./objects_testing.ts";
import type { End, Flushed, Run, RunLine } from "./program_rig_testing.ts";
import {
  isAnswered,
  isKept,
  isPersistentWrite,
  type Op,
  packetsOfOp,
  type Program,
  slotBytes,
} from "./program_testing.ts";
import type { RigMr } from "./rig_parts_testing.ts";
import { wordOf } from "../state/memory.ts";

/** Longest virtual time that a program may take: far beyond all retries. */
const TIME_MAX: Time = 50_000_000_000;

/** Plays the program to the point where nothing will happen any more. */
export function play(run: Run): void {
  const { rig, rng, lines, ends } = run;
  const start = rig.now;
  for (;;) {
    for (const line of lines) if (rng.below(3) === 0) postSome(run, line);
    for (const end of ends) {
      for (let i = rng.below(4); i > 0 && end.posted < end.needed; i--) postRecv(run, end);
    }
    const isPosted = lines.every(({ posted, ops }) => posted === ops.length) &&
      ends.every(({ posted, needed }) => posted === needed);
    rig.runFor(isPosted ? 8_000_000 : rng.below(8) * 500_000);
    const isIdle = !collect(run);
    if (isPosted && isIdle && rig.isQuiet) return;
    assert(rig.now - start < TIME_MAX, "The program does not come to an end");
  }
}

function postSome(run: Run, line: RunLine): void {
  const { rig, rng } = run;
  const count = Math.min(line.ops.length - line.posted, 1 + rng.below(4));
  for (let i = 0; i < count; i++) postOp(run, line);
  if (count > 0) rig.ring(line.side, line.qp.sq, rng.below(2) === 0 ? "pointer" : "number");
}

function postOp({ rig, program }: Run, line: RunLine): void {
  const index = line.posted++;
  const op = line.ops[index]!;
  const { verb, length, operand, fence, signaled, solicited } = op;
  const place = placeOf(program, line, index);
  const key = place.mr.key;
  const remote = { va: BigInt(place.mr.va + place.at), rkey: key };
  const local = { address: line.source.va + index * slotBytes(program), length };
  const bytes = rig.bytes(line.side, line.source, index * slotBytes(program), length);
  const isSend = verb.startsWith("send");
  const wqe: Partial<SendWqe> & Pick<SendWqe, "opcode"> = {
    opcode: verb,
    fence,
    signaled,
    solicited,
    immediate: line.windows.get(index) ?? op.immediate,
    ...(!isSend && { remote }),
    ...(verb === "flush"
      ? { flush: { select: op.select, placement: op.placement, length } }
      : verb === "atomic-write"
      ? { inline: wordOf(operand) }
      : op.inline
      ? { inline: new Uint8Array(bytes) }
      : { sges: split({ ...local, lkey: line.source.key }, op.pieces) }),
    ...(verb === "write-verify" && { verify: { level: op.level, persist: op.persist } }),
    ...((verb === "fetch-add" || verb === "compare-swap") &&
      // What is compared with is right about every other time.
      { atomic: { swapAdd: operand, compare: operand - 1n } }),
  };
  line.positions.set(rig.enqueueSend(line.side, line.qp, wqe), index);
}

/** The op's remote memory. */
export function placeOf(
  program: Program,
  line: RunLine,
  index: number,
): { readonly mr: RigMr; readonly at: number } {
  const op = line.ops[index]!;
  if (isKept(op)) return { mr: line.kept, at: index * slotBytes(program) };
  if (op.verb === "write-persist-address") return { mr: line.scm, at: index * slotBytes(program) };
  return { mr: op.shared ? line.shared : line.area, at: op.at };
}

/** The same memory in several elements, some of them empty. */
function split(whole: Sge, pieces: number): Sge[] {
  const sges: Sge[] = [];
  let left = whole;
  for (let i = pieces; i > 1; i--) {
    const length = Math.floor(left.length / i);
    sges.push({ ...left, length });
    left = { ...left, address: left.address + length, length: left.length - length };
  }
  return [...sges, left];
}

function postRecv(run: Run, end: End): void {
  const { rig, rng, program } = run;
  const inbox = run.inboxes.get(end)!;
  const length = slotBytes(program);
  const address = inbox.mr.va + inbox.next * length;
  const sges = split({ address, length, lkey: inbox.mr.key }, 1 + rng.below(2));
  const bell = rng.below(2) === 0 ? "none" : "pointer";
  const slot = inbox.next++;
  end.posted++;
  if (end.srq !== undefined) {
    return postShared(rig, end.side, { srq: end.srq, slot, sges, bell: bell === "pointer" });
  }
  const index = rig.recv(end.side, end.qp, sges, bell);
  assert(index === slot, "The n-th receive lands in the n-th slot");
}

/** Takes all completions. @returns whether there was any. */
function collect(run: Run): boolean {
  const { rig, ends } = run;
  let any = false;
  for (const end of ends) {
    for (const cqe of rig.poll(end.side, end.qp.sendCq)) {
      any = true;
      if (cqe.opcode.startsWith("requester")) takeSend(run, end, cqe);
      else takeRecv(run, end, cqe);
    }
  }
  return any;
}

function takeSend(run: Run, end: End, cqe: Cqe): void {
  const line = run.lines.find(({ qp }) => qp === end.qp);
  const op = line?.positions.get(cqe.wqeIndex);
  if (op !== undefined) line!.completions.push({ op, cqe });
  // A CPU's own work fails with its queue pair, and only then.
  else if (cqe.status !== "WR_FLUSH_ERR") run.strays.push(cqe);
}

function takeRecv(run: Run, end: End, cqe: Cqe): void {
  const { rig, program, inboxes } = run;
  end.recvs.push(cqe);
  if (cqe.opcode === "responder-error") {
    if (cqe.status !== "WR_FLUSH_ERR") run.strays.push(cqe);
    return;
  }
  if (cqe.opcode !== "recv-persistence") {
    const { mr } = inboxes.get(end)!;
    const length = cqe.opcode === "recv-write-immediate" ? 0 : cqe.byteCount;
    const data = rig.bytes(end.side, mr, cqe.wqeIndex * slotBytes(program), length);
    end.messages.push({ cqe, data });
    return;
  }
  const isConfirmed = run.lines.some(({ qp, ops, firstPsns }) =>
    program.policy === "reception" && qp === end.qp &&
    ops.some((op, i) => isPersistentWrite(op) && lastPsn(op, firstPsns[i]!) === cqe.psn)
  );
  if (isConfirmed) {
    end.confirmed.push(cqe);
    return;
  }
  end.told.push(cqe);
  end.flushed.set(cqe.psn, toldRanges(run, end, cqe));
  rig.enqueueSend(end.side, end.qp, {
    opcode: "persistence-ack",
    immediate: cqe.psn,
    signaled: false,
  });
  rig.ring(end.side, end.qp.sq);

  function lastPsn(op: Op, first: number): number {
    return (first + packetsOfOp(op, program.pathMtu) - 1) & 0xff_ffff;
  }
}

/** What a CPU flushes for a RECV that persistence has consumed: nothing beside (P-26, P-31). */
function toldRanges({ rig, program, inboxes }: Run, end: End, cqe: Cqe): Flushed[] {
  const { va, byteCount, immediate: more, wqeIndex } = cqe;
  const { mr } = inboxes.get(end)!;
  const told = rig.bytes(
    end.side,
    mr,
    wqeIndex * slotBytes(program),
    more * PERSIST_RANGE_BYTES,
  );
  const others = decodePersistRanges(told).map((range) => {
    return { va: Number(range.va), length: Number(range.length) };
  });
  return [...others, { va: Number(va), length: byteCount }];
}

/** What landed in the requester's memory for an op that is answered. */
export function answerOf(run: Run, line: RunLine, index: number): Uint8Array {
  const op = line.ops[index]!;
  const length = isAnswered(op) ? op.length : 0;
  return run.rig.bytes(line.side, line.source, index * slotBytes(run.program), length);
}
