/**
 * A copy of the project in which some files are others: links to all of it, but for those, their folders and the
 * configuration, whose paths are meant from where it really is.
 */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { ROOT } from "../../console/base/paths.ts";
import { removeUnlessKept } from "./leavings.ts";

/** What stands behind the only place of a text in a file. */
export type Insertion = readonly [behind: string, inserted: string];

/** Makes the copy. @param changes by file what is inserted. @returns its folder. */
export async function copyTree(
  changes: Readonly<Record<string, readonly Insertion[]>>,
): Promise<string> {
  const tree = await Deno.makeTempDir({ prefix: "rackmesh-tree-" });
  await linkAll("", tree);
  for (const [path, insertions] of Object.entries(changes)) {
    await unlinkFolder(dirname(path), tree);
    let text = await Deno.readTextFile(`${ROOT}/${path}`);
    for (const [behind, inserted] of insertions) {
      assert.equal(text.split(behind).length, 2, `${path} has "${behind}" once`);
      text = text.replace(behind, () => `${behind}\n  ${inserted}`);
    }
    await Deno.remove(`${tree}/${path}`);
    await Deno.writeTextFile(`${tree}/${path}`, text);
  }
  return tree;
}

export async function removeTree(tree: string): Promise<void> {
  await removeUnlessKept(tree);
}

/** Makes a folder of the copy a real one, with those that it is in. */
async function unlinkFolder(path: string, tree: string): Promise<void> {
  if (path === "." || !(await Deno.lstat(`${ROOT}/${path}`)).isDirectory) return;
  await unlinkFolder(dirname(path), tree);
  if (!(await Deno.lstat(`${tree}/${path}`)).isSymlink) return;
  await Deno.remove(`${tree}/${path}`);
  await Deno.mkdir(`${tree}/${path}`);
  await linkAll(path, tree);
}

async function linkAll(path: string, tree: string): Promise<void> {
  for await (const { name } of Deno.readDir(`${ROOT}/${path}`)) {
    const from = `${ROOT}/${path}/${name}`, to = `${tree}/${path}/${name}`;
    if (name === "deno.json") await Deno.copyFile(from, to);
    else if (name !== ".git") await Deno.symlink(from, to);
  }
}
