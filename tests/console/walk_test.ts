/**
 * The walk of `console/WALK.md`: somebody who was told only that there is a console finds out which method loses data
 * with DDIO on, sees it happen by killing the host with the mouse, and downloads the capture that proves it.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import type { Download } from "playwright-core";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { inOrder } from "../support/in_order.ts";
import { readCapture } from "../support/pcapng_reader.ts";
import { itUnless } from "../support/skipping.ts";

const it = inOrder(itUnless(browserMissing, "The walk through the console in a browser"));

/** The bytes of a file that the browser has been given. */
async function bytesOf(download: Download): Promise<Uint8Array<ArrayBuffer>> {
  return await Deno.readFile(await download.path());
}

describe("The walk through the console", () => {
  let rig: BrowserRig;

  beforeAll(async () => {
    if (browserMissing === undefined) rig = await BrowserRig.open([]);
  });

  afterAll(async () => await rig?.close());

  /** What the browser is given when something is clicked. */
  async function saved(click: () => Promise<void>): Promise<Download> {
    const [download] = await Promise.all([rig.page.waitForEvent("download"), click()]);
    return download;
  }

  it("begins with what one can see here: a picture, a sentence and a time for each, one click away", async () => {
    const { page } = rig;
    await page.getByRole("heading", { name: "What one can see here" }).waitFor();
    const cards = page.getByRole("region", { name: "Start" }).getByRole("listitem");
    await cards.first().locator("svg rect").first().waitFor();
    assert.ok(await cards.count() >= 6);
    for (const card of await cards.all()) {
      assert.match(await card.innerText(), /\S.*\n+.*[.:].*\n+\d+ minutes? · /s);
      assert.equal(await card.locator("svg").count(), 1);
    }
    await rig.pictures("walk-1");
    await rig.accessible("the first screen");
  });

  it("knows after at most 8 clicks why b lost 190 080 B, and by which method it would not have", async () => {
    const { page } = rig, began = performance.now();
    await page.evaluate(() => {
      addEventListener("pointerdown", () => {
        sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1;
      }, true);
    });
    await page.getByRole("button", { name: "What a power cut loses" }).click();
    await rig.device("b").waitFor();
    await page.locator(".why").getByText("Paused.").waitFor();
    await page.locator(".bar").getByRole("button", { name: "▶ run" }).click();
    await page.locator(".why").getByText(/^No event is scheduled/).waitFor();
    await rig.device("b").click();
    await page.getByRole("button", { name: "Kill b…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/loses 190080 B: 190080 B in the cache/).waitFor();
    await dialog.getByText(/190080 B were claimed/).waitFor();
    await rig.pictures("walk-2");
    await dialog.getByRole("button", { name: "Kill b", exact: true }).click();
    await page.locator('[data-device="b"].is-off').waitFor();
    await page.getByTestId("loss").getByText(/lost 190080 B: 190080 B in the cache/).waitFor();
    await rig.pictures("walk-3");
    await page.getByRole("link", { name: "Show it" }).click();
    // The why, of one line of it.
    const lost = page.getByTestId("lost");
    await lost.getByText("in the cache", { exact: true }).waitFor();
    await lost.getByText("claimed by its method, and not promised").waitFor();
    await rig.pictures("walk-4");
    await page.getByRole("button", { name: "Which method keeps it?" }).click();
    const asked = page.getByTestId("asked");
    await asked.getByText("b has ADR, ddio, DDIO on").waitFor();
    await asked.locator("p", { hasText: "Kept at every instant" }).getByText("persist-opcode")
      .waitFor();
    await asked.locator("p", { hasText: "Lost at some instant" }).getByText("write-read").waitFor();
    const clicks = Number(await page.evaluate(() => sessionStorage.clicks));
    const seconds = ((performance.now() - began) / 1_000).toFixed(1);
    // How long it takes is this machine's affair.
    console.log(`The walk: ${clicks} clicks, ${seconds} s`);
    assert.ok(clicks <= 8, `${clicks} clicks`);
    await rig.pictures("walk-5");
  });

  it("shows for a method on such a machine the instant at which it loses a write", async () => {
    const { page } = rig;
    const cell = (ddio: string) =>
      page.getByRole("row", { name: new RegExp(`^adr, ddio, DDIO ${ddio}, receive in dram`) })
        .getByRole("button").nth(1);
    await page.getByRole("columnheader", { name: "write-read" }).waitFor();
    assert.deepEqual([await cell("off").innerText(), await cell("on").innerText()], [
      "safe",
      "unsafe",
    ]);
    await cell("on").click();
    const found = page.locator(".counterexample");
    await found.getByText("The power of b fails", { exact: true }).waitFor();
    await found.getByText(/confirmed persistent, as its method claims/).first().waitFor();
    await found.getByRole("img", { name: /in the cache, gone after the cut/ }).waitFor();
    await page.getByRole("button", { name: "Stop it" }).click();
    await rig.accessible("the matrix");
  });

  it("sees at the kill where each byte was", async () => {
    const { page } = rig;
    await rig.view("Memory");
    await page.locator("footer .mark", { hasText: "kill b" }).first().click();
    await page.locator(".legend li", { hasText: "in the cache: lost without a flush" }).waitFor();
    await page.getByRole("button", { name: "Show what it would leave" }).waitFor();
    // More lines are written than are shown at once: the strip of parts leads to the others.
    await page.getByText("1 023 more lines are written behind these").waitFor();
    await rig.pictures("walk-6");
    await rig.accessible("the memory at the kill");
    const parts = page.getByRole("group", { name: /^0x0 to 0x[0-9a-f]+ in parts/ });
    await parts.getByRole("button", { name: /the worst in the cache: lost/ }).last().click();
    await page.getByText("more lines are written").waitFor({ state: "detached" });
    await page.locator(".legend li", { hasText: "in the cache: lost without a flush" }).waitFor();
  });

  it("replays what was done by hand: the report names the writes that were lost", async () => {
    const { page } = rig;
    await rig.view("Scenario");
    await page.getByRole("link", { name: "Open it" }).click();
    await page.getByText("It can be run.").waitFor();
    const text = await page.getByRole("textbox", { name: "The scenario as YAML" }).inputValue();
    assert.match(text, /faults:\n {2}- { at: \d+\.\d+us, kill: b }\n$/);
    await page.getByLabel("judge claims").check();
    await page.getByRole("button", { name: "Run to its end" }).click();
    await page.getByRole("link", { name: "Report" }).click();
    await page.getByRole("row", { name: /fails survives-what-was-reported/ })
      .getByText(/is lost: write \d+ of a\/0\/put.* was confirmed persistent/).first().waitFor();
    await rig.pictures("walk-7");
  });

  it("downloads the capture that proves it, the figures and the plot, each whole", async () => {
    const { page } = rig;
    const row = page.getByRole("row", { name: /persist-pair\.pcapng/ });
    const capture = await saved(() => row.getByRole("button").click());
    const { ports, frames } = readCapture(await bytesOf(capture));
    assert.equal(ports.length, 4);
    // The READ that flushes was answered, so that the requester took its data for persistent.
    const answered = frames.filter(({ comment, port, direction }) =>
      comment.includes("S212") && port.startsWith("b-rnic") && direction === "out"
    );
    assert.equal(answered.length, 64);
    const timeline = await saved(() =>
      page.getByRole("row", { name: /perfetto\.json/ }).getByRole("button").click()
    );
    const { traceEvents } = JSON.parse(new TextDecoder().decode(await bytesOf(timeline)));
    const steps = traceEvents.filter(({ name }: { name?: string }) => name?.includes("S212"));
    assert.equal(steps.length, 64, "the timeline for Perfetto has the same answers");
    const report = await saved(() =>
      page.getByRole("row", { name: /report\.json/ }).getByRole("button").click()
    );
    const { checks } = JSON.parse(new TextDecoder().decode(await bytesOf(report)));
    const lost = checks.find(({ name }: { name: string }) => name === "survives-what-was-reported");
    assert.equal(lost.holds, false);
    const figures = await saved(() =>
      page.getByRole("button", { name: "Save as CSV", exact: true }).click()
    );
    const lines = new TextDecoder().decode(await bytesOf(figures)).split("\r\n");
    assert.match(lines[0]!, /^method,ddio,median,p99/);
    assert.match(lines[1]!, /^write-read,on,.*,false,$/);
    const plot = await saved(() =>
      page.getByRole("button", { name: /^Save as SVG: Latency/ }).click()
    );
    const picture = new TextDecoder().decode(await bytesOf(plot));
    assert.match(
      picture,
      /^<svg.*xmlns="http:\/\/www.w3.org\/2000\/svg".*write-read, on.*<\/svg>$/s,
    );
    assert.doesNotMatch(picture, /class=|var\(/);
  });

  it("sees that replay and rack are one run", async () => {
    const { page } = rig;
    await page.getByRole("link", { name: "All runs" }).click();
    for (const box of await page.getByRole("checkbox").all()) await box.check();
    await page.getByRole("button", { name: "Compare two" }).click();
    await page.getByText(/^They are the same: digest [0-9a-f]{16}\.$/).waitFor();
    assert.deepEqual(rig.errors, []);
  });
});
