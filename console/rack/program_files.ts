/** The files of a user's own program, for a copy into a container. */
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { ROOT } from "../base/paths.ts";

/** The fields of `deno info --json` for a module that are used here. */
interface ModuleInfo {
  readonly specifier: string;
  readonly dependencies?: ReadonlyArray<{ readonly code?: { readonly specifier?: string } }>;
}

/**
 * The files of a program: its folder, and paths relative to that: the program first, then its
 * imports, except for type-only imports.
 * @returns in `inProject` whether the folder lies in this project, whose modules it may import.
 * @throws Refusal where the file cannot be read, or imports a file outside its folder.
 */
export async function programFiles(path: string) {
  const folder = path.replace(/\/[^/]*$/, "");
  const inProject = `${folder}/`.startsWith(`${ROOT}/`);
  const files: string[] = [];
  for (const file of await localModules(path)) {
    if (file.startsWith(`${folder}/`)) files.push(file.slice(folder.length + 1));
    else if (!inProject || !file.startsWith(`${ROOT}/`)) {
      const found = `Cannot take ${path} into a container as it imports ${file}`;
      throw refusal("", { found, expected: "files of its folder only" });
    }
  }
  return { folder, files, inProject };
}

/** The files that a module loads when it runs; the first is the module itself. */
async function localModules(path: string): Promise<string[]> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "--config", `${ROOT}/deno.json`, path],
  }).output();
  if (!success) {
    throw refusal("", { found: `Cannot read ${path}: ${new TextDecoder().decode(stderr).trim()}` });
  }
  const { roots, modules } = JSON.parse(new TextDecoder().decode(stdout)) as {
    roots: string[];
    modules: ModuleInfo[];
  };
  const known = new Map(modules.map((module) => [module.specifier, module]));
  const found = new Set(roots);
  for (const specifier of found) {
    for (const { code } of known.get(specifier)?.dependencies ?? []) {
      if (code?.specifier?.startsWith("file:")) found.add(code.specifier);
    }
  }
  return [...found].map((specifier) => decodeURIComponent(new URL(specifier).pathname));
}
