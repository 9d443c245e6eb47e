/** Real runs that keep every promise, and what it is to change one. */
import type { AuditRecord } from "../../../fabric/audit.ts";
import { randomProgram, sharedScenario } from "../../coherence/shared_rack.ts";
import { type SeenRun, seenRun } from "../../support/seen_run.ts";

function pair(
  program: string,
  of: { readonly ddio: string; readonly receive?: string; readonly faults?: string },
): string {
  const { ddio, receive = "dram", faults = "" } = of;
  return `name: seen
seed: 11
hosts: { a: {}, b: { ddio: ${ddio}, receive: ${receive}, scm: { size: 1MiB } } }
programs: [{ on: a, to: b, ${program} }]
faults: [${faults}]
`;
}

/** Two logs of one name at different hosts, one of which has more in it. */
const LOG = `name: seen
seed: 3
defaults: { ddio: off, dram: 64MiB, scm: { size: 1MiB } }
hosts: { a: {}, b: {}, c: {}, d: {}, e: {}, f: {}, g: {} }
programs:
  - { on: a, run: log, to: [b, c, d], bytes: 4096, record: 256, depth: 4, linger: 1ms }
  - { on: e, run: log, to: [f, g], bytes: 8192, record: 256, depth: 4, linger: 1ms }
`;

/** An object that is replaced. */
const REPLACED = `name: seen
seed: 11
hosts: { a: {}, b: { ddio: on, scm: { size: 1MiB } } }
programs:
  - { on: a, to: b, run: put, method: persist-opcode, bytes: 1600, name: x, size: 300 }
  - { on: a, to: b, run: put, method: send-flush, bytes: 1500, name: x, size: 300, at: 1ms }
`;

/** Real runs. In the second, messages do not end with the eight bytes that SCM writes whole. */
export const SCENARIOS = {
  calm: pair("run: put, method: write-send, bytes: 8KiB, size: 512, depth: 4", { ddio: "on" }),
  uneven: pair("run: put, method: persist-address, bytes: 1500, size: 333", { ddio: "off" }),
  killed: pair("run: put, method: persist-opcode, bytes: 16KiB, size: 256, depth: 8", {
    ddio: "on",
    faults: "{ at: 210us, kill: b }, { at: 300us, start: b }",
  }),
  deposits: pair("run: put, method: send-read, bytes: 16KiB, size: 256, depth: 8", {
    ddio: "off",
    receive: "scm",
    faults: "{ at: 212us, kill: b }",
  }),
  cardless: pair("run: put, method: persist-opcode, bytes: 64KiB, size: 1KiB, depth: 8", {
    ddio: "off",
    faults: "{ at: 210us, kill: b-rnic }, { at: 300us, start: b-rnic }",
  }),
  reading: pair("run: put, method: write-read, bytes: 16KiB, size: 512, depth: 4", { ddio: "off" }),
  flushing: pair("run: put, method: write-flush, bytes: 16KiB, size: 512, depth: 4", {
    ddio: "off",
  }),
  append: pair("run: append, method: persist-opcode, records: 12, size: 200, depth: 4", {
    ddio: "off",
  }),
  replaced: REPLACED,
  log: LOG,
  shared: sharedScenario({ seed: 5, accesses: 60 }),
  "shut down": sharedScenario({
    seed: 5,
    hosts: ["a", "b"],
    faults: [
      "{ at: 120us, shutdown: b, within: 200us }",
      "{ at: 500us, shutdown: a, within: 200us }",
    ],
  }),
} as const;

/** Programs that scenarios name. */
const PROGRAMS = { "./shared.ts": randomProgram({ seed: 5, accesses: 60 }) };

const runs = new Map<string, SeenRun>();

export function runOf(name: keyof typeof SCENARIOS): SeenRun {
  const run = runs.get(name) ?? seenRun(SCENARIOS[name], { programs: PROGRAMS });
  runs.set(name, run);
  return run;
}

/** Where in a run something was changed, and the run that this makes. */
export type Mutant = readonly [where: string, run: SeenRun];

export interface Mutation {
  readonly of: keyof typeof SCENARIOS;
  /** Places in the run where it can be made, at least. */
  readonly least: number;
  readonly mutants: (run: SeenRun) => Iterable<Mutant>;
}

/** Of one checker, by what was changed. */
export type Mutations = Readonly<Record<string, Mutation>>;

/** The same run, in which a note says something else. */
export function withNote(run: SeenRun, place: number, note: AuditRecord): SeenRun {
  return { ...run, notes: run.notes.with(place, { ...run.notes[place]!, note }) };
}
