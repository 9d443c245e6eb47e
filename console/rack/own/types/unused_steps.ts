/**
 * Calls without `yield*` that types allow: a statement (`cpu.sleep(10);`), a condition, the value
 * of a variable that is not read otherwise, or text. A call is known by its type, whatever its name
 * is; one of unknown type is left to the watch at run time (`forgotten_calls.ts`).
 */
import ts from "typescript";
import type { Problem } from "../../../../fabric/rack/plan/problem.ts";
import type { Compiled } from "./compiler.ts";

interface Call {
  readonly node: ts.Expression;
  readonly variable?: ts.Identifier;
}

type Ask = (node: ts.Expression | undefined, variable?: ts.Identifier) => void;

/** It is a generator, or may be one. */
export function isGenerator(type: ts.Type): boolean {
  return membersOf(type).some(({ symbol }) => symbol?.name === "Generator");
}

/** Of a union, or the one type. */
export function membersOf(type: ts.Type): readonly ts.Type[] {
  return type.isUnion() ? type.types : [type];
}

/** By their places in the file. */
export function unusedSteps(
  file: ts.SourceFile,
  { program, checker }: Pick<Compiled, "program" | "checker">,
): Problem[] {
  const calls: Call[] = [];
  /** Their value is used for more than a test of its presence. */
  const read = new Set<ts.Symbol>();
  const ask: Ask = (given, variable) => {
    const node = given && unwrapped(given);
    if (node === undefined || !ts.isCallExpression(node)) return;
    calls.push({ node, ...(variable && { variable }) });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) && !isDeclared(node) && !isCondition(node)) {
      const symbol = checker.getSymbolAtLocation(node);
      if (symbol !== undefined) read.add(symbol);
      const short = ts.isShorthandPropertyAssignment(node.parent) &&
        checker.getShorthandAssignmentValueSymbol(node.parent);
      if (short) read.add(short);
    }
    look(node, ask);
    if (ts.isCallExpression(node) && methodOf(node) === "forEach") {
      // queues.forEach(destroyQp)
      const [given] = node.arguments;
      if (given && (ts.isIdentifier(given) || ts.isPropertyAccessExpression(given))) {
        calls.push({ node: given });
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return calls.flatMap(({ node, variable }) => {
    const symbol = variable && checker.getSymbolAtLocation(variable);
    if (symbol !== undefined && read.has(symbol) || !makesSteps(node, { program, checker })) {
      return [];
    }
    const name = called(ts.isCallExpression(node) ? node.expression : node, checker);
    const { line, character } = file.getLineAndCharacterOfPosition(node.getStart(file));
    return [{
      file: file.fileName,
      line: line + 1,
      column: character + 1,
      path: "",
      found: `a call of ${name} without yield*, which does nothing`,
      expected: `yield* ${name}(…)`,
    }];
  });
}

/**
 * A call surely returns a generator, or is `forEach` with a function that does. A value that may be
 * undefined is tested for its presence, and JavaScript's own methods return steps that were kept:
 * `queue.shift()`.
 */
function makesSteps(
  node: ts.Expression,
  { program, checker }: Pick<Compiled, "program" | "checker">,
): boolean {
  if (!ts.isCallExpression(node)) {
    const type = checker.getTypeAtLocation(node);
    return type.getCallSignatures().some((signature) => isGenerator(signature.getReturnType()));
  }
  const signature = checker.getResolvedSignature(node), declaration = signature?.declaration;
  const isBuiltIn = declaration !== undefined &&
    program.isSourceFileDefaultLibrary(declaration.getSourceFile());
  if (signature === undefined || isBuiltIn && !CALLING.includes(methodOf(node) ?? "")) return false;
  return membersOf(signature.getReturnType()).every(isGenerator);
}

const CALLING = ["call", "apply"];

function look(node: ts.Node, ask: Ask): void {
  if (ts.isExpressionStatement(node)) return dropped(node.expression, ask);
  if (ts.isVariableDeclaration(node)) {
    const { name, initializer, parent: { parent } } = node;
    if (ts.isObjectBindingPattern(name)) return ask(initializer);
    const isExported = ts.isVariableStatement(parent) && ts.getCombinedModifierFlags(node) !== 0;
    if (ts.isIdentifier(name) && !isExported) ask(initializer, name);
  } else if (ts.isBinaryExpression(node)) {
    if (node.operatorToken.kind === ts.SyntaxKind.CommaToken) dropped(node.left, ask);
  } else if (ts.isForStatement(node)) {
    for (const each of [node.initializer, node.incrementor]) {
      if (each !== undefined && ts.isExpression(each)) dropped(each, ask);
    }
  } else if (ts.isSpreadAssignment(node)) ask(node.expression);
  else if (ts.isArrowFunction(node)) {
    if (isDroppedResult(node) && ts.isExpression(node.body)) ask(node.body);
  } else if (ts.isCallExpression(node) && isCondition(node)) ask(node);
}

function dropped(expression: ts.Expression, ask: Ask): void {
  const node = unwrapped(expression);
  if (ts.isCallExpression(node)) return ask(node);
  if (ts.isVoidExpression(node)) return dropped(node.expression, ask);
  if (ts.isConditionalExpression(node)) {
    dropped(node.whenTrue, ask);
    return dropped(node.whenFalse, ask);
  }
  if (!ts.isBinaryExpression(node)) return;
  const { left, right, operatorToken: { kind } } = node;
  if (kind === ts.SyntaxKind.EqualsToken) {
    if (ts.isIdentifier(left)) ask(right, left);
    return;
  }
  // `kept ??= steps()` keeps them.
  const isKept = kind >= ts.SyntaxKind.FirstAssignment && kind <= ts.SyntaxKind.LastAssignment;
  if (!isKept) dropped(right, ask);
}

const TESTS = ["filter", "some", "every", "find", "findIndex"];

function isDroppedResult({ parent }: ts.ArrowFunction): boolean {
  if (!ts.isCallExpression(parent)) return false;
  const method = methodOf(parent);
  if (method === "map" || method === "flatMap") return ts.isExpressionStatement(parent.parent);
  return method === "forEach" || (method !== undefined && TESTS.includes(method));
}

function methodOf({ expression }: ts.CallExpression): string | undefined {
  return ts.isPropertyAccessExpression(expression) ? expression.name.text : undefined;
}

const ASKING = ["failed", "refused", "Boolean", "String", "log"];

const EQUALITY: ReadonlySet<ts.SyntaxKind> = new Set([
  ts.SyntaxKind.EqualsEqualsToken,
  ts.SyntaxKind.EqualsEqualsEqualsToken,
  ts.SyntaxKind.ExclamationEqualsToken,
  ts.SyntaxKind.ExclamationEqualsEqualsToken,
  ts.SyntaxKind.PlusToken,
]);

const LOGICAL: ReadonlySet<ts.SyntaxKind> = new Set([
  ts.SyntaxKind.AmpersandAmpersandToken,
  ts.SyntaxKind.BarBarToken,
  ts.SyntaxKind.QuestionQuestionToken,
]);

/** Only presence, always true of steps, or text of the value is used. */
function isCondition(node: ts.Node): boolean {
  const { parent } = node;
  if (isWrapper(parent)) return isCondition(parent);
  if (ts.isIfStatement(parent) || ts.isWhileStatement(parent) || ts.isDoStatement(parent)) {
    return parent.expression === node;
  }
  if (ts.isSwitchStatement(parent)) return parent.expression === node;
  if (ts.isConditionalExpression(parent) || ts.isForStatement(parent)) {
    return parent.condition === node;
  }
  if (ts.isPrefixUnaryExpression(parent)) {
    return parent.operator === ts.SyntaxKind.ExclamationToken;
  }
  if (ts.isTypeOfExpression(parent)) return true;
  if (ts.isTemplateSpan(parent)) return !ts.isTaggedTemplateExpression(parent.parent.parent);
  if (ts.isBinaryExpression(parent)) {
    const { operatorToken: { kind } } = parent;
    return EQUALITY.has(kind) || (LOGICAL.has(kind) && isCondition(parent));
  }
  if (!ts.isCallExpression(parent) || parent.expression === node) return false;
  const name = ts.isIdentifier(parent.expression) ? parent.expression.text : methodOf(parent);
  return name !== undefined && ASKING.includes(name);
}

function isDeclared(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isVariableDeclaration(parent)) return parent.name === node;
  if (ts.isBinaryExpression(parent)) {
    return parent.left === node && parent.operatorToken.kind === ts.SyntaxKind.EqualsToken &&
      ts.isExpressionStatement(parent.parent);
  }
  if (ts.isPropertyAccessExpression(parent)) return parent.name === node;
  return ts.isPropertyAssignment(parent) && parent.name === node;
}

type Wrapper =
  | ts.ParenthesizedExpression
  | ts.NonNullExpression
  | ts.AsExpression
  | ts.SatisfiesExpression
  | ts.TypeAssertion;

function isWrapper(node: ts.Node): node is Wrapper {
  return ts.isParenthesizedExpression(node) || ts.isNonNullExpression(node) ||
    ts.isAsExpression(node) || ts.isSatisfiesExpression(node) || ts.isTypeAssertionExpression(node);
}

function unwrapped(node: ts.Expression): ts.Expression {
  return isWrapper(node) ? unwrapped(node.expression) : node;
}

const OWNERS: Readonly<Record<string, string>> = { Cpu: "cpu", ProgramCpu: "cpu" };

/** `postSend`, `cpu.sleep`, `region.load` by the variable that has the region. */
function called(given: ts.Expression, checker: ts.TypeChecker): string {
  const node = unwrapped(given);
  if (ts.isIdentifier(node)) return node.text;
  if (ts.isElementAccessExpression(node) && ts.isStringLiteralLike(node.argumentExpression)) {
    return node.argumentExpression.text;
  }
  if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
    // postSend.bind(v)(qp, [])
    return called(node.expression.expression, checker);
  }
  if (!ts.isPropertyAccessExpression(node)) return node.getText();
  const { name: { text }, expression } = node;
  // postSend.call(v, qp, [])
  if (CALLING.includes(text)) return called(expression, checker);
  const type = checker.getTypeAtLocation(expression);
  const owner = type.aliasSymbol?.name ?? type.symbol?.name ?? "";
  if (owner === "Region" && ts.isIdentifier(expression)) return `${expression.text}.${text}`;
  return Object.hasOwn(OWNERS, owner) ? `${OWNERS[owner]}.${text}` : text;
}
