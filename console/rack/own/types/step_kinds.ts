/**
 * What the names of a user's file stand for, as far as calls that make steps go: the verbs, a core, what `cpu.region`
 * returns, their functions, and generator functions and classes of the user's files. Names have scopes; types are
 * looked at where they are written. What cannot be told is left to the watch at run time (`forgotten_calls.ts`).
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

export type Node = Deno.lint.Node;
type Pattern = Node | Deno.lint.Parameter;
type FunctionNode =
  | Deno.lint.FunctionDeclaration
  | Deno.lint.FunctionExpression
  | Deno.lint.ArrowFunctionExpression;
type ClassNode = Deno.lint.ClassDeclaration | Deno.lint.ClassExpression;

/** A table of functions, a function that makes steps (of the rack, or of the user's files), or what has members. */
type Kind = "steps" | "generator" | "verbs" | "cpu" | "region" | "other" | Members;

/** An object, a module, a class; `makes`: what `new` returns. */
interface Members {
  readonly member: (name: string) => Kind | undefined;
  readonly makes?: Members;
}

const TABLES = { verbs: VERBS, cpu: CORE, region: REGION } as const;

const TYPES: ReadonlyMap<string, Kind> = new Map([
  ["Region", "region"],
  ["Verbs", "verbs"],
  ["ProgramCpu", "cpu"],
  ["Cpu", "cpu"],
]);

/** Files → names of generator functions that they export, `default` among them; `Sender.send`: of a class. */
export type Exported = Readonly<Record<string, readonly string[]>>;

/** A name, from where to where it holds. */
interface Declared {
  readonly range: Node["range"];
  readonly kind: () => Kind;
}

/** A function that makes steps, as a call names it. */
interface StepsMade {
  readonly name: string;
  readonly kind: "steps" | "generator";
}

const SCOPES: ReadonlySet<Node["type"]> = new Set([
  "BlockStatement",
  "ForStatement",
  "ForOfStatement",
  "ForInStatement",
  "SwitchStatement",
  "StaticBlock",
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
]);
const EVERYWHERE: Node["range"] = [0, Infinity];

export class Names {
  readonly #declared = new Map<string, Declared[]>();
  readonly #types = new Map<string, () => Kind>();
  readonly #returned = new Map<Node, Node[]>();
  /** By the place where each begins: whether it returns steps. */
  readonly #functions = new Map<number, Kind>();
  /** Classes, by where each begins, whose parents are being looked at. */
  readonly #inheriting = new Set<number>();
  /** Declarations that are being looked at: one that needs itself is none of ours. */
  readonly #asked = new Set<Declared>();

  /** The names of a pattern. @param init what it takes apart. */
  variable(id: Node, init: Node | null): void {
    const scope = scopeOf(id);
    this.#declare(id, () => init === null ? "other" : this.#kindOf(init), scope);
  }

  function(node: FunctionNode): void {
    if (node.type === "FunctionDeclaration" && node.id !== null) {
      this.#declare(node.id, () => this.#functionKind(node), scopeOf(node));
    }
    for (const param of node.params) this.#declare(param, () => "other", node.range);
  }

  returned(node: Deno.lint.ReturnStatement): void {
    const from = enclosing(node, isFunction);
    if (from === undefined || node.argument === null) return;
    this.#returned.set(from, [...this.#returned.get(from) ?? [], node.argument]);
  }

  class(node: Deno.lint.ClassDeclaration): void {
    if (node.id === null) return;
    this.#declare(node.id, () => this.#membersOf(node), scopeOf(node));
  }

  type(name: string, members: readonly Node[]): void {
    this.#types.set(name, () => this.#signatures(members));
  }

  /** @param steps what the file exports. */
  imported({ specifiers }: Deno.lint.ImportDeclaration, steps: readonly string[]): void {
    for (const specifier of specifiers) {
      const name = importedName(specifier);
      const kind = name === undefined
        ? { member: (each: string) => exportedKind(each, steps) }
        : exportedKind(name, steps);
      this.#declare(specifier.local, () => kind, EVERYWHERE);
    }
  }

  #declare(pattern: Pattern, kind: () => Kind, range: Node["range"]): void {
    switch (pattern.type) {
      case "Identifier": {
        const type = pattern.typeAnnotation?.typeAnnotation;
        const is = type === undefined ? kind : () => this.#typeKind(type) ?? kind();
        const known = this.#declared.get(pattern.name) ?? [];
        this.#declared.set(pattern.name, [...known, { range, kind: is }]);
        return;
      }
      case "ObjectPattern": {
        const type = pattern.typeAnnotation?.typeAnnotation;
        const is = type === undefined ? kind : () => this.#typeKind(type) ?? kind();
        for (const each of pattern.properties) this.#declare(each as Node, is, range);
        return;
      }
      case "Property": {
        const key = nameOf(pattern.key as Node, pattern.computed) ?? "";
        return this.#declare(pattern.value as Node, () => memberKind(kind(), key), range);
      }
      case "ArrayPattern":
        for (const each of pattern.elements) if (each) this.#declare(each, () => "other", range);
        return;
      case "AssignmentPattern": {
        const { left, right } = pattern;
        return this.#declare(left, () => {
          const is = kind();
          return is === "other" ? this.#kindOf(right) : is;
        }, range);
      }
      case "TSParameterProperty":
        return this.#declare(pattern.parameter, kind, range);
      case "RestElement":
        return this.#declare(pattern.argument, () => "other", range);
    }
  }

  /** The innermost declaration of a name at a place. */
  declarationOf({ name, range: [at] }: Deno.lint.Identifier): Declared | undefined {
    let best: Declared | undefined;
    for (const each of this.#declared.get(name) ?? []) {
      const { range: [from, to] } = each;
      if (at < from || at >= to) continue;
      if (best === undefined || to - from <= best.range[1] - best.range[0]) best = each;
    }
    return best;
  }

  #nameKind(node: Deno.lint.Identifier): Kind {
    const declared = this.declarationOf(node);
    const kind = declared === undefined ? "other" : this.#ask(declared);
    return kind === "other" ? tableNamed(node.name) : kind;
  }

  #ask(declared: Declared): Kind {
    if (this.#asked.has(declared)) return "other";
    this.#asked.add(declared);
    const kind = declared.kind();
    this.#asked.delete(declared);
    return kind;
  }

  /** What an expression is: `device.verbs`, another name of it, or a function of it. */
  #kindOf(node: Node): Kind {
    switch (node.type) {
      case "TSAsExpression":
      case "TSSatisfiesExpression":
        return this.#typeKind(node.typeAnnotation) ?? this.#kindOf(node.expression);
      case "ChainExpression":
      case "TSNonNullExpression":
        return this.#kindOf(node.expression);
      case "Identifier":
        return this.#nameKind(node);
      case "FunctionExpression":
      case "ArrowFunctionExpression":
        return this.#functionKind(node);
      case "ClassExpression":
        return this.#membersOf(node);
      case "ThisExpression": {
        const around = enclosing(node, isClass);
        return around === undefined ? "other" : this.#membersOf(around).makes!;
      }
      case "NewExpression": {
        const made = this.#kindOf(node.callee);
        return typeof made === "object" ? made.makes ?? "other" : "other";
      }
      case "ObjectExpression":
        return this.#objectKind(node);
      case "MemberExpression": {
        const name = nameOf(node.property, node.computed);
        return name === undefined ? "other" : memberKind(this.#kindOf(node.object), name);
      }
      case "CallExpression": {
        const { callee } = node;
        const isBind = callee.type === "MemberExpression" &&
          nameOf(callee.property, callee.computed) === "bind";
        return isBind ? this.#kindOf(callee.object) : "other";
      }
      case "YieldExpression":
        return opensRegion(node) ? "region" : "other";
      default:
        return "other";
    }
  }

  /** The name of the function that a call calls, where it makes steps. */
  stepsMadeBy(given: Node): StepsMade | undefined {
    const kind = this.#kindOf(given), callee = unwrapped(given);
    if (callee.type === "MemberExpression") {
      const name = nameOf(callee.property, callee.computed);
      // postSend.call(v, qp, [])
      if (name === "call" || name === "apply") return this.stepsMadeBy(callee.object);
      if (name === undefined || (kind !== "steps" && kind !== "generator")) return undefined;
      const table = this.#kindOf(callee.object);
      if (kind === "generator" || typeof table === "object" || table === "verbs") {
        return { name, kind };
      }
      const owner = table === "region" && callee.object.type === "Identifier"
        ? callee.object.name
        : table;
      return { name: `${owner}.${name}`, kind };
    }
    if (kind !== "steps" && kind !== "generator") return undefined;
    // postSend.bind(v)(qp, [])
    if (callee.type === "CallExpression" && callee.callee.type === "MemberExpression") {
      return this.stepsMadeBy(callee.callee.object);
    }
    return { name: callee.type === "Identifier" ? callee.name : "this function", kind };
  }

  /** `generator`: it is one, its type says that it returns one, or it returns the steps of a call. */
  #functionKind(node: FunctionNode | Deno.lint.TSEmptyBodyFunctionExpression): Kind {
    if (isStepsType(node.returnType?.typeAnnotation)) return "generator";
    if (node.type === "TSEmptyBodyFunctionExpression") return "other";
    if ("generator" in node && node.generator) return "generator";
    const key = node.range[0], known = this.#functions.get(key);
    if (known !== undefined) return known;
    // Of one that calls itself.
    this.#functions.set(key, "other");
    const body: Node | null | undefined = node.body;
    const returned = body && body.type !== "BlockStatement" ? [body] : this.#returned.get(node);
    const kind = returned?.some((each) => this.#isSteps(each)) ? "generator" : "other";
    this.#functions.set(key, kind);
    return kind;
  }

  #isSteps(given: Node): boolean {
    const node = unwrapped(given);
    return node.type === "CallExpression" && this.stepsMadeBy(node.callee) !== undefined;
  }

  #objectKind({ properties }: Deno.lint.ObjectExpression): Members {
    const members = new Map<string, Node>();
    for (const each of properties) {
      if (each.type !== "Property") continue;
      const name = nameOf(each.key as Node, each.computed);
      if (name !== undefined) members.set(name, each.value as Node);
    }
    return {
      member: (name) => {
        const value = members.get(name);
        return value && this.#kindOf(value);
      },
    };
  }

  #membersOf(node: ClassNode): Members & { readonly makes: Members } {
    const members = { own: new Map<string, () => Kind>(), shared: new Map<string, () => Kind>() };
    for (const each of node.body.body) {
      if (each.type !== "MethodDefinition" && each.type !== "PropertyDefinition") continue;
      const name = nameOf(each.key as Node, each.computed);
      if (name === undefined) continue;
      const to = each.static ? members.shared : members.own;
      to.set(name, () => this.#classMember(each));
      if (each.type === "MethodDefinition" && each.kind === "constructor") {
        this.#parameterProperties(each.value.params, members.own);
      }
    }
    const inherited = (name: string) => {
      const at = node.range[0];
      if (node.superClass === null || this.#inheriting.has(at)) return undefined;
      this.#inheriting.add(at);
      const parent = this.#kindOf(node.superClass);
      const kind = typeof parent === "object" ? parent.makes?.member(name) : undefined;
      this.#inheriting.delete(at);
      return kind;
    };
    return {
      member: (name) => members.shared.get(name)?.(),
      makes: { member: (name) => members.own.get(name)?.() ?? inherited(name) },
    };
  }

  #classMember(member: Deno.lint.MethodDefinition | Deno.lint.PropertyDefinition): Kind {
    if (member.type === "MethodDefinition") {
      return member.kind === "method" ? this.#functionKind(member.value) : "other";
    }
    const type = member.typeAnnotation?.typeAnnotation;
    const typed = type === undefined ? undefined : this.#typeKind(type);
    return typed ?? (member.value === null ? "other" : this.#kindOf(member.value));
  }

  /** `constructor(readonly v: Verbs)` */
  #parameterProperties(params: readonly Pattern[], members: Map<string, () => Kind>): void {
    for (const param of params) {
      if (param.type !== "TSParameterProperty" || param.parameter.type !== "Identifier") continue;
      const { name, typeAnnotation } = param.parameter;
      const type = typeAnnotation?.typeAnnotation;
      if (type !== undefined) members.set(name, () => this.#typeKind(type) ?? "other");
    }
  }

  #typeKind(type: Node): Kind | undefined {
    switch (type.type) {
      case "TSTypeReference": {
        if (type.typeName.type !== "Identifier") return undefined;
        const { name } = type.typeName;
        const known = TYPES.get(name) ?? this.#types.get(name)?.();
        if (known !== undefined) return known;
        const made = this.#nameKind(type.typeName);
        return typeof made === "object" ? made.makes : undefined;
      }
      case "TSFunctionType":
        return isStepsType(type.returnType?.typeAnnotation) ? "generator" : undefined;
      case "TSIndexedAccessType": {
        const { objectType, indexType } = type;
        if (indexType.type !== "TSLiteralType" || indexType.literal.type !== "Literal") {
          return undefined;
        }
        const table = this.#typeKind(objectType);
        return table && memberKind(table, String(indexType.literal.value));
      }
      case "TSTypeLiteral":
        return this.#signatures(type.members);
      default:
        return undefined;
    }
  }

  #signatures(members: readonly Node[]): Members {
    return {
      member: (name) => {
        for (const each of members) {
          if (each.type === "TSMethodSignature" && nameOf(each.key, each.computed) === name) {
            return isStepsType(each.returnType?.typeAnnotation) ? "generator" : "other";
          }
          if (each.type !== "TSPropertySignature") continue;
          const type = each.typeAnnotation?.typeAnnotation;
          if (nameOf(each.key as Node, each.computed) === name && type !== undefined) {
            return this.#typeKind(type);
          }
        }
        return undefined;
      },
    };
  }
}

/** What the member of that name is. */
function memberKind(table: Kind, name: string): Kind {
  if (table === "verbs" || table === "cpu" || table === "region") {
    if (Object.hasOwn(TABLES[table], name)) return "steps";
  }
  const own = typeof table === "object" ? table.member(name) : undefined;
  return own ?? tableNamed(name);
}

/** Whatever it is of: `device.verbs`, `context.cpu`. */
function tableNamed(name: string): Kind {
  return name === "verbs" || name === "cpu" ? name : "other";
}

/** `v!`, `v as Verbs`, `v?.postSend(qp, [])`: the expression in it. */
export function unwrapped(node: Node): Node {
  switch (node.type) {
    case "ChainExpression":
    case "TSNonNullExpression":
    case "TSAsExpression":
    case "TSSatisfiesExpression":
    case "TSTypeAssertion":
      return unwrapped(node.expression);
    default:
      return node;
  }
}

/** The name of a member: `x.name`, `x["name"]`, `x.#name`. */
function nameOf(key: Node, computed: boolean): string | undefined {
  if (key.type === "PrivateIdentifier") return `#${key.name}`;
  if (key.type === "Identifier") return computed ? undefined : key.name;
  return key.type === "Literal" && typeof key.value === "string" ? key.value : undefined;
}

function exportedKind(name: string, steps: readonly string[]): Kind {
  if (steps.includes(name)) return "generator";
  if (!steps.some((each) => each.startsWith(`${name}.`))) return "other";
  const member = (method: string) => steps.includes(`${name}.${method}`) ? "generator" : undefined;
  return { member: () => undefined, makes: { member } };
}

/** Undefined of the whole module. */
function importedName(
  specifier: Deno.lint.ImportDeclaration["specifiers"][number],
): string | undefined {
  if (specifier.type === "ImportDefaultSpecifier") return "default";
  if (specifier.type !== "ImportSpecifier") return undefined;
  return specifier.imported.type === "Identifier" ? specifier.imported.name : "";
}

/** `Steps<…>` or `Generator<…>` */
function isStepsType(type: Node | undefined): boolean {
  return type?.type === "TSTypeReference" && type.typeName.type === "Identifier" &&
    (type.typeName.name === "Steps" || type.typeName.name === "Generator");
}

function isFunction(node: Node): node is FunctionNode {
  return node.type === "FunctionDeclaration" || node.type === "FunctionExpression" ||
    node.type === "ArrowFunctionExpression";
}

function isClass(node: Node): node is ClassNode {
  return node.type === "ClassDeclaration" || node.type === "ClassExpression";
}

function enclosing<T extends Node>(node: Node, is: (node: Node) => node is T): T | undefined {
  for (let at = parentOf(node); at !== undefined; at = parentOf(at)) if (is(at)) return at;
  return undefined;
}

function parentOf(node: Node): Node | undefined {
  return (node as { readonly parent?: Node | null }).parent ?? undefined;
}

/** Where a name holds that is declared there. */
function scopeOf(node: Node): Node["range"] {
  for (let at = parentOf(node); at !== undefined; at = parentOf(at)) {
    if (SCOPES.has(at.type)) return at.range;
  }
  return EVERYWHERE;
}

/** `yield* cpu.region("s")`, of whichever core. */
function opensRegion(init: Deno.lint.YieldExpression): boolean {
  const call = init.argument;
  return init.delegate && call?.type === "CallExpression" &&
    call.callee.type === "MemberExpression" && call.callee.property.type === "Identifier" &&
    call.callee.property.name === "region";
}
