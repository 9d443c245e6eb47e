/** Tests for which something is missing on this machine: skipped, and counted as such. */
import { it } from "@std/testing/bdd";

/** `it` where nothing is missing; else it skips tests, and the output says which and why. */
export function itUnless(missing: string | undefined, what: string): typeof it | typeof it.skip {
  if (missing === undefined) return it;
  console.log(`${what} is SKIPPED: ${missing}`);
  return it.skip;
}

/** Why this machine lets us mount no file system of our own, for tests of full disks. */
export async function mountMissing(): Promise<string | undefined> {
  const directory = await Deno.makeTempDir({ prefix: "rackmesh-mount-" });
  try {
    const mount = ["mount", "-t", "tmpfs", "none", directory];
    const probe = new Deno.Command("unshare", { args: ["-rm", ...mount], stderr: "null" });
    const { success } = await probe.output();
    return success ? undefined : "this machine lets no user mount a file system";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "there is no unshare here";
    throw error;
  } finally {
    await Deno.remove(directory);
  }
}
