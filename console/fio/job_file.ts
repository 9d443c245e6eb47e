/**
 * Reads fio's job files: sections of settings, with comments, `include`, and variables of the
 * environment, by the rules of fio's `__parse_jobs_ini` and `fio_option_dup_subs`.
 */
import type { Problem } from "../../fabric/rack/plan/problem.ts";
import { oneOf, Refusal } from "../../fabric/rack/plan/problem.ts";

export interface Setting {
  readonly name: string;
  readonly value?: string;
  readonly file: string;
  readonly line: number;
  /**
   * Variables of the environment that the line names and that are not set: fio takes them as empty.
   */
  readonly unset: readonly string[];
}

export interface Section {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly settings: readonly Setting[];
}

export interface JobFileWorld {
  /** @throws Error where the file cannot be read */
  readonly read: (path: string) => Promise<string>;
  readonly variable: (name: string) => string | undefined;
}

const INCLUDE_DEPTH_MAX = 16;
/** fio's 4 KiB page, 1 core a program, and no limit of memory that a job could be sized by. */
const KEYWORDS: Readonly<Record<string, string>> = { $pagesize: "4096", $ncpus: "1" };

/** @throws Refusal with all that is wrong with the sections' form. */
export async function readJobFile(path: string, world: JobFileWorld): Promise<Section[]> {
  const problems: Problem[] = [];
  const sections = sectionsOf(await linesOf(path, { world, problems }), problems);
  if (problems.length === 0 && !sections.some(({ name }) => !isGlobal(name))) {
    const expected = "a section [name] with a job";
    problems.push({ file: path, line: 1, path: "", found: "no job", expected });
  }
  if (problems.length > 0) throw new Refusal(problems);
  return sections;
}

/** Such a section gives defaults to the jobs behind it. */
export function isGlobal(name: string): boolean {
  return name.startsWith("global");
}

interface Line {
  readonly text: string;
  readonly file: string;
  readonly line: number;
  readonly included: boolean;
}

interface Reading {
  readonly world: JobFileWorld;
  readonly problems: Problem[];
}

async function linesOf(file: string, { world, problems }: Reading, depth = 0): Promise<Line[]> {
  const lines: Line[] = [];
  for (const [i, raw] of (await world.read(file)).split(/\r?\n/).entries()) {
    const text = raw.replace(/[;#].*$/, "").trim();
    if (text === "") continue;
    const at = { file, line: i + 1 };
    const included = /^include[\s=]\s*(.+)$/.exec(text)?.[1];
    if (included === undefined) {
      lines.push({ text, ...at, included: depth > 0 });
    } else if (depth === INCLUDE_DEPTH_MAX) {
      const expected = `at most ${INCLUDE_DEPTH_MAX} files one in the other`;
      problems.push({ ...at, path: "include", found: included, expected });
    } else {
      lines.push(...await includedLines(included, { world, problems, at, depth }));
    }
  }
  return lines;
}

/**
 * A path is relative to the current folder, or to that of the file that includes it, as fio has it.
 */
async function includedLines(
  path: string,
  { world, problems, at, depth }: Reading & {
    readonly at: { readonly file: string; readonly line: number };
    readonly depth: number;
  },
): Promise<Line[]> {
  const beside = at.file.includes("/") ? at.file.replace(/[^/]*$/, path) : path;
  let why = "";
  for (const each of [path, ...(path.startsWith("/") || beside === path ? [] : [beside])]) {
    try {
      await world.read(each);
    } catch (error) {
      why = (error as Error).message;
      continue;
    }
    return await linesOf(each, { world, problems }, depth + 1);
  }
  problems.push({ ...at, path: "include", found: `${path}: ${why}`, expected: "a file" });
  return [];
}

function sectionsOf(lines: readonly Line[], problems: Problem[]): Section[] {
  const sections: { -readonly [Key in keyof Section]: Section[Key] }[] = [];
  for (const { text, file, line, included } of lines) {
    const at = { file, line, path: "" };
    if (!text.startsWith("[")) {
      const section = sections.at(-1);
      const found = JSON.stringify(text);
      if (section !== undefined) {
        section.settings = [...section.settings, { ...at, ...halves(text) }];
      } else problems.push({ ...at, found, expected: "a section [name] or [global] before it" });
      continue;
    }
    const name = /^\[([^\]]+)\]$/.exec(text)?.[1];
    if (included) {
      const found = `the section ${text} in an included file`;
      problems.push({ ...at, found, expected: "settings only, as fio demands" });
    } else if (name === undefined) {
      problems.push({ ...at, found: JSON.stringify(text), expected: "a section [name]" });
    } else sections.push({ name, file, line, settings: [] });
  }
  return sections;
}

function halves(text: string): { name: string; value?: string; unset: string[] } {
  const at = text.indexOf("=");
  if (at < 0) return { name: text, unset: [] };
  return { name: text.slice(0, at).trim(), value: text.slice(at + 1).trim(), unset: [] };
}

/** Replaces variables (`${NAME}`) and fio's keywords (`$pagesize`). */
export function substituted(setting: Setting, world: Pick<JobFileWorld, "variable">): Setting {
  const { value } = setting;
  if (value === undefined || !value.includes("$")) return setting;
  const unset: string[] = [];
  const text = value.replaceAll(/\$\{([^}]*)\}/g, (_, name: string) => {
    const found = world.variable(name);
    if (found === undefined) unset.push(name);
    return found ?? "";
  }).replaceAll(/\$[a-z_]+/g, (word) => KEYWORDS[word] ?? word);
  return { ...setting, value: text, unset };
}

/** `one of …`, of options of a job. */
export function knownOption(name: string, known: readonly string[]): string {
  const near = oneOf(known, name);
  return near.includes(" (") ? near.slice(0, near.indexOf(" (")) : "an option of fio";
}
