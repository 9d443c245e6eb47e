/**
 * Exports that nothing uses, and modules that no entry point reaches. Code that only its tests use
 * is dead, too, unless it stands in a file of tests.
 */
import ts from "typescript";
import { isTest } from "./tree.ts";

export interface ModuleNames {
  readonly file: string;
  readonly exports: readonly Exported[];
  /** `all`: of a namespace, or of what is not told name by name. */
  readonly takes: readonly { readonly specifier: string; readonly name: string | "all" }[];
  readonly isEntry: boolean;
}

export interface Exported {
  readonly name: string;
  readonly line: number;
  /** A type stands in the signatures of what is used: it need not be imported by its name. */
  readonly isType: boolean;
  readonly isUsedHere: boolean;
}

export function namesOf(file: string, text: string): ModuleNames {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true);
  const exports: Omit<Exported, "isUsedHere">[] = [];
  const takes: { specifier: string; name: string }[] = [];
  const words = new Map<string, number>();
  const take = (specifier: ts.Expression | undefined, ...names: (string | undefined)[]) => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return;
    for (const name of names) takes.push({ specifier: specifier.text, name: name ?? "all" });
  };
  const offer = (node: ts.Node, name: ts.BindingName | undefined, isType: boolean): void => {
    if (name === undefined) return;
    if (!ts.isIdentifier(name)) {
      for (const each of name.elements) {
        if (!ts.isOmittedExpression(each)) offer(node, each.name, isType);
      }
      return;
    }
    const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
    exports.push({ name: name.text, line: line + 1, isType });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) words.set(node.text, (words.get(node.text) ?? 0) + 1);
    else if (ts.isImportDeclaration(node)) importedBy(node, take);
    else if (ts.isExportDeclaration(node)) exportedBy(node, take);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      take(node.argument.literal as ts.Expression, undefined);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      take(node.arguments[0], ...takenOf(node));
    } else if (isExported(node)) {
      if (ts.isVariableStatement(node)) {
        for (const { name } of node.declarationList.declarations) offer(node, name, false);
      } else {
        const { name } = node as ts.DeclarationStatement;
        const isType = ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
        offer(node, name as ts.Identifier | undefined, isType);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return {
    file,
    exports: exports.map((each) => ({ ...each, isUsedHere: words.get(each.name)! > 1 })),
    takes,
    isEntry: text.includes("import.meta.main") || isEntryName(file),
  };
}

type Take = (specifier: ts.Expression | undefined, ...names: (string | undefined)[]) => void;

function importedBy({ importClause, moduleSpecifier }: ts.ImportDeclaration, take: Take): void {
  // For its effect: no name, but the module is reached.
  if (importClause === undefined) return take(moduleSpecifier, "");
  const { name, namedBindings: bindings } = importClause;
  if (name !== undefined) take(moduleSpecifier, "default");
  if (bindings === undefined) return;
  if (ts.isNamespaceImport(bindings)) return take(moduleSpecifier, undefined);
  take(
    moduleSpecifier,
    ...bindings.elements.map(({ name, propertyName = name }) => propertyName.text),
  );
}

function exportedBy({ exportClause, moduleSpecifier }: ts.ExportDeclaration, take: Take): void {
  if (moduleSpecifier === undefined) return;
  if (exportClause === undefined || ts.isNamespaceExport(exportClause)) {
    return take(moduleSpecifier, undefined);
  }
  take(
    moduleSpecifier,
    ...exportClause.elements.map(({ name, propertyName = name }) => propertyName.text),
  );
}

/** `const { x } = await import("./y.ts")`, `(await import("./y.ts")).x`; else all. */
function takenOf(node: ts.CallExpression): (string | undefined)[] {
  let { parent }: ts.Node = node;
  while (ts.isAwaitExpression(parent) || ts.isParenthesizedExpression(parent)) {
    parent = parent.parent;
  }
  if (ts.isPropertyAccessExpression(parent)) return [parent.name.text];
  if (!ts.isVariableDeclaration(parent) || !ts.isObjectBindingPattern(parent.name)) {
    return [undefined];
  }
  return parent.name.elements.map(({ name, propertyName = name }) => propertyName.getText());
}

function isExported(node: ts.Node): boolean {
  const modifiers = ts.canHaveModifiers(node) ? ts.getModifiers(node) : undefined;
  return modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false;
}

/** Undefined for a package. */
export type Resolve = (specifier: string, from: string) => string | undefined;

/** Started, or loaded by a composed name: workers, the page, a file for each command. */
function isEntryName(file: string): boolean {
  return /(?:^|\/|_)main\.tsx?$|^scripts\/(?:commands\/|bench\/bench\.ts$|soak\/soak\.ts$)/.test(
    file,
  );
}

/**
 * Users import it: public modules for own programs and their reference, plugins, scenarios'
 * programs.
 */
function isDoor(file: string): boolean {
  return DOORS.includes(file) || file.startsWith("scripts/scenarios/");
}

const DOORS: readonly string[] = [
  "console/testing.ts",
  "nodes/host/open_device.ts",
  "nodes/protocol.ts",
  "scripts/check/lint_plugin.ts",
];

export function deadIn(
  modules: readonly ModuleNames[],
  resolve: Resolve,
): string[] {
  const takenBy = new Map<string, { production: boolean; test: boolean }>();
  const importedBy = new Map<string, string[]>();
  for (const { file, takes } of modules) {
    const by = isTest(file) ? "test" : "production", imported: string[] = [];
    for (const { specifier, name } of takes) {
      const target = resolve(specifier, file);
      if (target === undefined) continue;
      imported.push(target);
      const key = `${target}#${name}`,
        taken = takenBy.get(key) ?? { production: false, test: false };
      taken[by] = true;
      takenBy.set(key, taken);
    }
    importedBy.set(file, imported);
  }
  const production = modules.filter(({ file }) => !isTest(file));
  const reached = new Set(
    production.filter(({ file, isEntry }) => isEntry || isDoor(file)).map(({ file }) => file),
  );
  // A set hands out what is added to it meanwhile.
  for (const file of reached) for (const next of importedBy.get(file) ?? []) reached.add(next);
  return production.flatMap(({ file, exports }) => {
    if (!reached.has(file)) return [`${file}: no entry point reaches it`];
    if (isDoor(file) || takenBy.get(`${file}#all`)?.production) return [];
    return exports.flatMap(({ name, line, isType, isUsedHere }) => {
      const { production = false, test = false } = takenBy.get(`${file}#${name}`) ?? {};
      if (production) return [];
      if (!isUsedHere) {
        return [`${file}:${line}: ${name} is used by ${test ? "tests alone" : "nothing"}`];
      }
      return isType || test ? [] : [`${file}:${line}: ${name} needs no export`];
    });
  });
}
