/** `rack console` as a person starts and ends it, over a real socket. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { CommandRig, type RunningCommand } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const ONE = ["--method", "persist-opcode", "--ddio", "on", "--pack", "machine"];

let rig: CommandRig;
beforeAll(async () => {
  rig = await CommandRig.open();
});
afterAll(() => rig.closeDown());

interface Printed {
  readonly url: string;
  readonly viewerUrl: string;
  readonly rack?: string;
  readonly origin: string;
  readonly auditFile: string;
}

async function started(command: RunningCommand): Promise<Printed> {
  await eventually("the address", () => command.stdout.includes("\n"), { withinMs: 90_000 });
  return JSON.parse(command.stdout);
}

async function signIn(url: string): Promise<{ readonly status: number; readonly key: string }> {
  const [origin, token] = url.split("/#token=");
  const response = await fetch(`${origin}/api/v1/session`, {
    method: "POST",
    headers: { "X-Rackmesh": "1", "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  return { status: response.status, key: (await response.json()).key };
}

describe("rack console", () => {
  it("brings a scenario up, signs a browser in once, and takes down what it brought up", async () => {
    const other = JSON.parse(await rig.must(["up", PAIR, ...ONE, "--json"])).run;
    const command = rig.start(["console", PAIR, ...ONE, "--viewer", "--json"]);
    const { url, viewerUrl, rack, origin, auditFile } = await started(command);
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]{43}$/);
    const { key } = await signIn(url);
    assert.equal((await signIn(url)).status, 401);
    const viewer = await signIn(viewerUrl);
    const headers = { Authorization: `Bearer ${key}` };
    const session = await (await fetch(`${origin}/api/v1/session`, { headers })).json();
    assert.deepEqual([session.rack, session.role], [rack, "operator"]);
    const kill = (key: string) =>
      fetch(`${origin}/api/v1/racks/${rack}/power`, {
        method: "POST",
        headers: {
          Authorization: `Bearer ${key}`,
          "X-Rackmesh": "1",
          "Content-Type": "application/json",
        },
        body: JSON.stringify({ action: "kill", node: "timekeeper" }),
      });
    const statuses: number[] = [];
    for (const who of [viewer.key, key]) {
      const response = await kill(who);
      await response.body?.cancel();
      statuses.push(response.status);
    }
    assert.deepEqual(statuses, [403, 200]);
    const page = await fetch(origin);
    assert.match(await page.text(), /<!doctype html>/i);
    assert.equal(Deno.statSync(auditFile).mode! & 0o777, 0o600);
    // A feed that is open does not hold it up.
    const feed = await fetch(`${origin}/api/v1/feed?run=${rack}`, { headers });
    Deno.kill(command.pid, "SIGINT");
    const { code, stderr } = await command.ended;
    await feed.body?.cancel().catch(() => {});
    assert.equal(code, 130, stderr);
    const ps = JSON.parse(await rig.must(["ps", "--json"]));
    assert.equal(ps.run, other, "the other rack is up, and no more");
    await rig.must(["down"]);
    await rig.gone(5_000);
  });

  it("refuses an address that others can reach without TLS or a word, and a weak key", async () => {
    for (
      const [args, env, message] of [
        [["--listen", "0.0.0.0"], {}, /--listen is 0\.0\.0\.0.*--insecure/],
        [["--host", "a b"], {}, /--host/],
        [["--port", "70000"], {}, /--port/],
        [["--tls-cert", "none.pem"], {}, /--tls-cert alone/],
        [[], { RACKMESH_CONSOLE_KEY: "short" }, /RACKMESH_CONSOLE_KEY/],
      ] as const
    ) {
      const { code, stderr } = await rig.run(["console", ...args], { env });
      assert.equal(code, 64, args.join(" "));
      assert.match(stderr, message);
    }
  });

  it("answers while thousands of connections are open that say nothing", async () => {
    const key = "k".repeat(40);
    const command = rig.start(["console", "--json"], { env: { RACKMESH_CONSOLE_KEY: key } });
    const { origin } = await started(command);
    const { port } = new URL(origin);
    const open: Deno.Conn[] = [];
    try {
      for (let i = 0; i < 40; i++) {
        const some = Array.from(
          { length: 50 },
          () => Deno.connect({ hostname: "127.0.0.1", port: Number(port) }),
        );
        open.push(...await Promise.all(some));
      }
      const headers = { Authorization: `Bearer ${key}` };
      const response = await fetch(`${origin}/api/v1/session`, { headers });
      assert.equal(response.status, 200);
      await response.body?.cancel();
    } finally {
      for (const connection of open) connection.close();
      Deno.kill(command.pid, "SIGTERM");
    }
    assert.equal((await command.ended).code, 143);
  });
});
