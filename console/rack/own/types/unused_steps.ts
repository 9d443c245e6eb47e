/**
 * A lint rule for own programs: calls without `yield*` that types allow. Such a call is a statement
 * (`cpu.sleep(10);`), a condition, the value of a variable that is not read otherwise, a list, or text.
 * `step_kinds.ts` knows which calls need `yield*`, by whatever name.
 */
import { type Exported, Names, type Node, unwrapped } from "./step_kinds.ts";

export type { Exported } from "./step_kinds.ts";

export const RULE = "rackmesh-steps/unused";

/** A call in a place where its steps are not done: see the head of the file. */
interface Call {
  readonly node: Node;
  readonly callee: Node;
  /** The variable that has its answer. */
  readonly variable?: Deno.lint.Identifier;
  /** Where a plain generator has its place. */
  readonly isIterated?: boolean;
}

type More = Omit<Call, "node" | "callee">;
type Ask = (given: Node | null, more?: More) => void;

/** The rule as a plugin. @param exported by the paths of the user's files. */
export function unusedSteps(exported: Exported): Deno.lint.Plugin {
  return {
    name: RULE.slice(0, RULE.indexOf("/")),
    rules: {
      [RULE.slice(RULE.indexOf("/") + 1)]: { create: (context) => visit(context, exported) },
    },
  };
}

function visit(context: Deno.lint.RuleContext, exported: Exported): Deno.lint.LintVisitor {
  const names = new Names();
  /** Of more than whether they are there. */
  const reads: Deno.lint.Identifier[] = [];
  const calls: Call[] = [];
  const ask: Ask = (given, more = {}) => {
    const node = given && unwrapped(given);
    if (node?.type === "CallExpression") calls.push({ node, callee: node.callee, ...more });
  };
  return {
    FunctionDeclaration: (node) => names.function(node),
    FunctionExpression: (node) => names.function(node),
    ArrowFunctionExpression(node) {
      names.function(node);
      if (isDroppedResult(node)) ask(node.body);
    },
    ReturnStatement: (node) => names.returned(node),
    ClassDeclaration: (node) => names.class(node),
    TSInterfaceDeclaration: ({ id, body }) => names.type(id.name, body.body),
    TSTypeAliasDeclaration({ id, typeAnnotation: type }) {
      if (type.type === "TSTypeLiteral") names.type(id.name, type.members);
    },
    VariableDeclarator({ id, init, parent }) {
      names.variable(id, init);
      const isExported = parent.parent?.type === "ExportNamedDeclaration";
      if (id.type === "ArrayPattern") ask(init, { isIterated: true });
      if (id.type === "ObjectPattern") ask(init);
      if (id.type === "Identifier" && !isExported) ask(init, { variable: id });
    },
    ImportDeclaration(node) {
      const from = pathOf(node.source.value, context.filename);
      names.imported(node, Object.hasOwn(exported, from) ? exported[from]! : []);
    },
    ExpressionStatement: ({ expression }) => dropped(expression, ask),
    SequenceExpression({ expressions }) {
      for (const each of expressions.slice(0, -1)) dropped(each, ask);
    },
    ForStatement({ init, update }) {
      for (const each of [init, update]) if (each) dropped(each, ask);
    },
    SpreadElement({ argument, parent }) {
      ask(argument, { isIterated: (parent as Node).type !== "ObjectExpression" });
    },
    ForOfStatement: ({ right }) => ask(right, { isIterated: true }),
    CallExpression(node) {
      if (isCondition(node)) ask(node);
      const [given] = node.arguments;
      // queues.forEach(destroyQp)
      if (
        methodOf(node) === "forEach" && /^(Identifier|MemberExpression)$/.test(given?.type ?? "")
      ) {
        calls.push({ node: given as Node, callee: given as Node });
      }
    },
    Identifier(node) {
      if (!isDeclared(node) && !isCondition(node)) reads.push(node);
    },
    "Program:exit"() {
      const read = new Set(reads.map((node) => names.declarationOf(node)));
      const seen = new Set<string>();
      for (const { node, callee, variable, isIterated = false } of calls) {
        if (variable !== undefined && read.has(names.declarationOf(variable))) continue;
        const made = names.stepsMadeBy(callee);
        if (made === undefined || (isIterated && made.kind === "generator")) continue;
        if (seen.has(String(node.range))) continue;
        seen.add(String(node.range));
        context.report({ node, message: made.name });
      }
    },
  };
}

/** What stands where its value is dropped. */
function dropped(expression: Node, ask: Ask): void {
  const node = unwrapped(expression);
  switch (node.type) {
    case "CallExpression":
      return ask(node);
    case "SequenceExpression":
      return dropped(node.expressions.at(-1)!, ask);
    case "LogicalExpression":
      return dropped(node.right, ask);
    case "ConditionalExpression":
      dropped(node.consequent, ask);
      return dropped(node.alternate, ask);
    case "UnaryExpression":
      return dropped(node.argument, ask);
    case "AssignmentExpression":
      if (node.left.type === "Identifier") ask(node.right, { variable: node.left });
  }
}

/** Methods of lists that ask no more of what a function returns than whether it is there. */
const TESTS = ["filter", "some", "every", "find", "findIndex"];

/** `queues.forEach((qp) => destroyQp(qp))`: forEach drops what the function returns. */
function isDroppedResult(node: Deno.lint.ArrowFunctionExpression): boolean {
  const call = node.parent as Node;
  if (call.type !== "CallExpression") return false;
  const method = methodOf(call);
  if (method === "map" || method === "flatMap") {
    return (call.parent as Node).type === "ExpressionStatement";
  }
  return method === "forEach" || (method !== undefined && TESTS.includes(method));
}

function methodOf({ callee }: Deno.lint.CallExpression): string | undefined {
  if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") return undefined;
  return callee.property.name;
}

/** Functions that ask nothing of steps that have not begun. */
const ASKING = ["failed", "refused", "Boolean", "String", "log"];

/** Whether nothing but its being there is asked, which is so of steps before they are done, or its text. */
function isCondition(node: Node): boolean {
  const parent = (node as { readonly parent: Node }).parent;
  switch (parent.type) {
    case "IfStatement":
    case "WhileStatement":
    case "DoWhileStatement":
    case "ConditionalExpression":
      return isSame(parent.test, node);
    case "ForStatement":
      return parent.test !== null && isSame(parent.test, node);
    case "SwitchStatement":
      return isSame(parent.discriminant, node);
    case "LogicalExpression":
    case "ChainExpression":
    case "TSNonNullExpression":
    case "TSAsExpression":
      return isCondition(parent);
    case "UnaryExpression":
      return parent.operator === "!" || parent.operator === "typeof";
    case "BinaryExpression":
      return /^[!=]==?$|^\+$/.test(parent.operator);
    case "TemplateLiteral":
      return (parent.parent as Node).type !== "TaggedTemplateExpression";
    case "CallExpression": {
      const { callee } = parent;
      const name = callee.type === "Identifier" ? callee.name : methodOf(parent);
      return name !== undefined && ASKING.includes(name) && !isSame(callee, node);
    }
    default:
      return false;
  }
}

/** The name of a variable where it gets its value, or a word that names no variable. */
function isDeclared(node: Deno.lint.Identifier): boolean {
  const parent = node.parent as Node;
  if (parent.type === "VariableDeclarator") return isSame(parent.id, node);
  if (parent.type === "AssignmentExpression") {
    return isSame(parent.left, node) && (parent.parent as Node).type === "ExpressionStatement";
  }
  if (parent.type === "MemberExpression") return !parent.computed && isSame(parent.property, node);
  return parent.type === "Property" && !parent.shorthand && !parent.computed &&
    isSame(parent.key, node);
}

function isSame(x: Node, y: Node): boolean {
  return x.type === y.type && x.range[0] === y.range[0] && x.range[1] === y.range[1];
}

/** The path of a relative import. */
function pathOf(source: string, file: string): string {
  if (!/^\.{0,2}\//.test(source)) return "";
  return decodeURIComponent(new URL(source, `file://${encodeURI(file)}`).pathname);
}
