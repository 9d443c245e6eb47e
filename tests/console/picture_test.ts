/**
 * The rack's picture, a cable, a device asked like by a shell, and a reader's window: one console and one rack of two
 * hosts for all of them.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { inOrder } from "../support/in_order.ts";
import { readCapture } from "../support/pcapng_reader.ts";
import { itUnless } from "../support/skipping.ts";

const it = inOrder(itUnless(browserMissing, "The picture of a rack in a browser"));

describe("The picture of a rack", () => {
  let rig: BrowserRig;

  beforeAll(async () => {
    if (browserMissing === undefined) rig = await BrowserRig.open([]);
  });

  afterAll(async () => await rig?.close());

  /** A command, as one types it. */
  async function command(text: string): Promise<void> {
    await rig.page.locator("main").click({ position: { x: 5, y: 5 } });
    await rig.page.keyboard.press(":");
    await rig.page.keyboard.type(text);
    await rig.page.keyboard.press("Enter");
  }

  /** What the browser is given, as a capture. */
  async function captured(click: () => Promise<void>) {
    const [download] = await Promise.all([rig.page.waitForEvent("download"), click()]);
    const file: Uint8Array<ArrayBuffer> = await Deno.readFile(await download.path());
    return { name: download.suggestedFilename(), ...readCapture(file) };
  }

  it("says where time stands what a host does, for whom it waits, and what is on the cables", async () => {
    const { page } = rig;
    await page.getByRole("button", { name: "What a power cut loses" }).click();
    await rig.device("b").waitFor();
    // What is to come is none of what the replay tells.
    await command("kill b --at 900us");
    await page.getByRole("dialog").getByRole("button", { name: "Kill b", exact: true }).click();
    await page.getByText("without power since").waitFor();
    await command("until 240us");
    const words = page.locator('[data-device="a"] .words');
    await eventually("the host says what it does", async () => {
      const text = (await words.allTextContents()).join(" ");
      return /^put: \d+ of 64 writes, waits for a completion of b$/.test(text.trim());
    });
    await page.locator('[data-waits="a b"] text').getByText(/^a waits for b: \d+ requests/)
      .waitFor();
    await page.locator('[data-cable="a-rnic/tor"].is-moving').waitFor();
    const frames = page.locator(".in-flight");
    for (let steps = 0; await frames.count() === 0; steps++) {
      assert.ok(steps < 30, "a frame is under way at one of the next instants");
      const before = await page.getByTestId("now").innerText();
      await page.keyboard.press(".");
      await eventually(
        "time has stepped",
        async () => await page.getByTestId("now").innerText() !== before,
      );
      await words.getByText(/^put: /).waitFor();
    }
    const legend = page.getByRole("list", { name: "Legend" });
    for (const text of ["idle", "in use", "queue", "frame", "waits for", "fault"]) {
      await legend.getByText(text, { exact: true }).waitFor();
    }
    await rig.pictures("picture");
    await rig.accessible("the picture where time stands");
  });

  it("fills the side, where nothing is selected, with what the rack does", async () => {
    const { page } = rig;
    const side = page.getByTestId("overview");
    await side.getByRole("row", { name: /^a put: \d+ of 64 writes/ }).waitFor();
    await side.getByRole("row", { name: /^a-rnic\/tor \d+/ }).waitFor();
    assert.equal(await page.getByText("Nothing is selected").count(), 0);
    await side.getByRole("button", { name: "a-rnic/tor" }).click();
    await page.locator("aside h2", { hasText: "a-rnic/tor" }).waitFor();
  });

  it("shows a cable's use over time, and captures it from here, and its last packets", async () => {
    const { page } = rig, side = page.locator("aside");
    await side.getByRole("img", { name: /^Use of the cable over time: from a-rnic at most \d+/ })
      .locator("canvas").waitFor();
    // Where nobody points at it, the legend has the latest figures.
    for (const series of await side.locator(".u-series").all()) {
      await series.locator(".u-value").getByText(/\d/).waitFor();
    }
    const last = await captured(async () => {
      await side.getByLabel("Last").fill("5");
      await side.getByRole("button", { name: "Save", exact: true }).click();
    });
    assert.equal(last.name, "a-rnic_tor.pcapng");
    assert.deepEqual(last.ports, ["a-rnic:1", "tor:0"]);
    assert.equal(last.frames.length, 5);
    await side.getByRole("button", { name: "Start a capture" }).click();
    await side.getByText(/^Capturing since 2\d\d/).waitFor();
    await command("step 3us");
    await page.getByTestId("now").getByText(/^24[2-6]/).waitFor();
    await rig.pictures("cable-captured");
    await rig.accessible("a cable");
    const from = await captured(() => side.getByRole("button", { name: "Stop and save" }).click());
    assert.ok(from.frames.length > 0);
    const newest = last.frames.at(-1)!.stamp;
    assert.ok(from.frames.every(({ stamp }) => stamp >= newest), "nothing of before");
    await side.getByRole("button", { name: "Start a capture" }).waitFor();
  });

  it("delays a cable's frames with jitter", async () => {
    const { page } = rig;
    await page.getByRole("button", { name: "Delay frames…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel(/^jitter/).fill("2us");
    await rig.pictures("jitter");
    await dialog.getByRole("button", { name: "Delay frames" }).click();
    await page.locator("aside").getByRole("cell", { name: /^delay .*and up to 2/ }).waitFor();
    await page.locator('[data-cable="a-rnic/tor"].is-faulty').waitFor();
  });

  it("answers of a device in tables that can be searched, like a shell", async () => {
    const { page } = rig;
    await rig.device("a-rnic").click();
    await page.getByRole("link", { name: "Inspect it" }).click();
    const table = (name: string) => page.locator(`[data-table="${name}"]`);
    await table("qps").getByRole("row", { name: /RC RTS b:17 \d+ \d+ \d+/ }).waitFor();
    assert.equal(await table("qps").locator("tbody tr").count(), 2);
    await rig.pictures("inspect");
    await rig.accessible("a device like a shell");
    await page.getByLabel("Search in tables").fill("b:17");
    await table("qps").getByText("1 of 2").waitFor();
    const prompt = page.getByLabel("a-rnic>");
    await prompt.fill("regions remote write");
    await prompt.press("Enter");
    await table("qps").waitFor({ state: "detached" });
    await table("regions").getByRole("row", { name: /remote write/ }).first().waitFor({
      state: "detached",
    });
    await prompt.fill("b-rnic");
    await prompt.press("Enter");
    await table("regions").getByRole("row", { name: /local write, remote write, .*persistent/ })
      .waitFor();
    const far = page.getByLabel("b-rnic>");
    await far.fill("why");
    await far.press("Enter");
    await table("why").getByRole("heading", { name: /^Virtual time is 2\d\d/ }).waitFor();
    await far.fill("queues");
    await far.press("Enter");
    await page.locator(".notice.refused").getByText("b-rnic has no queues").waitFor();
    await far.press("ArrowUp");
    assert.equal(await far.inputValue(), "queues");
    // A command as rack takes it.
    await far.fill("rack step 1");
    const before = await page.getByTestId("now").innerText();
    await far.press("Enter");
    await eventually(
      "time has stepped",
      async () => await page.getByTestId("now").innerText() !== before,
    );
  });

  it("has scenarios by subject, each with a sentence, and finds one", async () => {
    const { page } = rig;
    await rig.view("Scenario");
    const persistence = page.getByRole("region", { name: "Persistence" });
    await persistence.getByRole("link", { name: "persist_pair One host" }).waitFor();
    await page.getByLabel("Text").fill("fat tree");
    await page.getByRole("link", { name: "fat_tree" }).waitFor();
    assert.equal(await page.locator(".gallery a").count(), 1);
    await page.getByLabel("Text").fill("");
    await page.getByLabel("Order").selectOption("by name");
    assert.match(await page.locator(".gallery a").first().innerText(), /append_pair/);
  });

  it("keeps unsaved edits of a scenario over a reload, until they are undone", async () => {
    const { page } = rig;
    await page.getByRole("link", { name: "Begin a new one" }).click();
    await page.getByText("It can be run.").waitFor();
    const text = page.getByRole("textbox", { name: "The scenario as YAML" });
    const shipped = await text.inputValue();
    await text.fill(shipped.replace(/^seed: .*$/m, "seed: 4711"));
    await page.getByText("1 line changed, kept in this browser").waitFor();
    await page.reload();
    await page.getByText("1 line changed, kept in this browser").waitFor();
    assert.match(await text.inputValue(), /^seed: 4711$/m);
    await page.getByRole("button", { name: "Undo changes" }).click();
    await page.reload();
    await page.getByText("as it is shipped").waitFor();
    assert.equal(await text.inputValue(), shipped);
  });

  it("lets a tablet read: pictures and tables, and nothing that changes the rack", async () => {
    const { page } = rig;
    await page.setViewportSize({ width: 768, height: 1024 });
    await page.locator(".badge", { hasText: "reading" }).waitFor();
    await rig.view("Rack");
    await rig.device("b").click();
    await page.locator("aside h2", { hasText: "b" }).waitFor();
    for (const title of ["Rack", "Operation", "Memory", "Inspect", "Runs", "Scenario"]) {
      await rig.view(title);
      await page.locator("main h1").first().waitFor();
      const wide = Number(
        await page.evaluate("document.documentElement.scrollWidth - innerWidth"),
      );
      assert.ok(wide <= 0, `${title} is ${wide} px wider than the window`);
      const acts = page.getByRole("button", { name: /^(Kill|Start b|❚❚|▶|▸|heal|Run to|Bring)/ });
      assert.equal(await acts.count(), 0, title);
    }
    await rig.view("Memory");
    await rig.accessible("the memory on a tablet");
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.locator(".badge").waitFor({ state: "detached" });
  });

  it("tells a viewer that it is one, and what it may see", async () => {
    const page = await rig.stranger("about:blank");
    // The list of runs is late: what it holds moves nobody who has chosen a place by then.
    const clicked = Promise.withResolvers<void>();
    await page.route("**/api/v1/runs", async (route) => {
      await clicked.promise;
      await route.continue();
    });
    await page.goto(rig.printed.viewerUrl);
    await page.locator(".badge", { hasText: "viewer" }).waitFor();
    await page.getByRole("link", { name: "rackmesh" }).click();
    clicked.resolve();
    // A run in the list of racks says that it has been read.
    await page.getByRole("combobox", { name: "Rack or run" }).locator("option").nth(1).waitFor({
      state: "attached",
    });
    await page.getByRole("heading", { name: "What one can see here" }).waitFor();
    // A card leads to what it would bring up.
    await page.getByRole("link", { name: /^What a power cut loses/ }).click();
    await page.getByRole("textbox", { name: "The scenario as YAML" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Bring it up" }).count(), 0);
    await page.close();
    assert.deepEqual(rig.errors, []);
  });
});
