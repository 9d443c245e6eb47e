/**
 * Mistakes that are common in protocols have their own texts, by the compiler's number and the code
 * at the place; others have the compiler's.
 */
import ts from "typescript";
import { nearest, oneOf, type Problem } from "../../../../fabric/rack/plan/problem.ts";
import {
  CALLS_AS_THERE,
  CALLS_LEFT_OUT,
  CALLS_THAT_DIFFER,
  type CallsThere,
  FIELDS_THERE,
  functionsOf,
  nameHere,
  namesOf,
  VALUES_THERE,
} from "../../../../nodes/host/calls/names_there.ts";
import { fromFileUrl, projectFile } from "../../../base/paths.ts";
import type { Compiled } from "./compiler.ts";
import { isGenerator, membersOf } from "./unused_steps.ts";

interface Words {
  readonly found: string;
  readonly expected?: string;
}

interface Place {
  readonly compiled: Pick<Compiled, "program" | "checker">;
  readonly node: ts.Node;
}

type Say = (place: Place) => Words | undefined;

const SAY: Readonly<Record<number, readonly Say[]>> = {
  1308: [() => ({ found: "await, which waits in real time", expected: "yield* in its place" })],
  2304: [unknownName],
  2305: [unknownExport],
  2307: [noModule],
  2322: [steps, wrongFlags, wrongText, wrongNumber, missingField],
  2339: [steps, unknownVerb, mayBeRefusal, unknownExport],
  2345: [steps, wrongFlags, wrongText, wrongNumber, missingField],
  2353: [unknownField],
  2367: [neverEqual],
  2488: [needlessYield],
  2551: [steps, unknownVerb],
  2552: [unknownName],
  2554: [wrongCount],
  2555: [wrongCount],
  2561: [unknownField],
  2591: [noModule],
  2724: [unknownExport],
  2739: [steps],
  2740: [steps],
  2741: [steps, missingField],
  2763: [steps],
  2764: [steps],
  2765: [steps],
  2820: [wrongText],
};

/** In the compiler's order. */
export function problemOf(compiled: Place["compiled"], diagnostic: ts.Diagnostic): Problem {
  const { code, file, start = 0, length = 0 } = diagnostic;
  const text = `(TS${code})`;
  if (file === undefined) return { path: "", found: `${saidOf(diagnostic)} ${text}`, expected: "" };
  const place = { compiled, node: nodeAt(file, start, start + length) };
  const words = wordsOf(code, place);
  const { line, character } = file.getLineAndCharacterOfPosition(start);
  return {
    file: file.fileName,
    line: line + 1,
    column: character + 1,
    path: OF_FIELD.has(code) ? fieldAt(place.node) : "",
    found: `${words?.found ?? saidOf(diagnostic)} ${text}`,
    expected: words?.expected ?? "",
  };
}

function wordsOf(code: number, place: Place): Words | undefined {
  for (const say of SAY[code] ?? []) {
    const words = say(place);
    if (words !== undefined) return words;
  }
  return undefined;
}

function saidOf({ messageText }: ts.Diagnostic): string {
  const lines = ts.flattenDiagnosticMessageText(messageText, "\n").split("\n")
    .map((line) => line.trim().replace(/\.$/, ""));
  return lines.length === 1 ? lines[0]! : `${lines[0]}; ${lines.at(-1)}`;
}

function nodeAt(file: ts.SourceFile, from: number, to: number): ts.Node {
  let found: ts.Node = file;
  const visit = (node: ts.Node): void => {
    if (node.getStart(file) > from || node.end < to) return;
    found = node;
    ts.forEachChild(node, visit);
  };
  ts.forEachChild(file, visit);
  return found;
}

const OF_FIELD: ReadonlySet<number> = new Set([2322, 2375, 2412, 2820]);

function fieldAt({ parent }: ts.Node): string {
  const isField = ts.isPropertyAssignment(parent) || ts.isShorthandPropertyAssignment(parent);
  return isField ? parent.name.getText() : "";
}

function valueAt(node: ts.Node): ts.Expression | undefined {
  const { parent } = node;
  if (ts.isReturnStatement(node)) return node.expression;
  if (ts.isPropertyAccessExpression(parent) && parent.name === node) return parent.expression;
  if (ts.isVariableDeclaration(parent) && parent.name === node) return parent.initializer;
  if (ts.isPropertyAssignment(parent)) return parent.initializer;
  if (ts.isBindingElement(parent)) return takenApart(parent);
  return ts.isExpression(node) ? node : undefined;
}

function takenApart(node: ts.BindingElement): ts.Expression | undefined {
  let at: ts.Node = node;
  while (ts.isBindingElement(at) || ts.isBindingName(at)) at = at.parent;
  return ts.isVariableDeclaration(at) ? at.initializer : undefined;
}

function steps({ compiled: { checker }, node }: Place): Words | undefined {
  const value = valueAt(node), type = value && checker.getTypeAtLocation(value);
  if (type === undefined || !isGenerator(type)) return undefined;
  return {
    found: `a call without yield*, whose steps (${checker.typeToString(type)}) nothing has done`,
    expected: "yield* in front of the call",
  };
}

function needlessYield({ compiled: { checker }, node }: Place): Words | undefined {
  if (!ts.isYieldExpression(node.parent)) return undefined;
  const answer = checker.typeToString(checker.getTypeAtLocation(node));
  return {
    found: `yield* of a call that takes no time, whose answer is ${answer}`,
    expected: "the call without yield*",
  };
}

function neverEqual({ node }: Place): Words | undefined {
  const comparison = ts.isBinaryExpression(node) ? node : node.parent;
  if (!ts.isBinaryExpression(comparison)) return undefined;
  const { left, right } = comparison;
  for (const side of [left, right]) {
    if (!ts.isStringLiteralLike(side)) continue;
    const text = valueFor(side.text) ??
      /^(?:IBV_WC|IBV_EVENT|RDMA_CM_EVENT)_(\w+)$/.exec(side.text)?.[1];
    if (text !== undefined) return { found: quoted(side.text), expected: quoted(text) };
  }
  return undefined;
}

/** `send` for IBV_WR_SEND. */
function valueFor(constant: string): string | number | undefined {
  return Object.hasOwn(VALUES_THERE, constant) ? VALUES_THERE[constant] : undefined;
}

const quoted = (text: string | number) => JSON.stringify(text);

function unknownField({ compiled: { checker }, node }: Place): Words | undefined {
  const object = ts.findAncestor(node, ts.isObjectLiteralExpression);
  const wanted = object && checker.getContextualType(object);
  const type = wanted &&
    membersOf(wanted).find((each) => nameOf(each) !== undefined && !checker.isArrayLikeType(each));
  if (type === undefined) return undefined;
  const word = node.getText(), name = nameOf(type)!;
  const fields = type.getProperties().map((field) => field.name);
  return {
    found: `${word}, which ${name} has not`,
    expected: fieldFor(name, word) ?? oneOf(fields, nameHere(word)),
  };
}

/** rdma-core's name: `sges` of SendRequest for `sg_list` and `sgList`. */
function fieldFor(type: string, word: string): string | undefined {
  return FIELDS_THERE.find(({ type: of, there }) =>
    of === type && there.some((name) => plain(name.split(".").at(-1)!) === plain(word))
  )?.field;
}

const plain = (name: string) => name.replaceAll("_", "").toLowerCase();

function nameOf({ aliasSymbol, symbol }: ts.Type): string | undefined {
  const name = aliasSymbol?.name ?? symbol?.name;
  return name?.startsWith("__") ? undefined : name;
}

function unknownVerb({ compiled, node }: Place): Words | undefined {
  const value = valueAt(node), type = value && compiled.checker.getTypeAtLocation(value);
  if (type?.getProperty("postSend") === undefined || type.getProperty("allocPd") === undefined) {
    return undefined;
  }
  const known = type.getProperties().map(({ name }) => name), word = node.getText();
  const found = `${word}, which device.verbs has not`;
  const aCall = "a call of scripts/scenarios/FROM_LIBIBVERBS.md";
  const leftOut = callsOf(CALLS_LEFT_OUT, word);
  if (leftOut !== undefined) return { found: `${found}: ${leftOut.note}`, expected: aCall };
  const name = nameHere(word);
  if (known.includes(name)) return { found, expected: name };
  const there = callsOf(CALLS_AS_THERE, word) ?? callsOf(CALLS_THAT_DIFFER, word);
  const meant = there && functionsOf(there).join(" or ");
  return { found, expected: meant ?? nearest(name, known) ?? aCall };
}

/** The row of `ibv_post_send`, written so, `ibvPostSend` or `postSend`. */
function callsOf(table: Readonly<Record<string, readonly CallsThere[]>>, word: string) {
  return Object.values(table).flat().find((calls) =>
    namesOf(calls).some((name) => plain(nameHere(name)) === plain(nameHere(word)))
  );
}

const ASK_FIRST: Readonly<Record<string, string>> = {
  Refusal: "refused(…) asked first",
  VerbError: "must(…), or failed(…) asked first",
};

function mayBeRefusal({ compiled: { checker }, node }: Place): Words | undefined {
  const value = valueAt(node), type = value && checker.getTypeAtLocation(value);
  const kind = type && membersOf(type).map(nameOf).find((name) => name && ASK_FIRST[name]);
  if (kind === undefined) return undefined;
  const found = `${node.getText()} of what may be a refusal (${checker.typeToString(type!)})`;
  return { found, expected: ASK_FIRST[kind]! };
}

function wrongCount({ compiled: { checker }, node }: Place): Words | undefined {
  const call = ts.findAncestor(node, ts.isCallExpression);
  const signature = call && checker.getResolvedSignature(call);
  if (call === undefined || signature === undefined) return undefined;
  const { expression, arguments: given } = call;
  const name = ts.isPropertyAccessExpression(expression) ? expression.name : expression;
  const parameters = signature.parameters.map(({ valueDeclaration, name }) => {
    if (valueDeclaration === undefined || !ts.isParameter(valueDeclaration)) return name;
    const pattern = valueDeclaration.name.getText().replace(/\s+/g, " ");
    const rest = valueDeclaration.dotDotDotToken === undefined ? "" : "...";
    return rest + pattern + (checker.isOptionalParameter(valueDeclaration) ? "?" : "");
  });
  return {
    found: `${given.length} ${given.length === 1 ? "argument" : "arguments"} of ${name.getText()}`,
    expected: `${name.getText()}(${parameters.join(", ")})`,
  };
}

function mismatch({ compiled: { checker }, node }: Place) {
  const value = valueAt(node);
  const wanted = value && checker.getContextualType(value);
  return wanted === undefined
    ? undefined
    : { value: value!, found: checker.getTypeAtLocation(value!), wanted: membersOf(wanted) };
}

function wrongFlags(place: Place): Words | undefined {
  const { found, wanted = [] } = mismatch(place) ?? {};
  const is = found && flagsOf(place, found);
  const must = wanted.map((type) => flagsOf(place, type)).find((flags) => flags !== undefined);
  if (is === undefined || must === undefined) return undefined;
  return { found: `${is} flags`, expected: `${must} flags` };
}

/** The constants' prefix: `IBV_SEND_…` of the type SendFlags. */
function flagsOf({ compiled: { checker, program } }: Place, type: ts.Type): string | undefined {
  const alias = type.aliasSymbol;
  if (alias === undefined || !alias.name.endsWith("Flags")) return undefined;
  const names = doorOf(program, checker).filter((each) =>
    each.name.startsWith("IBV_") && checker.getTypeOfSymbol(each).aliasSymbol === alias
  ).map(({ name }) => name);
  const [first] = names;
  if (first === undefined) return undefined;
  let begin = first.slice(0, first.lastIndexOf("_") + 1);
  while (!names.every((name) => name.startsWith(begin))) {
    begin = begin.slice(0, begin.lastIndexOf("_", begin.length - 2) + 1);
  }
  return `${begin}…`;
}

const DOOR = fromFileUrl(projectFile("nodes/protocol.ts"));

function doorOf(program: ts.Program, checker: ts.TypeChecker): readonly ts.Symbol[] {
  const file = program.getSourceFile(DOOR), module = file && checker.getSymbolAtLocation(file);
  return module === undefined
    ? []
    : checker.getExportsOfModule(module).map((each) =>
      each.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(each) : each
    );
}

function wrongText(place: Place): Words | undefined {
  const { found, wanted = [] } = mismatch(place) ?? {};
  if (found === undefined || !found.isStringLiteral()) return undefined;
  const same = valueFor(found.value);
  if (same !== undefined) return { found: quoted(found.value), expected: quoted(same) };
  const texts = valuesOf(wanted).map((type) => type.isStringLiteral() ? type.value : undefined);
  if (texts.length === 0 || texts.includes(undefined)) return undefined;
  return { found: quoted(found.value), expected: oneOf(texts as string[], found.value) };
}

function wrongNumber(place: Place): Words | undefined {
  const { found, wanted = [] } = mismatch(place) ?? {};
  const values = valuesOf(wanted);
  if (found === undefined || !found.isNumberLiteral() || values.length < 2) return undefined;
  if (!values.every((type) => type.isNumberLiteral())) return undefined;
  const known = values.map((type) => (type as ts.NumberLiteralType).value);
  return { found: String(found.value), expected: `one of ${known.join(", ")}` };
}

function valuesOf(types: readonly ts.Type[]): readonly ts.Type[] {
  return types.filter(({ flags }) => !(flags & ts.TypeFlags.Undefined));
}

function missingField(place: Place): Words | undefined {
  const { found, wanted = [] } = mismatch(place) ?? {};
  const [type] = valuesOf(wanted);
  if (found === undefined || type === undefined || !(found.flags & ts.TypeFlags.Object)) {
    return undefined;
  }
  const given = found.getProperties().map(({ name }) => name);
  const field = type.getProperties().find(({ name, flags }) =>
    !(flags & ts.SymbolFlags.Optional) && !given.includes(name)
  )?.name;
  if (field === undefined) return undefined;
  const meant = given.find((name) => nameHere(name) === field) ?? nearest(field, given);
  return meant === undefined
    ? undefined
    : { found: `an object that lacks ${field} and has ${meant}`, expected: field };
}

function unknownName({ compiled: { checker, program }, node }: Place): Words | undefined {
  const word = node.getText(), value = valueFor(word);
  if (doorOf(program, checker).some(({ name }) => name === word)) {
    return { found: `${word}, which is not imported`, expected: `it from "rackmesh"` };
  }
  if (value !== undefined) {
    const kind = typeof value === "string" ? "text" : "number";
    return { found: `${word}, which is a ${kind} here`, expected: quoted(value) };
  }
  const verb = verbNamed(word, { checker, program });
  if (verb === undefined) return undefined;
  return { found: `${word}, which is no name of the file`, expected: verb };
}

function unknownExport({ compiled: { checker, program }, node }: Place): Words | undefined {
  const from = ts.findAncestor(node, ts.isImportDeclaration)?.moduleSpecifier ?? valueAt(node);
  const module = from &&
    (checker.getSymbolAtLocation(from) ?? checker.getTypeAtLocation(from).symbol);
  const file = aliased(module, checker)?.declarations?.[0];
  if (file === undefined || !ts.isSourceFile(file) || file.fileName !== DOOR) return undefined;
  const word = node.getText(), value = valueFor(word);
  return {
    found: `${word}, which rackmesh does not export`,
    expected: value === undefined
      ? verbNamed(word, { checker, program }) ??
        nearest(word, doorOf(program, checker).map(({ name }) => name)) ??
        "a name of nodes/protocol.ts"
      : `${typeof value === "string" ? "the text" : "the number"} ${quoted(value)}`,
  };
}

function aliased(symbol: ts.Symbol | undefined, checker: ts.TypeChecker): ts.Symbol | undefined {
  const isAlias = symbol !== undefined && symbol.flags & ts.SymbolFlags.Alias;
  return isAlias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** `device.verbs.postSend` for `ibv_post_send`. */
function verbNamed(word: string, { checker, program }: Place["compiled"]): string | undefined {
  const verbs = doorOf(program, checker).find(({ name }) => name === "Verbs");
  const name = nameHere(word);
  const known = verbs && checker.getDeclaredTypeOfSymbol(verbs).getProperty(name);
  return known && `device.verbs.${name}`;
}

function noModule({ node }: Place): Words | undefined {
  if (!ts.isStringLiteralLike(node)) return undefined;
  const name = node.text;
  return {
    found: `an import of ${quoted(name)}, which is not there`,
    expected: /^[./]/.test(name) ? "a file" : `"rackmesh", a file, or a name of deno.json`,
  };
}
