/** What is wrong with a scenario: where, what was found, what was expected. */

export interface Problem {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly column: number;
  /** `hosts.b.ddio`, `programs[0].to`; empty for the file as a whole. */
  readonly path: string;
  readonly found: string;
  readonly expected: string;
}

/** A scenario that cannot be run, with everything that is wrong with it. */
export class ScenarioError extends Error {
  override readonly name = "ScenarioError";
  readonly problems: readonly Problem[];

  /** @param problems at least one; reported in the file's order. */
  constructor(problems: readonly Problem[]) {
    const sorted = problems.toSorted((x, y) => x.line - y.line || x.column - y.column);
    super(sorted.map(formatProblem).join("\n"));
    this.problems = sorted;
  }
}

/** `persist_pair.yaml:12: hosts.b.ddio: found "offf", expected on, off or both`. */
export function formatProblem(problem: Problem): string {
  const { file, line, path, found, expected } = problem;
  return `${file}:${line}: ${path === "" ? "" : `${path}: `}found ${found}, expected ${expected}`;
}

/** `a`, `a or b`, `a, b or c`. */
export function listOf(words: readonly string[]): string {
  if (words.length <= 1) return words.join("");
  return `${words.slice(0, -1).join(", ")} or ${words[words.length - 1]}`;
}

/** A value as a message shows it. */
export function showFound(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value === "object") return "a mapping";
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= 80 ? text : `${text.slice(0, 77)}…"`;
}

/**
 * The known word that was probably meant, if any is near: at most a third of its letters differ, and
 * never all of them.
 */
export function nearest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined, bestDistance = Infinity;
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  if (best === undefined || bestDistance >= Math.min(word.length, best.length)) return undefined;
  return bestDistance <= Math.max(1, best.length / 3) ? best : undefined;
}

/** Insertions, deletions, replacements and swaps of neighbours that make one word the other. */
function editDistance(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > 32) return Infinity;
  let before: number[] = [], previous = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1] ? 0 : 1;
      let least = Math.min(row[j - 1]! + 1, previous[j]! + 1, previous[j - 1]! + same);
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]) {
        least = Math.min(least, before[j - 2]! + 1);
      }
      row.push(least);
    }
    [before, previous] = [previous, row];
  }
  return previous[to.length]!;
}
