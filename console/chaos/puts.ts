/**
 * Puts over one object of one host, which a round adds to the programs of its scenario;
 * `objects-are-whole` judges the remaining object.
 */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { PUT_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { isOwnProgram } from "../../fabric/rack/scenario/parse_scenario.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import type { Rng } from "../../fabric/base/rng.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { pick, type RunTimes } from "./chaos_actions.ts";
import type { Reference } from "./progress.ts";

export const PUT_OBJECT = "chaos.bin";

const LENGTHS = [3_000, 3_000, 4_100, 700, 20_000];
const MESSAGE_BYTES = [256, 700, 4096], DEPTHS = [1, 3, 16];
const MORE_MAX = 4;
/**
 * A put connects for so long, then writes for so long, and begins at most so long after the one
 * before.
 */
const CONNECT_PS = 100 * PS_PER_US, WRITE_PS = 50 * PS_PER_US, APART_PS = 100 * PS_PER_US;
const SCM_BYTES_MIN = 4 << 20;

/** What rounds put, by the names of files. */
export function putContents(): Map<string, Uint8Array<ArrayBuffer>> {
  return new Map(LENGTHS.map((length, salt) => {
    const byteAt = (i: number) => (i * 31 + (i >> 8) + salt * 50) % 251 + 1;
    return [`put-${salt}.bin`, Uint8Array.from({ length }, (_, i) => byteAt(i))];
  }));
}

/** Returns the paths of the files that rounds put. */
export async function writePutFiles(directory: string): Promise<string[]> {
  return await Promise.all([...putContents()].map(async ([name, content]) => {
    const path = `${directory}/${name}`;
    await Deno.writeFile(path, content, { mode: 0o600 });
    return path;
  }));
}

export interface PutTarget extends Pick<RunTimes, "from"> {
  readonly plan: RackPlan;
  readonly files: readonly string[];
}

function hostsOf({ nodes }: RackPlan) {
  return nodes.flatMap((node) => node.kind === "host" ? [node] : []);
}

/**
 * Hosts to whose SCM rounds put. None of a user's own protocol, which may use SCM freely, and of a
 * run that ends at a time.
 */
export function putHosts(plan: RackPlan): string[] {
  const hosts = hostsOf(plan);
  const programs = hosts.flatMap(({ config }) => config.programs);
  if (plan.until !== null || hosts.length < 2) return [];
  if (programs.some(({ run }) => isOwnProgram(run))) return [];
  return hosts.filter(({ config: { programs, scmBytes } }) =>
    scmBytes >= SCM_BYTES_MIN && programs.some(({ run }) => run === "persistd")
  ).map(({ name }) => name);
}

/** In two rounds of three: a first put as early as possible, and some over its object. */
export function drawPuts(rng: Rng, { plan, from, files }: PutTarget): ProgramScenario[] {
  const targets = putHosts(plan);
  if (targets.length === 0 || rng.below(3) === 0) return [];
  const to = pick(rng, targets);
  const others = hostsOf(plan).map(({ name }) => name).filter((name) => name !== to);
  const put = (at: number, method: typeof PUT_METHODS[number]): ProgramScenario => {
    const options = { to, name: PUT_OBJECT, file: pick(rng, files), method };
    const sizes = { size: pick(rng, MESSAGE_BYTES), depth: pick(rng, DEPTHS) };
    return { on: pick(rng, others), run: "put", at, options: { ...options, ...sizes } };
  };
  // Its confirmation is a promise on every kind of host.
  const puts = [put(0, "send-flush")];
  for (
    let left = 1 + rng.below(MORE_MAX), at = Math.max(0, from - CONNECT_PS / 2);
    left > 0;
    left--
  ) {
    puts.push(put(at, pick(rng, PUT_METHODS)));
    at += rng.below(APART_PS);
  }
  return puts;
}

/** Expectations of a run with these puts; half of its actions are taken during them. */
export function withPuts(reference: Reference, puts: readonly ProgramScenario[]): Reference {
  const [, second] = puts, last = puts.at(-1);
  if (second === undefined || last === undefined) return reference;
  const results = new Map(reference.results);
  for (const { on } of puts) results.set(on, (results.get(on) ?? 0) + 1);
  const busy = { from: second.at + CONNECT_PS, to: last.at + CONNECT_PS + WRITE_PS };
  return { ...reference, results, busy, length: Math.max(reference.length, busy.to) };
}

export function putsText(puts: readonly ProgramScenario[]): string {
  const { to } = puts[0]?.options ?? {};
  return puts.length === 0 ? "" : `; ${puts.length} puts of ${PUT_OBJECT} to ${to}`;
}
