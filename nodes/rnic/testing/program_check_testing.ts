/**
 * What a program (`program_testing.ts`) must come to: by a model that executes its operations one after
 * the other, and by comparison of two runs. Beyond the retry limits: what may not happen even then.
 */
import assert from "node:assert/strict";
import type { Cqe } from "../../../fabric/wire/host_bus/cqe.ts";
import { OPERATIONS } from "../responder/operations.ts";
import { answerOf } from "./program_play_testing.ts";
import {
  areaPattern,
  type Completion,
  type End,
  type Run,
  type RunLine,
  sourcePattern,
} from "./program_rig_testing.ts";
import {
  isAnswered,
  isMessage,
  isPersistentWrite,
  SHARED_WORDS,
  slotBytes,
} from "./program_testing.ts";
import { checkVerdicts } from "./program_verify_testing.ts";
import { wordOf } from "../state/memory.ts";

type Memory = "area" | "kept" | "scm";
const MEMORIES: readonly Memory[] = ["area", "kept", "scm"];

/** Bytes that an op leaves in its peer's memory. */
interface Effect {
  readonly op: number;
  readonly memory: Memory;
  readonly at: number;
  readonly data: Uint8Array;
}

/** A line executed in order, one operation after the other. */
interface LineModel {
  readonly initial: Readonly<Record<Memory, Uint8Array>>;
  readonly effects: readonly Effect[];
  /** By op; undefined where chance decides (words that all lines add to). */
  readonly answers: readonly (Uint8Array | undefined)[];
  readonly messages: readonly { readonly op: number; readonly data: Uint8Array }[];
}

function modelOf({ program }: Run, line: RunLine): LineModel {
  const source = sourcePattern(line, program);
  const slot = slotBytes(program);
  const initial = {
    area: areaPattern(line, program),
    kept: new Uint8Array(line.kept.length),
    scm: new Uint8Array(line.scm.length),
  };
  const area = initial.area.slice();
  const view = new DataView(area.buffer);
  const effects: Effect[] = [];
  const answers: (Uint8Array | undefined)[] = [];
  const messages: { op: number; data: Uint8Array }[] = [];
  const change = (op: number, at: number, data: Uint8Array) => {
    area.set(data, at);
    effects.push({ op, memory: "area", at, data });
  };
  line.ops.forEach((op, i) => {
    const { verb, length, at, operand } = op;
    const data = source.subarray(i * slot, i * slot + length);
    let answer: Uint8Array | undefined = new Uint8Array(0);
    switch (verb) {
      case "write":
      case "write-immediate":
        change(i, at, data);
        break;
      case "write-verify":
        if (!op.persist) change(i, at, data);
        else effects.push({ op: i, memory: "kept", at: i * slot, data });
        break;
      case "write-persistence":
        effects.push({ op: i, memory: "kept", at: i * slot, data });
        break;
      case "write-persist-address":
        effects.push({ op: i, memory: "scm", at: i * slot, data });
        break;
      case "atomic-write":
        change(i, at, wordOf(operand));
        break;
      case "read":
        answer = area.slice(at, at + length);
        break;
      case "fetch-add":
      case "compare-swap": {
        if (op.shared) {
          answer = undefined;
          break;
        }
        answer = area.slice(at, at + 8);
        const operands = { swapAdd: operand, compare: operand - 1n };
        const result = OPERATIONS[verb].atomic!.compute(operands, view.getBigUint64(at, true));
        if (result !== undefined) change(i, at, wordOf(result));
        break;
      }
    }
    if (isMessage(op)) {
      messages.push({ op: i, data: verb === "write-immediate" ? new Uint8Array(0) : data });
    }
    answers.push(answer);
  });
  return { initial, effects, answers, messages };
}

/** What the line's ops leave in its peer's memory, in order; not what all lines add to. */
export function effectsOf(run: Run, line: RunLine): readonly Effect[] {
  return modelOf(run, line).effects;
}

/** The run without faults is what the model says. */
export function checkByModel(run: Run): void {
  assert.deepEqual(run.strays, [], "nothing completes that was not posted, or fails");
  for (const line of run.lines) {
    const model = modelOf(run, line);
    assert.deepEqual(
      line.completions.map(({ op, cqe }) => `${op} ${cqe.status}`),
      line.ops.flatMap(({ signaled }, i) => signaled ? [`${i} SUCCESS`] : []),
      `line ${line.number}: completions`,
    );
    checkVerdicts(line);
    for (const memory of MEMORIES) {
      const expected = model.initial[memory].slice();
      for (const { memory: of, at, data } of model.effects) {
        if (of === memory) expected.set(data, at);
      }
      sameBytes(run.rig.bytes(line.peer, line[memory]), expected, `line ${line.number}: ${memory}`);
    }
    model.answers.forEach((answer, i) => {
      if (answer === undefined) return;
      sameBytes(answerOf(run, line, i), answer, `line ${line.number}: answer of op ${i}`);
    });
    const { messages } = line.target;
    assert.equal(messages.length, model.messages.length, `line ${line.number}: messages`);
    messages.forEach(({ cqe, data }, k) => {
      const { op, data: sent } = model.messages[k]!;
      const { verb, length, solicited, immediate } = line.ops[op]!;
      const plain = verb === "send";
      assert.equal(cqe.byteCount, length);
      assert.equal(cqe.solicited, solicited);
      assert.equal(cqe.immediate, plain ? 0 : line.windows.get(op) ?? immediate);
      sameBytes(data, sent, `line ${line.number}: message ${k}`);
    });
  }
  checkShared(run, false);
  for (const end of run.ends) checkReceives(run, end);
}

function sameBytes(actual: Uint8Array, expected: Uint8Array, name: string): void {
  assert.equal(actual.length, expected.length, `${name}: bytes`);
  for (let i = 0; i < expected.length; i++) {
    if (actual[i] !== expected[i]) {
      assert.fail(`${name}: byte ${i} is ${actual[i]}, expected ${expected[i]}`);
    }
  }
}

/** Receives of a queue of its own complete in its order, each once; nothing is told twice (P-26). */
function checkReceives({ program }: Run, { recvs, told, confirmed, needed, srq }: End): void {
  assert.equal(recvs.length, needed, "receives that completed");
  const slots = recvs.map(({ wqeIndex }) => wqeIndex);
  if (srq === undefined) assert.deepEqual(slots, recvs.map((_, i) => i), "in their order");
  else assert.equal(new Set(slots).size, slots.length, "each once");
  for (const cqes of [told, confirmed]) {
    assert.equal(new Set(cqes.map(({ psn }) => psn)).size, cqes.length, "no message twice");
  }
  if (program.policy === "persistence") assert.equal(confirmed.length, 0, "P-29");
}

/**
 * Words that all lines add to: each addition once, no two saw the same value. Where work has failed,
 * what was posted and did not succeed may have been added or not.
 */
function checkShared(run: Run, mayFail: boolean, dead?: "a" | "b"): void {
  for (const side of [run.rig.a, run.rig.b]) {
    for (let word = 0; word < SHARED_WORDS; word++) {
      let sure = 0n, possible = 0n;
      const seen: bigint[] = [];
      for (const line of run.lines) {
        if (line.peer !== side) continue;
        line.ops.forEach((op, i) => {
          if (!op.shared || op.at !== 8 * word) return;
          possible += op.operand;
          // What one that has failed was told, it has not kept.
          if (line.side.name === dead) return;
          if (mayFail && !succeeded(line, i)) return;
          if (side.name !== dead) sure += op.operand;
          seen.push(wordIn(answerOf(run, line, i)));
        });
      }
      const mr = run.lines.find(({ peer }) => peer === side)?.shared;
      if (mr === undefined) continue;
      const value = wordIn(run.rig.bytes(side, mr, 8 * word, 8));
      assert.ok(value >= sure && value <= possible, `${sure} ≤ ${value} ≤ ${possible}: each once`);
      assert.equal(new Set(seen).size, seen.length, "no two saw the same value");
    }
  }
}

function wordIn(bytes: Uint8Array): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true);
}

/** Completions are in order, so a later success covers what made none of its own. */
function succeeded({ completions }: RunLine, op: number): boolean {
  return completions.some(({ op: done, cqe }) => cqe.status === "SUCCESS" && done >= op);
}

/** A run ended as another one of the same program: bytes, completions, answers, receives. */
export function checkSame(run: Run, reference: Run): void {
  assert.deepEqual(run.strays, []);
  run.lines.forEach((line, number) => {
    const other = reference.lines[number]!;
    // Where in the ring its WQE lies depends on what a CPU has posted meanwhile.
    const [done, expected] = [line, other].map(({ completions }) =>
      completions.map(({ op, cqe }) => ({ op, ...anywhere(cqe) }))
    );
    assert.deepEqual(done, expected, `line ${number}: completions`);
    for (const memory of MEMORIES) {
      const expected = reference.rig.bytes(other.peer, other[memory]);
      sameBytes(run.rig.bytes(line.peer, line[memory]), expected, `line ${number}: ${memory}`);
    }
    line.ops.forEach((op, i) => {
      if (!isAnswered(op) || op.shared) return;
      const expected = answerOf(reference, other, i);
      sameBytes(answerOf(run, line, i), expected, `line ${number}: answer of op ${i}`);
    });
  });
  checkShared(run, false);
  run.ends.forEach((end, number) => {
    const other = reference.ends[number]!;
    checkReceives(run, end);
    // Which WQE of the queue it is depends on who else took one meanwhile: persistence does, in flow 2.
    assert.deepEqual(
      end.messages.map(({ cqe }) => anywhere(cqe)),
      other.messages.map(({ cqe }) => anywhere(cqe)),
    );
    end.messages.forEach(({ data }, k) => {
      sameBytes(data, other.messages[k]!.data, `end ${number}: message ${k}`);
    });
    // How many ranges lie beside the message's own depends on where receives have landed.
    const [told, toldOther] = [end, other].map((each) =>
      each.told.map((cqe) => ({ ...anywhere(cqe), immediate: 0 }))
    );
    assert.deepEqual(told, toldOther, `end ${number}: told`);
    assert.deepEqual(byPsn(end.confirmed), byPsn(other.confirmed), `end ${number}: confirmed`);
  });
}

function anywhere(cqe: Cqe): Cqe {
  return { ...cqe, wqeIndex: 0 };
}

function byPsn(cqes: readonly Cqe[]): Cqe[] {
  return cqes.map(anywhere).sort((x, y) => x.psn - y.psn);
}

/**
 * What holds however much was lost: everything that was posted ends, first what succeeded, then one
 * error, then WR_FLUSH_ERR; a success has had its effect; no byte is anything but what was there or
 * what was posted; no atomic took effect twice.
 */
export function checkBeyondLimits(run: Run): void {
  assert.deepEqual(run.strays, []);
  for (const line of run.lines) {
    const done = checkEnding(line);
    checkVerdicts(line);
    const model = modelOf(run, line);
    for (const memory of MEMORIES) checkBytes(run, line, { model, memory, done });
    model.answers.forEach((answer, i) => {
      if (answer === undefined || i >= done) return;
      sameBytes(answerOf(run, line, i), answer, `line ${line.number}: answer of op ${i}`);
    });
    checkMessages(line, model, done);
  }
  checkShared(run, true);
}

/**
 * What holds where a machine has lost its power for good: of the other one's work all ends, as beyond the limits;
 * what succeeded was answered rightly; no byte of either memory is anything but what was there or what was posted;
 * no atomic was executed twice. What was executed may be lost with the machine, unless it was promised.
 */
export function checkAfterPowerFailure(run: Run, dead: "a" | "b"): void {
  assert.deepEqual(run.strays.filter(({ status }) => status !== "RETRY_EXC_ERR"), []);
  for (const line of run.lines) {
    const isDead = line.side.name === dead;
    const done = isDead ? 0 : checkEnding(line);
    const model = modelOf(run, line);
    for (const memory of MEMORIES) checkBytes(run, line, { model, memory, done: 0 });
    if (isDead) continue;
    checkVerdicts(line);
    model.answers.forEach((answer, i) => {
      if (answer === undefined || i >= done) return;
      sameBytes(answerOf(run, line, i), answer, `line ${line.number}: answer of op ${i}`);
    });
  }
  checkShared(run, true, dead);
}

/** @returns how many of the line's first ops have surely succeeded. */
function checkEnding(line: RunLine): number {
  const { completions, ops, number } = line;
  const statuses = completions.map(({ cqe }) => cqe.status);
  const failed = statuses.findIndex((status) => status !== "SUCCESS");
  const successes = failed < 0 ? completions : completions.slice(0, failed);
  const last = successes.at(-1)?.op ?? -1;
  const signaled = ops.flatMap((op, i) => op.signaled && i <= last ? [i] : []);
  assert.deepEqual(successes.map(({ op }) => op), signaled, `line ${number}: successes`);
  if (failed < 0) {
    assert.equal(last, ops.length - 1, `line ${number} has ended in silence`);
    return ops.length;
  }
  // Unsignalled work before the error has succeeded; from the error on, all completes.
  const rest = completions.slice(failed).map(({ op }) => op);
  const first = rest[0]!;
  assert.deepEqual(rest, ops.slice(first).map((_, i) => first + i), `line ${number}: each once`);
  assert.ok(
    !ops.slice(last + 1, first).some((op) => op.signaled),
    `line ${number}: none is left out`,
  );
  checkErrors(line, failed);
  return first;
}

/**
 * One error tells why, what is behind it is flushed. So is what waits behind a persistent WRITE that
 * has been received: whether it is persistent nobody will hear. Where the peer failed first, all is.
 */
function checkErrors({ completions, ops, number }: RunLine, failed: number): void {
  const errors = completions.slice(failed);
  const causes = errors.filter(({ cqe }) => cqe.status !== "WR_FLUSH_ERR");
  const found = `line ${number} ends with ${errors.map(statusOf)}`;
  assert.deepEqual(causes.map(statusOf), causes.length === 0 ? [] : ["RETRY_EXC_ERR"], found);
  const first = errors[0]!;
  const isFlushed = causes.length > 0 && first !== causes[0];
  assert.ok(!isFlushed || isPersistentWrite(ops[first.op]!), found);
}

function statusOf({ cqe }: Completion): string {
  return cqe.status;
}

/** Each byte is what it was after the first `done` ops, or what a later one writes there. */
function checkBytes(
  run: Run,
  line: RunLine,
  of: { readonly model: LineModel; readonly memory: Memory; readonly done: number },
): void {
  const { model, memory, done } = of;
  const sure = model.initial[memory].slice();
  const later: Effect[] = [];
  for (const effect of model.effects) {
    if (effect.memory !== memory) continue;
    if (effect.op < done) sure.set(effect.data, effect.at);
    else later.push(effect);
  }
  const actual = run.rig.bytes(line.peer, line[memory]);
  for (let i = 0; i < sure.length; i++) {
    if (actual[i] === sure[i]) continue;
    const isPosted = later.some(({ at, data }) =>
      i >= at && i < at + data.length && data[i - at] === actual[i]
    );
    if (!isPosted) assert.fail(`line ${line.number}: byte ${i} of ${memory} is ${actual[i]}`);
  }
}

function checkMessages({ target, number }: RunLine, model: LineModel, done: number): void {
  const { messages } = target;
  const sure = model.messages.filter(({ op }) => op < done).length;
  assert.ok(messages.length >= sure, `line ${number}: what succeeded was received`);
  assert.ok(messages.length <= model.messages.length, `line ${number}: none was received twice`);
  messages.forEach(({ data }, k) => {
    sameBytes(data, model.messages[k]!.data, `line ${number}: message ${k}`);
  });
}
