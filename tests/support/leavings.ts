/**
 * What tests leave behind: nothing. With `RACKMESH_KEEP_RUNS` set to anything, the directories of racks
 * and commands stay, with logs, SCM files and records, and are named on stderr: for a look at a failure.
 *
 *     RACKMESH_KEEP_RUNS=1 RACKMESH_TEST_SEED=17 RACKMESH_TEST_RUNS=1 deno test -A tests/chaos/chaos_test.ts
 */

/** Removes a test's directory, unless it is to be kept. */
export async function removeUnlessKept(directory: string): Promise<void> {
  if ((Deno.env.get("RACKMESH_KEEP_RUNS") ?? "") !== "") {
    console.error(`kept: ${directory}`);
    return;
  }
  await Deno.remove(directory, { recursive: true });
}
