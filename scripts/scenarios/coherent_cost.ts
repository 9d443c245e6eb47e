/**
 * The cost of one access to shared memory (C-11, `coherent_cost.yaml`): a load and a store of a
 * line, by either computer, after accesses of both to it. Every step has its time, so that nothing
 * else is under way.
 */
import { type CrashView, type ProgramContext, type Steps, type Time, timeOption } from "rackmesh";
import {
  countMessages,
  isPowered,
  LINE_BYTES,
  openShared,
  partOf,
  type Shared,
  type Side,
} from "./shared_memory.ts";

type Step = `${Side} ${"load" | "store"}`;

/** The last step is measured. */
interface Case {
  readonly after: string;
  readonly steps: readonly Step[];
}

const CASES: readonly Case[] = [
  { after: "nothing", steps: ["far load"] },
  { after: "its own load", steps: ["far load", "far load"] },
  { after: "home's store", steps: ["home store", "far load"] },
  { after: "nothing", steps: ["far store"] },
  { after: "its own load", steps: ["far load", "far store"] },
  { after: "its own store", steps: ["far store", "far store"] },
  { after: "home's store", steps: ["home store", "far store"] },
  { after: "nothing", steps: ["home load"] },
  { after: "its own load", steps: ["home load", "home load"] },
  { after: "far's load", steps: ["far load", "home load"] },
  { after: "far's store", steps: ["far store", "home load"] },
  { after: "nothing", steps: ["home store"] },
  { after: "its own store", steps: ["home store", "home store"] },
  { after: "far's load", steps: ["far load", "home store"] },
  { after: "far's store", steps: ["far store", "home store"] },
];

/** An access, and looks at counters, take less. */
const STEP_PS = 100e6;
const ACCESS_AT_PS = 30e6, LOOK_AT_PS = 60e6;

export default function* coherentCost(context: ProgramContext): Steps<void> {
  const { cpu, options } = context, part = partOf(cpu.host);
  const shared = yield* openShared(context);
  let at = timeOption(options, "begin");
  for (const [line, { after, steps }] of CASES.entries()) {
    for (const [number, step] of steps.entries()) {
      if (at < cpu.now) throw new Error(`Step ${number} of line ${line} was due at ${at} ps`);
      yield* until(cpu, at);
      const isMeasured = number === steps.length - 1, isMine = step.startsWith(part.side);
      const messages = isMeasured ? yield* countMessages(cpu) : undefined;
      yield* until(cpu, at + ACCESS_AT_PS);
      const tookPs = isMine
        ? yield* access(cpu, { shared, line, step, content: number + 1, steps })
        : undefined;
      yield* until(cpu, at + LOOK_AT_PS);
      if (messages !== undefined) {
        const { bus, network } = yield* messages();
        cpu.report("result", {
          program: "shared",
          workload: "cost",
          ...part,
          ...{ access: step, after, busMessages: bus, networkMessages: network },
          ...(tookPs !== undefined && { tookPs }),
        });
      }
      at += STEP_PS;
    }
  }
}

function* until(cpu: ProgramContext["cpu"], time: Time): Steps<void> {
  if (time > cpu.now) yield* cpu.sleep(time - cpu.now);
}

/** @returns how long it took. @throws Error for a load that does not find the newest store. */
function* access(
  cpu: ProgramContext["cpu"],
  { shared, line, step, content, steps }: {
    readonly shared: Shared;
    readonly line: number;
    readonly step: Step;
    readonly content: number;
    readonly steps: readonly Step[];
  },
): Steps<Time> {
  const from = cpu.now;
  if (step.endsWith("store")) {
    yield* shared.store(line * LINE_BYTES, new Uint8Array(LINE_BYTES).fill(content));
    return cpu.now - from;
  }
  const found = yield* shared.load(line * LINE_BYTES, LINE_BYTES);
  const took = cpu.now - from;
  const newest = 1 + steps.slice(0, content - 1).findLastIndex((each) => each.endsWith("store"));
  if (found.some((byte) => byte !== newest)) {
    throw new Error(`Line ${line} is ${found.toHex()}, store ${newest} was expected`);
  }
  return took;
}

/** Both computers have reported every access. Each checks its loads' results itself. */
export function check({ hosts, reports }: CrashView): readonly string[] {
  return Object.keys(hosts).filter((host) => isPowered({ hosts }, host)).flatMap((host) => {
    const told = reports.filter(({ node, topic }) => node === host && topic === "result").length;
    return told === CASES.length ? [] : [`${host} tells of ${told} accesses of ${CASES.length}`];
  });
}
