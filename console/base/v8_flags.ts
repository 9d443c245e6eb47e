import { fromFileUrl, projectFile } from "./paths.ts";

/**
 * The flag of Deno for V8, in all processes of the product: code from strings (`new Function`)
 * would see globals that programs may not use. Deno's cache has V8's compiled code for one set of
 * such flags: a process with another set would compile each module anew and write it over, a third
 * of its start, and so would the next one.
 * @param heap flags for the size of the heap, which do not tell compiled code apart.
 */
export function v8Flags(...heap: readonly string[]): string {
  return `--v8-flags=${[...heap, "--disallow-code-generation-from-strings"].join(",")}`;
}

/** A process with a whole rack makes many short-lived objects: saves a tenth of its time. */
export const LARGE_HEAP: readonly string[] = [
  "--min-semi-space-size=32",
  "--max-semi-space-size=32",
];

/** `deno run` for a process that may do all that the command may, as in `scripts/rack`. */
export function commandFlags(...heap: readonly string[]): string[] {
  return [
    ...["--quiet", "--no-prompt", "--cached-only", "--frozen"],
    ...["--config", fromFileUrl(projectFile("deno.json"))],
    v8Flags(...heap),
    "--allow-all",
  ];
}

/** The same for a process with a whole rack. */
export function rackProcessArgs(module: string, words: readonly string[] = []): string[] {
  return ["run", ...commandFlags(...LARGE_HEAP), fromFileUrl(projectFile(module)), ...words];
}
