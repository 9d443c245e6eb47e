import { ifThere, isThere } from "./files.ts";
import { projectFile, ROOT } from "./paths.ts";

/**
 * `rack 0.1.0 (commit 1a2b3c4d5e6f, Deno 2.9.6)`: without a commit outside a clone, or without git.
 */
export function versionText(): string {
  const commit = commitHere();
  return `rack ${version()} (${
    commit === undefined ? "" : `commit ${commit}, `
  }Deno ${Deno.version.deno})`;
}

/** The release's, as `deno.json` has it: `0.1.0`. */
export function version(): string {
  return JSON.parse(Deno.readTextFileSync(projectFile("deno.json"))).version;
}

/** Twelve digits; undefined outside a clone, and without git. */
export function commitHere(): string | undefined {
  // Else git would look in the folders above and find another repository.
  if (!isThere(`${ROOT}/.git`)) return undefined;
  return ifThere(() => {
    const { success, stdout } = new Deno.Command("git", {
      args: ["-C", ROOT, "rev-parse", "--short=12", "HEAD"],
      stderr: "null",
    }).outputSync();
    const commit = new TextDecoder().decode(stdout).trim();
    return success && /^[0-9a-f]{12,}$/.test(commit) ? commit : undefined;
  });
}
