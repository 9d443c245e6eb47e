/**
 * C-09: a line has a single writer or many readers, at each instant, by the states that caches
 * noted.
 */
import type { LineStateRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { countOf, type Finding, nodeTime } from "../finding.ts";
import { scmOf, sharedAccessSteps, usesRegions } from "./accesses.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import {
  checkerOf,
  type CheckSteps,
  inSteps,
  mostOf,
  type RunRecord,
  type Steps,
} from "../run_record.ts";

export const singleWriter = checkerOf({
  name: "single-writer-or-readers",
  promise:
    "At each instant at most one cache has a line of a shared region in M or E, and no other cache " +
    "has it then.",
  looked: (run) => countOf(statesIn(run), "change of a line's state", "changes of lines' states"),
  subjects: statesIn,
  concerns: usesRegions,
  without: "no cache noted a line's state",
  steps: checkStates,
});

function statesIn({ notes }: RunRecord): number {
  return notes.filter(({ note }) => note.kind === "line-state").length;
}

interface Change {
  readonly time: Time;
  readonly node: string;
  /** Absent: the node's power fails, and it loses the line. */
  readonly note?: LineStateRecord;
}

function* checkStates(run: RunRecord): CheckSteps {
  const changes: Change[] = [];
  for (const [node, lives] of run.lives) {
    for (const { to } of lives) if (to !== Infinity) changes.push({ time: to, node });
  }
  yield* inSteps(run.notes, ({ time, node, note }) => {
    if (note.kind === "line-state") changes.push({ time, node, note });
  });
  // A power failure comes first at its instant: `sort` keeps the order.
  changes.sort((x, y) => x.time - y.time);
  const findings = yield* uncheckedLines(run), most = mostOf(run);
  if (findings.length >= most) return findings.slice(0, most);
  const lines = new Lines();
  yield* inSteps(changes, (change, i) => {
    lines.see(change);
    // All that happens at one instant counts at once.
    if (changes[i + 1]?.time === change.time) return undefined;
    for (const text of lines.wrong()) {
      const { node, time } = change;
      findings.push({ text: `${text} at ${time} ps`, at: { node, time } });
      if (findings.length >= most) return "stop";
    }
    return undefined;
  });
  return findings;
}

/**
 * Lines of which loads or stores were done and no cache noted a state: each access needs one
 * (C-05), so the notes are not whole, and say nothing of the line.
 */
function* uncheckedLines({ notes }: RunRecord): Steps<Finding[]> {
  const known = new Set<string>();
  yield* inSteps(notes, ({ note }) => {
    if (note.kind === "line-state") known.add(`${note.region} ${note.line}`);
  });
  const findings: Finding[] = [];
  const { regions } = yield* sharedAccessSteps(notes);
  for (const each of regions.values()) {
    const { accesses, record: { region } } = each;
    yield* inSteps(accesses, ({ name, note, began, ended }) => {
      const { op, offset, forwarded } = note;
      // A core's store buffer is no cache.
      if (forwarded !== undefined) return;
      const line = Math.floor(offset / LINE_BYTES), key = `${region} ${line}`;
      if (op === "flush" || ended?.note.result !== "done" || known.has(key)) return;
      known.add(key);
      findings.push({
        text: `line ${line} of ${region}: unchecked: ${name} was done, and no cache noted a state`,
        at: nodeTime(began),
        ...scmOf(each, note),
      });
    });
  }
  return findings;
}

class Lines {
  readonly #states = new Map<string, Map<string, "M" | "E" | "S">>();
  readonly #ofNode = new Map<string, (readonly [line: string, cache: string])[]>();
  readonly #changed = new Set<string>();

  see({ node, note }: Change): void {
    if (note === undefined) {
      for (const [line, cache] of this.#ofNode.get(node) ?? []) {
        this.#states.get(line)?.delete(cache);
      }
      this.#ofNode.delete(node);
      return;
    }
    const line = `line ${note.line} of ${note.region}`;
    const caches = this.#states.get(line) ?? new Map<string, "M" | "E" | "S">();
    this.#states.set(line, caches);
    this.#changed.add(line);
    const cache = `${node} ${note.cache}`;
    if (note.state === "I") {
      caches.delete(cache);
      return;
    }
    caches.set(cache, note.state);
    const own = this.#ofNode.get(node);
    if (own === undefined) this.#ofNode.set(node, [[line, cache]]);
    else own.push([line, cache]);
  }

  *wrong(): Generator<string> {
    for (const line of this.#changed) {
      const caches = this.#states.get(line)!;
      const isAlone = caches.size < 2 || [...caches.values()].every((state) => state === "S");
      if (isAlone) continue;
      const said = [...caches].map(([cache, state]) => `${state} in ${cache}`).sort();
      yield `${line} is ${said.join(" and ")}`;
    }
    this.#changed.clear();
  }
}
