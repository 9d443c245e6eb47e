/** Verdicts on a rack that is worked by hand, as far as they can be told: by HTTP, and in the page. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { inOrder } from "../support/in_order.ts";
import { itUnless } from "../support/skipping.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
const it = inOrder(itUnless(browserMissing, "The console's page in a browser"));

interface SoFar {
  readonly at: number;
  readonly checks: {
    readonly name: string;
    readonly state: string;
    readonly findings: { readonly text: string; readonly scm?: { readonly host: string } }[];
  }[];
}

describe("A rack that is worked by hand", () => {
  let rig: BrowserRig, run: string;

  beforeAll(async () => {
    if (browserMissing !== undefined) return;
    rig = await BrowserRig.open([SCENARIO, "--method", "write-read", "--ddio", "on"]);
    await rig.device("b").waitFor();
    run = rig.printed.rack!;
  });

  afterAll(() => rig?.close());

  /** With the key that the page has. */
  function soFar(query: string): Promise<SoFar> {
    return rig.page.evaluate(async (path) => {
      const [key] = Object.values(localStorage).filter((each) => each.length > 20);
      const answer = await fetch(path, { headers: { Authorization: `Bearer ${key}` } });
      if (!answer.ok) throw new Error(await answer.text());
      return await answer.json();
    }, `/api/v1/runs/${run}/verdicts${query}`);
  }

  async function statesOf(query: string): Promise<Record<string, string>> {
    const { checks } = await soFar(query);
    return Object.fromEntries(checks.map(({ name, state }) => [name, state]));
  }

  it("gets the checks' verdicts so far, of any instant", async () => {
    await rig.commands.must(["put", SCENARIO, "--to", "b", "--method", "write-read"]);
    const early = await statesOf("?at=1");
    assert.ok(
      Object.values(early).every((state) => state === "nothing yet"),
      JSON.stringify(early),
    );
    // It promises nothing.
    assert.equal((await statesOf(""))["survives-what-was-reported"], "nothing yet");
    const promising = ["--to", "b", "--method", "persist-opcode", "--as", "other"];
    await rig.commands.must(["put", SCENARIO, ...promising]);
    const now = await statesOf("");
    assert.equal(now["survives-what-was-reported"], "holds");
    assert.equal(now["completes-once-in-order"], "holds");
    assert.equal(now["frames-are-conserved"], "holds");
    assert.equal(now["silent-without-power"], "nothing yet");
    // DDIO leaves the lines in the cache: claimed, not promised.
    const { checks } = await soFar("?claims=true");
    const lost = checks.find(({ name }) => name === "survives-what-was-reported")!;
    assert.equal(lost.state, "fails");
    assert.equal(lost.findings[0]!.scm?.host, "b");
    await rig.commands.must(["kill", "b"]);
    const after = await statesOf("");
    assert.equal(after["silent-without-power"], "holds");
    assert.equal((await statesOf("?claims=true"))["survives-what-was-reported"], "fails");
  });

  it("says them by the command, with an exit code of its own for each", async () => {
    const { commands } = rig;
    const judged = async (...more: string[]) => await commands.run(["judge", ...more]);
    const fails = await judged("--claims");
    assert.equal(fails.code, 1, fails.stderr);
    assert.match(fails.stdout, /^Before .*, SCM as a power failure of every host then leaves it:/);
    assert.match(fails.stdout, /survives-what-was-reported +fails/);
    assert.match(fails.stdout, /survives-what-was-reported: b: SCM at .* is lost/);
    const holds = await judged("--json");
    assert.equal(holds.code, 0, holds.stderr);
    const { run: id, soFar, checks } = JSON.parse(holds.stdout);
    assert.deepEqual([id, soFar, checks.length > 5], [run, true, true]);
    // Nothing has happened: no verdict is no good one.
    const nothing = await judged("--at", "1ps");
    assert.equal(nothing.code, 2, nothing.stderr);
    const beyond = await judged("--at", "1s");
    assert.equal(beyond.code, 64);
    assert.match(beyond.stderr, /expected an instant/);
  });

  it("shows them in the page, marked as so far, each with the way to its cause", async () => {
    const { page } = rig;
    await page.goto(`${rig.printed.origin}/#/runs?show=${run}`);
    const told = page.getByTestId("so far");
    await told.getByRole("heading", { name: "Checks, so far" }).waitFor();
    const row = told.getByRole("row", { name: /survives-what-was-reported/ });
    await row.getByText("✓ holds so far").waitFor();
    await told.getByText(/SCM as a power failure of every host at that instant leaves it/)
      .waitFor();
    await told.getByLabel("judge claims").check();
    await row.getByText("✗ fails").waitFor();
    await row.getByRole("link", { name: "Memory" }).first().click();
    await page.getByTestId("cut").getByText(/lost \d+ B/).waitFor();
    assert.deepEqual(rig.errors, []);
  });
});
