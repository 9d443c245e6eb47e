/**
 * What the Markdown files of the tree name: links, anchors, paths in code spans and in examples. Each has
 * to exist, so a file that moves takes its mentions along. Pure; `documents_test.ts` feeds it the tree.
 */

/** Something that a document names and the tree does not have. Lines count from 1. */
export interface Missing {
  readonly document: string;
  readonly line: number;
  readonly named: string;
}

/** The tree as this check sees it. Paths are relative to its root, without a slash at the end. */
export interface DocumentTree {
  isThere(path: string): boolean;
  /** True where `folder` ("" is the root) has a file of this name, in itself or in a folder below. */
  hasBelow(folder: string, name: string): boolean;
  textOf(path: string): string;
}

interface Mention {
  readonly line: number;
  readonly named: string;
  readonly kind: "link" | "span" | "example";
}

/** What lies at the top of the tree and is named by paths from there. */
const TOP = /^(console|docker|fabric|nodes|scripts|tests)\//;
/** `./x` is a file of the reader's own. */
const PATH = /^(\.\.\/)*\w[\w.-]*(\/\w[\w.-]*)*\/?$/;
/** Names that stand for a file of ours wherever they stand; other endings may be what a run leaves. */
const OURS = /\.(ts|sh|lua)$/;

/** Words of a code span or of a line of an example, without what surrounds a path in prose. */
function words(text: string): string[] {
  return text.split(/[\s"'=,;()[\]{}]+/).map((word) => word.replace(/[.:]+$/, ""));
}

function isPath(word: string, kind: Mention["kind"]): boolean {
  if (!PATH.test(word)) return false;
  return TOP.test(word) || (kind === "span" && OURS.test(word));
}

function mentionsOf(text: string): Mention[] {
  const mentions: Mention[] = [];
  let isExample = false;
  text.split("\n").forEach((content, index) => {
    const line = index + 1;
    if (/^\s*```/.test(content)) {
      isExample = !isExample;
      return;
    }
    const add = (named: string, kind: Mention["kind"]) => mentions.push({ line, named, kind });
    if (isExample) {
      for (const word of words(content)) if (isPath(word, "example")) add(word, "example");
      return;
    }
    for (const [, target] of content.matchAll(/\]\(([^)\s]+)\)/g)) add(target!, "link");
    for (const [, span] of content.matchAll(/`([^`]+)`/g)) {
      for (const word of words(span!)) if (isPath(word, "span")) add(word, "span");
    }
  });
  return mentions;
}

/** `path` from the folder of `document`, relative to the root of the tree. */
function resolve(document: string, path: string): string {
  return decodeURIComponent(new URL(path, `file:///${document}`).pathname).replace(/^\/|\/$/g, "");
}

/** A heading's anchor, as GitHub makes it. */
function anchorOf(heading: string): string {
  return heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-");
}

function hasAnchor(text: string, anchor: string): boolean {
  return text.split("\n").some((line) => {
    const heading = line.match(/^#+ (.*)$/)?.[1];
    return heading !== undefined && anchorOf(heading) === anchor;
  });
}

function isLinkThere(document: string, target: string, tree: DocumentTree): boolean {
  if (/^(https?|mailto):/.test(target)) return true;
  const [path, anchor] = target.split("#") as [string, string?];
  const found = path === "" ? document : resolve(document, path);
  if (found !== "" && !tree.isThere(found)) return false;
  return anchor === undefined || hasAnchor(tree.textOf(found), anchor);
}

/**
 * A path is named from the document's own folder or from one above it, the root of the tree included. A name
 * without a folder may stand for a file further down, as pages of folders with floors name the folder once.
 */
function isPathThere(document: string, named: string, tree: DocumentTree): boolean {
  if (!named.includes("/")) return tree.hasBelow(resolve(document, "."), named);
  if (named.startsWith(".")) return tree.isThere(resolve(document, named));
  const above = document.split("/").map((_, depth) => "../".repeat(depth) + named);
  return above.some((path) => tree.isThere(resolve(document, path)));
}

/** Everything that `document` names and the tree does not have. */
export function missingIn(document: string, tree: DocumentTree): Missing[] {
  return mentionsOf(tree.textOf(document))
    .filter(({ named, kind }) =>
      kind === "link" ? !isLinkThere(document, named, tree) : !isPathThere(document, named, tree)
    )
    .map(({ line, named }) => ({ document, line, named }));
}

/** The files of the guided tour in `nodes/README.md`, in order. @throws Error where `text` has none. */
export function tourOf(text: string): string[] {
  const section = text.split(/^## /m).find((part) => part.startsWith("A tour of the core")) ?? "";
  const files: string[] = [];
  // Only the first column of a table is a stop of the tour.
  for (const [, cell] of section.matchAll(/^\| ([^|]+)\|/gm)) {
    for (const [, name] of cell!.matchAll(/`([^`]+\.ts)`/g)) files.push(name!);
  }
  if (files.length === 0) throw new Error("Cannot read the tour as nodes/README.md has none");
  return files;
}
