/**
 * Small programs with one fault, or two, at every position: each frame of each kind of operation, requests
 * and answers alike, is lost, doubled, late or damaged in turn, and the end is the one without faults.
 */
import { describe, it } from "@std/testing/bdd";
import { VERIFY_LEVELS } from "../../fabric/wire/roce/verify_eth.ts";
import { checkSame } from "./testing/program_check_testing.ts";
import { type Fault, withFaults } from "./testing/program_flush_testing.ts";
import { play } from "./testing/program_play_testing.ts";
import { prepare, type Run } from "./testing/program_rig_testing.ts";
import { runFaultless } from "./testing/program_seed_testing.ts";
import {
  type Op,
  opOf,
  type Program,
  programOf,
  type Verb,
  VERBS,
} from "./testing/program_testing.ts";
import type { FrameFate } from "./testing/rig_parts_testing.ts";

/** Three packets at a path MTU of 256. */
const LONG = 600;

/** What is done to one frame. A frame that comes long after is behind all the rest of its program. */
const FATES: Readonly<Record<string, FrameFate>> = {
  "lost": "drop",
  "doubled": "twice",
  "doubled later": { againPs: 3_000_000 },
  "doubled long after": { againPs: 40_000_000 },
  "overtaken": { delayPs: 1_500_000 },
  "late": { delayPs: 20_000_000 },
  "damaged in the opcode": { flipBit: 8 * 42 },
  "damaged in the PSN": { flipBit: 8 * 53 + 7 },
  "damaged at its end": { flipBit: 8 * 57 + 3 },
};

function isData(verb: Verb): boolean {
  return verb === "read" || verb.startsWith("send") ||
    (verb.startsWith("write") && verb !== "atomic-write");
}

/** The operation between two WRITEs, whose order it must not change. */
function around(verb: Verb, more: Partial<Op> = {}): Op[] {
  const length = isData(verb) ? { length: LONG } : verb === "flush" ? { length: 64 } : {};
  const op = opOf(verb, { ...length, ...more });
  return [
    opOf("write", { length: 16, at: 64 }),
    op,
    opOf("write", { length: 8, at: 72, fence: true }),
  ];
}

/** Frames of a run without faults, set-up apart. */
function framesOf({ rig, setUpFrames }: { rig: Run["rig"]; setUpFrames: number }): number {
  return rig.frames.length - setUpFrames;
}

function countFrames(program: Program): { readonly reference: Run; readonly frames: number } {
  const setUpFrames = prepare(program).rig.frames.length;
  const reference = runFaultless(program);
  return { reference, frames: framesOf({ rig: reference.rig, setUpFrames }) };
}

/** Plays the program with these fates by position, and expects the reference's end. */
function expectSame(reference: Run, fates: ReadonlyMap<number, FrameFate>): void {
  const run = prepare(reference.program);
  let position = 0;
  const fault: Fault = () => fates.get(position++) ?? "pass";
  withFaults(run, fault);
  try {
    play(run);
    checkSame(run, reference);
  } catch (cause) {
    const where = [...fates].map(([at, fate]) => `frame ${at}: ${JSON.stringify(fate)}`).join(", ");
    throw new Error(`${where}: ${String(cause)}`, { cause });
  }
}

function oneFaultAtEach(ops: readonly Op[], flow: 1 | 2): void {
  const { reference, frames } = countFrames(programOf(ops, { flow: { a: flow, b: flow } }));
  for (const fate of Object.values(FATES)) {
    for (let at = 0; at < frames; at++) expectSame(reference, new Map([[at, fate]]));
  }
}

describe("one fault at each position", () => {
  for (const flow of [1, 2] as const) {
    for (const verb of VERBS) {
      it(`P-28, P-30: ${verb}, flow ${flow}, ends as without it`, () => {
        oneFaultAtEach(around(verb), flow);
      });
    }
    for (const level of VERIFY_LEVELS) {
      for (const persist of [false, true]) {
        const check = `${level}${persist ? ", persistent" : ""}, flow ${flow}`;
        it(`V-01, V-08, V-09: a verified write, ${check}, ends as without it`, () => {
          oneFaultAtEach(around("write-verify", { level, persist }), flow);
        });
      }
    }
  }
});

/** The smallest programs that have each kind of answer. */
const SMALLEST: readonly (readonly Op[])[] = [
  [opOf("write", { length: LONG })],
  [opOf("send", { length: 8 }), opOf("read", { length: LONG })],
  [opOf("fetch-add"), opOf("write", { length: 8 })],
  [opOf("flush", { length: 64 }), opOf("send-immediate", { length: 300 })],
  [opOf("write-persistence", { length: 300 })],
  [opOf("write-verify", { length: LONG, level: "verify-crc" }), opOf("write", { length: 8 })],
  [opOf("write-verify", { length: 300, persist: true })],
];

describe("two faults at each pair of positions", () => {
  for (const ops of SMALLEST) {
    for (const flow of [1, 2] as const) {
      it(`P-28, P-30: ${ops.map(({ verb }) => verb).join(", ")}, flow ${flow}, ends as without them`, () => {
        const { reference, frames } = countFrames(programOf(ops, { flow: { a: flow, b: flow } }));
        // Frames that are sent again have positions behind those of the run without faults.
        for (let first = 0; first < frames; first++) {
          for (let second = first + 1; second < frames + 4; second++) {
            for (const fate of ["drop", { delayPs: 1_500_000 }] as const) {
              expectSame(reference, new Map<number, FrameFate>([[first, "drop"], [second, fate]]));
            }
          }
        }
      });
    }
  }
});
