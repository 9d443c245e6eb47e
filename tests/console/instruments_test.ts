/**
 * The page's views of operations, memory, explorations and campaigns, on a rack that is up and on a run with two
 * variants: one console for all tests of this file, which do what a person does.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { catalogueRows } from "../../console/scenarios/catalogue.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { browserMissing, BrowserRig, SIZES } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { itUnless } from "../support/skipping.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
/** Two hundred hosts in four racks, which do nothing: what is looked at is the picture. */
const LARGE = `name: two-hundred
fabric: { topology: leaf-spine, leaves: 4, spines: 2 }
defaults: { services: none, scm: { size: 4KiB }, dram: 1MiB }
hosts:
  h1..h50: { leaf: 1 }
  h51..h100: { leaf: 2 }
  h101..h150: { leaf: 3 }
  h151..h200: { leaf: 4 }
`;
const it = itUnless(browserMissing, "The console's page in a browser");

describe("The page's instruments", () => {
  let rig: BrowserRig;
  /** A run of which each variant is another rack. */
  let twoVariants = "";
  let input = "";
  /** A run of {@link LARGE}. */
  let large = "";

  beforeAll(async () => {
    if (browserMissing !== undefined) return;
    input = await Deno.makeTempFile({ prefix: "rackmesh-input-" });
    await Deno.writeFile(input, new Uint8Array(20_000).map((_, i) => i * 7));
    const choices = ["--method", "persist-opcode", "--input", input];
    rig = await BrowserRig.open([SCENARIO, ...choices, "--ddio", "on"]);
    twoVariants = await kept([SCENARIO, ...choices, "--depth", "1"]);
    await rig.device("b").waitFor();
  });

  afterAll(async () => {
    await rig?.close();
    if (input !== "") await Deno.remove(input);
  });

  /** Runs a scenario in one process. @returns the name of what it has left. */
  async function kept(args: readonly string[]): Promise<string> {
    const { stdout, stderr } = await rig.commands.run(["run", ...args, "--pack", "all"]);
    const found = /kept in .*\/(\S+)/.exec(`${stdout}\n${stderr}`)?.[1];
    assert.ok(found !== undefined, `${stdout}\n${stderr}`);
    return found;
  }

  /** The run with two variants, in this view. */
  async function ofTwo(view: string, more = ""): Promise<void> {
    await rig.page.goto(`${rig.printed.origin}/#/${view}?run=${twoVariants}${more}`);
  }

  it("shows an operation of the rack that is up, each step with the bytes of its frame", async () => {
    const { page } = rig;
    await rig.view("Operation");
    const step = page.getByRole("button", { name: /^S1003/ });
    await step.waitFor();
    await page.getByText("Promised", { exact: true }).waitFor();
    const [number, words] = await Promise.all(
      [".num", ".words"].map(async (part) => (await step.locator(part).boundingBox())!),
    );
    assert.ok(number!.x + number!.width <= words!.x, "words stand beside the number of their step");
    await step.click();
    const side = page.getByRole("complementary");
    await side.getByText("sends the RDMA write request").waitFor();
    for (const header of ["Ethernet", "IPv4", "UDP", "BTH", "RETH", "PersistETH"]) {
      await side.getByRole("heading", { name: new RegExp(`^${header}`) }).waitFor();
    }
    await side.getByText("VENDOR WRITE PERSISTENCE ONLY", { exact: true }).waitFor();
    await page.keyboard.press("j");
    await side.getByRole("heading", { name: /^S1004/ }).waitFor();
    await rig.pictures("operation");
    await rig.accessible("the operation view");
  });

  it("compares the ladders of two variants on one axis of time", async () => {
    const { page } = rig;
    await ofTwo("operation");
    const compare = page.getByRole("combobox", { name: "Compare with" });
    await compare.waitFor();
    await compare.selectOption({ label: "persist-opcode, DDIO on" });
    await page.getByRole("list", { name: "Steps of persist-opcode_ddio_on" }).waitFor();
    const heights = await Promise.all(["S901", "S1001"].map(async (number) => {
      const first = page.getByRole("button", { name: new RegExp(`^${number} `) });
      return (await first.boundingBox())!.y;
    }));
    assert.equal(heights[0], heights[1], "both begin at the same height");
    await rig.pictures("compare");
    await rig.accessible("two ladders");
    // On a tablet, too, neither lies over the other.
    await page.setViewportSize(SIZES[2]);
    const [left, right] = await Promise.all(["off", "on"].map(async (ddio) => {
      const steps = page.getByRole("list", { name: `Steps of persist-opcode_ddio_${ddio}` });
      const box = (await steps.boundingBox())!;
      return { x: box.x, end: Math.max(...await steps.evaluate(endsOfParts)) };
    }));
    assert.ok(left!.end <= right!.x, `${left!.end} > ${right!.x}`);
    await page.setViewportSize(SIZES[0]);
  });

  it("shows the same variant in every view, and where it parts from another", async () => {
    const { page } = rig;
    await ofTwo("rack");
    const which = page.getByRole("combobox", { name: "Variant", exact: true });
    await which.selectOption({ label: "persist-opcode, DDIO on" });
    await rig.view("Memory");
    assert.equal(await which.inputValue(), "persist-opcode_ddio_on");
    assert.match(page.url(), /variant=persist-opcode_ddio_on/);
    await ofTwo("runs", `&show=${twoVariants}`);
    await page.getByRole("link", { name: "Compare two of its variants" }).click();
    await page.getByRole("heading", { name: /^They part at/ }).waitFor();
    const second = page.getByRole("combobox", { name: "Variant of the second" });
    await second.selectOption({ label: "persist-opcode, DDIO off" });
    await page.getByText(/^They are the same: digest/).waitFor();
    await second.selectOption({ label: "persist-opcode, DDIO on" });
    await page.getByText(/the first events that differ are at/)
      .waitFor();
  });

  it("shows the memory at the instant of a step, and what a power cut would leave", async () => {
    const { page } = rig;
    await ofTwo("operation", "&variant=persist-opcode_ddio_on");
    await page.getByRole("button", { name: /^llc/ }).click();
    await page.getByRole("button", { name: "Show this instant" }).click();
    const at = new URL(page.url().replace("#", "")).searchParams.get("at");
    await ofTwo("memory", `&variant=persist-opcode_ddio_on&host=b&at=${at}`);
    const legend = page.locator(".legend");
    await legend.getByText("in the cache: lost without a flush").waitFor();
    await page.getByText(/loses 4096 B: 4096 B in the cache; nothing of it was promised/).waitFor();
    const map = page.getByRole("application");
    await map.focus();
    await page.keyboard.press("ArrowRight");
    await page.getByRole("complementary").getByRole("heading", { name: /^0x/ }).first().waitFor();
    await rig.pictures("memory");
    await rig.accessible("the memory view");
    await page.keyboard.press("l");
    await legend.getByText("lost: as it was before the write").waitFor();
  });

  it("cuts the power at that instant in the explorer, and not on the rack", async () => {
    const { page } = rig;
    await page.getByRole("link", { name: "Cut here, in the explorer" }).click();
    await page.getByRole("button", { name: "Cut here" }).click();
    await page.getByText(/Every promise is kept at each instant that was tried/).waitFor();
    await eventually(
      "the cut is of one host",
      async () =>
        /crash points? at \d+ instants? of b/.test(await page.locator("main h2").innerText()),
    );
  });

  it("says why a run cannot be replayed, in every view", async () => {
    const { page, commands } = rig;
    large = await kept([await commands.file("large.yaml", LARGE)]);
    const record = `${commands.cache}/runs/${large}/inexact.jsonl`, why = "a message was lost";
    await Deno.writeTextFile(record, `${JSON.stringify(why)}\n`);
    const reason = new RegExp(`${large} cannot be replayed exactly: ${why}`);
    await page.goto(`${rig.printed.origin}/#/rack?run=${large}`);
    await page.locator(".why").getByText(reason).waitFor();
    // What the run file says is there all the same.
    await rig.device("h200").waitFor({ state: "attached" });
    for (const view of ["Memory", "Operation"]) {
      await rig.view(view);
      await page.locator("main").getByText(reason).waitFor();
    }
    await rig.pictures("refused");
    await rig.accessible("a run that cannot be replayed");
    await Deno.remove(record);
  });

  it("draws a rack of 200 hosts, each in its place, and each readable when one comes near", async () => {
    const { page } = rig;
    await page.goto(`${rig.printed.origin}/#/rack?run=${large}`);
    await page.reload();
    await page.locator(".why").getByText("A kept run: it ended at").waitFor();
    const boxes = await page.locator("[data-device]").evaluateAll((all) =>
      all.map((each) => {
        const { x, y, width, height } = each.getBoundingClientRect();
        return { x, y, right: x + width, bottom: y + height };
      })
    );
    assert.equal(boxes.length, 2 * 200 + 4 + 2);
    const view = (await page.locator("svg.drawing").boundingBox())!;
    for (const [i, box] of boxes.entries()) {
      const isInside = box.x >= view.x && box.right <= view.x + view.width &&
        box.y >= view.y && box.bottom <= view.y + view.height;
      assert.ok(isInside, `device ${i} is in the picture`);
    }
    await rig.pictures("large");
    // What was searched for is what one comes nearer to.
    await page.keyboard.press("/");
    await page.keyboard.type("h137");
    await page.keyboard.press("Enter");
    await page.locator("aside h2", { hasText: "h137" }).waitFor();
    const name = rig.device("h137").locator("text.name");
    const closer = page.getByRole("button", { name: "Closer" });
    for (let i = 0; i < 12 && await page.locator(".drawing.no-figures").count() > 0; i++) {
      await closer.click();
    }
    const near = (await name.boundingBox())!;
    assert.ok(near.height >= 10, `the name is ${near.height} px high`);
    assert.ok(near.x >= view.x && near.x + near.width <= view.x + view.width, "it is in view");
    assert.ok(near.y >= view.y && near.y + near.height <= view.y + view.height, "it is in view");
    await rig.pictures("large-near");
    await page.getByRole("button", { name: "all", exact: true }).click();
    assert.ok((await rig.device("h137").boundingBox())!.height < 34);
  });

  it("says that the run which is shown was deleted, where the sentence can be read", async () => {
    const { page } = rig;
    const { status } = await page.evaluate(async (id) => {
      const key = localStorage.getItem("rackmesh-key");
      const headers = { "X-Rackmesh": "1", Authorization: `Bearer ${key}` };
      return { status: (await fetch(`/api/v1/runs/${id}`, { method: "DELETE", headers })).status };
    }, large);
    assert.equal(status, 200);
    await page.locator(".why").getByText(`${large} is deleted: this was read before`).waitFor();
  });

  it("explores a scenario, and shows its counterexample as a ladder", async () => {
    const { page } = rig;
    await page.goto(`${rig.printed.origin}/#/explore`);
    await page.getByRole("combobox", { name: "Scenario" }).selectOption("two_queues");
    await page.getByRole("checkbox", { name: "ask for robustness, too" }).check();
    await page.getByRole("button", { name: "Explore", exact: true }).click();
    await page.getByText(/The power of b fails/).waitFor();
    await page.getByText(/judged by .*check, robustness/).waitFor();
    await page.locator(".arrow.is-lost").first().waitFor();
    await page.getByText("To see it again").waitFor();
    await page.getByText(/two_queues: unsafe/).waitFor();
    await rig.pictures("explore");
    await rig.accessible("a counterexample");
  });

  it("explores a protocol of the catalogue, and says what is known of it", async () => {
    const { page } = rig;
    await page.goto(`${rig.printed.origin}/#/explore`);
    await page.getByRole("checkbox", { name: "ask for robustness, too" }).uncheck();
    const choice = page.getByRole("combobox", { name: "Scenario" });
    await choice.selectOption("ack_before_flush");
    await page.getByTestId("protocol").getByText(/The server answers before it flushes/).waitFor();
    await page.getByRole("button", { name: "Explore", exact: true }).click();
    await page.getByText(/ack_before_flush: unsafe/).waitFor();
    await page.getByText(/^rack run ack_before_flush /).waitFor();
    const groups = await choice.locator("optgroup").evaluateAll((all) =>
      all.map((each) => `${each.getAttribute("label")}: ${each.children.length}`)
    );
    const rows = catalogueRows(), safe = rows.filter(({ verdict }) => verdict === "safe").length;
    assert.deepEqual(groups.slice(1), [
      `Protocols that are right: ${safe}`,
      `Protocols that are wrong: ${rows.length - safe}`,
    ]);
    await page.getByRole("link", { name: "Its scenario" }).click();
    await page.getByText("It can be run.").waitFor();
  });

  it("explores how programs interleave on a shared region, within the bounds of the form", async () => {
    const { page } = rig;
    await page.goto(`${rig.printed.origin}/#/explore`);
    await page.getByRole("combobox", { name: "Scenario" }).selectOption("coherent_lock_pair");
    await page.getByRole("checkbox", { name: "ask for robustness, too" }).uncheck();
    await page.getByRole("combobox", { name: "Power of" }).fill("none");
    await page.getByRole("spinbutton", { name: "Preemptions" }).fill("1");
    await page.getByRole("textbox", { name: "Each at most" }).fill("20us");
    await page.getByRole("spinbutton", { name: "Interleavings at most" }).fill("4");
    await page.getByRole("button", { name: "Explore", exact: true }).click();
    await page.getByText(/interleavings? in 4 runs with at most 1 preemption of up to 20\u202fµs/)
      .waitFor();
    await page.getByText(/coherent_lock_pair: could not tell/).waitFor();
  });

  it("says what a campaign would do where there was none", async () => {
    await rig.view("Chaos");
    await rig.page.getByText("No campaign has run yet").waitFor();
    await rig.pictures("chaos");
    await rig.accessible("no campaign");
  });

  it("runs a campaign: what was done to the rack, the verdict, and one round again", async () => {
    const { page } = rig;
    await page.getByRole("spinbutton", { name: "Rounds at most" }).fill("1");
    await page.getByRole("spinbutton", { name: "Seed" }).fill("3");
    await page.getByRole("button", { name: "Begin" }).click();
    const verdict = page.getByText(/^1 round of seed 3, 1 held, 0 broken, 0 without a result$/);
    const again = page.getByRole("button", { name: "Do this round again" });
    const acts = page.locator(".acts-done td:last-child");
    await verdict.waitFor();
    await again.waitFor();
    await page.getByRole("button", { name: /^Round \d+: held$/ }).waitFor();
    await page.getByText(/^Its record replays to the same digest/).waitFor();
    const done = await acts.allInnerTexts();
    assert.ok(done.length > 0, "something was done to the rack");
    await rig.pictures("campaign");
    await rig.accessible("a campaign");
    await again.click();
    await verdict.waitFor({ state: "detached" });
    await verdict.waitFor();
    await again.waitFor();
    assert.deepEqual(await acts.allInnerTexts(), done, "seed and number say what is done");
    assert.deepEqual(rig.errors, []);
  });
});

/** Runs in the page: where its parts, and theirs, end on the right. */
// deno-lint-ignore no-explicit-any -- the page's, whose types are not here
function endsOfParts(element: any): number[] {
  return [...element.querySelectorAll("*")]
    .filter((each) => each.closest("svg") === null || each.tagName === "svg")
    .map((each) => each.getBoundingClientRect().right);
}
