/** Long lists of the console's page, in a browser: runs, operations, events; and waiting for a replay. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { itUnless } from "../support/skipping.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const it = itUnless(browserMissing, "The console's lists in a browser");

describe("The lists of the console's page", () => {
  let rig: BrowserRig, input = "", flushed = "", persisted = "";

  beforeAll(async () => {
    if (browserMissing !== undefined) return;
    input = await Deno.makeTempFile({ prefix: "rackmesh-input-" });
    await Deno.writeFile(input, new Uint8Array(1_200_000).map((_, i) => i * 7));
    rig = await BrowserRig.open([]);
    flushed = await kept("write-flush", "off");
    persisted = await kept("persist-opcode", "on");
    // A console notices what it did itself.
    await rig.page.reload();
  });

  afterAll(async () => {
    await rig?.close();
    if (input !== "") await Deno.remove(input);
  });

  async function kept(method: string, ddio: string): Promise<string> {
    const choices = ["--method", method, "--ddio", ddio, "--input", input, "--pack", "all"];
    const { stdout, stderr } = await rig.commands.run(["run", SCENARIO, ...choices]);
    const found = /kept in .*\/(\S+)/.exec(`${stdout}\n${stderr}`)?.[1];
    assert.ok(found !== undefined, `${stdout}\n${stderr}`);
    return found;
  }

  /** Rows of the list, without its head. */
  function rows(list: string) {
    return rig.page.getByRole("region", { name: list }).locator("tbody tr");
  }

  async function hasRows(list: string, count: number): Promise<void> {
    await eventually(`${count} rows`, async () => await rows(list).count() === count);
  }

  function field(list: string, label: string) {
    return rig.page.getByRole("search", { name: list }).getByLabel(label);
  }

  it("filters runs by what they did, keeps a note on each, and searches it", async () => {
    await rig.view("Runs");
    await hasRows("List of runs", 2);
    await field("Runs", "Method").selectOption("write-flush");
    await hasRows("List of runs", 1);
    await rows("List of runs").getByTitle(flushed).waitFor();
    await rig.page.reload();
    await hasRows("List of runs", 1);
    await field("Runs", "Method").selectOption("");
    await field("Runs", "DDIO").selectOption("on");
    await hasRows("List of runs", 1);
    await rows("List of runs").getByTitle(persisted).waitFor();
    const note = rig.page.getByLabel(`Note on ${persisted}`);
    await note.fill("the one for Ada");
    await note.press("Enter");
    await field("Runs", "DDIO").selectOption("");
    await field("Runs", "Text").fill("FOR ada");
    await hasRows("List of runs", 1);
    await field("Runs", "Verdict").selectOption("fails");
    await hasRows("List of runs", 0);
    await rig.page.reload();
    await field("Runs", "Verdict").selectOption("");
    await rows("List of runs").getByTitle(persisted).waitFor();
    assert.equal(await rig.page.getByLabel(`Note on ${persisted}`).inputValue(), "the one for Ada");
    await field("Runs", "Text").fill("");
    await field("Runs", "Order").selectOption("oldest");
    await eventually("the oldest first", async () => {
      return await rows("List of runs").first().getByTitle(flushed).count() === 1;
    });
    await rig.accessible("the list of runs");
  });

  it("says how far a first replay is, and its place in the line", async () => {
    const { page } = rig,
      answers = [
        { state: "waiting", place: 2, length: 3, before: ["x", "y", "z"] },
        {
          state: "replaying",
          pass: "first",
          atPs: 430_000_000,
          endPs: 1_000_000_000,
          events: 12_345,
        },
      ];
    let answer = 0;
    const shown = Promise.withResolvers<void>();
    await page.route(
      /\/replay(\?|$)/,
      (route) => route.fulfill({ json: answers[answer] }),
    );
    await page.route(/\/timeline(\?|$)/, async (route) => {
      await shown.promise;
      await route.continue();
    });
    await page.goto(`${rig.printed.origin}/#/operation?run=${flushed}&show=list`);
    const line = page.locator("footer.line");
    await line.getByText("place 2 of 3 in the line, behind 3 runs").waitFor();
    answer = 1;
    await line.getByText(/being replayed: 43\W?% of 1\W000.* 12\W345 events/).waitFor();
    shown.resolve();
    await page.unrouteAll({ behavior: "wait" });
    await line.getByText("being replayed").waitFor({ state: "detached" });
  });

  it("says how far a pass to an early instant is, as long as an answer waits for it", async () => {
    const { page } = rig, shown = Promise.withResolvers<void>();
    const again = { state: "replaying", pass: "again", atPs: 430_000_000, endPs: 1_000_000_000 };
    await page.route(
      /\/replay(\?|$)/,
      (route) => route.fulfill({ json: { ...again, events: 12_345 } }),
    );
    await page.route(/\/memory-map(\?|$)|\/memory(\?|$)/, async (route) => {
      await shown.promise;
      await route.continue();
    });
    await page.goto(`${rig.printed.origin}/#/memory?run=${flushed}&at=1000000&host=b`);
    const why = page.locator(".why");
    await why.getByText(/replayed again, up to the instant .*: 43\W?% of 1\W000.* 12\W345 events/)
      .waitFor();
    shown.resolve();
    await page.unrouteAll({ behavior: "wait" });
    await why.getByText("replayed again").waitFor({ state: "detached" });
    await page.goto(`${rig.printed.origin}/#/operation?run=${flushed}&show=list`);
  });

  it("filters operations, of which there are more than one can choose from", async () => {
    await hasRows("List of operations", 200);
    await rig.page.getByText("293 operations; shown: 1 to 200").waitFor();
    await rig.page.getByRole("button", { name: "next ›" }).click();
    await hasRows("List of operations", 93);
    await field("Operations", "Text").fill("message 7 ");
    await hasRows("List of operations", 1);
    await field("Operations", "Text").fill("");
    await hasRows("List of operations", 200);
    await field("Operations", "Order").selectOption("duration");
    await rig.page.getByText("293 operations").waitFor();
    await field("Operations", "Status").selectOption("failed");
    await hasRows("List of operations", 0);
    await field("Operations", "Status").selectOption("completed");
    await hasRows("List of operations", 200);
    await field("Operations", "Takes at least, µs").fill("1000000");
    await field("Operations", "Takes at least, µs").press("Enter");
    await hasRows("List of operations", 0);
    await field("Operations", "Takes at least, µs").fill("");
    await field("Operations", "Takes at least, µs").press("Enter");
    await hasRows("List of operations", 200);
    const download = rig.page.waitForEvent("download");
    await rig.page.getByRole("button", { name: "Save as CSV" }).click();
    const text = await Deno.readTextFile(await (await download).path());
    assert.match(text, /^operation,.*begin ns,duration ns,/);
    await rig.accessible("all operations");
    await rows("List of operations").first().getByRole("link").click();
    await rig.page.getByRole("heading", { name: /^Operation \d+ of a/ }).waitFor();
  });

  it("searches all events of the run, and shows the rack at one", async () => {
    const { page } = rig;
    await page.getByRole("link", { name: "Events" }).click();
    await field("Events", "Text").fill("message 290 is persistent");
    await hasRows("List of events", 1);
    await page.getByText(/1 event\s+to the end of the run/).waitFor();
    await field("Events", "Text").fill("is persistent");
    await page.getByRole("button", { name: "Search on" }).click();
    await page.getByText(/from .* on to the end of the run/).waitFor();
    await field("Events", "Kind").selectOption("step");
    await field("Events", "Device").selectOption("b");
    await hasRows("List of events", 0);
    await field("Events", "Device").selectOption("a");
    await rows("List of events").first().getByRole("button").click();
    await eventually("the instant is looked at", () => /[?&]at=[1-9]/.test(page.url()));
    await rig.accessible("events");
  });

  it("says of an instant beyond the end that there is none, and goes to the end", async () => {
    const { page } = rig;
    await page.goto(`${rig.printed.origin}/#/rack?run=${flushed}&at=900000000000000`);
    const why = page.locator(".bar .why");
    await why.getByText(/There is no instant .*: the run ended at/).waitFor();
    assert.equal(await why.getByText("The past").count(), 0);
    await why.getByRole("button", { name: "Show its end" }).click();
    await why.getByText(/A kept run: it ended at/).waitFor();
    assert.doesNotMatch(page.url(), /at=/);
  });

  it("shows no time line of another run beside a run's page", async () => {
    const { page } = rig;
    const line = page.locator("footer.line");
    await page.goto(`${rig.printed.origin}/#/runs?run=${flushed}&show=${flushed}`);
    await line.waitFor();
    await page.goto(`${rig.printed.origin}/#/runs?run=${flushed}&show=${persisted}`);
    await line.waitFor({ state: "hidden" });
    await page.getByRole("heading", { level: 1 }).first().waitFor();
  });
});
