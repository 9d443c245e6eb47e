/**
 * Which identifiers refer to globals. The lint API has no scopes, so the decision is per file: a
 * name that the file declares anywhere (import, variable, parameter, function) is not a global.
 */
type Node = Deno.lint.Node;
type Identifier = Deno.lint.Identifier;

/** `label`: a key, a property, a type, an imported name. */
export type NameUse = "declares" | "refers" | "label";

/** They hold an expression; every other TS node holds types or keys. */
const TS_EXPRESSIONS: ReadonlySet<string> = new Set([
  "TSAsExpression",
  "TSNonNullExpression",
  "TSSatisfiesExpression",
  "TSTypeAssertion",
  "TSInstantiationExpression",
]);

const LABELS: ReadonlySet<string> = new Set([
  "ExportSpecifier",
  "LabeledStatement",
  "BreakStatement",
  "ContinueStatement",
  "MetaProperty",
]);

/** By position: the API may wrap the same node twice. */
function isSame(node: Node, other: Node | null | undefined): boolean {
  return other !== null && other !== undefined && node.type === other.type &&
    node.range[0] === other.range[0] && node.range[1] === other.range[1];
}

export function nameUse(node: Identifier): NameUse {
  const parent = node.parent;
  switch (parent.type) {
    case "ImportSpecifier":
    case "ImportDefaultSpecifier":
    case "ImportNamespaceSpecifier":
      return isSame(node, parent.local) ? "declares" : "label";
    case "VariableDeclarator":
      return isSame(node, parent.id) ? "declares" : "refers";
    case "ArrowFunctionExpression":
      return isSame(node, parent.body) ? "refers" : "declares";
    case "ClassDeclaration":
    case "ClassExpression":
      return isSame(node, parent.id) ? "declares" : "refers";
    case "FunctionDeclaration":
    case "FunctionExpression":
    case "CatchClause":
    case "ArrayPattern":
    case "RestElement":
      return "declares";
    case "AssignmentPattern":
      return isSame(node, parent.left) ? "declares" : "refers";
    case "MemberExpression":
      return parent.computed || isSame(node, parent.object) ? "refers" : "label";
    case "Property":
      if (!parent.computed && !parent.shorthand && isSame(node, parent.key)) return "label";
      return parent.parent.type === "ObjectPattern" ? "declares" : "refers";
    case "PropertyDefinition":
    case "MethodDefinition":
      return parent.computed || isSame(node, parent.value) ? "refers" : "label";
  }
  if (LABELS.has(parent.type)) return "label";
  return parent.type.startsWith("TS") && !TS_EXPRESSIONS.has(parent.type) ? "label" : "refers";
}
