/** C-09: a line has a single writer or many readers, at each instant, by the states that caches noted. */
import type { LineStateRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { countOf, type Finding, FINDINGS_MAX } from "../finding.ts";
import { sharedAccesses, usesRegions } from "./accesses.ts";
import { LINE_BYTES } from "./line_content.ts";
import type { Checker, RunRecord } from "../run_record.ts";

export const singleWriter: Checker = {
  name: "single-writer-or-readers",
  promise:
    "At each instant at most one cache has a line of a shared region in M or E, and no other cache " +
    "has it then.",
  looked: (run) => countOf(statesIn(run), "change of a line's state", "changes of lines' states"),
  subjects: statesIn,
  concerns: usesRegions,
  without: "no cache noted a line's state",
  check: checkStates,
};

function statesIn({ notes }: RunRecord): number {
  return notes.filter(({ note }) => note.kind === "line-state").length;
}

interface Change {
  readonly time: Time;
  readonly node: string;
  /** Absent: the node's power fails, and it has no line any more. */
  readonly note?: LineStateRecord;
}

function checkStates(run: RunRecord): Finding[] {
  const changes: Change[] = [];
  for (const [node, lives] of run.lives) {
    for (const { to } of lives) if (to !== Infinity) changes.push({ time: to, node });
  }
  for (const { time, node, note } of run.notes) {
    if (note.kind === "line-state") changes.push({ time, node, note });
  }
  // A power failure comes before everything else at its instant: `sort` keeps the order.
  changes.sort((x, y) => x.time - y.time);
  const findings: Finding[] = uncheckedLines(run).map((text) => ({ text }));
  if (findings.length >= FINDINGS_MAX) return findings.slice(0, FINDINGS_MAX);
  const lines = new Lines();
  for (const [i, change] of changes.entries()) {
    lines.see(change);
    // All that happens at one instant counts at once.
    if (changes[i + 1]?.time === change.time) continue;
    for (const text of lines.wrong()) {
      findings.push({ text: `${text} at ${change.time} ps` });
      if (findings.length >= FINDINGS_MAX) return findings;
    }
  }
  return findings;
}

/**
 * Lines of which loads or stores were done and no cache noted a state: each of them needs one (C-05), so the notes of
 * this run are not whole, and nothing can be said of the line.
 */
function uncheckedLines({ notes }: RunRecord): string[] {
  const known = new Set<string>();
  for (const { note } of notes) {
    if (note.kind === "line-state") known.add(`${note.region} ${note.line}`);
  }
  const texts: string[] = [];
  for (const { accesses, record: { region } } of sharedAccesses(notes).regions.values()) {
    for (const { name, note: { op, offset, forwarded }, ended } of accesses) {
      // A core's store buffer is no cache.
      if (forwarded !== undefined) continue;
      const line = Math.floor(offset / LINE_BYTES), key = `${region} ${line}`;
      if (op === "flush" || ended?.note.result !== "done" || known.has(key)) continue;
      known.add(key);
      texts.push(
        `line ${line} of ${region}: unchecked: ${name} was done, and no cache noted a state`,
      );
    }
  }
  return texts;
}

class Lines {
  /** By line, then by cache: states other than I. */
  readonly #states = new Map<string, Map<string, "M" | "E" | "S">>();
  /** Lines that have changed since the last look. */
  readonly #changed = new Set<string>();

  see({ node, note }: Change): void {
    if (note === undefined) {
      for (const caches of this.#states.values()) {
        for (const cache of [...caches.keys()]) {
          if (cache.startsWith(`${node} `)) caches.delete(cache);
        }
      }
      return;
    }
    const line = `line ${note.line} of ${note.region}`;
    const caches = this.#states.get(line) ?? new Map<string, "M" | "E" | "S">();
    this.#states.set(line, caches);
    this.#changed.add(line);
    const cache = `${node} ${note.cache}`;
    if (note.state === "I") caches.delete(cache);
    else caches.set(cache, note.state);
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
