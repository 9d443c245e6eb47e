/**
 * Looks at every frame of a program's run: what says "persistent" must be deserved. What a persistence
 * ACK of flow 2 covers is looked at byte by byte (P-31): all that its queue pair's peer has written up to
 * its message, by whichever operation, has been flushed by the CPU after it was written.
 */
import assert from "node:assert/strict";
import { FLUSH_PLACEMENT } from "../../../fabric/wire/roce/feth.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { packetOf } from "./pair_testing.ts";
import { effectsOf } from "./program_check_testing.ts";
import { placeOf } from "./program_play_testing.ts";
import type { Run, RunLine } from "./program_rig_testing.ts";
import {
  isMessage,
  isPersistentWrite,
  packetsOfOp,
  slotBytes,
  tellsCpu,
} from "./program_testing.ts";
import { saysPersisted } from "./program_verify_testing.ts";
import type { Rig } from "./rnic_testing.ts";

/** A CPU cannot flush less. */
const LINE_BYTES = 64;

interface Written {
  readonly op: number;
  readonly va: number;
  readonly length: number;
}

/** The persistence ACK of the line's op `index` is on the wire. */
export function checkFlushed(run: Run, line: RunLine, index: number): void {
  const flushes = flushesOf(run, line);
  for (const { op, va, length } of writtenBy(run, line, index)) {
    // A flush that was asked for before the write came is none of it.
    const later = flushes.filter((flush) => flush.op >= op);
    for (let at = va; at < va + length; at++) {
      const isFlushed = later.some((flush) => at >= flush.va && at < flush.va + flush.length);
      if (isFlushed) continue;
      assert.fail(
        `P-31, seed ${run.program.seed}, line ${line.number}: op ${index} is said to be persistent, ` +
          `byte ${at - va} of op ${op} (${line.ops[op]!.verb}) is not flushed`,
      );
    }
  }
}

/** The lines that the peer's CPU has flushed so far, with the op that it was asked for by. */
function flushesOf({ program }: Run, line: RunLine): Written[] {
  return line.ops.flatMap((op, i) => {
    const last = (line.firstPsns[i]! + packetsOfOp(op, program.pathMtu) - 1) & 0xff_ffff;
    const ranges = line.target.flushed.get(last) ?? [];
    return ranges.filter(({ length }) => length > 0).map(({ va, length }) => {
      const start = va - va % LINE_BYTES;
      const lines = Math.ceil((va + length - start) / LINE_BYTES);
      return { op: i, va: start, length: lines * LINE_BYTES };
    });
  });
}

/** What the line's ops up to `index` have written into the peer's memory. */
function writtenBy(run: Run, line: RunLine, index: number): Written[] {
  const inbox = run.inboxes.get(line.target)!.mr;
  const slot = slotBytes(run.program);
  const written: Written[] = effectsOf(run, line)
    .filter(({ op }) => op <= index)
    .map(({ op, memory, at, data }) => ({ op, va: line[memory].va + at, length: data.length }));
  line.ops.slice(0, index).forEach((op, i) => {
    if (op.shared) written.push({ op: i, va: line.shared.va + op.at, length: 8 });
  });
  const messages = line.ops.flatMap((op, i) => isMessage(op) ? [i] : []);
  line.target.messages.forEach(({ cqe, data }, k) => {
    const op = messages[k]!;
    if (op > index) return;
    written.push({ op, va: inbox.va + cqe.wqeIndex * slot, length: data.length });
  });
  return written;
}

/**
 * Looks at every frame: what says "persistent" must be deserved. In flow 2 the CPU has said so (P-26,
 * P-30), in flow 1 nothing of it waits in the IIO any more (P-24).
 */
export function watchPersistence(
  run: Run,
): (from: "a" | "b", bytes: Uint8Array<ArrayBuffer>) => void {
  const ops = new Map<string, { readonly line: RunLine; readonly index: number }>();
  for (const line of run.lines) {
    line.ops.forEach((op, index) => {
      const last = line.firstPsns[index]! + packetsOfOp(op, run.program.pathMtu) - 1;
      ops.set(`${line.side.name}/${line.qp.qpn}/${last & 0xff_ffff}`, { line, index });
    });
  }
  return (from, bytes) => {
    const code = bytes[42];
    const isAck = code === OPCODE["VENDOR PERSISTENCE ACKNOWLEDGE"];
    if (!isAck && code !== OPCODE["RC RDMA READ RESPONSE ONLY"]) return;
    const { bth, payload } = packetOf(bytes);
    const found = ops.get(`${from === "a" ? "b" : "a"}/${bth.destQpn}/${bth.psn}`);
    assert.ok(found !== undefined, `Nothing was sent with PSN ${bth.psn}`);
    const { line, index } = found;
    const op = line.ops[index]!;
    const isVerified = !isAck && saysPersisted(op, payload);
    if (!isAck && !isVerified && (op.verb !== "flush" || !tellsCpu(op))) return;
    const isPlaced = isVerified || (op.placement & FLUSH_PLACEMENT.persistence) !== 0;
    assert.ok(isAck ? isPersistentWrite(op) : isPlaced);
    const { name, host } = line.peer;
    if (run.program.flow[name] === 2) {
      assert.ok(line.target.flushed.has(bth.psn), `P-30: PSN ${bth.psn} is told, not flushed`);
      if (isAck || isVerified) checkFlushed(run, line, index);
    } else if (isAck || isVerified) {
      const { mr, at } = placeOf(run.program, line, index);
      const start = mr.address + at, end = start + op.length;
      const waits = host.buffered.some(({ address, length }) =>
        address < end && start < address + length
      );
      assert.ok(!waits, `P-24: PSN ${bth.psn} is told, its data is in the IIO`);
    }
  };
}

export type Fault = NonNullable<Rig["fate"]>;

/** Puts faults on the wire of a run, under the eyes of {@link watchPersistence}. */
export function withFaults(run: Run, fault: Fault): void {
  const watch = watchPersistence(run);
  const { framesSent: a } = run.rig.a, { framesSent: b } = run.rig.b;
  run.rig.fate = (from, frame, count) => {
    watch(from, frame.bytes);
    return fault(from, frame, count - (from === "a" ? a : b));
  };
}
