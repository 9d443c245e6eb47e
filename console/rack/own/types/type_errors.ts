/**
 * What `deno check` says, as problems in the form of the product: file, line, what was found, what was
 * expected. Errors that are common in protocols are said in their words; TypeScript's number stays.
 */
import { nearest, oneOf, type Problem } from "../../../../fabric/rack/plan/problem.ts";
import { textIfThere } from "../../../base/files.ts";
import { fromFileUrl, projectFile, ROOT } from "../../../base/paths.ts";

/** An error of the compiler, or of the module graph (without a number). */
export interface TypeError {
  readonly code: string;
  /** The first line, then what TypeScript says further of it. */
  readonly lines: readonly string[];
  readonly file?: string;
  readonly line?: number;
  readonly column?: number;
  /** Of an object, the field that has the wrong type. */
  readonly field?: string;
}

const FIELD = /^ +The expected type comes from property '(\w+)'/;
const FIRST = /^(?:(TS\d+) \[ERROR\]: |error: )(.*)$/;
const PLACE = /^ +at (file:\S+?):(\d+):(\d+)$/;
const LAST = "Type checking failed.";

/**
 * The errors in what `deno check` has written on stderr, without colours: each once, as it checks a file again for
 * each member of a workspace.
 */
export function typeErrorsIn(text: string): TypeError[] {
  const found: string[][] = [];
  for (const line of text.split("\n")) {
    const first = FIRST.exec(line);
    if (first !== null) found.push([line]);
    else found.at(-1)?.push(line);
  }
  const errors = found.map(errorOf).filter(({ lines }) => lines[0] !== LAST);
  return [...new Map(errors.map((error) => [JSON.stringify(error), error])).values()];
}

function errorOf([head, ...rest]: string[]): TypeError {
  const [, code = "", message] = FIRST.exec(head!)!;
  const at = rest.findIndex((line) => PLACE.test(line));
  // Behind the message: the line of source, and a mark below it.
  const mark = rest.findIndex((line) => /^\s*~+\s*$|^\s*\^+\s*$/.test(line));
  const said = rest.slice(0, Math.max(0, mark < 0 ? at : mark - 1))
    .filter((line) => line.trim() !== "");
  const lines = [message!, ...said.map((line) => line.trim())];
  if (at < 0) return withPlaceInText({ code, lines });
  const [, file, line, column] = PLACE.exec(rest[at]!)!;
  const field = rest.map((each) => FIELD.exec(each)?.[1]).find((each) => each !== undefined);
  return {
    code,
    lines,
    ...(field !== undefined && { field }),
    file: fromFileUrl(new URL(file!)),
    line: Number(line),
    column: Number(column),
  };
}

/** `… at file:///x.ts:3:5`, as errors of syntax have it. */
function withPlaceInText(error: TypeError): TypeError {
  const [first, ...rest] = error.lines;
  const place = /^(.*?) at (file:\S+?):(\d+):(\d+)$/.exec(first!);
  if (place === null) return error;
  const [, message, file, line, column] = place;
  return {
    ...error,
    lines: [message!, ...rest],
    file: fromFileUrl(new URL(file!)),
    line: Number(line),
    column: Number(column),
  };
}

/** @param name what people call a file. */
export function problemOf(error: TypeError, name: (file: string) => string): Problem {
  const { file, line, column, code, field = "" } = error;
  const { found, expected } = wordsFor(error);
  return {
    ...(file !== undefined && { file: name(file) }),
    ...(line !== undefined && { line }),
    ...(column !== undefined && { column }),
    path: field,
    found: code === "" ? found : `${found} (${code})`,
    expected,
  };
}

interface Words {
  readonly found: string;
  readonly expected: string;
}

const STEPS = /(?:Type|type) '((?:Steps|Generator)<[^']*)'/;

/** What the error is to somebody who writes a protocol. */
function wordsFor({ lines }: TypeError): Words {
  const all = lines.join("\n"), [first] = lines as [string];
  const steps = stepsIn(lines);
  if (steps !== undefined) {
    return {
      found: `a call without yield*, whose steps (${steps}) nothing has done`,
      expected: "yield* in front of the call",
    };
  }
  const unknown = /'(\w+)' does not exist in type '(\w+)'/.exec(first);
  if (unknown !== null) {
    const [, word, type] = unknown;
    const known = fieldsOf(type!);
    return {
      found: `${word}, which ${type} has not`,
      expected: known.length === 0 ? `a field of ${type}` : oneOf(known, word),
    };
  }
  const refusable = /Property '(\w+)' does not exist on type '([^']*\b(Refusal|VerbError)\b[^']*)'/
    .exec(first);
  if (refusable !== null) {
    const [, property, type, kind] = refusable;
    return {
      found: `${property} of what may be a refusal (${type})`,
      expected: kind === "Refusal" ? "refused(…) asked first" : "must(…), or failed(…) asked first",
    };
  }
  const missing = /^Cannot find name '(\w+)'/.exec(first)?.[1];
  if (missing !== undefined && door().includes(missing)) {
    return { found: `${missing}, which is not imported`, expected: `it from "rackmesh"` };
  }
  const exported = /^Module '"rackmesh"' has no exported member (?:named )?'(\w+)'/.exec(first)
    ?.[1];
  if (exported !== undefined) {
    const near = nearest(exported, door());
    return {
      found: `${exported}, which rackmesh does not export`,
      expected: near ?? "a name of nodes/protocol.ts",
    };
  }
  const why = lines.length > 1 ? `; ${lines.at(-1)!.replace(/\.$/, "")}` : "";
  return { found: `${first.replace(/\.$/, "")}${all === first ? "" : why}`, expected: "" };
}

/** The type of a generator in the place of a value. */
function stepsIn(lines: readonly string[]): string | undefined {
  const [first] = lines as [string];
  const isSource = [
    /^Argument of type '(?:Steps|Generator)</,
    /^Type '(?:Steps|Generator)</,
    /^Property '\w+' does not exist on type '(?:Steps|Generator)</,
    /^Property '\w+' is missing in type '(?:Steps|Generator)</,
  ].some((pattern) => pattern.test(first));
  if (isSource) return STEPS.exec(first)?.[1];
  // Of a field of an object: what is said further has the generator where a value should be.
  const inner = lines.slice(1).find((line) => /^Type 'Generator<Wait/.test(line));
  return inner === undefined ? undefined : STEPS.exec(inner)?.[1];
}

/** The fields of an interface of this clone, by its name: for the hint at the nearest one. */
function fieldsOf(type: string): string[] {
  const found = new Set<string>();
  for (const file of doorFiles()) {
    const text = textIfThere(file) ?? "";
    const begin = new RegExp(`^(?:export )?interface ${type}\\b[^{]*\\{\\n`, "m").exec(text);
    if (begin === null) continue;
    const from = begin.index + begin[0].length;
    const body = text.slice(from, text.indexOf("\n}", from));
    for (const [, field] of body.matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)) found.add(field!);
  }
  return [...found];
}

const DOOR = "nodes/protocol.ts";

/** The names that the door exports, those of files that it exports as a whole among them. */
function door(): string[] {
  const text = textIfThere(fromFileUrl(projectFile(DOOR))) ?? "";
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)]
    .flatMap(([, names]) => names!.split(",")).map((name) => name.replace(/\btype\b/, "").trim())
    .filter((name) => name !== "");
  const whole = [...text.matchAll(/^export \* from "(.*)"/gm)].flatMap(([, path]) => {
    const exported = textIfThere(fromFileUrl(new URL(path!, projectFile(DOOR)))) ?? "";
    return [...exported.matchAll(/^export (?:const|function\*?|type|interface|class) (\w+)/gm)]
      .map(([, name]) => name!);
  });
  return [...listed, ...whole];
}

/** The files of which the door exports something. */
function doorFiles(): string[] {
  const text = textIfThere(fromFileUrl(projectFile(DOOR))) ?? "";
  return [...text.matchAll(/from "\.{1,2}\/([^"]*)"/g)].map(([whole, path]) =>
    whole.includes('"../') ? `${ROOT}/${path}` : `${ROOT}/nodes/${path}`
  );
}
