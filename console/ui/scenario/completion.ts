/** Completions at a place of a scenario's text, by the JSON schema of scenarios. */
import { isMapping } from "../../../fabric/base/mapping.ts";
import {
  isMap,
  isPair,
  isScalar,
  isSeq,
  parseDocument,
  type Scalar,
  visit,
  type YAMLMap,
} from "yaml";

export type Schema = { readonly [name: string]: unknown };

/** A key, or a value. */
export interface Word {
  readonly text: string;
  /** One sentence; empty where the schema has none. */
  readonly about: string;
  /** A key has its colon. */
  readonly insert: string;
}

export interface Completions {
  readonly typed: string;
  readonly words: readonly Word[];
}

interface Place {
  readonly isKey: boolean;
  /** Of the mapping for a key, of the value else; `*` is an item of a list. */
  readonly path: readonly string[];
  readonly typed: string;
  readonly siblings: Readonly<Record<string, string>>;
}

const SHOWN_MAX = 12;

/** Completions at `at`, an offset in the text; no words where the schema knows none. */
export function completionsAt(schema: Schema, text: string, at: number): Completions {
  const place = placeAt(text.slice(0, at));
  if (place === undefined) return { typed: "", words: [] };
  const { isKey, path, typed, siblings } = place;
  const steps = path.reduce(
    (nodes, key) => nodes.flatMap((node) => inside(alternatives(node, schema), key)),
    [schema],
  );
  const nodes = steps.flatMap((node) => alternatives(node, schema, siblings));
  const words = isKey ? keysOf(nodes, schema) : valuesOf(nodes);
  const fitting = words.filter(({ text }) =>
    text.startsWith(typed) && text !== typed && !(isKey && text in siblings)
  );
  return { typed, words: fitting.slice(0, SHOWN_MAX) };
}

/** Stands for the cursor: ends the word that is being typed, or is one where none is typed yet. */
const CURSOR = "\ue000";

function placeAt(before: string): Place | undefined {
  let place: Place | undefined;
  visit(parseDocument(before + CURSOR, { logLevel: "silent" }), {
    Scalar(role, node, ancestors) {
      if (!node.source?.endsWith(CURSOR)) return;
      const typed = node.source.slice(0, -1), [map, pair] = ancestors.slice(-2);
      const path = ancestors.flatMap((each) =>
        isPair(each) ? [sourceOf(each.key)] : isSeq(each) ? ["*"] : []
      );
      const siblings = isMap(map) ? scalarsOf(map) : {};
      if (role === "key") place = { isKey: true, path: path.slice(0, -1), typed, siblings };
      else if (isPair(pair) && isScalar(pair.key) && isOneLine(pair.key, node)) {
        place = { isKey: false, path, typed, siblings };
      } else place = { isKey: true, path, typed, siblings: {} };
      return visit.BREAK;
    },
  });
  return place;

  function isOneLine({ range: key }: Scalar, { range: value }: Scalar): boolean {
    return !before.slice(key![1], value![0]).includes("\n");
  }
}

function scalarsOf({ items }: YAMLMap): Record<string, string> {
  return Object.fromEntries(items.map(({ key, value }) => [sourceOf(key), sourceOf(value)]));
}

function sourceOf(node: unknown): string {
  return isScalar(node) ? node.source ?? "" : "";
}

function listOf(node: Schema, name: string): readonly Schema[] {
  const found = node[name];
  return Array.isArray(found) ? found : [];
}

/** The schema itself, its references, and all of its alternatives. */
function alternatives(
  node: Schema,
  root: Schema,
  siblings?: Readonly<Record<string, string>>,
): Schema[] {
  const { $ref } = node;
  if (typeof $ref === "string") {
    const found = $ref.split("/").slice(1).reduce<unknown>((at, key) => Object(at)[key], root);
    return isMapping(found) ? alternatives(found, root, siblings) : [];
  }
  const others = ["anyOf", "oneOf", "allOf"].flatMap((name) => listOf(node, name));
  const { if: condition, then, else: otherwise } = node;
  if (isMapping(condition)) {
    const isMet = siblings === undefined ? undefined : holds(condition, siblings);
    if (isMet !== false && isMapping(then)) others.push(then);
    if (isMet !== true && isMapping(otherwise)) others.push(otherwise);
  }
  return [node, ...others.flatMap((each) => alternatives(each, root, siblings))];
}

function holds(condition: Schema, siblings: Readonly<Record<string, string>>): boolean {
  const { required, properties, anyOf } = condition;
  if (Array.isArray(required) && !required.every((name) => name in siblings)) return false;
  if (Array.isArray(anyOf) && !anyOf.some((each) => holds(each, siblings))) return false;
  return Object.entries(Object(properties) as Schema).every(([name, wanted]) => {
    const { const: only, enum: several } = Object(wanted);
    const found = siblings[name];
    if (found === undefined || (only === undefined && several === undefined)) return true;
    return [only, ...(several ?? [])].some((each) => String(each) === found);
  });
}

function inside(nodes: readonly Schema[], key: string): Schema[] {
  return nodes.flatMap((node) => {
    const { properties, additionalProperties, items } = node;
    const found = key === "*"
      ? items
      : Object(properties)[key] ?? (key === "#" ? undefined : additionalProperties);
    return isMapping(found) ? [found] : [];
  });
}

function aboutOf(node: unknown): string {
  const { description } = Object(node);
  return typeof description === "string" ? description : "";
}

function keysOf(nodes: readonly Schema[], root: Schema): Word[] {
  const words = new Map<string, Word>();
  for (const { properties } of nodes) {
    for (const [text, node] of Object.entries(Object(properties) as Schema)) {
      const about = isMapping(node) ? alternatives(node, root).map(aboutOf).find(Boolean) : "";
      if (node === false || words.has(text)) continue;
      words.set(text, { text, about: about ?? "", insert: `${text}: ` });
    }
  }
  // An item of a list may be a word.
  return words.size > 0 ? [...words.values()] : valuesOf(nodes);
}

function valuesOf(nodes: readonly Schema[]): Word[] {
  const words = new Map<string, Word>();
  for (const node of nodes) {
    const { enum: several, const: only, type } = node;
    const all = [
      ...(Array.isArray(several) ? several : []),
      ...(only === undefined ? [] : [only]),
      ...(type === "boolean" ? [true, false] : []),
    ];
    for (const each of all) {
      const text = String(each);
      words.set(text, { text, about: aboutOf(node), insert: text });
    }
  }
  return [...words.values()];
}
