/**
 * The card's port to the coherent bus (C-01, decisions 4 and 5): DMA in lines. Reads are `RdCur`. A write asks for
 * ownership of its lines at once, in parallel with others; the bytes leave in the order of the writes, each when
 * its lines are owned, and the agent puts them where the flow bit says. No data stays in the card.
 *
 * The bus orders nothing, so the card waits: a read for a peer, an LSB read (P-24) and the messages of
 * `sendBehindWrites` go out when all earlier writes are complete; a read of the card's own, when no write of the
 * same lines is under way.
 *
 * A line that a later write needs too is kept (`WbMtoE`), so that neighbouring writes do not ask twice; not while
 * others wait for credits, as the first of them might wait for this line's.
 */
import { assert, fail } from "../../../fabric/base/assert.ts";
import { PORTS } from "../../../fabric/node.ts";
import { NEVER, type Time, transferTime } from "../../../fabric/base/time.ts";
import { FLIT_BYTES } from "../../../fabric/wire/host_bus/flit.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import {
  type CoherentMessage,
  type LineAnswer,
  type LineData,
  linesOf,
  RUN_BYTES,
  writeFlits,
} from "../../../fabric/wire/host_bus/coherent.ts";
import type { Completion } from "../../../fabric/wire/host_bus/pcie.ts";
import { noteInJournal } from "./journal.ts";
import { changeOf, isShared, noteDropped, runLineWrite, untilShared } from "./region_lines.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import type { AtomicTurn } from "../state/responder_state.ts";
import type { Device } from "../state/device.ts";
import type { JournalWrite, ReadRequest } from "../state/dma_state.ts";
import type {
  CoherentPort,
  LineAsk,
  LineTask,
  PortLine,
  PortWrite,
} from "../state/coherent_port_state.ts";

const NOTHING = new Uint8Array(0);

/** @returns when the bus will have taken it, as far as the port can tell. */
export function writeLines(
  device: Device,
  port: CoherentPort,
  write: {
    readonly address: number;
    readonly data: Uint8Array<ArrayBuffer>;
    readonly toMemory: boolean;
    /**
     * Journal entry of a persistent write; `new`: one for each part. A line of a shared region is a
     * part, as it completes by itself and may be stored into anew while later lines wait.
     */
    readonly entry: JournalWrite | "new" | undefined;
  },
): Time {
  const { address, data, toMemory } = write;
  const departAt = device.stageAt + device.timing.convertPs;
  for (let done = 0; done < data.length;) {
    const length = untilShared(port, address + done, data.length - done);
    const part = { address: address + done, data: piece(data, done, length) };
    const entry = write.entry === "new"
      ? noteInJournal(device, { kind: "memory-write", ...part, noSnoop: toMemory }, NEVER)
      : write.entry;
    writePart(device, port, { ...part, toMemory, departAt, entry });
    done += length;
  }
  giveCredits(device, port);
  pushOwned(device, port);
  const freeAt = Math.max(device.dma.busFreeAt, departAt);
  device.dma.busFreeAt = Math.max(freeAt, departAt + queuePs(port));
  return device.dma.busFreeAt;
}

function writePart(
  device: Device,
  port: CoherentPort,
  part: {
    readonly address: number;
    readonly data: Uint8Array<ArrayBuffer>;
    readonly toMemory: boolean;
    readonly departAt: Time;
    readonly entry: JournalWrite | undefined;
  },
): void {
  const { data, toMemory, departAt, entry } = part;
  // Before the card knows its regions (a journal is replayed) no line is lent.
  const isLine = device.coherence?.home !== undefined && isShared(port, part.address);
  for (let done = 0; done < data.length;) {
    const address = part.address + done;
    const length = Math.min(pieceBytes(port, address), data.length - done);
    const bytes = piece(data, done, length);
    done += length;
    const write: PortWrite = {
      number: port.asked++,
      address,
      data: bytes,
      toMemory,
      wireBytes: FLIT_BYTES * writeFlits(address, length),
      takenAt: device.now,
      entry: done === data.length ? entry : undefined,
      task: isLine
        ? newTask({ kind: "write", address, length, change: changeOf(address, bytes) })
        : undefined,
    };
    port.writes.push(write);
    port.queuedBytes += write.wireBytes;
    if (write.task === undefined) askFor(port, write, departAt);
  }
}

function piece(
  data: Uint8Array<ArrayBuffer>,
  from: number,
  length: number,
): Uint8Array<ArrayBuffer> {
  return length === data.length ? data : data.subarray(from, from + length);
}

function pieceBytes({ runLines }: CoherentPort, address: number): number {
  const toRun = RUN_BYTES - address % RUN_BYTES;
  return Math.min(toRun, runLines * LINE_BYTES - address % LINE_BYTES);
}

function queuePs({ queuedBytes, bitsPerSecond }: CoherentPort): Time {
  return transferTime(queuedBytes, bitsPerSecond);
}

function askFor(port: CoherentPort, { number, address, data }: PortWrite, departAt: Time): void {
  const first = address - address % LINE_BYTES;
  const count = linesOf(address, data.length);
  let from = 0;
  for (let i = 0; i <= count; i++) {
    const isNew = i < count && useLine(port, first + i * LINE_BYTES);
    if (isNew) continue;
    if (i > from) {
      const lines = { address: first + from * LINE_BYTES, lines: i - from };
      port.asking.push({ write: number, ...lines, departAt });
    }
    from = i + 1;
  }
}

function useLine({ lines }: CoherentPort, address: number): boolean {
  const line = lines.get(address);
  if (line === undefined) {
    lines.set(address, { state: "asked", users: 1, away: 0 });
    return true;
  }
  line.users++;
  if (line.state !== "none") return false;
  line.state = "asked";
  return true;
}

function giveCredits(device: Device, port: CoherentPort): void {
  const { asking } = port;
  let taken = 0;
  for (const { address, lines, departAt } of asking) {
    if (lines > port.writeCredits) break;
    taken++;
    port.writeCredits -= lines;
    port.counters.busLinesOwned += lines;
    const tag = port.counters.busLinesOwned;
    const message = { kind: "coherent", op: "InvItoE", tag, address, lines } as const;
    device.out.send(PORTS.rnicBus, message, Math.max(departAt, device.stageAt));
  }
  if (taken > 0) asking.splice(0, taken);
  if (asking.length > 0) port.counters.busCreditWaits++;
}

function pushOwned(device: Device, port: CoherentPort): void {
  let freeAt = -1;
  for (let write = port.writes.peek(); write !== undefined; write = port.writes.peek()) {
    const isLine = write.task !== undefined;
    if (!(isLine ? runLineWrite(device, port, write) : isOwned(port, write))) break;
    port.writes.shift();
    port.queuedBytes -= write.wireBytes;
    if (isLine) {
      if (write.entry !== undefined) write.entry.arrivesAt = device.now;
      port.done++;
      release(device, port);
      continue;
    }
    freeAt = push(device, port, write);
    const { entry } = write;
    if (entry !== undefined) entry.arrivesAt = freeAt + device.journal!.busLatencyPs;
  }
  if (freeAt >= 0) device.dma.busFreeAt = freeAt + queuePs(port);
}

function isOwned({ lines }: CoherentPort, { address, data }: PortWrite): boolean {
  const end = address + data.length;
  for (let at = address - address % LINE_BYTES; at < end; at += LINE_BYTES) {
    if (lineAt(lines, at).state !== "owned") return false;
  }
  return true;
}

function lineAt(lines: ReadonlyMap<number, PortLine>, address: number): PortLine {
  return lines.get(address) ?? fail(`The port has no line 0x${address.toString(16)}`);
}

/**
 * Sends one message for consecutive lines with the same fate, kept or given back. @returns when the
 * bus is free.
 */
function push(device: Device, port: CoherentPort, write: PortWrite): Time {
  const { address, data, toMemory, number, takenAt } = write;
  const mayKeep = port.asking.length === 0;
  const end = address + data.length;
  let from = address, keeps = false, freeAt: Time = 0;
  for (let at = address - address % LINE_BYTES;; at += LINE_BYTES) {
    const isEnd = at >= end;
    const isKept = !isEnd && leave(port, { at, mayKeep, number }, device.stageAt);
    if (at > from && (isEnd || isKept !== keeps)) {
      const until = Math.min(at, end);
      const bytes = from === address && until === end
        ? data
        : data.subarray(from - address, until - address);
      const op = keeps ? "WbMtoE" : "WbMtoI";
      const lines = linesOf(from, bytes.length);
      port.counters.busLinesWritten += lines;
      if (keeps) port.counters.busLinesKept += lines;
      const first = from - from % LINE_BYTES;
      port.away.push({ address: first, lines, keeps, isLast: isEnd });
      const place = { tag: number, address: from, data: bytes, toMemory, takenAt };
      const message = { kind: "coherent", op, ...place } as const;
      freeAt = device.out.send(PORTS.rnicBus, message, device.stageAt);
      from = at;
    }
    if (isEnd) return freeAt;
    keeps = isKept;
  }
}

function leave(
  port: CoherentPort,
  { at, mayKeep, number }: {
    readonly at: number;
    readonly mayKeep: boolean;
    readonly number: number;
  },
  departAt: Time,
): boolean {
  const line = lineAt(port.lines, at);
  line.users--;
  line.away++;
  if (line.users === 0 || !mayKeep) line.state = "none";
  if (line.users > 0 && line.state === "none") askAgain(port, { at, number }, departAt);
  return line.state === "owned";
}

function askAgain(
  port: CoherentPort,
  { at, number }: { readonly at: number; readonly number: number },
  departAt: Time,
): void {
  const { writes, asking, lines } = port;
  lineAt(lines, at).state = "asked";
  let write = number + 1;
  for (let i = writes.first; i < writes.end; i++) {
    const { address, data, number } = writes.at(i)!;
    if (number <= write - 1 || address >= at + LINE_BYTES || address + data.length <= at) continue;
    write = number;
    break;
  }
  const ask: LineAsk = { write, address: at, lines: 1, departAt };
  const place = asking.findIndex((other) => other.write > write);
  asking.splice(place < 0 ? asking.length : place, 0, ask);
}

function isUnderWay({ lines }: CoherentPort, address: number, length: number): boolean {
  if (lines.size === 0) return false;
  for (let at = address - address % LINE_BYTES; at < address + length; at += LINE_BYTES) {
    if (lines.has(at)) return true;
  }
  return false;
}

export function readLines(
  device: Device,
  port: CoherentPort,
  read: {
    readonly tag: number;
    readonly request: ReadRequest;
    readonly departAt: Time;
    /** A peer may rely on the order of READs behind WRITEs (P-03). */
    readonly isForPeer: boolean;
  },
): void {
  const { tag, request, departAt, isForPeer } = read;
  const { done, asked } = port;
  const mustWait = done < asked &&
    (isForPeer || isShared(port, request.address) ||
      isUnderWay(port, request.address, request.length));
  if (!mustWait) return issueRead(device, port, { tag, request, departAt });
  port.counters.busHeld++;
  port.held.push({ after: asked, departAt, what: { kind: "read", tag, request } });
}

function issueRead(
  device: Device,
  port: CoherentPort,
  { tag, request, departAt }: {
    readonly tag: number;
    readonly request: ReadRequest;
    readonly departAt: Time;
  },
): void {
  const { address, length, medium = false, tracked = false, continuation } = request;
  if (continuation.kind === "lsb") return port.finished.push(tag);
  const first = address - address % LINE_BYTES, end = address + length;
  const left = linesOf(address, length);
  port.reads.set(tag, { address, length, data: undefined, failed: false, left });
  const op = tracked ? "RdCode" : "RdCur";
  for (let at = first; at < end;) {
    // A look at the medium's cells has had the line brought there (V-03).
    if (!medium && isShared(port, at)) {
      port.readCredits--;
      const start = Math.max(at, address), next = at + LINE_BYTES;
      const range = { address: start, length: Math.min(next, end) - start };
      device.up.accessLine(device, port, newTask({ kind: "read", ...range, tag }));
      at = next;
      continue;
    }
    const most = untilShared(port, at, Math.min(pieceBytes(port, at), end - at));
    const lines = Math.max(
      1,
      Math.min(Math.floor(pieceBytes(port, at) / LINE_BYTES), linesOf(at, most)),
    );
    port.parts.push({
      op,
      tag,
      address: at,
      lines,
      medium,
      departAt: departAt + device.timing.convertPs,
    });
    at += lines * LINE_BYTES;
  }
  sendParts(device, port);
}

function sendParts(device: Device, port: CoherentPort): void {
  const { parts, counters } = port;
  for (let part = parts.peek(); part !== undefined; part = parts.peek()) {
    if (part.lines > port.readCredits) {
      counters.busCreditWaits++;
      return;
    }
    parts.shift();
    port.readCredits -= part.lines;
    counters.busLinesRead += part.lines;
    const { departAt, medium, ...request } = part;
    const message = { kind: "coherent", ...request, ...(medium && { medium }) } as CoherentMessage;
    device.out.send(PORTS.rnicBus, message, Math.max(departAt, device.stageAt));
  }
}

/** @returns a read that ends with it. */
export function takeLineAnswer(
  device: Device,
  port: CoherentPort,
  answer: LineAnswer,
): Completion | undefined {
  const { op, tag, address, lines } = answer;
  switch (op) {
    case "GntE":
      for (let i = 0; i < lines; i++) lineAt(port.lines, address + i * LINE_BYTES).state = "owned";
      pushOwned(device, port);
      return undefined;
    case "Cmp":
      completePush(device, port, answer);
      return undefined;
    case "FailedCmp":
      return takePart(device, port, { tag, lines, data: undefined, address });
    case "RspI":
      return undefined;
  }
}

function completePush(device: Device, port: CoherentPort, { address }: LineAnswer): void {
  const pushed = port.away.shift();
  assert(pushed?.address === address, "The bus completes a write out of order");
  const { lines, keeps, isLast } = pushed!;
  for (let i = 0; i < lines; i++) {
    const at = address + i * LINE_BYTES;
    const line = lineAt(port.lines, at);
    line.away--;
    if (line.users === 0 && line.away === 0) port.lines.delete(at);
  }
  if (!keeps) port.writeCredits += lines;
  giveCredits(device, port);
  if (!isLast) return;
  port.done++;
  release(device, port);
  // A line of a shared region begins when all writes before it are complete.
  if (port.away.length === 0) pushOwned(device, port);
}

function release(device: Device, port: CoherentPort): void {
  const { held, done } = port;
  for (let next = held.peek(); next !== undefined && next.after <= done; next = held.peek()) {
    held.shift();
    const { what } = next;
    const departAt = Math.max(next.departAt, device.stageAt);
    if (what.kind === "read") issueRead(device, port, { ...what, departAt });
    else device.out.send(PORTS.rnicBus, what.message, departAt);
  }
}

/** @returns the read, where they are its last. */
export function takeLineData(
  device: Device,
  port: CoherentPort,
  { tag, address, data }: LineData,
): Completion | undefined {
  return takePart(device, port, { tag, address, data, lines: data.length / LINE_BYTES });
}

function takePart(
  device: Device,
  port: CoherentPort,
  part: {
    readonly tag: number;
    readonly address: number;
    readonly lines: number;
    readonly data: Uint8Array<ArrayBuffer> | undefined;
  },
): Completion | undefined {
  const { tag, address, lines, data } = part;
  port.readCredits += lines;
  sendParts(device, port);
  const read = port.reads.get(tag);
  if (read === undefined) return undefined;
  read.left -= lines;
  if (data === undefined) read.failed = true;
  else {
    const from = Math.max(address, read.address);
    const to = Math.min(address + data.length, read.address + read.length);
    const bytes = data.subarray(from - address, to - address);
    if (bytes.length === read.length) read.data = bytes;
    else (read.data ??= new Uint8Array(read.length)).set(bytes, from - read.address);
  }
  if (read.left > 0) return undefined;
  port.reads.delete(tag);
  const status = read.failed ? "unsupported-request" : "success";
  return { kind: "completion", tag, status, data: read.failed ? NOTHING : read.data! };
}

export function queueAtomic(
  device: Device,
  port: CoherentPort,
  atomic: { readonly address: number; readonly change: LineChange; readonly turn: AtomicTurn },
): void {
  const { address } = atomic;
  const task = newTask({ kind: "atomic", length: ATOMIC_BYTES, ...atomic });
  const nothing = { data: NOTHING, toMemory: true, wireBytes: 0, entry: undefined };
  port.writes.push({ number: port.asked++, address, ...nothing, takenAt: device.now, task });
  pushOwned(device, port);
}

function newTask<
  Given extends
    | Pick<Extract<LineTask, { kind: "read" }>, "kind" | "address" | "length" | "tag">
    | Pick<Extract<LineTask, { kind: "write" }>, "kind" | "address" | "length" | "change">
    | Pick<
      Extract<LineTask, { kind: "atomic" }>,
      "kind" | "address" | "length" | "change" | "turn"
    >,
>(given: Given): LineTask {
  return { ...given, state: "waits", answer: undefined, isGood: false } as LineTask;
}

/** @returns a read that ends with it, an executed atomic, or neither. */
export function takeEnded(
  device: Device,
  port: CoherentPort,
): { readonly completion?: Completion | undefined; readonly atomic?: LineTask } | undefined {
  const task = port.ended.shift();
  if (task === undefined) return undefined;
  task.state = "over";
  if (task.kind === "read") {
    const { tag, answer: data } = task;
    const address = task.address - task.address % LINE_BYTES;
    return { completion: takePart(device, port, { tag, address, data, lines: 1 }) };
  }
  if (!task.isGood) device.counters.dmaErrors++;
  noteDropped(port, task);
  pushOwned(device, port);
  return task.kind === "atomic" ? { atomic: task } : {};
}

/** The read ends with data that has no meaning (P-24). */
export function takeFinished({ dma, port }: Device): Completion | undefined {
  const tag = port?.finished.shift();
  if (tag === undefined) return undefined;
  const data = new Uint8Array(dma.outstanding[tag]!.length);
  return { kind: "completion", tag, status: "success", data };
}
