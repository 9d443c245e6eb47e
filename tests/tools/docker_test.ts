/**
 * A rack in containers, proved by `docker/prove.sh` where a Docker engine is running. Where none is, the
 * test is skipped and says why: an engine is a machine's matter and not started for a test.
 */
import assert from "node:assert/strict";
import { describe } from "@std/testing/bdd";
import { ROOT } from "../../console/base/paths.ts";
import { TEST_PATIENCE_MS } from "../support/eventually.ts";
import { itUnless } from "../support/skipping.ts";

/** Why a command cannot be used here; undefined where it ran and succeeded. */
async function whyNot(name: string, args: string[]): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(TEST_PATIENCE_MS);
    const { success, stderr } = await new Deno.Command(name, { args, signal }).output();
    if (success) return undefined;
    const [said] = new TextDecoder().decode(stderr).trim().split("\n");
    return `${name} ${args.join(" ")} says: ${said || "nothing"}`;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return `there is no ${name}`;
    throw error;
  }
}

/** Why there can be no proof here. */
async function whySkipped(): Promise<string | undefined> {
  const engine = await whyNot("docker", ["info", "--format", "{{.ServerErrors}}"]) ??
    // Older clients exit with 0 where no engine answers.
    await whyNot("docker", ["ps", "--quiet"]);
  if (engine !== undefined) return engine;
  if (await whyNot("docker", ["compose", "version"]) === undefined) return undefined;
  return await whyNot("docker-compose", ["version"]);
}

const withDocker = itUnless(await whySkipped(), "docker/prove.sh");

describe("A rack in containers", () => {
  withDocker(
    "runs to the same digest, loses and regains power by docker kill and start, and has a console",
    async () => {
      const { code, stdout, stderr } = await new Deno.Command("bash", {
        args: [`${ROOT}/docker/prove.sh`],
        signal: AbortSignal.timeout(TEST_PATIENCE_MS),
      }).output();
      const said = new TextDecoder().decode(stdout);
      assert.equal(code, 0, said + new TextDecoder().decode(stderr));
      assert.ok(said.match(/^ok {3}/gm)!.length >= 50, `It proved too little:\n${said}`);
    },
  );
});
