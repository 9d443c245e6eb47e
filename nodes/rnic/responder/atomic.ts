/**
 * Atomics of a responder: COMPARE & SWAP, FETCH & ADD, and the ATOMIC WRITE of the memory placement extensions
 * (P-50). Each takes effect when it stands first among the queue pair's answers, and holds its eight bytes until it
 * is done: the card reads, computes and writes them by DMA, and any other atomic of this RNIC on the same word
 * waits. What it does to the word is a row, {@link AtomicRule}. Cores of the host are not held back (IBV_ATOMIC_HCA). Where a hint has announced the atomic, its word may
 * be on the chip already (`hints/words.ts`).
 */
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { viewOf } from "../../../fabric/base/slab.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { queueAtomic } from "../dma/coherent_port.ts";
import { changeOf, isShared } from "../dma/region_lines.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { Device } from "../state/device.ts";
import { acceptRequest, countPending, rememberResource } from "../state/responder_changes.ts";
import { dmaRead, dmaWrite } from "../dma/dma.ts";
import { readWord } from "../hints/preload.ts";
import { compareOperands, forgetWord } from "../hints/words.ts";
import type { Word } from "../hints/state/hint_state.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { rights } from "../state/life_cycle.ts";
import { hostAddress } from "../dma/memory_window.ts";
import { noteWrittenAt } from "../persistence/pm_ranges.ts";
import { psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { answerAgain, answerSingle, passAnswers } from "../answers/answers.ts";
import { tellPlaced, trace } from "../trace/trace.ts";
import {
  type AtomicTurn,
  createService,
  type RequestIn,
  type SingleService,
  type Verdict,
} from "../state/responder_state.ts";
import { physicalAddress } from "../dma/translation.ts";
import { writesNoSnoop } from "../dma/place_payload.ts";
import { remoteRegion } from "../dma/memory_region.ts";
import { awaitAccess } from "../paging/access.ts";
import { isWaiting } from "../paging/memory_waits.ts";
import { wordOf } from "../state/memory.ts";
import {
  type AtomicRule,
  type AtomicTask,
  type AtomicWord,
  countEffect,
  needOf,
} from "../state/operation.ts";

export const FETCH_ADD: AtomicRule = {
  reads: true,
  compares: false,
  // Sums wrap (§1.3: 64 bits).
  compute: ({ swapAdd }, original) => BigInt.asUintN(64, original + swapAdd),
  change: ({ address, swapAdd }) => (
    { kind: "add", offset: address % LINE_BYTES, operand: swapAdd }
  ),
};

export const COMPARE_SWAP: AtomicRule = {
  reads: true,
  compares: true,
  compute: ({ compare, swapAdd }, original) => original === compare ? swapAdd : undefined,
  change: ({ address, compare, swapAdd }) => (
    { kind: "compare-swap", offset: address % LINE_BYTES, compare, swap: swapAdd }
  ),
};

export const ATOMIC_WRITE: AtomicRule = {
  reads: false,
  compares: false,
  compute: ({ swapAdd }) => swapAdd,
  change: ({ address, swapAdd }) => changeOf(address, wordOf(swapAdd)),
};

/** Checks an atomic request now; it is executed in its turn (§3.4, steps 6 and 7). */
export function executeAtomic(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): Verdict | undefined {
  const { packet, operation } = input;
  const { va, rkey } = packet.atomicEth ?? packet.reth!;
  const need = needOf(input)!;
  const region = remoteRegion(device, qp, { key: rkey, va, length: ATOMIC_BYTES, need });
  if (typeof region !== "object") return region;
  const remoteVa = Number(va), hostVa = hostAddress(region, remoteVa);
  // A zero-based window may begin anywhere: its VA 0 need not be aligned in memory.
  if (remoteVa % ATOMIC_BYTES !== 0 || hostVa % ATOMIC_BYTES !== 0) {
    return NAK_SYNDROMES["invalid-request"];
  }
  const { swapAdd, compare } = packet.atomicEth ??
    { swapAdd: viewOf(packet.payload).getBigUint64(0, true), compare: 0n };
  const task: AtomicTask = {
    rule: operation.atomic!,
    swapAdd,
    compare,
    address: physicalAddress(region, remoteVa),
    persistent: region.persistent,
    va: hostVa,
    remoteVa,
  };
  const { psn } = packet.bth;
  const msn = acceptRequest(qp, psnAdd(psn, 1));
  const { stageAt: readyAt } = device;
  const service = createService(input, { msn, task, region, state: "waiting", readyAt });
  rememberResource(qp, service);
  countPending(qp, "atomics", 1);
  if (device.out.tracing) {
    const text = `${operation.name} at VA 0x${va.toString(16)}`;
    trace(device, qp, { step: "atomic", text, psn, inbound: true });
  }
  answerSingle(device, qp, service);
  return undefined;
}

/**
 * The atomic at the word's present address: the host may have taken the page back since the request came. Undefined
 * while the page is absent, and where the region is gone.
 */
function taskNow(device: Device, qp: QueuePair, service: SingleService): AtomicTask | undefined {
  const { region } = service;
  const task = service.task!;
  if (region?.table.demand === undefined) return task;
  if (isWaiting(device, qp, "atomic")) return undefined;
  if (!region.alive) {
    service.state = "failed";
    return undefined;
  }
  const segments = [{ region, va: task.remoteVa, length: ATOMIC_BYTES }];
  const access = { segments, offset: 0, length: ATOMIC_BYTES, write: true, pagesOnly: true };
  if (!awaitAccess(device, access, { kind: "atomic", qp, psn: service.psn })) return undefined;
  return { ...task, address: physicalAddress(region, task.remoteVa) };
}

/** Its turn among the answers has come: takes the word, or waits for it. */
export function startAtomic(device: Device, qp: QueuePair, service: SingleService): void {
  const task = taskNow(device, qp, service);
  if (task === undefined) return;
  service.state = "running";
  const turn: AtomicTurn = { qp, life: qp.life, service, task };
  const holders = device.atomicWords.get(task.address);
  if (holders !== undefined) {
    device.counters.atomicsHeld++;
    holders.push(turn);
    return;
  }
  const first = new Fifo<AtomicTurn>();
  first.push(turn);
  device.atomicWords.set(task.address, first);
  if (runTurn(device, turn)) release(device, task.address);
}

/**
 * The word is free: an ATOMIC WRITE writes it, the others read it first, unless it is on the chip (H-23).
 * @returns whether it is over.
 */
function runTurn(device: Device, turn: AtomicTurn): boolean {
  const { task } = turn;
  const { port } = device;
  if (port !== undefined && isShared(port, task.address)) {
    if (turn.service.region?.alive === false) {
      turn.service.state = "failed";
      return true;
    }
    queueAtomic(device, port, { address: task.address, change: task.rule.change(task), turn });
    return false;
  }
  if (!task.rule.reads) {
    // One write of eight aligned bytes: no part of the path between host and wire splits it (P-41).
    execute(device, turn, 0n);
    return true;
  }
  const word = wordOnChip(device, task);
  if (word?.state === "here") {
    runOnChip(device, turn, { word, how: "hintWordsUseful" });
    return true;
  }
  if (word !== undefined && word.turn === undefined) {
    word.turn = turn;
    // A read-ahead that waited for this write of the queue pair can begin now.
    if (word.state === "behind") readWord(device, device.hints!, word);
    return false;
  }
  dmaRead(device, {
    address: task.address,
    length: ATOMIC_BYTES,
    continuation: { kind: "atomic", turn },
  });
  return false;
}

/** An atomic on a line of a shared region is done: `line` is the line as it was, undefined where it is lost. */
export function takeSharedWord(
  device: Device,
  turn: AtomicTurn,
  line: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { qp, task, service } = turn;
  if (isWanted(turn)) {
    const offset = task.address % LINE_BYTES;
    if (line === undefined) service.state = "failed";
    else {
      const original = viewOf(line.subarray(offset, offset + ATOMIC_BYTES)).getBigUint64(0, true);
      finish(device, turn, { original, readyAt: device.stageAt });
    }
  }
  release(device, task.address);
  passAnswers(device, qp);
}

function wordOnChip({ hints }: Device, { address }: AtomicWord): Word | undefined {
  return hints?.words.get(address);
}

/** H-23: executed in the RNIC, at once: the word is written by DMA as it is answered. */
function runOnChip(
  device: Device,
  turn: AtomicTurn,
  { word, how }: { readonly word: Word; readonly how: "hintWordsUseful" | "hintWordsLate" },
): void {
  const hints = device.hints!;
  const { qp, service: { psn }, task } = turn;
  compareOperands(hints, word, { qp, psn, task });
  execute(device, turn, word.value);
  hints.wordCounters[how]++;
  word.used = true;
  if (--word.uses <= 0) forgetWord(hints, word);
}

/** A word that was read ahead has come: the atomic that has come meanwhile goes on. */
export function takePreload(
  device: Device,
  word: Word,
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { turn } = word;
  word.turn = undefined;
  if (word.state === "coming") {
    if (data === undefined) forgetWord(device.hints!, word);
    else {
      word.state = "here";
      word.value = viewOf(data).getBigUint64(0, true);
    }
  }
  if (turn === undefined) return;
  if (isWanted(turn)) {
    if (word.state === "here") runOnChip(device, turn, { word, how: "hintWordsLate" });
    // The word has changed since it was read: the card reads it again, as without a hint.
    else if (!runTurn(device, turn)) return;
  }
  release(device, turn.task.address);
  passAnswers(device, turn.qp);
}

/** The word has come: computes and writes it back; the next read of it may follow the write. */
export function takeWord(
  device: Device,
  turn: AtomicTurn,
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { qp, task } = turn;
  if (isWanted(turn)) {
    if (data === undefined) turn.service.state = "failed";
    // The word is in host order: little-endian (§1.3).
    else execute(device, turn, viewOf(data).getBigUint64(0, true));
  }
  release(device, task.address);
  passAnswers(device, qp);
}

function execute(device: Device, turn: AtomicTurn, original: bigint): void {
  if (turn.service.region?.alive === false) {
    turn.service.state = "failed";
    return;
  }
  const { task } = turn;
  const result = task.rule.compute(task, original);
  const readyAt = result === undefined ? device.stageAt : writeWord(device, turn, wordOf(result));
  finish(device, turn, { original, readyAt });
}

function writeWord(
  device: Device,
  { qp, task, service }: AtomicTurn,
  data: Uint8Array<ArrayBuffer>,
): Time {
  const { address, persistent } = task;
  const noSnoop = writesNoSnoop(device, task);
  noteWrittenAt(device, qp, { ...task, length: ATOMIC_BYTES });
  const word = wordOnChip(device, task);
  const keepsWord = word?.state === "here";
  if (keepsWord) word.value = viewOf(data).getBigUint64(0, true);
  tellPlaced(device, { qp, psn: service.psn, inbound: true }, { address, length: ATOMIC_BYTES });
  return dmaWrite(device, { address, data, noSnoop, persistent, keepsWord });
}

function finish(
  device: Device,
  { qp, service }: AtomicTurn,
  result: { readonly original: bigint; readonly readyAt: Time },
): void {
  service.original = result.original;
  service.readyAt = result.readyAt;
  service.state = "done";
  countPending(qp, "atomics", -1);
  countEffect(device, service.operation);
}

/** True if the queue pair is in the life in which the request came: else nothing is executed. */
function isWanted({ qp, life }: AtomicTurn): boolean {
  return life === qp.life && rights(qp.state).takesRequests;
}

/** Gives the word to the next atomics that wait for it, up to one that has to wait for its data. */
function release(device: Device, address: number): void {
  const holders = device.atomicWords.get(address)!;
  const over: AtomicTurn[] = [];
  holders.shift();
  for (let next = holders.peek(); next !== undefined; next = holders.peek()) {
    if (isWanted(next)) {
      if (!runTurn(device, next)) break;
      over.push(next);
    }
    holders.shift();
  }
  if (holders.length === 0) device.atomicWords.delete(address);
  for (const { qp } of over) passAnswers(device, qp);
}

/**
 * A duplicate (§3.5): never executed again, answered with what the saved slot holds. @returns false
 * where the slot is recycled or the packet is not what was executed: it is dropped.
 */
export function repeatAtomic(device: Device, qp: QueuePair, input: RequestIn): boolean {
  const { psn } = input.packet.bth;
  const saved = qp.responder.resources.find((resource) => resource.psn === psn);
  if (saved?.kind !== "single" || saved.operation !== input.operation) return false;
  // While it is being executed its first answer is still to come.
  if (saved.state !== "done") return true;
  answerAgain(device, qp, saved);
  return true;
}
