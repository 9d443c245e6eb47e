import { type Command, Option } from "commander";
import { listOf, nearest, type Problem, Refusal } from "../../../fabric/rack/plan/problem.ts";
import { IDLE, REFUSED } from "./refused.ts";

export class Problems {
  readonly #problems: Problem[] = [];

  add(path: string, { found, expected = "" }: { found: string; expected?: string }): void {
    this.#problems.push({ path, found, expected });
  }

  /** Undefined where `read` refuses, which is kept. */
  of<T>(read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.#problems.push(...error.problems);
      return undefined;
    }
  }

  /** @throws Refusal of all of them, if there are any. */
  refuse(): void {
    if (this.#problems.length > 0) throw new Refusal(this.#problems);
  }
}

export class Line {
  readonly problems = new Problems();
  readonly #command: Command;
  readonly #idle = new Map<string, string>();

  constructor(command: Command) {
    this.#command = command;
    for (const { flags, why, only, but } of IDLE) {
      this.#hidden(flags, (name, value) => {
        if (but?.test(String(value))) return;
        if (only === undefined || value === only) this.#idle.set(name, why);
        else this.problems.add(name, { found: `"${value}"`, expected: `${only}: ${why}` });
      });
    }
    for (const [flags, why] of REFUSED) {
      this.#hidden(flags, (name) => {
        this.problems.add("", { found: `${name} is perftest's, and not here: ${why}` });
      });
    }
    const parse = command.parseOptions.bind(command);
    command.parseOptions = (words) => parse(lengthened(words, longOptions(command)));
    command.allowUnknownOption().allowExcessArguments();
  }

  #hidden(flags: string, take: (name: string, value: unknown) => void): void {
    const option = new Option(flags).hideHelp();
    this.#command.addOption(option);
    const name = option.long ?? flags;
    this.#command.on(`option:${option.name()}`, (value) => take(name, value));
  }

  addIdle(word: string, why: string): void {
    this.#idle.set(word, why);
  }

  /** In one line; undefined where all has an effect. */
  get note(): string | undefined {
    if (this.#idle.size === 0) return undefined;
    return `No effect here: ${[...this.#idle].map(([name, why]) => `${name} (${why})`).join(", ")}`;
  }

  checkWords(): void {
    const { args, registeredArguments } = this.#command;
    const known = longOptions(this.#command);
    for (const word of args) {
      if (!isOption(word)) continue;
      const name = word.replace(/=.*/, "");
      const begun = known.filter((each) => name.startsWith("--") && each.startsWith(name));
      const near = begun.length > 0 ? listOf(begun) : nearest(name, known);
      this.problems.add("", {
        found: `${name} is no option of perftest's`,
        expected: near ?? "one of rack perftest --help",
      });
    }
    // Behind an unknown option, a word may be its value.
    if (args.some(isOption)) return;
    for (const word of args.slice(registeredArguments.length)) {
      this.problems.add("", {
        found: `"${word}" is a word too many`,
        expected: "a test, a scenario, and at most a server",
      });
    }
  }
}

function isOption(word: string): boolean {
  return word.length > 1 && word.startsWith("-");
}

function longOptions({ options }: Command): string[] {
  return options.flatMap(({ long }) => long ?? []);
}

/**
 * As getopt_long(3) has it: a long option may be shortened as long as it is no other's beginning.
 */
function lengthened(words: readonly string[], known: readonly string[]): string[] {
  const end = words.indexOf("--");
  return words.map((word, i) => {
    const [, name, value = ""] = /^(--[^=]+)(=.*)?$/.exec(word) ?? [];
    if (name === undefined || (end >= 0 && i >= end) || known.includes(name)) return word;
    const [first, ...others] = known.filter((each) => each.startsWith(name));
    return first === undefined || others.length > 0 ? word : first + value;
  });
}
