/**
 * The page at the moments at which somebody looks at it closely: a host has just lost its power, time runs at a pace,
 * a verdict is there. One console for all tests of this file, which do what a person does.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { browserMissing, BrowserRig, SIZES } from "../support/browser.ts";
import { inOrder } from "../support/in_order.ts";
import { itUnless } from "../support/skipping.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const it = inOrder(itUnless(browserMissing, "The console's page in a browser"));

describe("The page at the moment that matters", () => {
  let rig: BrowserRig, input = "";
  /** A kept run that has lost what was claimed. */
  let lostRun = "";

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

  it("brings a rack up paused at 0, where one chooses otherwise at a pace", async () => {
    const { page } = rig;
    const why = page.locator(".why");
    let brought = 0;
    const bringUp = async (begin?: string) => {
      await page.goto(`${rig.printed.origin}/#/scenario?edit=persist_pair`);
      await page.getByText("It can be run.").waitFor();
      await page.getByLabel("Which of its runs").selectOption("write-read, ddio on");
      const then = page.getByLabel("Then time");
      if (begin !== undefined) await then.selectOption(begin);
      await page.getByRole("button", { name: "Bring it up" }).click();
      // The newest is the first.
      await page.getByRole("row", { name: /persist_pair comes up/ }).nth(++brought - 1).waitFor();
      await page.getByRole("row", { name: /persist_pair comes up/ }).first()
        .getByRole("button", { name: "Look at it" }).click();
      await rig.device("b").waitFor();
    };
    await bringUp();
    await why.getByText("Paused.").waitFor();
    assert.equal(await page.getByTestId("now").innerText(), "0\u202fps");
    // Nothing has happened, which each view says, and none that devices had no power.
    await page.locator("footer").getByText(/^Nothing has happened yet\./).waitFor();
    const does = page.getByRole("complementary").locator("table").first();
    await does.getByText(/time stands|being worked out/).first().waitFor({ state: "detached" });
    await rig.pictures("up-paused");
    await rig.view("Memory");
    await page.getByRole("heading", { name: /^Memory of b SCM · ADR · at 0/ }).waitFor();
    await rig.view("Inspect");
    await page.getByRole("heading", { name: /^a-rnic RNIC · at 0/ }).waitFor();
    await page.getByRole("heading", { name: "Queue pairs" }).waitFor();
    await page.getByText("They are being worked out.").first().waitFor({ state: "detached" });
    await rig.view("Operation");
    await page.getByRole("heading", { name: "No operation has begun" }).waitFor();
    await page.locator(".bar").getByRole("button", { name: "▶ run" }).click();
    await why.getByText(/^No event is scheduled/).waitFor();
    // A view that has been read is read again as time has moved.
    await page.getByRole("heading", { name: /^Operation 0 of a/ }).waitFor();
    await rig.view("Runs");
    await page.getByRole("row", { name: /persist-pair up none write-read on/ }).first().waitFor();
    await rig.view("Inspect");
    const ports = page.getByRole("region", { name: "Ports", exact: true });
    await ports.getByRole("columnheader", { name: "busy until" }).waitFor();
    assert.equal(await ports.getByRole("columnheader", { name: "sent frames" }).count(), 0);
    await bringUp("runs at 1\u202fµs/s");
    await why.getByText(/^It moves at a pace of 1\u202fµs a second\.$/).waitFor();
    await type(":pace full");
    await why.getByText(/^No event is scheduled/).waitFor();
  });

  it("puts a file on a host, lists it, gets it back whole, and removes it when that is confirmed", async () => {
    const { page } = rig;
    await rig.device("b").click();
    const objects = page.getByRole("region", { name: "Objects on b" });
    await objects.getByRole("button", { name: "List them" }).click();
    await objects.getByLabel("A file for b").setInputFiles({
      name: "notes.bin",
      mimeType: "application/octet-stream",
      buffer: Buffer.from(await Deno.readFile(input)),
    });
    await page.locator(".notice").getByText(/notes\.bin is on b: .* promised to survive/).waitFor();
    const row = objects.getByRole("row", { name: /notes\.bin/ });
    await row.getByText("97.7\u202fKiB").waitFor();
    await rig.pictures("objects");
    await rig.accessible("objects of a host");
    // A tablet has no orders, and a wide window again what was listed.
    await page.setViewportSize(SIZES[2]);
    await objects.waitFor({ state: "detached" });
    await page.setViewportSize(SIZES[1]);
    await row.waitFor();
    const [which, why] = await Promise.all(
      [".bar .which", ".bar .why"].map(async (part) => (await page.locator(part).boundingBox())!),
    );
    const { height } = (await page.locator(".bar").boundingBox())!;
    assert.ok(which!.y + which!.height <= why!.y + 1 && 2 * 15 <= height - which!.height - 1);
    await page.setViewportSize(SIZES[0]);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      row.getByRole("button", { name: "get" }).click(),
    ]);
    assert.deepEqual(await Deno.readFile(await download.path()), await Deno.readFile(input));
    await row.getByRole("button", { name: "remove…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Keep it" }).click();
    await row.getByRole("button", { name: "remove…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove notes.bin" }).click();
    await row.waitFor({ state: "detached" });
  });

  it("compares two runs by what they were told, what came of it, and where they part", async () => {
    const { page, commands } = rig;
    const kept = async (...args: readonly string[]) => {
      const put = `{ on: a, run: put, to: b, method: write-read, bytes: 256KiB }`;
      const text = `name: cut\nhosts: { a: {}, b: { ddio: ${args[0]} } }\nprograms: [${put}]\n`;
      const path = await commands.file(`cut-${args[0]}.yaml`, `${text}${args[1]}`);
      const { stdout, stderr } = await commands.run(["run", path, "--claims", "--pack", "all"]);
      return /kept in .*\/(\S+)/.exec(`${stdout}\n${stderr}`)![1]!;
    };
    const safe = await kept("off", ""), lost = await kept("on", "faults: [{ at: 1ms, kill: b }]\n");
    lostRun = lost;
    await page.goto(`${rig.printed.origin}/#/runs?show=${safe}&with=${lost}`);
    const told = page.getByRole("table", { name: "Configuration that differs" });
    await told.getByRole("row", { name: /^b: ddio off on$/ }).waitFor();
    await told.getByRole("row", { name: /^kill b none at 1 ms$/ })
      .waitFor();
    const came = page.getByRole("table", { name: "Verdicts and figures" });
    const checks = /^checks of the whole run every check holds ✗ survives-what-was-reported$/;
    await came.getByRole("row", { name: checks }).waitFor();
    await came.getByRole("row", { name: /^after the run ✓ intact not all is there$/ })
      .waitFor();
    await came.getByRole("row", { name: /^promised yes no$/ }).waitFor();
    await page.getByRole("heading", { name: /^They part at/ }).waitFor();
    assert.equal(await page.getByText("Nothing happens here").count(), 0);
    assert.ok(await page.locator(".two tbody tr").count() > 2);
    for (const which of ["of the first", "of the second"]) {
      await page.getByRole("link", { name: which, exact: true }).waitFor();
    }
    await rig.pictures("compared");
    await rig.accessible("a comparison");
  });

  it("leads from each finding of a failed check to its bytes and to its ladder, and shows all of them", async () => {
    const { page } = rig;
    await page.goto(`${rig.printed.origin}/#/runs?show=${lostRun}`);
    const check = page.getByRole("row", { name: /fails survives-what-was-reported/ });
    const shown = await check.getByText(/20 of \d+ shown\./).innerText();
    const all = Number(/20 of (\d+) shown/.exec(shown)![1]);
    assert.equal(await check.getByRole("listitem").count(), 20);
    for (let left = all - 20; left > 0; left -= 200) {
      await check.getByRole("button", { name: `Show ${Math.min(left, 200)} more` }).click();
    }
    assert.equal(await check.getByRole("listitem").count(), all);
    await rig.pictures("findings");
    await rig.accessible("findings of a check");
    const last = check.getByRole("listitem").last();
    const [, itsWrite] = /write (\d+) of a/i.exec(await last.innerText())!;
    await last.getByRole("link", { name: "Memory" }).click();
    const lost = page.getByRole("complementary").getByTestId("lost");
    await lost.getByText(new RegExp(`^Write ${itsWrite} of a/`)).waitFor();
    await lost.getByRole("link", { name: "Its ladder and frames" }).click();
    await page.getByRole("heading", { name: new RegExp(`^Operation ${itsWrite} of a`) }).waitFor();
    await page.goto(`${rig.printed.origin}/#/runs?show=${lostRun}`);
    const fourth = check.getByRole("listitem").nth(3);
    const [, write] = /write (\d+) of a/i.exec(await fourth.innerText())!;
    await fourth.getByRole("button", { name: "Ladder" }).click();
    await page.getByRole("heading", { name: new RegExp(`^Operation ${write} of a`) }).waitFor();
    await rig.pictures("cause");
    await page.goto(`${rig.printed.origin}/#/runs?show=${lostRun}`);
    await check.getByRole("listitem").first().getByRole("button", { name: "Memory then" }).click();
    await page.waitForURL(/#\/memory\?.*select=line%7Eb%7E.*at=\d+/);
    await page.goto(`${rig.printed.origin}/#/runs?show=${lostRun}`);
    await check.getByRole("listitem").first().getByRole("link", { name: "Frames" }).click();
    await page.getByRole("region", { name: "List of events" }).getByText("frame-sent").first()
      .waitFor();
  });

  it("leads from a finding of an own check, which names no byte, to a ladder, memory and frames", async () => {
    const { page, commands } = rig;
    const file = await commands.file(
      "own.ts",
      `export default function* ({ cpu }) { cpu.report("done", {}); }
export const check = () => ["nothing is ever right"];\n`,
    );
    const put = `{ on: a, run: put, to: b, method: persist-opcode, bytes: 8KiB }`;
    const text =
      `name: own\nhosts: { a: {}, b: {} }\nprograms: [${put}, { on: a, program: ${file} }]\n`;
    const path = await commands.file("own.yaml", text);
    const { stdout, stderr } = await commands.run(["run", path, "--pack", "all"]);
    const kept = /kept in .*\/(\S+)/.exec(`${stdout}\n${stderr}`)?.[1];
    assert.ok(kept !== undefined, `${stdout}\n${stderr}`);
    const check = page.getByRole("row", { name: /fails protocol-holds/ });
    const show = async () => {
      await page.goto(`${rig.printed.origin}/#/runs?show=${kept}`);
      await check.getByText(/nothing is ever right/).waitFor();
    };
    await show();
    await check.getByRole("button", { name: "Ladder" }).click();
    await page.getByRole("heading", { name: /^Operation \d+ of a/ }).waitFor();
    await show();
    await check.getByRole("button", { name: "Memory then" }).click();
    await page.waitForURL(/#\/memory\?.*at=\d+/);
    await show();
    await check.getByRole("link", { name: "Frames" }).click();
    await page.getByRole("region", { name: "List of events" }).getByText("frame-sent").first()
      .waitFor();
  });

  it("throws nothing, and breaks its content security policy nowhere", async () => {
    await Promise.resolve();
    assert.deepEqual(rig.errors, []);
  });
});
