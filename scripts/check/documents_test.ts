import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ROOT } from "../../console/base/paths.ts";
import { type DocumentTree, type Missing, missingIn, tourOf } from "./documents_testing.ts";

/** A tree of documents by their paths; folders are there with their documents. */
function treeOf(texts: Readonly<Record<string, string>>): DocumentTree {
  const paths = Object.keys(texts);
  return {
    isThere: (path) => paths.some((each) => each === path || each.startsWith(path + "/")),
    hasBelow: (folder, name) =>
      paths.some((each) => `/${each}`.startsWith(`/${folder}/`) && each.endsWith(`/${name}`)),
    textOf: (path) => texts[path] ?? "",
  };
}

function namesMissing(text: string): string[] {
  const tree = treeOf({
    "nodes/README.md": text,
    "nodes/main.ts": "",
    "nodes/rnic/rnic.ts": "",
    "fabric/node.ts": "",
    "fabric/README.md": "# fabric\n\n## How the clock works\n",
  });
  return missingIn("nodes/README.md", tree).map(({ named }) => named);
}

describe("missingIn", () => {
  it("finds a link to what is not there", () => {
    assert.deepEqual(
      namesMissing("[a](rnic/rnic.ts) [b](rnic/card.ts) [c](../fabric) [d](../glue)"),
      [
        "rnic/card.ts",
        "../glue",
      ],
    );
  });

  it("finds an anchor without a heading, in this document and in another", () => {
    const text =
      "# The nodes\n[a](#the-nodes) [b](#nodes) [c](../fabric/README.md#how-the-clock-works) " +
      "[d](../fabric/README.md#clock)";
    assert.deepEqual(namesMissing(text), ["#nodes", "../fabric/README.md#clock"]);
  });

  it("finds a path in a code span, from the document's folder or from the root", () => {
    const text =
      "`main.ts`, `rnic/rnic.ts`, `nodes/rnic/`, `scripts/rack run`, `card.ts`, `fabric/glue`";
    assert.deepEqual(namesMissing(text), ["scripts/rack", "card.ts", "fabric/glue"]);
  });

  it("takes a name without a folder for a file further down, never for one beside or above", () => {
    assert.deepEqual(namesMissing("`rnic.ts` `rack.ts` `node.ts`"), ["rack.ts", "node.ts"]);
  });

  it("finds a path from the root in an example", () => {
    const text =
      "```sh\ncat nodes/main.ts fabric/glue.ts own.ts --input=nodes/data.bin\n```\n`own.ts`";
    assert.deepEqual(namesMissing(text), ["fabric/glue.ts", "nodes/data.bin", "own.ts"]);
  });

  it("leaves alone what a run makes, what is elsewhere, and words that only look like paths", () => {
    const text =
      "`faults.jsonl` `./own.ts` `DIR/a.pcapng` `*_test.ts` `read/write` [x](https://x.org/nodes/y.ts)";
    assert.deepEqual(namesMissing(text), []);
  });

  it("tells the line", () => {
    const tree = treeOf({ "README.md": "one\n\n`nodes/x.ts`\n" });
    assert.deepEqual(missingIn("README.md", tree), [
      { document: "README.md", line: 3, named: "nodes/x.ts" },
    ]);
  });
});

describe("tourOf", () => {
  it("reads the first column of its tables", () => {
    const text = "## Files\n| `x.ts` | - |\n\n## A tour of the core\n\n" +
      "| file | what |\n| --- | --- |\n| `a/b.ts` | see `c.ts` |\n| `d.ts`, `e.ts` | - |\n\n## Rest\n| `f.ts` | - |\n";
    assert.deepEqual(tourOf(text), ["a/b.ts", "d.ts", "e.ts"]);
  });

  it("throws where there is no tour, or one that leads nowhere", () => {
    assert.throws(() => tourOf("## Files\n"), /has none/);
    assert.throws(() => tourOf("## A tour of the core\n\nmany files\n"), /has none/);
  });
});

/** All Markdown files below `folder`, as paths from the root. */
function documentsBelow(folder: string): string[] {
  const found: string[] = [];
  for (const { name, isDirectory } of Deno.readDirSync(`${ROOT}/${folder}`)) {
    if (name.startsWith(".") || name === "node_modules") continue;
    const path = folder === "" ? name : `${folder}/${name}`;
    if (isDirectory) found.push(...documentsBelow(path));
    else if (name.endsWith(".md")) found.push(path);
  }
  return found.sort();
}

function isThere(path: string): boolean {
  try {
    Deno.statSync(`${ROOT}/${path}`);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function hasBelow(folder: string, name: string): boolean {
  for (const entry of Deno.readDirSync(`${ROOT}/${folder}`)) {
    if (entry.name === name) return true;
    const isOurs = entry.isDirectory && !entry.name.startsWith(".") &&
      entry.name !== "node_modules";
    if (isOurs && hasBelow(`${folder}/${entry.name}`, name)) return true;
  }
  return false;
}

describe("The documents of this tree", () => {
  const documents = documentsBelow("");
  const tree = {
    isThere,
    hasBelow,
    textOf: (path: string) => Deno.readTextFileSync(`${ROOT}/${path}`),
  };

  it("name only files, folders and headings that exist", () => {
    const missing = documents.flatMap((document) => missingIn(document, tree));
    const lineOf = ({ document, line, named }: Missing) => `${document}:${line}: ${named}`;
    assert.deepEqual(missing.map(lineOf), []);
  });

  it("have no conflict of a merge left in them", () => {
    const marked = documents.filter((path) => /^(<{7}|>{7}) /m.test(tree.textOf(path)));
    assert.deepEqual(marked, []);
  });

  it("lead through the core, by each file once", () => {
    const files = tourOf(tree.textOf("nodes/README.md"));
    assert.deepEqual(files, [...new Set(files)]);
  });

  it("begin the changelog with the version of deno.json", () => {
    const { version } = JSON.parse(tree.textOf("deno.json"));
    const [, newest] = /^## (.*)$/m.exec(tree.textOf("scripts/CHANGELOG.md"))!;
    assert.equal(newest, version);
  });
});
