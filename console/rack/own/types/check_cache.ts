/**
 * Checks of types that have been made, in the user's cache: by what was checked, and all its files.
 */
import type { Problem } from "../../../../fabric/rack/plan/problem.ts";
import { DamagedFileError, jsonIfThere, textIfThere, writeWhole } from "../../../base/files.ts";
import { cacheFolder, fromFileUrl, projectFile } from "../../../base/paths.ts";
import { sha256 } from "../../../base/sha256.ts";

export interface Checked {
  readonly own: readonly string[];
  readonly problems: readonly Problem[];
}

interface KeptCheck extends Checked {
  readonly modules: readonly string[];
  readonly content: string;
}

const KEPT_MAX = 100;
const CHECKERS = [
  "console/rack/own/types/check_types.ts",
  "console/rack/own/types/compile_main.ts",
  "console/rack/own/types/compiler.ts",
  "console/rack/own/types/unused_steps.ts",
  "console/rack/own/types/words.ts",
  "nodes/host/calls/names_there.ts",
  "deno.lock",
];

async function digestOf(texts: readonly string[]): Promise<string> {
  return (await sha256(new TextEncoder().encode(JSON.stringify(texts)))).slice(0, 24);
}

/** Names a check of these programs. @param configs each `deno.json` above them. */
export async function keyOf(
  programs: readonly string[],
  configs: readonly string[],
): Promise<string> {
  const checkers = CHECKERS.map((name) => textIfThere(fromFileUrl(projectFile(name))) ?? "");
  return await digestOf([...programs, "", ...configs, "", Deno.version.deno, ...checkers]);
}

/** Undefined where there is no earlier check, or it is not valid any more. */
export async function keptCheck(key: string): Promise<Checked | undefined> {
  const kept = keptAt(pathOf(key));
  if (kept === undefined || await contentOf(kept.modules) !== kept.content) return undefined;
  return kept;
}

/** Where the disk is full, the next check is made anew. */
export async function keepChecked(
  key: string,
  checked: Checked & Pick<KeptCheck, "modules">,
): Promise<void> {
  const kept: KeptCheck = { ...checked, content: await contentOf(checked.modules) };
  try {
    writeWhole(pathOf(key), JSON.stringify(kept));
    forgetOld();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
}

function pathOf(key: string): string {
  return `${cacheFolder("types")}/checked-${key}.json`;
}

/** Undefined for a file that was damaged: the check is made anew. */
function keptAt(path: string): KeptCheck | undefined {
  try {
    return jsonIfThere<KeptCheck>(
      path,
      ({ own, problems, modules, content }) =>
        [own, problems, modules].every(Array.isArray) && typeof content === "string",
    );
  } catch (error) {
    if (error instanceof DamagedFileError) return undefined;
    throw error;
  }
}

async function contentOf(files: readonly string[]): Promise<string> {
  return await digestOf(files.flatMap((file) => [file, textIfThere(file) ?? ""]));
}

function forgetOld(): void {
  const folder = cacheFolder("types");
  const files = [...Deno.readDirSync(folder)].filter(({ name }) => name.startsWith("checked-"))
    .map(({ name }) => `${folder}/${name}`)
    .map((path) => ({ path, at: Deno.statSync(path).mtime?.getTime() ?? 0 }))
    .sort((x, y) => y.at - x.at);
  for (const { path } of files.slice(KEPT_MAX)) Deno.removeSync(path);
}
