/** Whether native programs run in `bwrap`, and what they may do with it and without. */
import { executableInPath } from "../../base/executables.ts";
import { sandboxWords } from "../../../nodes/native_sandbox.ts";

export type Sandbox =
  | { readonly bwrap: string }
  /** They are a container's, which has its own, and in which `bwrap` may not make one. */
  | { readonly container: true }
  /** Why there is none. */
  | { readonly none: string };

/** Tries bubblewrap once: where it is installed, a machine may still forbid what it needs. */
export async function sandboxHere(): Promise<Sandbox> {
  const bwrap = executableInPath("bwrap");
  if (bwrap === undefined) return { none: "bwrap is not installed" };
  const directory = await Deno.makeTempDir({ prefix: "rackmesh-bwrap-" });
  try {
    const [program, ...words] = sandboxWords({ bwrap, hidden: [directory], folder: directory });
    const { success, stderr } = await new Deno.Command(program!, {
      args: [...words, "true"],
      stdin: "null",
      stdout: "null",
    }).output();
    if (success) return { bwrap };
    const [why = ""] = new TextDecoder().decode(stderr).trim().split("\n");
    return { none: `bwrap does not work here (${why})` };
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** What the programs may do, for people. */
export function rightsText(sandbox: Sandbox): string {
  if ("bwrap" in sandbox) {
    return "in bwrap: no network, files to read only, except a folder of its own";
  }
  if ("container" in sandbox) {
    return "in the containers of their hosts: no more rights than the host's device, no files but theirs";
  }
  return `with your rights, as ${sandbox.none}`;
}
