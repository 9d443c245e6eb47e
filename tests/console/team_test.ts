/**
 * Several users of one console: names, invitations, a rack's owner and lock, quotas, the audit log;
 * by HTTP on a rack of processes, and in the page.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { it as itAlone } from "@std/testing/bdd";
import { type Answer, TestConsole } from "../../console/server/app_testing.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { type RackLink, withRack } from "../../console/rack/live/racks.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import { RUNNING_OF_USER_MAX } from "../../console/server/jobs/jobs.ts";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { inOrder } from "../support/in_order.ts";
import { removeUnlessKept } from "../support/leavings.ts";
import { itUnless } from "../support/skipping.ts";

const API = "/api/v1";
const TEXT = "name: team\nhosts: { a: {}, b: {} }\nprograms: []\n";
const PAUSE = { order: "pause" };

describe("a team's console, by HTTP", () => {
  const it = inOrder(itAlone);
  let cache: string, before: string | undefined, console: TestConsole;
  let ada: string, bob: string, run: string;

  beforeAll(async () => {
    cache = await Deno.realPath(await Deno.makeTempDir({ prefix: "rackmesh-team-" }));
    before = Deno.env.get("RACKMESH_CACHE");
    Deno.env.set("RACKMESH_CACHE", cache);
    console = new TestConsole({ isReal: true });
    ada = await console.signIn("operator", "Ada");
  });

  afterAll(async () => {
    if (run !== undefined) await send(ada, "POST", `/runs/${run}/down`);
    await console.end();
    if (before === undefined) Deno.env.delete("RACKMESH_CACHE");
    else Deno.env.set("RACKMESH_CACHE", before);
    await removeUnlessKept(cache);
  });

  function send(key: string, method: string, path: string, json?: unknown): Promise<Answer> {
    return console.send(method, `${API}${path}`, { key, ...(json ? { json } : {}) });
  }

  async function good(key: string, method: string, path: string, json?: unknown) {
    const answer = await send(key, method, path, json);
    assert.equal(answer.status, 200, `${method} ${path}: ${answer.text}`);
    return answer.json;
  }

  it("invites users by name, shows who is here, and names them in the audit log", async () => {
    const { url } = await good(ada, "POST", "/links", { role: "operator", name: "Bob" });
    const token = /#token=(.*)$/.exec(url)![1];
    const signedIn = await console.send("POST", `${API}/session`, { json: { token } });
    bob = signedIn.json.key;
    assert.equal(signedIn.json.name, "Bob");
    assert.equal((await good(bob, "GET", "/session")).name, "Bob");
    const { users } = await good(bob, "GET", "/users");
    assert.deepEqual(users.map(({ name, role }: { name: string; role: string }) => [name, role]), [
      ["Ada", "operator"],
      ["Bob", "operator"],
    ]);
    const { entries } = await good(ada, "GET", "/audit");
    const invited = entries.find(({ action }: { action: string }) => /links/.test(action));
    assert.deepEqual([invited.name, invited.detail.name], ["Ada", "Bob"]);
    const long = await send(ada, "POST", "/links", { role: "viewer", name: "x".repeat(41) });
    assert.equal(long.status, 400);
  });

  it("a rack is its bringer's, whose lock refuses others' orders in a sentence with the owner's name", async () => {
    const job = await good(ada, "POST", "/jobs", {
      kind: "up",
      scenario: { text: TEXT },
      paused: true,
    });
    await eventually("the rack is up", async () => {
      const found = (await good(ada, "GET", `/jobs/${job.id}`)).job;
      assert.notEqual(found.state, "failed", found.error);
      run = found.run;
      return found.state === "done";
    });
    const lock = `/racks/${run}/lock`;
    const seen = await good(bob, "GET", lock);
    assert.deepEqual([seen.owner.name, seen.isLocked], ["Ada", false]);
    await good(bob, "POST", `/racks/${run}/time`, PAUSE);
    assert.equal((await send(bob, "POST", lock, { action: "lock" })).status, 403);
    await good(ada, "POST", lock, { action: "lock" });
    const orders: [string, string, unknown?][] = [
      ["POST", `/racks/${run}/time`, PAUSE],
      ["POST", `/racks/${run}/power`, { action: "kill", node: "b" }],
      ["POST", `/racks/${run}/heal`, {}],
      ["POST", `/runs/${run}/down`],
      ["DELETE", `/runs/${run}`],
    ];
    for (const [method, path, json] of orders) {
      const { status, json: refused } = await send(bob, method, path, json);
      assert.equal(status, 403, `${method} ${path}`);
      const [said, how] = refused.detail.split(/ \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\): /);
      assert.equal(said, `Ada has locked ${run}`);
      assert.equal(how, "ask Ada to unlock it, or to hand it over");
    }
    assert.equal((await send(bob, "POST", lock, { action: "take over" })).status, 403);
    // Looking is open to all.
    await good(bob, "GET", `/racks/${run}/why`);
    await good(ada, "POST", `/racks/${run}/time`, PAUSE);
  });

  it("a lock outlives its console, and holds for another one and for the command line", async () => {
    const lock = `/racks/${run}/lock`, other = new TestConsole({ isReal: true });
    try {
      // Its first session has the number of Ada's, and is another's.
      const eve = await other.signIn("operator", "Eve");
      const ask = (method: string, path: string, json?: unknown) =>
        other.send(method, `${API}${path}`, { key: eve, ...(json ? { json } : {}) });
      const { json: seen } = await ask("GET", lock);
      assert.deepEqual([seen.owner.name, seen.isLocked, seen.isHere], ["Ada", true, false]);
      const { status, json } = await ask("POST", `/racks/${run}/time`, PAUSE);
      assert.equal(status, 403);
      assert.match(json.detail, /Ada is not signed in here, so Team lets you take it over$/);
      assert.equal((await ask("POST", lock, { action: "unlock" })).status, 403);
      const order = (link: RackLink) => link.control.status();
      await assert.rejects(
        withRack(run, order),
        /Ada has locked .* UTC\): expected Ada to unlock it .* or --override-lock/,
      );
      await assert.rejects(takeRacksDown({ run }), /Ada has locked/);
      await withRack(run, order, { as: "viewer" });
      await withRack(run, order, { overrideLock: true });
      const { json: taken } = await ask("POST", lock, { action: "take over" });
      assert.deepEqual([taken.owner.name, taken.isLocked, taken.isHere], ["Eve", true, true]);
      assert.equal((await send(ada, "POST", `/racks/${run}/time`, PAUSE)).status, 403);
    } finally {
      await other.end();
    }
    await good(ada, "POST", lock, { action: "take over" });
    await good(ada, "POST", `/racks/${run}/time`, PAUSE);
  });

  it("an owner hands over and unlocks; the lock of who has signed out is another's to take over", async () => {
    const lock = `/racks/${run}/lock`;
    const none = await send(ada, "POST", lock, { action: "hand over", to: "operator-99" });
    assert.equal(none.status, 404);
    const { session } = await good(bob, "GET", "/session");
    const given = await good(ada, "POST", lock, { action: "hand over", to: session });
    assert.deepEqual([given.owner.name, given.isLocked], ["Bob", true]);
    assert.equal((await send(ada, "POST", `/racks/${run}/time`, PAUSE)).status, 403);
    assert.equal((await send(ada, "POST", lock, { action: "unlock" })).status, 403);
    await good(bob, "POST", lock, { action: "unlock" });
    await good(ada, "POST", `/racks/${run}/time`, PAUSE);
    await good(bob, "POST", lock, { action: "lock" });
    await good(bob, "DELETE", "/session");
    assert.equal((await send(ada, "POST", `/racks/${run}/time`, PAUSE)).status, 403);
    const taken = await good(ada, "POST", lock, { action: "take over" });
    assert.deepEqual([taken.owner.name, taken.isLocked], ["Ada", true]);
    await good(ada, "POST", lock, { action: "unlock" });
  });

  it("attaches a rack of another machine, and the log has no credential of it", async () => {
    const { url, user, password } = JSON.parse(
      await Deno.readTextFile(`${cache}/runs/${run}/supervisor.json`),
    );
    const named = String(url).replace("://", `://${user}:${password}@`);
    // To this one it is another machine: nothing but the bus joins the two.
    const other = await Deno.makeTempDir({ prefix: "rackmesh-other-" });
    Deno.env.set("RACKMESH_CACHE", other);
    try {
      const none = await send(ada, "POST", "/racks", { url: named.replace(/:\d+$/, ":1") });
      assert.ok(none.status >= 400, none.text);
      assert.ok(!none.text.includes(password), none.text);
      assert.deepEqual(await good(ada, "POST", "/racks", { url: named }), { run });
      const { runs } = await good(ada, "GET", "/runs");
      assert.deepEqual(
        runs.map(({ id, state }: { id: string; state: string }) => [id, state]),
        [[run, "up"]],
      );
      await good(ada, "GET", `/racks/${run}/why`);
      const log = JSON.stringify(await good(ada, "GET", "/audit"));
      assert.ok(/POST \/api\/v1\/racks"/.test(log) && !log.includes(password), log);
      // Letting go of it does not end it.
      await good(ada, "POST", `/runs/${run}/down`);
    } finally {
      Deno.env.set("RACKMESH_CACHE", cache);
      await Deno.remove(other, { recursive: true });
    }
    await good(ada, "GET", `/racks/${run}/why`);
  });

  it("one user may not have all the jobs", async () => {
    const order = { kind: "run", packing: "all", scenario: { text: TEXT } };
    const cy = await console.signIn("operator", "Cy");
    // A job takes far longer to begin than these requests do.
    for (let i = 0; i < RUNNING_OF_USER_MAX; i++) await good(ada, "POST", "/jobs", order);
    const { status, json } = await send(ada, "POST", "/jobs", order);
    assert.equal(status, 429);
    assert.match(json.detail, /^3 jobs of yours run already, the most of one user/);
    await good(cy, "POST", "/jobs", order);
  });
});

describe("a team's console, in the page", () => {
  const it = inOrder(itUnless(browserMissing, "The console's page in a browser"));
  const scenario = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
  let rig: BrowserRig;

  beforeAll(async () => {
    if (browserMissing !== undefined) return;
    rig = await BrowserRig.open([scenario, "--method", "write-read", "--ddio", "on"]);
    await rig.device("b").waitFor();
  });

  afterAll(async () => {
    await rig?.close();
  });

  it("invites a user, locks and hands over a rack, and shows the audit log", async () => {
    const { page } = rig;
    await page.getByRole("button", { name: "Team" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("Bob");
    await dialog.getByLabel("Role").selectOption("operator");
    await dialog.getByRole("button", { name: "Make an address" }).click();
    const url = await dialog.getByLabel(/signs in one browser, once/).inputValue();
    const others = await rig.stranger(url);
    await others.locator('[data-device="b"]').waitFor();
    await dialog.getByRole("button", { name: "Lock it" }).click();
    await dialog.getByText("It is yours, and locked").waitFor();
    await dialog.getByRole("table", { name: "Who is signed in" }).getByText("Bob").waitFor();
    await rig.pictures("team");
    await rig.accessible("team");
    // The other one's order is refused, and says whose the rack is.
    await others.locator(".bar").getByRole("button", { name: "pause" }).click();
    await others.locator(".notice").getByText(/^operator-1 has locked .*: ask operator-1/)
      .waitFor();
    const refused = await rig.commands.run(["pause"]);
    assert.equal(refused.code, 64, refused.stderr);
    assert.match(
      refused.stderr,
      /^operator-1 has locked .*: expected operator-1 to unlock it .*--override-lock/,
    );
    const paused = await rig.commands.run(["pause", "--override-lock", "--json"]);
    assert.equal(paused.code, 0, paused.stderr);
    await dialog.getByLabel("Hand it over to").selectOption({ label: "Bob" });
    await dialog.getByText("It is Bob's, and locked").waitFor();
    const log = dialog.getByRole("region", { name: "Audit log" });
    await log.getByRole("row", { name: /Bob POST .*time .*has locked/ }).waitFor();
    await log.getByRole("row", { name: /operator-1 POST .*lock .*done/ }).first().waitFor();
  });

  it("throws nothing", async () => {
    await Promise.resolve();
    assert.deepEqual(rig.errors, []);
  });
});
