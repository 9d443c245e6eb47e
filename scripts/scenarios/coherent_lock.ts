/**
 * A lock that computers share (C-11, `coherent_lock.yaml`): each takes a ticket by FETCH & ADD,
 * waits until it is served, adds one to a counter by a load and a store, and serves the next
 * ticket: no addition may be lost. With PCIe cards two computers lock a word of a third: the
 * atomics of a PCIe card do not exclude its own processor (`atomic_cap`: HCA). A ticket whose
 * computer has lost its power is never served: the others wait for the option `patience` (5 ms),
 * report the ticket served last (`givenUp`), and end.
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

interface LockOptions {
  /** Of each computer that locks: of home not behind a PCIe card. */
  readonly sections: number;
  readonly tickets: number;
}

const NEXT_AT = 0, SERVED_AT = LINE_BYTES, COUNTER_AT = 2 * LINE_BYTES;
const QUIET_PS = 50e6;

export default function* coherentLock(context: ProgramContext): Steps<void> {
  yield* untilGivenUp(context, "lock", shareLock(context));
}

function* shareLock(context: ProgramContext): Steps<void> {
  const { cpu } = context, options = context.options as unknown as LockOptions;
  const part = partOf(cpu.host);
  const sections = part.card === "pcie" && part.side === "home" ? 0 : options.sections;
  const shared = yield* openShared(context);
  const begin = timeOption(context.options, "begin");
  if (begin < cpu.now) throw new Error(`Locking begins at ${begin} ps, it is ${cpu.now} ps`);
  yield* cpu.sleep(begin - cpu.now);
  const messages = yield* countMessages(cpu);
  yield* cpu.sleep(begin + QUIET_PS - cpu.now);
  const figures = sections === 0 ? {} : yield* lockOften(context, shared);
  // All have ended where all of the tickets have been served.
  const tickets = BigInt(options.tickets);
  const is = (word: bigint) => word === tickets;
  yield* waitWord(context, shared, { line: SERVED_AT, offset: 0, is, of: "the ticket served" });
  yield* cpu.sleep(QUIET_PS);
  const { bus, network } = yield* messages();
  const counter = Number(wordIn(yield* shared.load(COUNTER_AT, WORD_BYTES)));
  cpu.report("result", {
    program: "shared",
    workload: "lock",
    ...part,
    ...{ sections, counter, ...figures },
    ...{ busMessages: bus, networkMessages: network },
  });
}

function* lockOften(context: ProgramContext, shared: Shared) {
  const { cpu } = context, { sections } = context.options as unknown as LockOptions;
  const holdPs = timeOption(context.options, "hold"),
    pausePs = timeOption(context.options, "pause");
  const latencies: number[] = [];
  let looks = 0;
  const from = cpu.now;
  for (let i = 0; i < sections; i++) {
    const asked = cpu.now;
    const ticket = yield* shared.fetchAdd(NEXT_AT, 1n);
    const is = (word: bigint) => word === ticket;
    const served = { line: SERVED_AT, offset: 0, is, of: "the ticket served" };
    looks += (yield* waitWord(context, shared, served)).looks;
    latencies.push(cpu.now - asked);
    const counter = wordIn(yield* shared.load(COUNTER_AT, WORD_BYTES));
    yield* cpu.sleep(holdPs);
    yield* shared.store(COUNTER_AT, wordOf(counter + 1n));
    yield* shared.store(SERVED_AT, wordOf(ticket + 1n));
    yield* cpu.sleep(Math.floor(cpu.random() * 2 * pausePs));
  }
  const perSecond = Math.round(sections / (cpu.now - from) * 1e12);
  return { latencyPs: latencyOf(latencies)!, looks, sectionsPerSecond: perSecond };
}

export function check({ hosts, reports }: CrashView): readonly string[] {
  interface Told {
    readonly card: string;
    readonly placement: string;
    readonly sections: number;
    readonly counter?: number;
  }
  const told = reports.filter(({ node, topic }) => topic === "result" && isPowered({ hosts }, node))
    .map(({ value }) => value as Told);
  return told.flatMap(({ card, placement, counter }) => {
    const all = told.filter((each) => each.card === card && each.placement === placement);
    // A computer that has given up does not report how many of its sections are in the others' sum.
    if (all.some((each) => each.counter === undefined)) return [];
    const sum = all.reduce((sum, { sections }) => sum + sections, 0);
    if (counter === sum) return [];
    return [`${card}, ${placement}: the counter is ${counter} after ${sum} sections`];
  });
}
