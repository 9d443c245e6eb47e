/** `rack console` as a person starts and ends it, over a real socket. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { CommandRig, type RunningCommand } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { itUnless } from "../support/skipping.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const ONE = ["--method", "persist-opcode", "--ddio", "on", "--pack", "machine"];

const withTls = itUnless(opensslMissing(), "The console over TLS");

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
  await eventually("the address", () => command.stdout.includes("\n"));
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

/** The origin, and an operator's key. */
async function opened(command: RunningCommand): Promise<[origin: string, key: string]> {
  const { origin, url } = await started(command);
  return [origin, (await signIn(url)).key];
}

/** @param order POSTed; absent: a GET. */
async function ask(origin: string, key: string, path: string, order?: unknown) {
  const response = await fetch(`${origin}/api/v1${path}`, {
    ...(order !== undefined && { method: "POST", body: JSON.stringify(order) }),
    headers: {
      Authorization: `Bearer ${key}`,
      "X-Rackmesh": "1",
      "Content-Type": "application/json",
    },
  });
  assert.equal(response.status, 200);
  return await response.json();
}

describe("rack console", () => {
  it("brings a scenario up, signs a browser in once, and takes down what it brought up", async () => {
    const other = JSON.parse(await rig.must(["up", PAIR, ...ONE, "--json"])).run;
    const command = rig.start(["console", PAIR, ...ONE, "--viewer", "--json"]);
    const { url, viewerUrl, rack, origin, auditFile } = await started(command);
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]{43}$/);
    const { key } = await signIn(url);
    assert.equal((await signIn(url)).status, 401);
    const { url: more, role: asked } = JSON.parse(await rig.must(["console", "--link", "--json"]));
    assert.equal(asked, "operator");
    assert.equal((await signIn(more)).status, 200);
    const { port } = new URL(origin);
    const look = await rig.must(["console", "--link", "--viewer", "--port", port]);
    const looks = await signIn(look.split(" ")[0]!);
    const role = await fetch(`${origin}/api/v1/session`, {
      headers: { Authorization: `Bearer ${looks.key}` },
    });
    assert.equal((await role.json()).role, "viewer");
    const none = await rig.run(["console", "--link", "--port", "1"]);
    assert.equal(none.code, 64);
    assert.match(none.stderr, /--link is consoles at http:\/\/127\.0\.0\.1:\d+: expected --port/);
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
    await rig.gone();
  });

  it("goes on with an exploration whose console was killed, from where it stood", async () => {
    const text = `name: kept
hosts: { a: {}, b: { scm: { size: 1MiB } } }
programs: [{ on: a, run: put, to: b, bytes: 4KiB, size: 512, method: persist-opcode }]
`;
    const first = rig.start(["console", "--json"]);
    const [one, key] = await opened(first);
    const { id } = await ask(one, key, "/jobs", {
      kind: "explore",
      scenario: { text },
      stalls: 400,
    });
    const matrix = await ask(one, key, "/jobs", { kind: "matrix", jobs: 1 });
    await eventually("some of it is judged", async () => {
      return (await ask(one, key, `/jobs/${id}`)).job.share > 0.05 &&
        (await ask(one, key, `/jobs/${matrix.id}`)).job.share > 0;
    });
    Deno.kill(first.pid, "SIGKILL");
    await first.ended;
    const second = rig.start(["console", "--json"]);
    const [two, other] = await opened(second);
    const { jobs } = await ask(two, other, "/jobs");
    const seen = jobs.map(({ kind, state }: { kind: string; state: string }) => [kind, state]);
    assert.deepEqual(seen.toSorted(), [["explore", "running"], ["matrix", "running"]]);
    for (const { id, kind } of jobs) {
      const what = kind === "matrix" ? "cells" : "steps";
      await eventually("it goes on", async () => {
        const { job: { notes } } = await ask(two, other, `/jobs/${id}`);
        return Number(RegExp(`goes on with what (\\d+) ${what}`).exec(notes.join())?.[1]) > 0;
      });
      const ended = await fetch(`${two}/api/v1/jobs/${id}`, {
        method: "DELETE",
        headers: { Authorization: `Bearer ${other}`, "X-Rackmesh": "1" },
      });
      await ended.body?.cancel();
    }
    Deno.kill(second.pid, "SIGINT");
    await second.ended;
    const third = rig.start(["console", "--json"]);
    const [three, last] = await opened(third);
    assert.deepEqual((await ask(three, last, "/jobs")).jobs, [], "it was cancelled by a user");
    Deno.kill(third.pid, "SIGINT");
    await third.ended;
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

  withTls("answers over TLS while 10 000 connections are open that say nothing", async () => {
    const key = "k".repeat(40);
    const tls = await ownCertificate();
    const args = ["console", "--json", ...tls.args];
    const command = rig.start(args, { env: { RACKMESH_CONSOLE_KEY: key } });
    const { url, origin } = await started(command);
    assert.match(url, /^https:\/\/127\.0\.0\.1:\d+\/#token=/);
    const { port } = new URL(origin);
    const most = CONNECTIONS < descriptors() - OTHERS ? CONNECTIONS : descriptors() - OTHERS;
    if (most < CONNECTIONS) console.log(`${most} connections: this machine allows no more`);
    const open: Deno.Conn[] = [];
    const client = Deno.createHttpClient({ caCerts: tls.trusted, poolMaxIdlePerHost: 0 });
    try {
      for (let i = 0; i < most / BATCH; i++) {
        const some = Array.from(
          { length: BATCH },
          () => Deno.connect({ hostname: "127.0.0.1", port: Number(port) }),
        );
        open.push(...await Promise.all(some));
      }
      const headers = { Authorization: `Bearer ${key}` };
      const response = await fetch(`${origin}/api/v1/session`, { headers, client });
      assert.equal(response.status, 200);
      assert.equal((await response.json()).role, "operator");
      // Without TLS there is nothing at this port.
      await assert.rejects(fetch(`http://127.0.0.1:${port}/healthz`));
    } finally {
      client.close();
      for (const connection of open) connection.close();
      Deno.kill(command.pid, "SIGTERM");
      await tls.remove();
    }
    assert.equal((await command.ended).code, 143);
  });
});

/** Each takes a descriptor in either process, which has others besides. */
const CONNECTIONS = 10_000, BATCH = 100, OTHERS = 200;

/** How many descriptors a process may have here: Deno takes all that it can get. */
function descriptors(): number {
  const limits = Deno.readTextFileSync("/proc/self/limits");
  const most = /^Max open files\s+\S+\s+(\d+)/m.exec(limits)?.[1];
  return most === undefined ? Infinity : Number(most);
}

function opensslMissing(): string | undefined {
  try {
    new Deno.Command("openssl", { args: ["version"] }).outputSync();
    return undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "there is no openssl here";
    throw error;
  }
}

/** A certificate of 127.0.0.1 that nobody has signed, as files for the command and as what a client trusts. */
async function ownCertificate() {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-tls-" });
  const cert = `${folder}/cert.pem`, key = `${folder}/key.pem`;
  const words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"];
  const constraints = ["-addext", "basicConstraints=critical,CA:FALSE"];
  const files = ["-keyout", key, "-out", cert, "-days", "2"];
  const { success, stderr } = await new Deno.Command("openssl", {
    args: [...words, ...names, ...constraints, ...files],
    stderr: "piped",
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return {
    args: ["--tls-cert", cert, "--tls-key", key],
    trusted: [await Deno.readTextFile(cert)],
    remove: () => Deno.remove(folder, { recursive: true }),
  };
}
