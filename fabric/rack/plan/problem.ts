/** A refused input, in one shape for the whole product. */

export interface Problem {
  /** Absent for a command line, a request or a running rack. */
  readonly file?: string;
  /** From 1; absent for the file as a whole. */
  readonly line?: number;
  readonly column?: number;
  /** `hosts.b.ddio`, `--pack`; empty for the file as a whole, or where {@link found} suffices. */
  readonly path: string;
  readonly found: string;
  readonly expected: string;
}

export type FileProblem = Problem & Required<Pick<Problem, "file" | "line" | "column">>;

/** How options are called where they are given: `--from` on a command line, `from` in a test, `fromPs` in an order. */
export type OptionNames = (option: string, kind?: { readonly type: string }) => string;

type OptionProblem = Pick<Problem, "path" | "found"> & Partial<Pick<Problem, "expected">>;

const COMMAND_NAMES: OptionNames = (option) => `--${option}`;

/** The input is invalid: a scenario, a command line, a request, an order to a rack. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly problems: readonly Problem[];
  readonly #named: ((names: OptionNames) => Refusal) | undefined;

  /**
   * @param problems at least one; those in a file are sorted by position.
   * @param options.named the same with other names of options; absent: it names none.
   */
  constructor(
    problems: readonly Problem[],
    { named, ...options }: ErrorOptions & {
      readonly named?: (names: OptionNames) => Refusal;
    } = {},
  ) {
    const place = ({ line = 0, column = 0 }: Problem) => [line, column] as const;
    const sorted = problems.toSorted((x, y) => {
      const [[line, column], [otherLine, otherColumn]] = [place(x), place(y)];
      return line - otherLine || column - otherColumn;
    });
    super(sorted.map(formatProblem).join("\n"), options);
    this.problems = sorted;
    this.#named = named;
  }

  /** The same, said to those who call options otherwise than a command line does. */
  inNames(names: OptionNames): Refusal {
    return this.#named?.(names) ?? this;
  }
}

/** The refusal of options: the place where they were given names them. @param problemsIn all that is wrong, in its names. */
export function optionRefusal(
  problemsIn: (named: OptionNames) => OptionProblem | readonly OptionProblem[],
): Refusal {
  const named = (names: OptionNames): Refusal => {
    const problems = [problemsIn(names)].flat();
    return new Refusal(problems.map((each) => ({ expected: "", ...each })), { named });
  };
  return named(COMMAND_NAMES);
}

/** The refusal of one input that is not in a file. @param path see {@link Problem.path}; a function: of an option. */
export function refusal(
  path: string | ((named: OptionNames) => string),
  problem: { readonly found: string; readonly expected?: string; readonly cause?: unknown },
): Refusal {
  const { found, expected = "", ...options } = problem;
  if (typeof path !== "string") {
    return optionRefusal((named) => ({ path: path(named), found, expected }));
  }
  return new Refusal([{ path, found, expected }], options);
}

/**
 * `persist_pair.yaml:12: hosts.b.ddio: found "offf", expected on, off or both`; outside a file
 * `--ddio is "offf": expected on or off` or `No rack is up: expected one`.
 */
export function formatProblem({ file, line, path, found, expected }: Problem): string {
  if (file === undefined) {
    const refused = path === "" ? found : `${path} is ${found}`;
    return expected === "" ? refused : `${refused}: expected ${expected}`;
  }
  const place = line === undefined ? file : `${file}:${line}`;
  const refused = `${place}: ${path === "" ? "" : `${path}: `}found ${found}`;
  return expected === "" ? refused : `${refused}, expected ${expected}`;
}

/** `one of a, b, c`; for a found word near one of them, `b (one of a, b, c)`. */
export function oneOf(words: readonly string[], found?: string): string {
  const all = `one of ${words.join(", ")}`;
  const near = found === undefined ? undefined : nearest(found, words);
  return near === undefined ? all : `${near} (${all})`;
}

export function listOf(words: readonly string[]): string {
  if (words.length <= 1) return words.join("");
  return `${words.slice(0, -1).join(", ")} or ${words[words.length - 1]}`;
}

export function showFound(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value === "object") return "a mapping";
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= 80 ? text : `${text.slice(0, 77)}…"`;
}

/** At most a third of the letters differ, and never all. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined, bestDistance = Infinity;
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  if (best === undefined || bestDistance >= Math.min(word.length, best.length)) return undefined;
  return bestDistance <= Math.max(1, best.length / 3) ? best : undefined;
}

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
