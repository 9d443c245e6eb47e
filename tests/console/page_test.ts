/**
 * The console's page on a real rack, in a browser: one console for all tests of this file, which do what a person does
 * and look at what the page shows.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { itUnless } from "../support/skipping.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const it = itUnless(browserMissing, "The console's page in a browser");

describe("The console's page", () => {
  let rig: BrowserRig, input: string | undefined;

  beforeAll(async () => {
    if (browserMissing !== undefined) return;
    // A replay reads it, too.
    input = await Deno.makeTempFile({ prefix: "rackmesh-input-" });
    await Deno.writeFile(input, new Uint8Array(100_000).map((_, i) => i * 7));
    const choices = ["--method", "persist-opcode", "--ddio", "on", "--input", input];
    rig = await BrowserRig.open([SCENARIO, ...choices]);
  });

  afterAll(async () => {
    await rig?.close();
    if (input !== undefined) await Deno.remove(input);
  });

  /** A command, as one types it. */
  async function type(command: string): Promise<void> {
    await rig.page.locator("main").click({ position: { x: 5, y: 5 } });
    await rig.page.keyboard.press(command[0]!);
    await rig.page.keyboard.type(command.slice(1));
    await rig.page.keyboard.press("Enter");
  }

  /** Until the rack has something to do. */
  async function ordered(): Promise<void> {
    await eventually("the order is there", async () => {
      const { stdout } = await rig.commands.run(["why", "--json"]);
      return JSON.parse(stdout).next !== null;
    });
  }

  it("signs in by the printed address, once, and clears it", async () => {
    await rig.device("b").waitFor();
    assert.doesNotMatch(rig.page.url(), /token/);
    const second = await rig.stranger(rig.printed.url);
    await second.getByText("Not signed in").waitFor();
    await second.close();
    // The key stays in the browser.
    await rig.page.reload();
    await rig.device("b").waitFor();
  });

  it("shows the rack as it is drawn, with its state and its time", async () => {
    for (const name of ["a", "a-rnic", "tor", "b-rnic", "b"]) await rig.device(name).waitFor();
    assert.equal(await rig.page.locator("[data-cable]").count(), 2);
    await eventually(
      "virtual time is in the bar",
      async () => /^\d[\d.\u202f]*\u202fµs$/.test(await rig.page.getByTestId("now").innerText()),
    );
    await rig.pictures("rack");
    await rig.accessible("the rack");
  });

  it("stops time, steps it and lets it run, by buttons and by keys", async () => {
    const { page } = rig;
    const why = page.locator(".why");
    await page.locator(".bar").getByRole("button", { name: "pause" }).click();
    await why.getByText("paused").waitFor();
    await page.getByRole("button", { name: "run", exact: false }).filter({ hasText: "▶" })
      .waitFor();
    await page.locator("main").click({ position: { x: 5, y: 5 } });
    await page.keyboard.press("Space");
    await page.locator(".bar").getByRole("button", { name: "pause" }).waitFor();
  });

  it("takes a command after a colon, and completes it", async () => {
    const { page } = rig;
    await page.keyboard.press(":");
    await page.keyboard.type("pa");
    await page.getByRole("option", { name: "pause" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press(":");
    await page.keyboard.type("link cut nowhere");
    await page.keyboard.press("Enter");
    await page.locator(".notice.refused").getByText("nowhere").waitFor();
    await page.getByRole("button", { name: "Close this message" }).click();
  });

  it("runs until something happens on a device, and says where it does not", async () => {
    const { page } = rig;
    // What has been promised is in the time line of a rack that has come to rest.
    await page.locator('footer .promises[d*="M"]').waitFor({ state: "attached" });
    await page.keyboard.press("u");
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "sends a persistence ACK" }).click();
    await dialog.getByLabel("Device").selectOption("b-rnic");
    await dialog.locator("p", { hasText: "B-rnic sends a persistence ACK" }).waitFor();
    await rig.pictures("until");
    await rig.accessible("what time runs until");
    await dialog.getByRole("button", { name: "Run until then" }).click();
    await page.locator(".notice").getByText("b-rnic:persistence-ack has not happened")
      .waitFor();
    await page.getByRole("button", { name: "Close this message" }).click();
  });

  it("stops at what a device does, and one click shows the instant that the replay says", async () => {
    const { page, commands } = rig;
    await page.locator(".bar").getByRole("button", { name: "pause" }).click();
    const put = commands.run(["put", "--to", "b", input!, "--method", "persist-opcode"]);
    await ordered();
    await page.keyboard.press("u");
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox").or(dialog.getByRole("combobox")).first().fill("S970");
    await dialog.getByRole("button", { name: "Run until then" }).click();
    await dialog.getByRole("alert").getByText("expected a time").waitFor();
    await dialog.getByRole("combobox").first().fill("b-rnic:persistence-ack");
    await dialog.getByLabel("Which occurrence").fill("2");
    await dialog.getByRole("button", { name: "Run until then" }).click();
    // The text of the step is known to the replay alone.
    const stop = page.locator(".why").getByRole("button", { name: "S1016: persistence ACK of" });
    const [, at] = /at ([\d.\u202f]+)\u202fµs/.exec(await stop.innerText())!;
    await rig.pictures("stopped");
    await stop.click();
    await page.getByText("This is the past.").waitFor();
    await page.locator("aside h2", { hasText: "b-rnic" }).waitFor();
    const [, shown] = /at=(\d+)/.exec(page.url())!;
    assert.equal(Number(shown) - 1, Math.round(1e6 * Number(at!.replaceAll("\u202f", ""))));
    await page.keyboard.press("Escape");
    await page.locator(".bar").getByRole("button", { name: "▶ run" }).click();
    assert.equal((await put).code, 0);
    assert.equal(await page.getByText("Stopped at").count(), 0);
  });

  it("shows a rack that moves from when the page came, and what was before when that is asked for", async () => {
    const { page, commands } = rig;
    // Slow enough for a put to be under way all the while.
    await type(":pace 3us");
    const put = commands.run(["put", "--to", "b", input!, "--method", "persist-opcode"]);
    // Seen by the console, too, which tells the page that comes what it has seen last.
    await page.locator(".why").getByText("moves at a pace").waitFor();
    await page.reload();
    const note = page.getByText("Shown from when this page came");
    await note.waitFor();
    assert.equal(await page.locator('footer .promises[d*="M"]').count(), 0);
    await rig.pictures("unread");
    await rig.accessible("a past that is unread");
    await page.getByRole("button", { name: "replay it" }).click();
    await page.locator('footer .promises[d*="M"]').waitFor({ state: "attached" });
    await note.waitFor({ state: "detached" });
    await type(":pace full");
    assert.equal((await put).code, 0);
  });

  it("lists its keys, and is used by them alone", async () => {
    const { page } = rig;
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("search devices").waitFor();
    await rig.pictures("keys");
    await rig.accessible("the list of keys");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("/");
    await page.keyboard.type("b-rn");
    await page.keyboard.press("Enter");
    await page.locator("aside h2", { hasText: "b-rnic" }).waitFor();
    assert.match(page.url(), /select=device/);
  });

  it("cuts a cable and heals it, and the picture and the time line say so", async () => {
    const { page } = rig;
    await page.locator("[data-cable]").first().press("Enter");
    await page.getByRole("button", { name: "Cut", exact: true }).click();
    await page.locator(".cable.is-cut").waitFor();
    await page.locator("footer .mark", { hasText: "cut" }).first().waitFor();
    await rig.pictures("cable");
    await rig.accessible("a cable that is cut");
    await page.getByRole("button", { name: "heal all" }).click();
    await page.locator(".cable.is-cut").waitFor({ state: "detached" });
  });

  it("says what a kill would lose before it kills, kills the host, and starts it again", async () => {
    const { page } = rig;
    await rig.device("b").click();
    await page.getByRole("button", { name: "Kill b…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("heading", { name: "Kill b" }).waitFor();
    await dialog.getByText(/power cut/i).waitFor();
    await rig.pictures("kill");
    await rig.accessible("the question before a kill");
    await dialog.getByRole("button", { name: "Kill b", exact: true }).click();
    await page.locator('[data-device="b"].is-off').waitFor();
    await page.locator("aside").getByText("host · without power").waitFor();
    await rig.pictures("killed");
    await page.getByRole("button", { name: "Start b" }).click();
    await page.locator('[data-device="b"]:not(.is-off)').waitFor();
  });

  it("C-09: shuts a host down in order by a button, and by the command line", async () => {
    const { page } = rig;
    await rig.device("b").click();
    await page.getByRole("button", { name: "Kill b…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Shut it down in order" }).click();
    const isDone = page.getByText(/^b: shut down, without power since/);
    await isDone.waitFor();
    await page.locator('[data-device="b"].is-off').waitFor();
    await page.getByRole("button", { name: "Start b" }).click();
    await page.locator('[data-device="b"]:not(.is-off)').waitFor();
    await isDone.waitFor({ state: "detached" });
    await type(":shutdown b --within 50us");
    await isDone.waitFor();
    await page.getByRole("button", { name: "Start b" }).click();
    await page.locator('[data-device="b"]:not(.is-off)').waitFor();
  });

  it("goes back in time by the time line, and every part of the page shows that instant", async () => {
    const { page } = rig;
    const now = page.getByTestId("now");
    const before = await now.innerText();
    const line = page.getByRole("slider", { name: "Instant" });
    const { width } = (await line.boundingBox())!;
    await page.locator("footer .mark", { hasText: "kill b" }).first().waitFor({
      state: "attached",
    });
    await line.click({ position: { x: width * 0.6, y: 100 } });
    await page.getByText("This is the past.").waitFor();
    await page.locator("aside").getByRole("button", { name: /^recv/ }).first().waitFor();
    const past = await now.innerText();
    assert.notEqual(past, before);
    assert.match(page.url(), /at=\d+/);
    assert.equal(await page.getByRole("button", { name: /^Kill/ }).count(), 0);
    await rig.pictures("past");
    await rig.accessible("the past");
    await page.keyboard.press("Escape");
    await page.getByText("This is the past.").waitFor({ state: "detached" });
    // The rack has gone on meanwhile.
    assert.notEqual(await now.innerText(), past);
  });

  it("shows the runs, and one in full", async () => {
    const { page } = rig;
    await rig.view("Runs");
    await page.getByRole("cell", { name: "up", exact: true }).waitFor();
    await rig.pictures("runs");
    await rig.accessible("the list of runs");
    await page.getByRole("link", { name: "persist-pair" }).click();
    await page.getByRole("heading", { name: "Files" }).waitFor();
    await page.getByRole("button", { name: "Checkpoint here" }).click();
    // A digest may have the same letters.
    const named = (name: string) => page.getByRole("cell", { name, exact: true });
    await named("c1").waitFor();
    await rig.pictures("run");
    await rig.accessible("a run in full");
    await page.getByRole("button", { name: "Delete the checkpoint c1" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete c1" }).click();
    await page.getByText("A checkpoint keeps where the rack stands").waitFor();
    await type(":checkpoint before-lunch");
    await named("before-lunch").waitFor();
    await type(":checkpoint --delete after-lunch");
    await page.getByRole("dialog").getByRole("button", { name: "Delete after-lunch" }).click();
    await page.locator(".notice.refused").getByText("before-lunch").waitFor();
    await type(":checkpoint --delete before-lunch");
    await page.getByRole("dialog").getByRole("button", { name: "Delete before-lunch" }).click();
    await page.locator(".notice").getByText("before-lunch is deleted").waitFor();
    await named("before-lunch").waitFor({ state: "detached" });
    await page.getByText("A checkpoint keeps where the rack stands").waitFor();
  });

  it("shows scenarios, says what is wrong with one as one types, and runs it", async () => {
    const { page } = rig;
    await rig.view("Scenario");
    await page.getByRole("link", { name: "two_queues" }).waitFor();
    await rig.pictures("scenarios");
    await rig.accessible("the gallery of scenarios");
    // Without own programs, for each of which a process would start.
    await page.getByRole("link", { name: "Begin a new one" }).click();
    await page.getByText("It can be run.").waitFor();
    const text = page.getByRole("textbox", { name: "The scenario as YAML" });
    const right = await text.inputValue();
    await text.press("Control+End");
    await text.pressSequentially("unt");
    await page.getByRole("option", { name: "until the rack ends" }).waitFor();
    await rig.accessible("what may stand where one types");
    await text.press("Enter");
    assert.match(await text.inputValue(), /until: $/);
    await text.fill(right.replace(/^seed: .*$/m, "seed: seven"));
    await page.locator(".problems").getByText("seven").waitFor();
    await page.getByText("1 line changed").waitFor();
    assert.ok(await page.getByRole("button", { name: "Bring it up" }).isDisabled());
    await rig.pictures("scenario");
    await rig.accessible("a scenario with a mistake");
    await text.fill(right.replace(/^seed: .*$/m, "seed: 11"));
    await page.getByText("It can be run.").waitFor();
    await page.getByLabel("Which of its runs").selectOption("persist-opcode, ddio on");
    await page.getByRole("button", { name: "Run to its end" }).click();
    await rig.view("Scenario");
    await page.getByRole("link", { name: "Report" }).click();
    await page.getByText("✓ holds").first().waitFor();
    await page.getByText("11", { exact: true }).waitFor();
    await rig.pictures("report");
    await rig.accessible("a report");
    await page.getByRole("link", { name: "Look at it in every view" }).click();
    await page.locator(".why", { hasText: "A kept run: it ended at" }).waitFor();
    await rig.device("b").waitFor();
    await rig.pictures("kept");
    await rig.accessible("a kept run");
  });

  it("follows a rack that its list of runs does not know to be up yet", async () => {
    const { page } = rig;
    await page.route("**/api/v1/runs", async (route) => {
      const response = await route.fetch(), all = await response.json();
      const runs = all.runs.map((run: object) => ({ ...run, state: "running" }));
      await route.fulfill({ response, json: { ...all, runs } });
    });
    await page.goto(`${rig.printed.origin}/#/rack?run=${rig.printed.rack}`);
    await page.reload();
    await rig.device("a").click();
    await page.getByRole("button", { name: "Kill a…" }).waitFor();
    await page.unroute("**/api/v1/runs");
  });

  it("lets a viewer look, and offers nothing that changes the rack", async () => {
    const page = await rig.stranger(rig.printed.viewerUrl);
    await page.locator('[data-device="b"]').click();
    await page.locator("aside h2", { hasText: "b" }).waitFor();
    assert.equal(await page.getByRole("button", { name: /^(Kill|❚❚|▶|heal)/ }).count(), 0);
    await page.close();
  });

  it("greys itself when the console is killed, and is where it was when there is one again", async () => {
    const { page, printed } = rig;
    await rig.view("Rack");
    await page.getByRole("combobox", { name: "Rack or run" }).selectOption(printed.rack!);
    await rig.device("b").click();
    await page.locator("aside h2", { hasText: "b" }).waitFor();
    const place = new URL(page.url()).hash;
    await rig.killConsole();
    await page.locator(".frame.is-stale").waitFor();
    await page.locator(".why", { hasText: "No news since" }).waitFor();
    for (const name of ["❚❚ pause", "heal all", "until…"]) {
      assert.ok(await page.getByRole("button", { name }).isDisabled(), name);
    }
    await rig.pictures("interrupted");
    // The rack is up, and goes its way.
    await rig.commands.must(["kill", "a"]);
    const url = await rig.consoleAgain();
    await page.getByText("The key of this browser is not valid any more").waitFor();
    await rig.pictures("signed-out");
    await page.goto(url);
    await page.locator('[data-device="a"].is-off').waitFor();
    await page.locator("aside h2", { hasText: "b" }).waitFor();
    assert.equal(new URL(page.url()).hash, place);
    // What happened before the page came is the replay's.
    for (const text of ["cut a-rnic/tor", "kill b", "kill a"]) {
      await page.locator("footer .mark", { hasText: text }).first().waitFor({ state: "attached" });
    }
  });

  it("says that its rack has gone down while it was looked at", async () => {
    const { page, printed } = rig;
    await page.goto(`${printed.origin}/#/runs?run=${printed.rack}&show=${printed.rack}`);
    await page.getByRole("button", { name: "Take it down" }).waitFor();
    await rig.commands.must(["down", "--run", printed.rack!]);
    await page.locator(".why", { hasText: "The rack is down" }).waitFor();
    await page.getByRole("button", { name: "Delete it" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Take it down" }).count(), 0);
    await rig.view("Rack");
    await rig.device("b").click();
    await rig.pictures("down");
    await rig.accessible("a rack that went down");
    assert.equal(await page.getByRole("button", { name: /^(Kill|Start)/ }).count(), 0);
    assert.ok(await page.getByRole("button", { name: "heal all" }).isDisabled());
  });

  it("throws nothing, and breaks its content security policy nowhere", () => {
    assert.deepEqual(rig.errors, []);
  });
});
