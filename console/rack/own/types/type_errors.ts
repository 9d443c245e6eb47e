/**
 * What `deno check` says, as problems in the form of the product: file, line, what was found, what was
 * expected. Errors that are common in protocols are said in their words; TypeScript's number stays.
 */
import { nearest, oneOf, type Problem } from "../../../../fabric/rack/plan/problem.ts";
import { fromFileUrl } from "../../../base/paths.ts";
import { door, fieldFor, fieldsOf, flagsOf, signatureOf, textFor, verbNames } from "./door_text.ts";

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
  /** The line of source. */
  readonly source?: string;
  /** The part of it that is marked: its first column, and its text. */
  readonly marked?: { readonly from: number; readonly text: string };
  /** The file that declares what was used wrongly. */
  readonly declaredIn?: string;
}

const FIELD = /^ +The expected type comes from property '(\w+)'/;
const FIRST = /^(?:(TS\d+) \[ERROR\]: |error: )(.*)$/;
const PLACE = /^ +at (file:\S+?):(\d+):(\d+)$/;
const LAST = "Type checking failed.";
/** "Did you mean to mark this function as 'async'?" of an `await`, which has an error of its own. */
const ABOUT_AWAIT = "TS1356";
/** Of an error of syntax: the line's number and source, and the mark below it. */
const FRAMED = /^ *\d* \| ?/;

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
  const errors = found.map(errorOf)
    .filter(({ code, lines }) => lines[0] !== LAST && code !== ABOUT_AWAIT);
  return [...new Map(errors.map((error) => [JSON.stringify(error), error])).values()];
}

function errorOf([head, ...rest]: string[]): TypeError {
  const [, code = "", message] = FIRST.exec(head!)!;
  const at = rest.findIndex((line) => PLACE.test(line));
  // Behind the message: the line of source, unless it is long, and a mark below it.
  const mark = rest.findIndex((line, i) =>
    (at < 0 || i < at) && /^\s*~+\s*$|^\s*\^+\s*$/.test(line)
  );
  const said = rest.slice(0, Math.max(0, mark < 0 ? at : mark - 1))
    .filter((line) => line.trim() !== "" && !FRAMED.test(line));
  const lines = [message!, ...said.map((line) => line.trim())];
  if (at < 0) return withPlaceInText({ code, lines });
  const [, file, line, column] = PLACE.exec(rest[at]!)!;
  const source = mark < 1 ? "" : rest[mark - 1]!;
  const from = rest[mark]?.search(/[~^]/) ?? 0, to = rest[mark]?.trimEnd().length;
  const marked = { from, text: mark < 1 ? "" : source.slice(from, to) };
  const [, declared] = rest.slice(at + 1).map((each) => PLACE.exec(each)).find((each) => each) ??
    [];
  const field = rest.map((each) => FIELD.exec(each)?.[1]).find((each) => each !== undefined) ??
    (code === "TS2322" ? fieldAt(source, marked) : undefined);
  return {
    code,
    lines,
    ...(field !== undefined && { field }),
    source,
    marked,
    ...(declared !== undefined && { declaredIn: fromFileUrl(new URL(declared)) }),
    file: fromFileUrl(new URL(file!)),
    line: Number(line),
    column: Number(column),
  };
}

/** The field of an object literal that is marked, of which TypeScript does not say what type has it. */
function fieldAt(source: string, { from, text }: NonNullable<TypeError["marked"]>) {
  const isKey = /^\s*:/.test(source.slice(from + text.length)) &&
    /(?:^|[{,])\s*$/.test(source.slice(0, from));
  return isKey && /^\w+$/.test(text) ? text : undefined;
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

/** What the error is to the author of a protocol. */
function wordsFor(error: TypeError): Words {
  const { lines } = error;
  const [first] = lines as [string];
  const steps = stepsIn(lines);
  if (steps !== undefined) {
    return {
      found: `a call without yield*, whose steps (${steps}) nothing has done`,
      expected: "yield* in front of the call",
    };
  }
  // Of what follows the first line, the last is the reason; whose type was expected is told as the field.
  const further = lines.slice(1).filter((line) => !FIELD.test(` ${line}`)).at(-1);
  const why = further === undefined ? "" : `; ${further.replace(/\.$/, "")}`;
  return awaited(error) ?? needlessYield(error) ?? unknownField(first) ?? unknownProperty(first) ??
    wrongCount(error) ?? wrongFlags(first) ?? wrongText(first) ?? wrongNumber(first) ??
    neverEqual(first) ?? missingField(lines) ?? unknownName(first) ??
    { found: `${first.replace(/\.$/, "")}${why}`, expected: "" };
}

/** `yield*` in front of a call that returns its answer at once. */
function needlessYield({ code, lines: [first = ""], source = "", marked }: TypeError) {
  const isDelegated = /yield\s*\*\s*$/.test(source.slice(0, marked?.from ?? 0));
  const answer = /^Type '(.*)' must have a '\[Symbol\.iterator\]\(\)' method/.exec(first)?.[1];
  if (code !== "TS2488" || answer === undefined || !isDelegated) return undefined;
  return {
    found: `yield* of a call that takes no time, whose answer is ${answer}`,
    expected: "the call without yield*",
  };
}

/** `await cpu.sleep(10)`, as in a program that waits in real time. */
function awaited({ code }: TypeError): Words | undefined {
  if (code !== "TS1308") return undefined;
  return { found: "await, which waits in real time", expected: "yield* in its place" };
}

/** A comparison with what libibverbs calls a text: `status === "IBV_WC_SUCCESS"`. */
function neverEqual(first: string): Words | undefined {
  const [, constant] = /^This comparison .* '"(\w+)"' have no overlap/.exec(first) ?? [];
  if (constant === undefined) return undefined;
  const text = textFor(constant) ??
    /^(?:IBV_WC|IBV_EVENT|RDMA_CM_EVENT)_(\w+)$/.exec(constant)?.[1];
  return text === undefined
    ? undefined
    : { found: JSON.stringify(constant), expected: JSON.stringify(text) };
}

/** What TypeScript takes for the word that was meant. */
const MEANT = /Did you mean (?:to write )?'(\w+)'/;

/** Of an object, also where one or a list of them may be given. */
function unknownField(first: string): Words | undefined {
  const unknown = /'(\w+)' does not exist in type '(\w+)(?: \| readonly \2\[\])?'/.exec(first);
  if (unknown === null) return undefined;
  const [, word, type] = unknown;
  const known = fieldsOf(type!), same = fieldFor(type!, word!);
  if (same !== undefined) return { found: `${word}, which ${type} has not`, expected: same };
  return {
    found: `${word}, which ${type} has not`,
    expected: known.length === 0
      ? MEANT.exec(first)?.[1] ?? `a field of ${type}`
      : oneOf(known, word),
  };
}

/** Of `device.verbs`, and of what may be a refusal. */
function unknownProperty(first: string): Words | undefined {
  const [, property, type] = /^Property '(\w+)' does not exist on type '([^']*)'/.exec(first) ?? [];
  if (property === undefined || type === undefined) return undefined;
  if (type.startsWith("{ readonly allocPd:")) {
    const known = verbNames(), name = camelCased(property);
    const meant = known.includes(name) ? name : MEANT.exec(first)?.[1] ?? nearest(name, known);
    return {
      found: `${property}, which device.verbs has not`,
      expected: meant ?? "a call of scripts/scenarios/FROM_LIBIBVERBS.md",
    };
  }
  const kind = /(?:^|\| )(Refusal|VerbError)(?: \||$)/.exec(type)?.[1];
  if (kind === undefined) return undefined;
  return {
    found: `${property} of what may be a refusal (${type})`,
    expected: kind === "Refusal" ? "refused(…) asked first" : "must(…), or failed(…) asked first",
  };
}

/** `ibv_post_send`, `ibvPostSend` → `postSend`. */
function camelCased(name: string): string {
  const camel = name.replace(/_+([a-zA-Z0-9])/g, (_, letter: string) => letter.toUpperCase());
  return camel.replace(/^ibv([A-Z])/, (_, letter: string) => letter.toLowerCase());
}

/** `device.verbs.postSend` for `ibv_post_send`. */
function verbNamed(word: string): string | undefined {
  const name = camelCased(word);
  return verbNames().includes(name) ? `device.verbs.${name}` : undefined;
}

/** Too few arguments, where the function is marked, or too many, where the first such argument is. */
function wrongCount({ lines: [first = ""], source = "", marked, declaredIn }: TypeError) {
  const [, wanted, count] =
    /^Expected ((?:at least )?[\d-]+) arguments?, but got (\d+)/.exec(first) ?? [];
  if (count === undefined || marked === undefined) return undefined;
  const before = source.slice(0, marked.from);
  const name =
    /^\w+$/.test(marked.text) && /^\s*\(/.test(source.slice(marked.from + marked.text.length))
      ? marked.text
      : /(\w+)\([^()]*$/.exec(before)?.[1];
  const plural = Number(count) === 1 ? "argument" : "arguments";
  const called = name === undefined ? undefined : signatureOf(name, declaredIn);
  return {
    found: `${count} ${plural}${name === undefined ? "" : ` of ${name}`}`,
    expected: called ?? wanted!,
  };
}

/** Flags of another kind. */
function wrongFlags(first: string): Words | undefined {
  const [, found, wanted] =
    /type '(\w+Flags)' is not assignable to (?:parameter of )?type '(\w+Flags)(?: \| undefined)?'/i
      .exec(first) ?? [];
  const [is, must] = [found, wanted].map((type) => type === undefined ? type : flagsOf(type));
  if (is === undefined || must === undefined) return undefined;
  return { found: `${is} flags`, expected: `${must} flags` };
}

/** A text that the field cannot have. */
function wrongText(first: string): Words | undefined {
  const [, word, type] =
    /ype '"([^"]*)"' is not assignable to (?:parameter of )?type '([^']*)'/.exec(first) ?? [];
  if (word === undefined || type === undefined) return undefined;
  const same = textFor(word), found = JSON.stringify(word);
  if (same !== undefined) return { found, expected: JSON.stringify(same) };
  const parts = type.split(" | ").filter((part) => part !== "undefined");
  if (!parts.every((part) => /^"[^"]*"$/.test(part))) return undefined;
  return { found, expected: oneOf(parts.map((part) => part.slice(1, -1)), word) };
}

/** A number that is none of those that a field can have. */
function wrongNumber(first: string): Words | undefined {
  const [, found, type] = /^Type '(-?[\d.]+)' is not assignable to type '([^']*)'/.exec(first) ??
    [];
  const parts = type?.split(" | ").filter((part) => part !== "undefined") ?? [];
  if (found === undefined || parts.length < 2 || !parts.every((part) => /^\d+$/.test(part))) {
    return undefined;
  }
  return { found, expected: `one of ${parts.join(", ")}` };
}

/** An object that has the field by another name, `max_send_wr`. */
function missingField(lines: readonly string[]): Words | undefined {
  const missing = /^Property '(\w+)' is missing in type '(\{[^']*\})' but required/.exec(
    lines.at(-1)!,
  );
  if (missing === null || lines.length > 2) return undefined;
  const [, field, type] = missing;
  const given = [...type!.matchAll(/(\w+)\??: /g)].map(([, name]) => name!);
  const meant = given.find((name) => camelCased(name) === field) ?? nearest(field!, given);
  return meant === undefined
    ? undefined
    : { found: `an object that lacks ${field} and has ${meant}`, expected: field! };
}

/** A name that is not imported, that the door does not have, or that is a text here. */
function unknownName(first: string): Words | undefined {
  const missing = /^Cannot find name '(\w+)'/.exec(first)?.[1];
  if (missing !== undefined) {
    const text = textFor(missing);
    if (door().includes(missing)) {
      return { found: `${missing}, which is not imported`, expected: `it from "rackmesh"` };
    }
    if (text !== undefined) {
      return { found: `${missing}, which is a text here`, expected: JSON.stringify(text) };
    }
    const verb = verbNamed(missing);
    return verb === undefined
      ? undefined
      : { found: `${missing}, which is no name of the file`, expected: verb };
  }
  // Also by the file that the name stands for, where a deno.json says so.
  const exported =
    /^Module '"(?:rackmesh|file:[^"]*\/nodes\/protocol\.ts)"' has no exported member (?:named )?'(\w+)'/
      .exec(first)?.[1] ??
      /^Property '(\w+)' does not exist on type 'typeof import\(".*\/nodes\/protocol\.ts"/.exec(
        first,
      )?.[1];
  if (exported === undefined) return undefined;
  const text = textFor(exported);
  return {
    found: `${exported}, which rackmesh does not export`,
    expected: text === undefined
      ? verbNamed(exported) ?? nearest(exported, door()) ?? "a name of nodes/protocol.ts"
      : `the text ${JSON.stringify(text)}`,
  };
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
