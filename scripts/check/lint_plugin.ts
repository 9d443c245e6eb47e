/**
 * The rules keep the models pure (DESIGN: a node has no clock, no ambient randomness, no I/O, no
 * async).
 */
import { nameUse } from "./lint_names.ts";
import { isModel, isShared, isTest, pathInTree } from "./tree.ts";

interface GlobalBan {
  readonly names: readonly string[];
  readonly holdsIn: (path: string) => boolean;
  readonly problem: string;
  readonly hint: string;
}

/** Tests of models may be async and may print. */
function isProduction(path: string): boolean {
  return isModel(path) && !isTest(path);
}

/** The bus is asynchronous; the models behind it are not. */
function isSynchronous(path: string): boolean {
  return isProduction(path) && !path.startsWith("fabric/bus/");
}

function banGlobals(ban: GlobalBan): Deno.lint.Rule {
  const names = new Set(ban.names);
  return {
    create(context) {
      if (!ban.holdsIn(pathInTree(context.filename))) return {};
      const declared = new Set<string>();
      const uses = new Map<number, Deno.lint.Identifier>();
      return {
        Identifier(node) {
          if (!names.has(node.name)) return;
          const use = nameUse(node);
          if (use === "declares") declared.add(node.name);
          else if (use === "refers") uses.set(node.range[0], node);
        },
        "Program:exit"() {
          for (const node of uses.values()) {
            if (declared.has(node.name)) continue;
            context.report({ node, message: `\`${node.name}\` ${ban.problem}`, hint: ban.hint });
          }
        },
      };
    },
  };
}

const noAmbientTime = banGlobals({
  names: [
    "Date",
    "Temporal",
    "performance",
    "setTimeout",
    "setInterval",
    "setImmediate",
    "queueMicrotask",
    "requestAnimationFrame",
  ],
  holdsIn: isModel,
  problem: "takes its time from this machine, not from the rack",
  hint: "use the `now` given to step(); a deadline is a field that wakeAt() answers",
});

const noWorld = banGlobals({
  names: [
    "Deno",
    "console",
    "fetch",
    "process",
    "global",
    "globalThis",
    "self",
    "window",
    "navigator",
    "location",
    "localStorage",
    "sessionStorage",
    "caches",
    "Worker",
    "WebSocket",
    "EventSource",
    "BroadcastChannel",
    "alert",
    "confirm",
    "prompt",
    "require",
    "WeakRef",
    "FinalizationRegistry",
  ],
  holdsIn: isProduction,
  problem: "touches the world outside the model",
  hint: "take it as an input and give it as an output: out.send, out.trace, out.report; " +
    "files that may touch the world are listed in scripts/check/tree.ts",
});

const RNG_HINT = "use rngFor(seed, name) from fabric/base/rng.ts";

const noCrypto = banGlobals({
  names: ["crypto"],
  holdsIn: isModel,
  problem: "draws numbers that no seed repeats",
  hint: RNG_HINT,
});

interface MemberBan {
  readonly object: string;
  readonly members: ReadonlySet<string>;
  readonly holdsIn: (path: string) => boolean;
  readonly message: (member: string) => string;
  readonly hint: string;
}

function banMembers({ object, members, holdsIn, message, hint }: MemberBan): Deno.lint.Rule {
  return {
    create(context) {
      if (!holdsIn(pathInTree(context.filename))) return {};
      function check(key: Deno.lint.Node, node: Deno.lint.Node): void {
        const name = key.type === "Identifier"
          ? key.name
          : key.type === "Literal"
          ? String(key.value)
          : "";
        if (members.has(name)) context.report({ node, message: message(name), hint });
      }
      return {
        MemberExpression(node) {
          if (node.object.type !== "Identifier" || node.object.name !== object) return;
          check(node.property, node);
        },
        VariableDeclarator(node) {
          if (node.init?.type !== "Identifier" || node.init.name !== object) return;
          if (node.id.type !== "ObjectPattern") return;
          for (const property of node.id.properties) {
            if (property.type === "Property") check(property.key, property);
          }
        },
      };
    },
  };
}

const noMathRandom = banMembers({
  object: "Math",
  members: new Set(["random"]),
  holdsIn: () => true,
  message: () => "`Math.random` draws numbers that no seed repeats",
  hint: RNG_HINT,
});

function banSyntax(
  type: "ForInStatement" | "TSEnumDeclaration" | "Decorator",
  { holdsIn = () => true, message, hint }: {
    readonly holdsIn?: (path: string) => boolean;
    readonly message: string;
    readonly hint: string;
  },
): Deno.lint.Rule {
  return {
    create(context) {
      if (!holdsIn(pathInTree(context.filename))) return {};
      return { [type]: (node: Deno.lint.Node) => context.report({ node, message, hint }) };
    },
  };
}

const noAsync: Deno.lint.Rule = {
  create(context) {
    if (!isSynchronous(pathInTree(context.filename))) return {};
    const hint = "a model is step(now, input, out); what takes virtual time is a program " +
      "(function*) or a deadline";
    function report(node: Deno.lint.Node, syntax: string): void {
      context.report({ node, message: `${syntax} lets the machine decide the order`, hint });
    }
    function visitFunction(node: Deno.lint.Node & { readonly async: boolean }): void {
      if (node.async) report(node, "an async function");
    }
    return {
      FunctionDeclaration: visitFunction,
      FunctionExpression: visitFunction,
      ArrowFunctionExpression: visitFunction,
      AwaitExpression: (node) => report(node, "`await`"),
      ForOfStatement(node) {
        if (node.await) report(node, "`for await`");
      },
      ImportExpression: (node) => report(node, "a dynamic import"),
    };
  },
};

const noPromise = banGlobals({
  names: ["Promise"],
  holdsIn: isSynchronous,
  problem: "lets the machine decide the order",
  hint: "a model answers at once; what comes later is another input",
});

const noForIn = banSyntax("ForInStatement", {
  holdsIn: isModel,
  message: "`for…in` walks inherited keys, in an order of its own",
  hint: "use `for (const key of Object.keys(x).sort())`, or a Map",
});

const noLocale: Deno.lint.Rule = {
  create(context) {
    if (!isProduction(pathInTree(context.filename))) return {};
    return {
      MemberExpression(node) {
        const { object, property } = node;
        const isIntl = object.type === "Identifier" && object.name === "Intl";
        const name = !node.computed && property.type === "Identifier" ? property.name : "";
        if (!isIntl && name !== "localeCompare" && !name.startsWith("toLocale")) return;
        context.report({
          node,
          message: `\`${isIntl ? "Intl" : name}\` depends on this machine's locale`,
          hint: "compare with < and >, print with String(x) or toFixed",
        });
      },
    };
  },
};

const TERMINAL: ReadonlySet<string> = new Set([
  "addSignalListener",
  "args",
  "consoleSize",
  "exit",
  "exitCode",
  "noColor",
  "stderr",
  "stdin",
  "stdout",
]);

const TERMINAL_HINT = "return data, take a callback for progress and an AbortSignal for the end; " +
  "scripts/commands/ prints, ends and reads options";

const noPrint = banGlobals({
  names: ["console", "alert", "confirm", "prompt"],
  holdsIn: isShared,
  problem: "prints, and the web page has no terminal",
  hint: TERMINAL_HINT,
});

const terminalMembers = banMembers({
  object: "Deno",
  members: TERMINAL,
  holdsIn: isShared,
  message: (member) => `\`Deno.${member}\` is the command's, and the web page has none`,
  hint: TERMINAL_HINT,
});

/** And colours. */
const noTerminal: Deno.lint.Rule = {
  create(context) {
    if (!isShared(pathInTree(context.filename))) return {};
    function checkText(node: Deno.lint.Node, text: string): void {
      if (!text.includes("\x1b")) return;
      const message = "a terminal's escape sequence, and the web page has no terminal";
      context.report({ node, message, hint: TERMINAL_HINT });
    }
    return {
      ...terminalMembers.create(context),
      Literal(node) {
        if (typeof node.value === "string") checkText(node, node.value);
      },
      TemplateElement: (node) => checkText(node, node.cooked),
    };
  },
};

const noEnum = banSyntax("TSEnumDeclaration", {
  message: "`enum` is not used here",
  hint: 'use a union of strings: type Flow = "llc" | "imc"',
});

function isRelative(source: Deno.lint.StringLiteral | null): boolean {
  return source !== null && source.value.startsWith(".");
}

const noBarrel: Deno.lint.Rule = {
  create(context) {
    return {
      Program(node) {
        const isIndex = /(^|\/)index\.[jt]sx?$/.test(pathInTree(context.filename));
        const isOnlyExports = node.body.length > 0 &&
          node.body.every((statement) =>
            (statement.type === "ExportAllDeclaration" && isRelative(statement.source)) ||
            (statement.type === "ExportNamedDeclaration" && isRelative(statement.source))
          );
        if (!isIndex && !isOnlyExports) return;
        context.report({
          node,
          message: isIndex ? "index.ts says nothing of what is in it" : "a barrel: only re-exports",
          hint: "name the file after the thing in it; import from where the thing is",
        });
      },
    };
  },
};

/** Only errors and the browser's own elements must be extended. */
const noInheritance: Deno.lint.Rule = {
  create(context) {
    function visitClass(node: Deno.lint.ClassDeclaration | Deno.lint.ClassExpression): void {
      const base = node.superClass;
      if (base === null) return;
      if (base.type === "Identifier" && /(Error|^HTMLElement)$/.test(base.name)) return;
      context.report({
        node: base,
        message: "inheritance is not used here",
        hint: "use plain data and functions, or hold the other object as a field",
      });
    }
    return { ClassDeclaration: visitClass, ClassExpression: visitClass };
  },
};

const noDecorator = banSyntax("Decorator", {
  message: "decorators are not used here",
  hint: "call a function",
});

/** They draw with a seed; `sample` and `statistics` assert nothing. */
const PROPERTY_RUNS: ReadonlySet<string> = new Set(["assert", "check"]);

const propertySeed: Deno.lint.Rule = {
  create(context) {
    return {
      CallExpression(node) {
        const { callee, arguments: [, parameters] } = node;
        if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") return;
        if (callee.object.type !== "Identifier" || callee.object.name !== "fc") return;
        if (!PROPERTY_RUNS.has(callee.property.name)) return;
        const isSeeded = parameters?.type === "CallExpression" &&
          parameters.callee.type === "Identifier" && parameters.callee.name === "seeded";
        if (isSeeded) return;
        context.report({
          node,
          message: `\`fc.${callee.property.name}\` draws a seed that nothing repeats`,
          hint:
            "give it seeded() of fabric/base/property_testing.ts: fc.assert(property, seeded())",
        });
      },
    };
  },
};

const plugin: Deno.lint.Plugin = {
  name: "rackmesh",
  rules: {
    "no-ambient-time": noAmbientTime,
    "no-world": noWorld,
    "no-crypto": noCrypto,
    "no-math-random": noMathRandom,
    "no-async": noAsync,
    "no-promise": noPromise,
    "no-for-in": noForIn,
    "no-locale": noLocale,
    "no-print": noPrint,
    "no-terminal": noTerminal,
    "no-enum": noEnum,
    "no-barrel": noBarrel,
    "no-inheritance": noInheritance,
    "no-decorator": noDecorator,
    "property-seed": propertySeed,
  },
};

export default plugin;
