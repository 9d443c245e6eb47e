/**
 * The page's own doors, in a browser: addresses that are used twice or made up by another page, orders
 * that destroy something, uploads, and a server that does not answer.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import type { Page } from "playwright-core";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { itUnless } from "../support/skipping.ts";

const it = itUnless(browserMissing, "The page's doors");
const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const ONE = ["--method", "write-read", "--ddio", "on", "--pack", "machine"];

let rig: BrowserRig;
beforeAll(async () => {
  if (browserMissing === undefined) rig = await BrowserRig.open([PAIR, ...ONE]);
});
afterAll(async () => {
  await rig?.close();
});

async function type(text: string): Promise<void> {
  const { page } = rig;
  await page.locator("main").click({ position: { x: 5, y: 5 } });
  await page.keyboard.press(":");
  await page.getByRole("combobox", { name: "Command" }).fill(`:${text}`);
  await page.keyboard.press("Enter");
}

async function key(page: Page): Promise<string | null> {
  return await page.evaluate(() => localStorage.getItem("rackmesh-key"));
}

/** The rack's picture: the page is signed in. */
async function isIn(page: Page): Promise<void> {
  await page.getByRole("navigation", { name: "Views" }).waitFor();
}

describe("the page of a console", () => {
  it("stays signed in when its address is opened again", async () => {
    const { page, printed } = rig;
    await isIn(page);
    const own = await key(page);
    assert.ok(own);
    const again = await page.context().newPage();
    await again.goto(printed.url);
    await isIn(again);
    assert.equal(new URL(again.url()).hash.includes("token"), false);
    await page.reload();
    await isIn(page);
    assert.equal(await key(page), own);
    await again.close();
  });

  it("stays signed in when another page opens it with a token of its own making", async () => {
    const { page, printed } = rig;
    const own = await key(page);
    const foreign = await page.context().newPage();
    await foreign.setContent("<!doctype html><title>foreign</title>");
    const opened = page.context().waitForEvent("page");
    await foreign.evaluate((url) => void globalThis.open(url), `${printed.origin}/#token=made-up`);
    const popup = await opened;
    await popup.waitForLoadState();
    await isIn(popup);
    assert.equal(await key(page), own);
    await page.reload();
    await isIn(page);
    await popup.close();
    await foreign.close();
  });

  it("says to a browser that has no key why an address does not sign it in", async () => {
    const stranger = await rig.stranger(`${rig.printed.origin}/#token=made-up`);
    await stranger.getByText("spent or none of ours").waitFor();
    await stranger.context().close();
  });

  it("asks before a typed kill, with the loss, as before one by the mouse", async () => {
    const { page } = rig;
    await page.bringToFront();
    await type("pause");
    await type("kill b");
    await page.getByRole("heading", { name: "Kill b" }).waitFor();
    await page.getByTestId("loss").waitFor();
    // Enter is on the harmless side.
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Kill b" }).waitFor({ state: "detached" });
    const { processes } = JSON.parse(await rig.commands.must(["ps", "--json"]));
    assert.ok(processes.every(({ alive }: { alive: boolean }) => alive));
    await type("kill b --at 900ms");
    await page.getByText(/at 900.*ms: power fails/).waitFor();
    await page.getByRole("button", { name: "Leave it on" }).click();
  });

  it("takes uploads, says what a scenario may not read, and asks before it deletes one", async () => {
    const { page } = rig;
    await page.goto(`${rig.printed.origin}/#/scenario?edit=new`);
    const text = page.locator("#scenario-text");
    await text.fill(
      "name: mine\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, run: put, to: b, method: write-read, file: data.bin }]\n",
    );
    await page.getByText("cannot find").waitFor();
    await page.getByText("Files of project").click();
    await page.locator("input[type=file]").setInputFiles({
      name: "data.bin",
      mimeType: "application/octet-stream",
      buffer: Buffer.from("some data"),
    });
    await page.getByText("It can be run.").waitFor();
    await rig.accessible("uploads");
    await text.fill((await text.inputValue()).replace("data.bin", "/etc/passwd"));
    await page.getByText("is outside of what this scenario may read").waitFor();
    await page.getByRole("button", { name: "Delete data.bin" }).click();
    await page.getByRole("button", { name: "Leave it" }).click();
    await page.getByRole("cell", { name: "data.bin", exact: true }).waitFor();
    await page.getByRole("button", { name: "Delete data.bin" }).click();
    await page.getByRole("button", { name: "Delete it" }).click();
    await page.getByRole("cell", { name: "data.bin", exact: true }).waitFor({ state: "detached" });
  });

  it("says that the server does not answer, and what became of orders meanwhile", async () => {
    const { page, printed } = rig;
    await page.goto(`${printed.origin}/#/rack?run=${printed.rack}`);
    await isIn(page);
    await rig.stopConsole();
    try {
      await type("heal");
      await page.getByTestId("under-way").getByText("heal: under way").waitFor();
      await page.getByText("The console's server does not answer").first().waitFor();
      await page.locator(".notice.refused").getByText(
        /heal: The console's server does not answer, and whether/,
      )
        .waitFor();
      await page.getByTestId("under-way").waitFor({ state: "detached" });
    } finally {
      rig.goOnConsole();
    }
    await page.getByText("No news since").waitFor({ state: "detached" });
    await type("heal");
    await page.locator(".notice.is-safe").waitFor();
  });

  it("asks before it takes a rack down, and before it deletes its run", async () => {
    const { page } = rig;
    const isUp = async () => (await rig.commands.run(["ps", "--json"])).code === 0;
    await page.goto(`${rig.printed.origin}/#/runs?show=${rig.printed.rack}`);
    await page.getByRole("button", { name: "Take it down" }).click();
    await page.getByRole("button", { name: "Leave it up" }).click();
    assert.equal(await isUp(), true);
    await page.getByRole("button", { name: "Take it down" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Take it down" }).click();
    await page.getByRole("button", { name: "Delete it" }).waitFor();
    assert.equal(await isUp(), false);
    await page.getByRole("button", { name: "Delete it" }).click();
    await page.getByRole("dialog").getByText("for good").waitFor();
    await page.getByRole("button", { name: "Leave it" }).click();
    await rig.commands.must(["runs", "--json"]);
    await page.getByRole("button", { name: "Delete it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete it" }).click();
    await eventually(
      "the run is gone",
      async () => !(await rig.commands.must(["runs", "--json"])).includes(rig.printed.rack!),
    );
    assert.deepEqual(rig.errors, []);
  });
});
