/**
 * A lint rule for own programs: calls without `yield*` that types allow. Such a call is a statement
 * (`cpu.sleep(10);`), a condition, the value of a variable that is not read otherwise, or a list. The rule knows the
 * verbs and the functions of a core and of a region, by whatever name the file gives them, and the generator
 * functions of the user's files.
 * The lint API has no scopes: a name that the file declares for two things is left to the watch at run time
 * (`forgotten_calls.ts`).
 */
import type { ProgramCpu } from "../../../../nodes/host/program_context.ts";
import type { Region } from "../../../../nodes/host/cpu/program.ts";
import type { Verbs } from "../../../../nodes/host/verbs.ts";

/** The functions of a table that are generators, so that a call needs `yield*`. */
type StepsOf<Table> = {
  [Name in keyof Table]-?: Table[Name] extends (...args: never[]) => infer Answer
    ? Answer extends Generator<unknown, unknown, never> ? Name : never
    : never;
}[keyof Table];

/** All of them, which the compiler demands. */
const VERBS: Readonly<Record<StepsOf<Verbs>, true>> = {
  regMr: true,
  allocNullMr: true,
  reregMr: true,
  adviseMr: true,
  madvise: true,
  deregMr: true,
  allocMw: true,
  bindMw: true,
  deallocMw: true,
  createCq: true,
  destroyCq: true,
  pollCq: true,
  reqNotifyCq: true,
  resizeCq: true,
  endPoll: true,
  getChannelEvent: true,
  getCqEvent: true,
  getAsyncEvent: true,
  waitCompletion: true,
  createQp: true,
  modifyQp: true,
  queryQp: true,
  resizeQp: true,
  destroyQp: true,
  postSend: true,
  postRecv: true,
  postHint: true,
  wrComplete: true,
  createSrq: true,
  modifySrq: true,
  querySrq: true,
  postSrqRecv: true,
  destroySrq: true,
  attachMcast: true,
  detachMcast: true,
  modifyQpUdpSport: true,
  queueFill: true,
  queueInformation: true,
  writeSpace2: true,
  storeSpace2: true,
  connect: true,
  waitEvent: true,
  accept: true,
  reject: true,
  unlisten: true,
  waitDisconnect: true,
  disconnect: true,
  rdmaDestroyId: true,
  rdmaCreateQp: true,
  rdmaDestroyQp: true,
  rdmaConnect: true,
  rdmaEstablish: true,
  rdmaAccept: true,
  rdmaReject: true,
  rdmaDisconnect: true,
  rdmaGetCmEvent: true,
  queryDevice: true,
  queryDeviceEx: true,
  queryRtValuesEx: true,
  queryPort: true,
  queryGid: true,
  queryGidEx: true,
  queryGidTable: true,
};
const CORE: Readonly<Record<StepsOf<ProgramCpu>, true>> = {
  command: true,
  flush: true,
  ntStore: true,
  read: true,
  region: true,
  registerWrite: true,
  settle: true,
  sfence: true,
  sleep: true,
  waitAny: true,
  waitInterrupt: true,
  waitMemory: true,
  waitSignal: true,
  writeCombined: true,
};

const REGION: Readonly<Record<StepsOf<Region>, true>> = {
  load: true,
  store: true,
  fetchAdd: true,
  compareSwap: true,
  fence: true,
  flush: true,
  waitChange: true,
  move: true,
  deregister: true,
};

export const RULE = "rackmesh-steps/unused";

/** File → the names of generator functions that it exports; `default` for its default export. */
export type Exported = Readonly<Record<string, readonly string[]>>;

/** The names of generator functions that a file's text exports. */
export function exportedSteps(text: string): string[] {
  const found: string[] = [];
  for (const [, isDefault, name] of text.matchAll(/^export (default )?function\s*\*\s*(\w+)?/gm)) {
    if (isDefault !== undefined) found.push("default");
    else if (name !== undefined) found.push(name);
  }
  return found;
}

type Node = Deno.lint.Node;

/**
 * What a name of the file stands for: a function of the rack that makes steps, a generator function of the user's
 * files, a table of functions by whatever name; `other` also for what is declared as two of them.
 */
type Kind = "steps" | "generator" | "verbs" | "cpu" | "region" | "other";

const TABLES = { verbs: VERBS, cpu: CORE, region: REGION } as const;

type Names = Map<string, Kind>;

/** A call in a place where its steps are not done: see the head of the file. */
interface Call {
  readonly node: Node;
  readonly callee: Node;
  /** The variable that has its answer. */
  readonly variable?: string;
  /** In `for … of` and in a list, where the user's own generators may stand. */
  readonly isIterated?: boolean;
}

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
  const names: Names = new Map();
  /** Variables that are read otherwise than as a condition. */
  const used = new Set<string>();
  const calls: Call[] = [];
  const declare = (pattern: Node, kind: Kind = "other") => declareAll(pattern, kind, names);
  const ask = (node: Node | null, more: Omit<Call, "node" | "callee"> = {}) => {
    if (node?.type === "CallExpression") calls.push({ node, callee: node.callee, ...more });
  };
  return {
    FunctionDeclaration(node) {
      if (node.id !== null) declare(node.id, node.generator ? "generator" : "other");
      for (const param of node.params) declare(param as Node);
    },
    FunctionExpression(node) {
      for (const param of node.params) declare(param as Node);
    },
    ArrowFunctionExpression(node) {
      for (const param of node.params) declare(param as Node);
      if (isGivenToForEach(node)) ask(node.body);
    },
    VariableDeclarator({ id, init, parent }) {
      declare(id, init === null ? "other" : kindOf(init, names));
      const isExported = parent.parent?.type === "ExportNamedDeclaration";
      if (id.type === "ArrayPattern") ask(init, { isIterated: true });
      if (id.type === "Identifier" && !isExported) ask(init, { variable: id.name });
    },
    ImportDeclaration({ source, specifiers }) {
      const from = pathOf(source.value, context.filename);
      const steps = Object.hasOwn(exported, from) ? exported[from]! : [];
      for (const specifier of specifiers) {
        const name = importedName(specifier);
        declare(specifier.local, steps.includes(name) ? "generator" : "other");
      }
    },
    ExpressionStatement({ expression }) {
      const isVoid = expression.type === "UnaryExpression" && expression.operator === "void";
      ask(isVoid ? expression.argument : expression);
    },
    ForOfStatement: ({ right }) => ask(right, { isIterated: true }),
    CallExpression(node) {
      if (isCondition(node)) ask(node);
    },
    Identifier(node) {
      if (!isDeclared(node) && !isCondition(node)) used.add(node.name);
    },
    "Program:exit"() {
      for (const { node, callee, variable, isIterated = false } of calls) {
        if (variable !== undefined && used.has(variable)) continue;
        const made = stepsMadeBy(callee, names);
        if (made === undefined || (isIterated && made.kind === "generator")) continue;
        context.report({ node, message: made.name });
      }
    },
  };
}

/** The name of the function, where it makes steps. */
function stepsMadeBy(callee: Node, names: Names) {
  if (callee.type === "Identifier") {
    const kind = names.get(callee.name);
    return kind === "steps" || kind === "generator" ? { name: callee.name, kind } : undefined;
  }
  if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") return undefined;
  const { object, property: { name } } = callee;
  const table = kindOf(object, names);
  if (memberKind(table, name) !== "steps") return undefined;
  const owner = table === "region" && object.type === "Identifier" ? object.name : table;
  return { name: table === "verbs" ? name : `${owner}.${name}`, kind: "steps" as const };
}

/** What an expression is: `device.verbs`, another name of it, or a function of it. */
function kindOf(node: Node, names: Names): Kind {
  if (isNamed(node, "verbs")) return "verbs";
  if (isNamed(node, "cpu")) return "cpu";
  if (node.type === "Identifier") return names.get(node.name) ?? "other";
  if (node.type === "FunctionExpression") return node.generator ? "generator" : "other";
  if (node.type === "MemberExpression") return stepsMadeBy(node, names)?.kind ?? "other";
  return opensRegion(node) ? "region" : "other";
}

/** What the member of that name is. */
function memberKind(table: Kind, name: string): Kind {
  if (table === "verbs" || table === "cpu" || table === "region") {
    if (Object.hasOwn(TABLES[table], name)) return "steps";
  }
  return name === "verbs" || name === "cpu" ? name : "other";
}

/** `queues.forEach((qp) => destroyQp(qp))`: forEach drops what the function returns. */
function isGivenToForEach(node: Deno.lint.ArrowFunctionExpression): boolean {
  const call = node.parent as Node;
  return call.type === "CallExpression" && call.callee.type === "MemberExpression" &&
    call.callee.property.type === "Identifier" && call.callee.property.name === "forEach";
}

/** Whether an expression is only tested for truth: steps that were not done are always true. */
function isCondition(
  node: Deno.lint.CallExpression | Deno.lint.Identifier | Deno.lint.LogicalExpression,
): boolean {
  const parent = node.parent as Node;
  switch (parent.type) {
    case "IfStatement":
    case "WhileStatement":
    case "DoWhileStatement":
    case "ConditionalExpression":
      return isSame(parent.test, node);
    case "LogicalExpression":
      return isCondition(parent);
    case "UnaryExpression":
      return parent.operator === "!";
    case "BinaryExpression":
      return /^[!=]==?$/.test(parent.operator);
    default:
      return false;
  }
}

/** The name of a variable at its declaration, or a word that names no variable. */
function isDeclared(node: Deno.lint.Identifier): boolean {
  const parent = node.parent as Node;
  if (parent.type === "VariableDeclarator") return isSame(parent.id, node);
  if (parent.type === "MemberExpression") return !parent.computed && isSame(parent.property, node);
  return parent.type === "Property" && !parent.shorthand && !parent.computed &&
    isSame(parent.key, node);
}

function isSame(x: Node, y: Node): boolean {
  return x.type === y.type && x.range[0] === y.range[0] && x.range[1] === y.range[1];
}

function importedName(specifier: Deno.lint.ImportDeclaration["specifiers"][number]): string {
  if (specifier.type === "ImportDefaultSpecifier") return "default";
  if (specifier.type !== "ImportSpecifier") return "";
  return specifier.imported.type === "Identifier" ? specifier.imported.name : "";
}

/** `yield* cpu.region("s")`, of whichever core. */
function opensRegion(init: Node): boolean {
  if (init.type !== "YieldExpression" || !init.delegate) return false;
  const call = init.argument;
  return call?.type === "CallExpression" && call.callee.type === "MemberExpression" &&
    isNamed(call.callee.object, "cpu") && call.callee.property.type === "Identifier" &&
    call.callee.property.name === "region";
}

const TYPES: ReadonlyMap<string, Kind> = new Map([
  ["Region", "region"],
  ["Verbs", "verbs"],
  ["ProgramCpu", "cpu"],
]);

/** `region: Region`, `v: Verbs` */
function kindOfType({ typeAnnotation: annotated }: Deno.lint.Identifier): Kind | undefined {
  const type = annotated?.typeAnnotation;
  if (type?.type !== "TSTypeReference" || type.typeName.type !== "Identifier") return undefined;
  return TYPES.get(type.typeName.name);
}

/** `verbs`, or `device.verbs`. */
function isNamed(node: Node, name: string): boolean {
  if (node.type === "Identifier") return node.name === name;
  return node.type === "MemberExpression" && node.property.type === "Identifier" &&
    node.property.name === name;
}

/** The names that a pattern declares. @param kind what it takes apart. */
function declareAll(pattern: Node, kind: Kind, names: Names): void {
  switch (pattern.type) {
    case "Identifier": {
      const is = kindOfType(pattern) ?? kind, before = names.get(pattern.name) ?? is;
      names.set(pattern.name, before === is ? is : "other");
      return;
    }
    case "ObjectPattern":
      return pattern.properties.forEach((each) => declareAll(each as Node, kind, names));
    case "Property": {
      const key = pattern.key.type === "Identifier" && !pattern.computed ? pattern.key.name : "";
      return declareAll(pattern.value as Node, memberKind(kind, key), names);
    }
    case "ArrayPattern":
      return pattern.elements.forEach((each) => each && declareAll(each, "other", names));
    case "AssignmentPattern":
      return declareAll(
        pattern.left,
        kind === "other" ? kindOf(pattern.right, names) : kind,
        names,
      );
    case "RestElement":
      return declareAll(pattern.argument, "other", names);
  }
}

/** The path of a relative import. */
function pathOf(source: string, file: string): string {
  if (!/^\.{0,2}\//.test(source)) return "";
  return decodeURIComponent(new URL(source, `file://${encodeURI(file)}`).pathname);
}
