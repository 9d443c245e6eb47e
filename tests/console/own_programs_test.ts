/**
 * Own programs on the console, by HTTP: what they came to, reported and logged, of a rack that is up, of a
 * kept run, and of one that was run to its end in one process.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { type Answer, TestConsole } from "../../console/server/app_testing.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import { browserMissing, BrowserRig } from "../support/browser.ts";
import { itUnless } from "../support/skipping.ts";
import { eventually } from "../support/eventually.ts";
import { removeUnlessKept } from "../support/leavings.ts";

const API = "/api/v1";
const FILES = {
  "well.ts": `export default function* ({ cpu }) {
  cpu.log("it begins");
  cpu.report("count", { done: 1n, of: 2, bytes: new Uint8Array(3) });
  cpu.report("result", { text: "x".repeat(20_000) });
}
`,
  "fails.ts": `export default function* ({ cpu }) {
  cpu.report("result", { half: "well" });
  throw new Error("it broke");
}
`,
  "waits.ts": `export default function* ({ cpu }) {
  yield* cpu.waitSignal("never.there", Infinity);
}
`,
};
const TEXT = `name: own
hosts: { a: {}, b: {} }
programs:
  - { on: a, program: ./well.ts }
  - { on: a, program: ./waits.ts }
  - { on: b, program: ./fails.ts }
`;

let cache: string, before: string | undefined;
let console: TestConsole, key: string;

beforeAll(async () => {
  cache = await Deno.realPath(await Deno.makeTempDir({ prefix: "rackmesh-own-" }));
  before = Deno.env.get("RACKMESH_CACHE");
  Deno.env.set("RACKMESH_CACHE", cache);
  console = new TestConsole({ isReal: true });
  key = await console.signIn("operator");
  for (const [name, body] of Object.entries(FILES)) {
    await good("PUT", `/projects/mine/files/${name}`, {
      body,
      headers: { "Content-Type": "application/octet-stream" },
    });
  }
});

afterAll(async () => {
  await console.end();
  await takeRacksDown({ all: true }).catch(() => {});
  if (before === undefined) Deno.env.delete("RACKMESH_CACHE");
  else Deno.env.set("RACKMESH_CACHE", before);
  await removeUnlessKept(cache);
});

async function good(method: string, path: string, sent = {}): Promise<Answer["json"]> {
  const { status, text, json } = await console.send(method, `${API}${path}`, { key, ...sent });
  assert.equal(status, 200, `${method} ${path}: ${text}`);
  return json;
}

async function runOf(kind: "run" | "up", packing: "all" | "node"): Promise<string> {
  const scenario = { text: TEXT, project: "mine" };
  const { id } = await good("POST", "/jobs", { json: { kind, packing, scenario } });
  let detail: Answer["json"];
  await eventually("the job has ended", async () => {
    detail = await good("GET", `/jobs/${id}`);
    return detail.job.state !== "running";
  });
  assert.equal(detail.job.error, "");
  return detail.job.run;
}

async function assertTold(run: string): Promise<void> {
  const { programs: all, reports, log } = await good("GET", `/runs/${run}/programs`);
  const programs = all.filter(({ state }: { state: string }) => state !== "serves");
  assert.equal(all.length - programs.length, 4, "cm and persistd of two hosts");
  const states = programs.map((each: Record<string, string>) =>
    `${each.host} ${each.program!.replace(/#\d+$/, "")} ${each.state}`
  );
  assert.deepEqual(states, [
    "a ./well.ts ended",
    "a ./waits.ts waits",
    "b ./fails.ts failed",
  ]);
  const [, waits, fails] = programs;
  assert.match(waits.text, /never\.there/);
  assert.match(waits.line, /^waits\.ts:2:\d+$/);
  assert.equal(fails.text, "it broke");
  assert.match(fails.line, /^fails\.ts:3:\d+$/);
  assert.doesNotMatch(fails.stack, /nodes\/host/);
  const [count, long, half] = reports;
  assert.deepEqual(
    [count.topic, count.text, count.isCut],
    ["count", `{"done":1,"of":2,"bytes":"3 B"}`, false],
  );
  assert.deepEqual([long.topic, long.isCut], ["result", true]);
  assert.deepEqual([half.host, half.text], ["b", `{"half":"well"}`]);
  assert.deepEqual(log.map(({ host, text }: Record<string, string>) => `${host} ${text}`), [
    "a it begins",
  ]);
  // Before that instant nothing of it had happened.
  const early = await good("GET", `/runs/${run}/programs?at=${count.at}`);
  assert.deepEqual([early.reports, early.log], [[], []]);
  assert.ok(
    early.programs.every(({ state }: { state: string }) => ["waits", "serves"].includes(state)),
  );
  const one = await good("GET", `/runs/${run}/programs?host=b`);
  assert.ok(one.programs.every(({ host }: { host: string }) => host === "b"));
  const wrong = await console.send("GET", `${API}/runs/${run}/programs?host=c`, { key });
  assert.equal(wrong.status, 422);
  assert.match(wrong.text, /host is \\"c\\": expected one of a, b/);
}

describe("own programs on the console", () => {
  it("say what they came to in a run in one process, which has no logs and says so", async () => {
    const run = await runOf("run", "all");
    await assertTold(run);
    const { lines, none } = await good("GET", `/runs/${run}/logs`);
    assert.deepEqual(lines, []);
    assert.match(none, /in one process/);
    const { checks } = await good("GET", `/runs/${run}/report`);
    const { findings } = checks.find(({ holds }: { holds: boolean }) => !holds);
    const failed = findings.find(({ text }: { text: string }) => /it broke/.test(text));
    assert.equal(failed.at.node, "b");
    assert.ok(failed.at.time > 0);
    // A bigint that a program reports is no trouble of its time line.
    const { reports } = await good("GET", `/runs/${run}/timeline`);
    assert.ok(reports.some(({ topic }: { topic: string }) => topic === "count"));
  });

  it("say it of a rack that is up, and of the run that it leaves", async () => {
    const run = await runOf("up", "node");
    await eventually("the programs have run", async () => {
      const { reports } = await good("GET", `/runs/${run}/programs`);
      return reports.length === 3;
    });
    await assertTold(run);
    await good("POST", `/runs/${run}/down`);
    await assertTold(run);
    const { lines, none } = await good("GET", `/runs/${run}/logs`);
    assert.ok(lines.length > 0);
    assert.equal(none, undefined);
  });
});

describe("own programs in the page", () => {
  const itThere = itUnless(browserMissing, "The console's page in a browser");
  let rig: BrowserRig | undefined, folder: string;

  beforeAll(async () => {
    folder = await Deno.makeTempDir({ prefix: "rackmesh-own-page-" });
    for (const [name, text] of Object.entries(FILES)) {
      await Deno.writeTextFile(`${folder}/${name}`, text);
    }
    await Deno.writeTextFile(`${folder}/own.yaml`, TEXT);
  });

  afterAll(async () => {
    await rig?.close();
    await Deno.remove(folder, { recursive: true });
  });

  itThere("show state, reports and log of a rack that is up, and of the run", async () => {
    rig = await BrowserRig.open([`${folder}/own.yaml`]);
    const { page } = rig, told = page.getByTestId("programs");
    await rig.device("b").click();
    await told.getByText("✗ failed at line 3 of fails.ts").waitFor();
    await told.getByText("half").locator("..").getByText("well", { exact: true }).waitFor();
    await rig.device("a").click();
    await told.getByText(/waits for .*never\.there.* at line 2 of waits\.ts/).waitFor();
    await told.getByText("it begins").waitFor();
    const count = told.getByRole("row", { name: /count/ });
    await count.getByText("done").locator("..").getByText("1", { exact: true }).waitFor();
    assert.doesNotMatch(await count.innerText(), /[{"]/);
    const { code, stdout, stderr } = await rig.commands.run([
      ...["run", `${folder}/own.yaml`, "--pack", "all", "--json"],
    ]);
    assert.equal(code, 1, stderr);
    const { run } = JSON.parse(stdout);
    await page.goto(`${rig.printed.origin}/#/runs?show=${run}`);
    await page.getByRole("heading", { name: "Results of programs" }).waitFor();
    await page.getByText(/fails\.ts#\d+ failed/).first().waitFor();
    // From the finding to the instant of it.
    await page.getByRole("row", { name: /programs-run-through/ })
      .getByRole("link", { name: /^b at / }).click();
    await told.getByText("✗ failed at line 3 of fails.ts").waitFor();
    await page.getByRole("button", { name: "Read the log" }).click();
    await page.getByText("The run was in one process, which writes no log.").waitFor();
    assert.deepEqual(rig.errors, []);
  });
});
