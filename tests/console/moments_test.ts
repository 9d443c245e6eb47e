/**
 * The page at the moments at which somebody looks at it closely: a host has just lost its power, time runs at a pace,
 * a verdict is there. One console for all tests of this file, which do what a person does.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { inOrder } from "../support/in_order.ts";
import { itUnless } from "../support/skipping.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const it = inOrder(itUnless(browserMissing, "The console's page in a browser"));

describe("The page at the moment that matters", () => {
  let rig: BrowserRig, input = "";

  beforeAll(async () => {
    if (browserMissing !== undefined) return;
    input = await Deno.makeTempFile({ prefix: "rackmesh-input-" });
    await Deno.writeFile(input, new Uint8Array(100_000).map((_, i) => i * 7));
    rig = await BrowserRig.open([SCENARIO, "--method", "write-read", "--ddio", "on"]);
    await rig.device("b").waitFor();
  });

  afterAll(async () => {
    await rig?.close();
    if (input !== "") await Deno.remove(input);
  });

  /** A command, as one types it. */
  async function type(command: string): Promise<void> {
    await rig.page.locator("main").click({ position: { x: 5, y: 5 } });
    await rig.page.keyboard.press(command[0]!);
    await rig.page.keyboard.type(command.slice(1));
    await rig.page.keyboard.press("Enter");
  }

  it("says at what pace time moves in whole words, and keeps the pace over a pause", async () => {
    const { page, commands } = rig;
    const why = page.locator(".why"), pace = page.getByLabel("Pace: virtual time in a second");
    await type(":pace 3us");
    const put = commands.run(["put", "--to", "b", input, "--method", "write-read"]);
    await why.getByText(/^It moves at a pace of 3\u202fµs a second\.$/).waitFor();
    assert.equal(await why.getByRole("button").count(), 0, "no name is in it");
    await page.locator(".bar").getByRole("button", { name: "pause" }).click();
    await why.getByText("Paused.").waitFor();
    assert.equal(await pace.inputValue(), "3000000");
    await page.locator(".bar").getByRole("button", { name: "▶ run" }).click();
    await why.getByText(/^It moves at a pace of 3\u202fµs a second\.$/).waitFor();
    await type(":pace full");
    assert.equal((await put).code, 0);
    assert.equal(await pace.inputValue(), "0");
  });

  it("shows what a kill has taken, whose it was and what was said of it, until something is written there", async () => {
    const { page, commands } = rig;
    await commands.must(["kill", "b"]);
    await page.locator('[data-device="b"].is-off').waitFor();
    await rig.device("b").click();
    const side = page.getByRole("complementary");
    await side.getByText(/The power cut of b at .* lost \d+ B: \d+ B in the cache/).waitFor();
    await rig.pictures("killed-side");
    await rig.view("Memory");
    const cut = page.getByTestId("cut"), legend = page.locator(".legend");
    await cut.getByText(/The power cut of b at .* lost \d+ B: \d+ B in the cache/).waitFor();
    await cut.getByText(/nothing of it was promised; \d+ B were claimed/).waitFor();
    await legend.getByText("lost: as it was before the write").waitFor();
    assert.equal(await legend.getByText("in the cache: lost without a flush").count(), 0);
    await page.getByRole("application").click({ position: { x: 100, y: 376 } });
    const lost = side.getByTestId("lost");
    await lost.getByText("in the cache", { exact: true }).waitFor();
    await lost.getByText(/^Write \d+ of a\/.* on a, posted at .*claimed by its method/).waitFor();
    await lost.getByText("Judged by its claim, survives-what-was-reported fails.").waitFor();
    await side.getByText("Bytes as they were, and what is left").waitFor();
    await rig.pictures("killed-memory");
    await rig.accessible("the memory after a kill");
    // Earlier, and back: the same place of the page has it there.
    await cut.getByRole("button", { name: "Show the instant before" }).click();
    await legend.getByText("in the cache: lost without a flush").waitFor();
    await page.keyboard.press("Escape");
    await legend.getByText("lost: as it was before the write").waitFor();
    // Power alone brings nothing back.
    await commands.must(["start", "b"]);
    await cut.getByText(/lines lost by its power cut at .* have not been written since/).waitFor();
    await legend.getByText("lost: as it was before the write").waitFor();
    await rig.pictures("started-memory");
  });

  it("throws nothing, and breaks its content security policy nowhere", async () => {
    await Promise.resolve();
    assert.deepEqual(rig.errors, []);
  });
});
