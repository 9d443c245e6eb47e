/** Which runs a server of the bus carries: each timekeeper answers, as the server itself cannot tell. */
import { ALL_RUNS, CENSUS } from "../bus/access.ts";
import type { Bus, Subscription } from "../bus/bus.ts";
import { decode, encode } from "../bus/codec.ts";
import { isToken, subjectOf } from "../bus/subjects.ts";

/** `elsewhere`: partitions whose processes are not started by the rack's supervisor. */
export interface RunHere {
  readonly run: string;
  readonly scenario: string;
  readonly partitions: number;
  readonly elsewhere: readonly string[];
}

const QUESTION = subjectOf({ kind: "control", run: ALL_RUNS, verb: CENSUS.who });
const ANSWER = subjectOf({ kind: "control", run: ALL_RUNS, verb: CENSUS.here });

export function answerCensus(bus: Bus, here: RunHere): Subscription {
  return bus.subscribe(QUESTION, () => bus.publish(ANSWER, encode(here)));
}

/** Asks; each run that answers is told to `onHere`, once for each question. */
export function takeCensus(bus: Bus, onHere: (here: RunHere) => void): Subscription & {
  ask(): void;
} {
  const { close } = bus.subscribe(ANSWER, (payload) => {
    const here = decode(payload);
    if (isHere(here)) onHere(here);
  });
  return { close, ask: () => bus.publish(QUESTION, encode(null)) };
}

function isHere(value: unknown): value is RunHere {
  const { run, scenario, partitions, elsewhere } = Object(value) as Partial<RunHere>;
  return typeof run === "string" && isToken(run) && typeof scenario === "string" &&
    Number.isSafeInteger(partitions) && Array.isArray(elsewhere) &&
    elsewhere.every((name) => typeof name === "string");
}
