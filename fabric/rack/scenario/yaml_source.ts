/**
 * YAML 1.2 as plain data with each value's position. Built on the parser's events, so that only
 * core scalars, lists and mappings are created.
 */
import {
  type AliasEvent,
  boolCoreTag,
  type Event,
  EVENT_ID,
  floatCoreTag,
  getScalarValue,
  intCoreTag,
  type MappingEvent,
  NOT_RESOLVED,
  nullCoreTag,
  parseEvents,
  SCALAR_STYLE,
  type ScalarEvent,
  type SequenceEvent,
  YAMLException,
} from "js-yaml";
import type { FileProblem } from "../plan/problem.ts";

export type Path = readonly (string | number)[];

/** From 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export interface YamlSource {
  readonly file: string;
  readonly data: unknown;
  /** Of the value at `path`, or of the nearest existing key around it. */
  locate(path: Path): Position;
  locateKey(path: Path): Position;
}

interface YamlNode {
  readonly offset: number;
  readonly data: unknown;
  readonly size: number;
  readonly entries?: ReadonlyMap<string, Entry>;
}

interface Entry {
  readonly keyOffset: number;
  readonly value: YamlNode;
}

interface Walk {
  readonly text: string;
  readonly events: readonly Event[];
  readonly anchors: Map<string, YamlNode>;
  readonly report: (offset: number, path: Path, problem: Finding) => void;
  next: number;
  /** End of the last event with an offset: the position of an empty value. */
  offset: number;
}

interface Finding {
  readonly found: string;
  readonly expected: string;
}

const MAX_VALUES = 100_000;
/** In the parser's own order; a scalar that matches none of them is text. */
const PLAIN_TAGS = [nullCoreTag, boolCoreTag, intCoreTag, floatCoreTag] as const;

/** `hosts.b.ddio`, `programs[0].to`. */
export function formatPath(path: Path): string {
  let text = "";
  for (const part of path) {
    text += typeof part === "number" ? `[${part}]` : text === "" ? part : `.${part}`;
  }
  return text;
}

/** One document. Of a duplicate key, which is a problem, the second value counts. */
export function readYaml(
  text: string,
  file: string,
): { readonly source: YamlSource; readonly problems: readonly FileProblem[] } {
  const problems: FileProblem[] = [];
  const positionAt = positionsIn(text);
  const report = (offset: number, path: Path, finding: Finding) => {
    problems.push({ file, ...positionAt(offset), path: formatPath(path), ...finding });
  };
  const root = parse(text, report);
  const offsetsAt = (path: Path) => offsetsOf(root, path);
  return {
    problems,
    source: {
      file,
      data: root?.data,
      locate: (path) => positionAt(offsetsAt(path).value),
      locateKey: (path) => positionAt(offsetsAt(path).key),
    },
  };
}

/** By a search: a large file may have a problem in each line. */
function positionsIn(text: string): (offset: number) => Position {
  const starts = [0];
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) {
    starts.push(end + 1);
  }
  return (offset) => {
    let line = 0, after = starts.length;
    while (after - line > 1) {
      const middle = (line + after) >> 1;
      if (starts[middle]! <= offset) line = middle;
      else after = middle;
    }
    return { line: line + 1, column: offset - starts[line]! + 1 };
  };
}

function parse(text: string, report: Walk["report"]): YamlNode | undefined {
  let events: readonly Event[];
  try {
    events = parseEvents(text, {});
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const finding = { found: `no YAML (${error.reason})`, expected: "YAML" };
    report(Math.min(error.mark?.position ?? 0, text.length), [], finding);
    return undefined;
  }
  const documents = events.filter(({ type }) => type === EVENT_ID.DOCUMENT).length;
  if (documents > 1) {
    report(0, [], { found: `${documents} documents`, expected: "one" });
    return undefined;
  }
  const walk: Walk = { text, events, anchors: new Map(), report, next: 1, offset: 0 };
  const first = events[1];
  if (first === undefined || first.type === EVENT_ID.POP) return undefined;
  const root = readNode(walk, []);
  if (root.size <= MAX_VALUES) return root;
  const found = "more values than memory is meant for";
  report(0, [], { found, expected: `at most ${MAX_VALUES}, aliases followed` });
  return undefined;
}

function readNode(walk: Walk, path: Path): YamlNode {
  const event = walk.events[walk.next++]!;
  if (event.type === EVENT_ID.ALIAS) return readAlias(walk, event, path);
  if (event.type === EVENT_ID.DOCUMENT || event.type === EVENT_ID.POP) return emptyNode(walk);
  if (event.tagStart >= 0) {
    const found = `the tag ${walk.text.slice(event.tagStart, event.tagEnd)}`;
    walk.report(event.tagStart, path, { found, expected: "a value without a tag" });
  }
  const node = event.type === EVENT_ID.SCALAR
    ? readScalar(walk, event)
    : event.type === EVENT_ID.SEQUENCE
    ? readList(walk, event, path)
    : readMapping(walk, event, path);
  if (event.anchorStart >= 0) {
    walk.anchors.set(walk.text.slice(event.anchorStart, event.anchorEnd), node);
  }
  return node;
}

function emptyNode({ offset }: Walk): YamlNode {
  return { offset, data: null, size: 1 };
}

function readScalar(walk: Walk, event: ScalarEvent): YamlNode {
  const isQuoted = event.style === SCALAR_STYLE.SINGLE_QUOTED ||
    event.style === SCALAR_STYLE.DOUBLE_QUOTED;
  if (event.valueStart >= 0) walk.offset = event.valueStart - (isQuoted ? 1 : 0);
  const text = getScalarValue(walk.text, event);
  const data = event.style === SCALAR_STYLE.PLAIN ? plainValue(text) : text;
  return { offset: walk.offset, data, size: 1 };
}

function plainValue(text: string): unknown {
  for (const tag of PLAIN_TAGS) {
    const value = tag.resolve(text, false, tag.tagName);
    if (value !== NOT_RESOLVED) return value;
  }
  return text;
}

function readList(walk: Walk, event: SequenceEvent, path: Path): YamlNode {
  walk.offset = event.start;
  const entries = new Map<string, Entry>();
  while (!isEnd(walk)) {
    const value = readNode(walk, [...path, entries.size]);
    entries.set(String(entries.size), { keyOffset: value.offset, value });
  }
  walk.next++;
  const data = [...entries.values()].map(({ value }) => value.data);
  return { offset: event.start, entries, data, size: sizeOf(entries) };
}

function readMapping(walk: Walk, event: MappingEvent, path: Path): YamlNode {
  walk.offset = event.start;
  const entries = new Map<string, Entry>();
  while (!isEnd(walk)) {
    const { offset: keyOffset, key } = readKey(walk, path);
    const value = readNode(walk, [...path, key]);
    if (entries.has(key)) {
      const finding = { found: "this key a second time", expected: "each key once" };
      walk.report(keyOffset, [...path, key], finding);
    }
    entries.set(key, { keyOffset, value });
  }
  walk.next++;
  const data = Object.fromEntries([...entries].map(([key, { value }]) => [key, value.data]));
  return { offset: event.start, entries, data, size: sizeOf(entries) };
}

/** As text, whatever scalar it is: `1:` and `on:` are valid names. */
function readKey(walk: Walk, path: Path): { readonly offset: number; readonly key: string } {
  const event = walk.events[walk.next]!;
  const { offset, data } = readNode(walk, path);
  if (event.type === EVENT_ID.SCALAR) {
    const key = getScalarValue(walk.text, event);
    if (key !== "__proto__") return { offset, key };
  }
  const found = typeof data === "string" ? `the key ${data}` : "a collection as a key";
  walk.report(offset, path, { found, expected: "a name as a key" });
  return { offset, key: "" };
}

/** An alias denotes its anchor's node, so problems are located at the anchor. */
function readAlias(walk: Walk, event: AliasEvent, path: Path): YamlNode {
  const name = walk.text.slice(event.anchorStart, event.anchorEnd);
  walk.offset = event.anchorStart - 1;
  const node = walk.anchors.get(name);
  if (node !== undefined) return node;
  walk.report(walk.offset, path, { found: `*${name}`, expected: `an anchor &${name} before it` });
  return emptyNode(walk);
}

function isEnd({ events, next }: Walk): boolean {
  const event = events[next];
  return event === undefined || event.type === EVENT_ID.POP;
}

function sizeOf(entries: ReadonlyMap<string, Entry>): number {
  return [...entries.values()].reduce((sum, { value }) => sum + value.size, 1);
}

function offsetsOf(root: YamlNode | undefined, path: Path): { key: number; value: number } {
  let found = { key: root?.offset ?? 0, value: root?.offset ?? 0 };
  let node = root;
  for (const part of path) {
    const entry: Entry | undefined = node?.entries?.get(String(part));
    if (entry === undefined) break;
    found = { key: entry.keyOffset, value: entry.value.offset };
    node = entry.value;
  }
  return found;
}
