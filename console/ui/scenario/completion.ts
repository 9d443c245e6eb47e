/** What may stand at a place of a scenario's text, by the JSON schema of scenarios. */

export type Schema = { readonly [name: string]: unknown };

/** A key, or a value, that may stand where one types. */
export interface Word {
  readonly text: string;
  /** One sentence; empty where the schema has none. */
  readonly about: string;
  /** What is put there: a key has its colon. */
  readonly insert: string;
}

export interface Completions {
  /** What has been typed of the word. */
  readonly typed: string;
  readonly words: readonly Word[];
}

/** Where in the document a place is. */
interface Place {
  readonly isKey: boolean;
  /** Of the mapping for a key, of the value else; `*` is an item of a list. */
  readonly path: readonly string[];
  readonly typed: string;
  /** Scalars of the mapping that stand before. */
  readonly siblings: Readonly<Record<string, string>>;
}

const SHOWN_MAX = 12;

/** What may follow at `at`, an offset in the text; no words where the schema knows none. */
export function completionsAt(schema: Schema, text: string, at: number): Completions {
  const { isKey, path, typed, siblings } = placeAt(text.slice(0, at));
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

interface Frame {
  readonly indent: number;
  readonly path: readonly string[];
  readonly siblings: Record<string, string>;
}

const KEY = /^([^\s:#{}[\],"']+):(?:\s+|$)(.*)$/;

/** @param before the text up to the cursor. */
function placeAt(before: string): Place {
  const frames: Frame[] = [{ indent: -1, path: [], siblings: {} }];
  const lines = before.split("\n"), last = lines.length - 1;
  const under = (indent: number) => {
    while (frames.at(-1)!.indent >= indent) frames.pop();
    return frames.at(-1)!;
  };
  for (let i = 0; i <= last; i++) {
    const line = lines[i]!;
    if (line.trim() === "" && i < last) continue;
    if (/^\s*#/.test(line)) {
      if (i === last) return NOWHERE;
      continue;
    }
    let indent = line.length - line.trimStart().length, rest = line.trimStart();
    while (/^-(\s|$)/.test(rest)) {
      const { path } = under(indent);
      frames.push({ indent, path: [...path, "*"], siblings: {} });
      const inner = rest.slice(1).trimStart();
      indent += rest.length - inner.length;
      rest = inner;
    }
    const key = KEY.exec(rest), parent = under(indent);
    let path = parent.path;
    if (key !== null) {
      path = [...path, key[1]!];
      parent.siblings[key[1]!] = key[2]!.trim();
      frames.push({ indent, path, siblings: {} });
      rest = key[2]!;
    }
    if (/^[{[]/.test(rest)) {
      const begin = i;
      while (depthOf(rest) > 0 && i < last) rest += `\n${lines[++i]}`;
      if (i === last && (depthOf(rest) > 0 || begin === last)) return flowPlace(rest, path);
    } else if (i === last) {
      if (key !== null) return { isKey: false, path, typed: rest, siblings: parent.siblings };
      const isItem = path.at(-1) === "*" && Object.keys(parent.siblings).length === 0;
      return { isKey: true, path, typed: rest, siblings: isItem ? {} : parent.siblings };
    }
  }
  return NOWHERE;
}

const NOWHERE: Place = { isKey: true, path: ["#"], typed: "", siblings: {} };

function depthOf(text: string): number {
  return text.match(/[{[]/g)!.length - (text.match(/[}\]]/g)?.length ?? 0);
}

/** The place at the end of a flow collection that begins `text` and is the value at `path`. */
function flowPlace(text: string, path: readonly string[]): Place {
  const open: { isMap: boolean; path: readonly string[]; siblings: Record<string, string> }[] = [];
  let key: string | undefined, token = "";
  const keys: (string | undefined)[] = [];
  const here = () => {
    const top = open.at(-1);
    return top === undefined ? path : top.isMap ? [...top.path, key ?? "#"] : [...top.path, "*"];
  };
  const finish = () => {
    if (key !== undefined && token.trim() !== "") open.at(-1)!.siblings[key] = token.trim();
    token = "";
  };
  for (const [i, char] of [...text].entries()) {
    if (char === "{" || char === "[") {
      const inner = here();
      keys.push(key);
      open.push({ isMap: char === "{", path: inner, siblings: {} });
      key = undefined;
      token = "";
    } else if (char === "}" || char === "]") {
      finish();
      open.pop();
      key = keys.pop();
    } else if (char === ",") {
      finish();
      key = undefined;
    } else if (char === ":" && open.at(-1)?.isMap && /^\s?$/.test(text[i + 1] ?? "")) {
      key = token.trim();
      token = "";
    } else token += char;
  }
  const top = open.at(-1);
  if (top === undefined) return NOWHERE;
  const typed = token.trimStart(), { siblings } = top;
  return top.isMap && key === undefined
    ? { isKey: true, path: top.path, typed, siblings }
    : { isKey: false, path: here(), typed, siblings };
}

function listOf(node: Schema, name: string): readonly Schema[] {
  const found = node[name];
  return Array.isArray(found) ? found : [];
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The schema itself, what it refers to, and all that it may be instead. */
function alternatives(
  node: Schema,
  root: Schema,
  siblings?: Readonly<Record<string, string>>,
): Schema[] {
  const { $ref } = node;
  if (typeof $ref === "string") {
    const found = $ref.split("/").slice(1).reduce<unknown>((at, key) => Object(at)[key], root);
    return isSchema(found) ? alternatives(found, root, siblings) : [];
  }
  const others = ["anyOf", "oneOf", "allOf"].flatMap((name) => listOf(node, name));
  const { if: condition, then, else: otherwise } = node;
  if (isSchema(condition)) {
    const isMet = siblings === undefined ? undefined : holds(condition, siblings);
    if (isMet !== false && isSchema(then)) others.push(then);
    if (isMet !== true && isSchema(otherwise)) others.push(otherwise);
  }
  return [node, ...others.flatMap((each) => alternatives(each, root, siblings))];
}

/** Whether a condition of the schema holds for what is known of a mapping. */
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
    return isSchema(found) ? [found] : [];
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
      const about = isSchema(node) ? alternatives(node, root).map(aboutOf).find(Boolean) : "";
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
