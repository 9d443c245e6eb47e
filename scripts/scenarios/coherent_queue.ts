/**
 * A queue of one producer and one consumer in shared memory (C-11, `coherent_queue.yaml`): the
 * producer stores a message and its number into a slot, a line, and the consumer waits for that
 * number. Now and then the consumer tells how many it has taken, and the producer does not store
 * over the others. A far computer with a PCIe card sends WRITEs, and looks for messages by READs.
 * Where the other computer has lost its power, each waits for the option `patience` (5 ms), reports
 * what it has waited for (`givenUp`), and ends.
 */
import { type CrashView, type ProgramContext, type Steps, timeOption } from "rackmesh";
import {
  countMessages,
  isPowered,
  latencyOf,
  LINE_BYTES,
  openShared,
  partOf,
  type Shared,
  untilGivenUp,
  waitWord,
  WORD_BYTES,
  wordIn,
  wordOf,
} from "./shared_memory.ts";

interface QueueOptions {
  /** Of each load: with a pause before each, and as fast as there is room. */
  readonly messages: number;
  readonly slots: number;
}

const RUNS = [
  { from: "far", isPaced: true },
  { from: "far", isPaced: false },
  { from: "home", isPaced: true },
  { from: "home", isPaced: false },
] as const;
type Run = typeof RUNS[number];

const NUMBER_AT = 0, TIME_AT = 8, CONTENT_AT = 16;
/** Both computers have ended the load before. */
const QUIET_PS = 50e6;

export default function* coherentQueue(context: ProgramContext): Steps<void> {
  yield* untilGivenUp(context, "queue", shareQueue(context));
}

function* shareQueue(context: ProgramContext): Steps<void> {
  const { cpu } = context, options = context.options as unknown as QueueOptions;
  const part = partOf(cpu.host), shared = yield* openShared(context);
  const begin = timeOption(context.options, "begin"), span = timeOption(context.options, "span");
  for (const [number, run] of RUNS.entries()) {
    const at = begin + number * span;
    if (at < cpu.now) throw new Error(`Load ${number} begins at ${at} ps, it is ${cpu.now} ps`);
    yield* cpu.sleep(at - cpu.now);
    const messages = yield* countMessages(cpu);
    yield* cpu.sleep(at + QUIET_PS - cpu.now);
    // Each load has lines of its own: one for the number of taken messages, and the slots.
    const queue = { shared, base: number * (options.slots + 1) * LINE_BYTES, options, run };
    const figures = run.from === part.side
      ? yield* produce(context, queue)
      : yield* consume(context, queue);
    yield* cpu.sleep(Math.max(0, at + span - 2 * QUIET_PS - cpu.now));
    const { bus, network } = yield* messages();
    const way = run.from === "far" ? "far to home" : "home to far";
    const load = run.isPaced ? "paced" : "at once";
    cpu.report("result", {
      program: "shared",
      workload: "queue",
      ...part,
      ...{ way, load, messages: options.messages, ...figures },
      ...{ busMessages: bus, networkMessages: network },
    });
  }
}

interface Queue {
  readonly shared: Shared;
  readonly base: number;
  readonly options: QueueOptions;
  readonly run: Run;
}

/** Each when there is room. @returns the number of looks for room. */
function* produce(context: ProgramContext, queue: Queue): Steps<{ looks: number }> {
  const { cpu, options } = context;
  const { shared, base, run, options: { messages, slots } } = queue;
  const everyPs = timeOption(options, "every");
  let taken = 0, looks = 0;
  for (let number = 1; number <= messages; number++) {
    if (run.isPaced) yield* cpu.sleep(everyPs);
    if (number - taken > slots) {
      const is = (word: bigint) => number - Number(word) <= slots;
      const line = { line: base, offset: 0, is, of: "the number of the last message taken" };
      const found = yield* waitWord(context, shared, line);
      taken = Number(wordIn(found.bytes));
      looks += found.looks;
    }
    const slot = messageOf(number);
    slot.set(wordOf(BigInt(cpu.now)), TIME_AT);
    yield* shared.store(slotAt(queue, number), slot);
  }
  return { looks };
}

/** In order. @throws Error for a message that differs from what was stored. */
function* consume(context: ProgramContext, queue: Queue) {
  const { cpu } = context;
  const { shared, base, options: { messages, slots } } = queue;
  const latencies: number[] = [];
  let looks = 0;
  const from = cpu.now;
  for (let number = 1; number <= messages; number++) {
    const is = (word: bigint) => word === BigInt(number);
    const slot = { line: slotAt(queue, number), offset: NUMBER_AT, is, of: `message ${number}` };
    const found = yield* waitWord(context, shared, slot);
    looks += found.looks;
    latencies.push(cpu.now - Number(wordIn(found.bytes, TIME_AT)));
    const wanted = messageOf(number).subarray(CONTENT_AT);
    if (found.bytes.subarray(CONTENT_AT).some((byte, i) => byte !== wanted[i])) {
      throw new Error(`Message ${number} has ${found.bytes.toHex()}`);
    }
    if (number % Math.ceil(slots / 2) === 0) yield* shared.store(base, wordOf(BigInt(number)));
  }
  const perSecond = Math.round(messages / (cpu.now - from) * 1e12);
  return { looks, latencyPs: latencyOf(latencies)!, messagesPerSecond: perSecond, taken: messages };
}

function slotAt({ base, options: { slots } }: Queue, number: number): number {
  return base + (1 + (number - 1) % slots) * LINE_BYTES;
}

/** Without its time: the number determines all of the content. */
function messageOf(number: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(LINE_BYTES);
  bytes.set(wordOf(BigInt(number)), NUMBER_AT);
  for (let at = CONTENT_AT; at < LINE_BYTES; at += WORD_BYTES) {
    bytes.set(wordOf(BigInt(number * LINE_BYTES + at)), at);
  }
  return bytes;
}

/** Every load of every memory has been taken as a whole; its consumer has looked at the order. */
export function check({ hosts, reports }: CrashView): readonly string[] {
  const wrong: string[] = [];
  for (const [host, { options }] of Object.entries(hosts)) {
    if (!isPowered({ hosts }, host)) continue;
    const { messages } = options as unknown as QueueOptions;
    const taken = reports.filter(({ node, topic, value }) =>
      node === host && topic === "result" && (value as { taken?: number }).taken === messages
    );
    const wanted = RUNS.filter(({ from }) => from !== partOf(host).side).length;
    if (taken.length < wanted) wrong.push(`${host} has taken ${taken.length} of ${wanted} loads`);
  }
  return wrong;
}
