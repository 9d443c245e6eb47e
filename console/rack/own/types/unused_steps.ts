/**
 * A lint rule for own programs: a call that makes steps and whose steps nothing does, `cpu.sleep(10);`,
 * which types allow. It knows the verbs, those of a core, those of what `cpu.region` returns, and generator functions
 * of the user's files.
 * The API has no scopes: a name that the file declares twice is left to the watch at run time
 * (`forgotten_calls.ts`).
 */
import type { ProgramCpu } from "../../../../nodes/host/program_context.ts";
import type { Region } from "../../../../nodes/host/cpu/program.ts";
import type { Verbs } from "../../../../nodes/host/verbs.ts";

/** The functions of a table that make steps. */
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

/** What a name of the file stands for. */
interface Declared {
  readonly count: number;
  readonly isSteps: boolean;
  /** What `cpu.region` returns, or a parameter of type `Region`. */
  readonly isRegion: boolean;
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
  const names = new Map<string, Declared>();
  const declare = (name: string, isSteps = false, isRegion = false) => {
    const before = names.get(name);
    names.set(name, {
      count: (before?.count ?? 0) + 1,
      isSteps: isSteps || before?.isSteps === true,
      isRegion: isRegion || before?.isRegion === true,
    });
  };
  const unused: { readonly node: Node; readonly callee: Node }[] = [];
  return {
    FunctionDeclaration(node) {
      if (node.id !== null) declare(node.id.name, node.generator);
      for (const param of node.params) declareAll(param as Node, declare);
    },
    FunctionExpression(node) {
      for (const param of node.params) declareAll(param as Node, declare);
    },
    ArrowFunctionExpression(node) {
      for (const param of node.params) declareAll(param as Node, declare);
    },
    VariableDeclarator({ id, init }) {
      if (id.type === "Identifier") {
        const isSteps = init?.type === "FunctionExpression" && init.generator;
        declare(id.name, isSteps, init !== null && (opensRegion(init) || isTypedRegion(id)));
      } else if (id.type === "ObjectPattern" && init && isNamed(init, "verbs")) {
        for (const property of id.properties) {
          if (property.type !== "Property" || property.key.type !== "Identifier") {
            declareAll(property as Node, declare);
          } else if (property.value.type === "Identifier") {
            declare(property.value.name, Object.hasOwn(VERBS, property.key.name));
          }
        }
      } else declareAll(id, declare);
    },
    ImportDeclaration({ source, specifiers }) {
      const from = pathOf(source.value, context.filename);
      const steps = Object.hasOwn(exported, from) ? exported[from]! : [];
      for (const specifier of specifiers) {
        const { local } = specifier;
        if (specifier.type === "ImportDefaultSpecifier") {
          declare(local.name, steps.includes("default"));
        } else if (specifier.type === "ImportSpecifier") {
          const { imported } = specifier;
          const name = imported.type === "Identifier" ? imported.name : "";
          declare(local.name, steps.includes(name));
        } else declare(local.name);
      }
    },
    ExpressionStatement(node) {
      const { expression } = node;
      const call = expression.type === "UnaryExpression" && expression.operator === "void"
        ? expression.argument
        : expression;
      if (call.type === "CallExpression") unused.push({ node: call, callee: call.callee });
    },
    "Program:exit"() {
      for (const { node, callee } of unused) {
        const name = stepsMadeBy(callee, names);
        if (name !== undefined) context.report({ node, message: name });
      }
    },
  };
}

/** The name of the function, where it makes steps. */
function stepsMadeBy(callee: Node, names: ReadonlyMap<string, Declared>): string | undefined {
  if (callee.type === "Identifier") {
    const declared = names.get(callee.name);
    return declared?.isSteps && declared.count === 1 ? callee.name : undefined;
  }
  if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") return undefined;
  const { object, property: { name } } = callee;
  if (object.type === "Identifier" && Object.hasOwn(REGION, name)) {
    const declared = names.get(object.name);
    if (declared?.isRegion && declared.count === 1) return `${object.name}.${name}`;
  }
  if (isNamed(object, "verbs") && Object.hasOwn(VERBS, name)) return name;
  return isNamed(object, "cpu") && Object.hasOwn(CORE, name) ? `cpu.${name}` : undefined;
}

/** `yield* cpu.region("s")`, of whichever core. */
function opensRegion(init: Node): boolean {
  if (init.type !== "YieldExpression" || !init.delegate) return false;
  const call = init.argument;
  return call?.type === "CallExpression" && call.callee.type === "MemberExpression" &&
    isNamed(call.callee.object, "cpu") && call.callee.property.type === "Identifier" &&
    call.callee.property.name === "region";
}

/** `region: Region` */
function isTypedRegion({ typeAnnotation: annotated }: Deno.lint.Identifier): boolean {
  const type = annotated?.typeAnnotation;
  return type?.type === "TSTypeReference" && type.typeName.type === "Identifier" &&
    type.typeName.name === "Region";
}

/** `verbs`, or `device.verbs`. */
function isNamed(node: Node, name: string): boolean {
  if (node.type === "Identifier") return node.name === name;
  return node.type === "MemberExpression" && node.property.type === "Identifier" &&
    node.property.name === name;
}

/** The names that a pattern declares. */
function declareAll(
  pattern: Node,
  declare: (name: string, isSteps?: boolean, isRegion?: boolean) => void,
): void {
  switch (pattern.type) {
    case "Identifier":
      return declare(pattern.name, false, isTypedRegion(pattern));
    case "ObjectPattern":
      return pattern.properties.forEach((property) => declareAll(property as Node, declare));
    case "Property":
      return declareAll(pattern.value as Node, declare);
    case "ArrayPattern":
      return pattern.elements.forEach((element) => element && declareAll(element, declare));
    case "AssignmentPattern":
      return declareAll(pattern.left, declare);
    case "RestElement":
      return declareAll(pattern.argument, declare);
  }
}

/** The path of a relative import. */
function pathOf(source: string, file: string): string {
  if (!/^\.{0,2}\//.test(source)) return "";
  return decodeURIComponent(new URL(source, `file://${encodeURI(file)}`).pathname);
}
