/**
 * What scenarios of a console may read, by HTTP: uploads of their project, and nothing of the server's
 * user; and that credentials of a rack leave it by no file.
 */
import assert from "node:assert/strict";
import { ROOT } from "../../console/base/paths.ts";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PROJECT_LIMITS } from "../../console/api/page_terms.ts";
import { type Answer, TestConsole } from "../../console/server/app_testing.ts";
import { eventually } from "../support/eventually.ts";
import { removeUnlessKept } from "../support/leavings.ts";

const API = "/api/v1";
const PROGRAM = `export default function* ({ cpu }) { cpu.report("result", { all: "well" }); }\n`;
const text = (programs: string) =>
  `name: uploads\nhosts: { a: {}, b: {} }\nprograms: [${programs}]\n`;
const put = (file: string) =>
  text(`{ on: a, run: put, to: b, method: persist-opcode, file: "${file}" }`);

let cache: string, before: string | undefined;
let console: TestConsole, key: string, viewer: string;

beforeAll(async () => {
  cache = await Deno.realPath(await Deno.makeTempDir({ prefix: "rackmesh-uploads-" }));
  before = Deno.env.get("RACKMESH_CACHE");
  Deno.env.set("RACKMESH_CACHE", cache);
  console = new TestConsole({ isReal: true });
  [key, viewer] = [await console.signIn("operator"), await console.signIn("viewer")];
});

afterAll(async () => {
  await console.end();
  if (before === undefined) Deno.env.delete("RACKMESH_CACHE");
  else Deno.env.set("RACKMESH_CACHE", before);
  await removeUnlessKept(cache);
});

function upload(project: string, file: string, body: BodyInit): Promise<Answer> {
  return console.send("PUT", `${API}/projects/${project}/files/${encodeURIComponent(file)}`, {
    key,
    body,
    headers: { "Content-Type": "application/octet-stream" },
  });
}

async function good(method: string, path: string, json?: unknown): Promise<Answer["json"]> {
  const answer = await console.send(method, `${API}${path}`, { key, ...(json ? { json } : {}) });
  assert.equal(answer.status, 200, `${method} ${path}: ${answer.text}`);
  return answer.json;
}

/** The job when it has ended. */
async function ended(order: unknown): Promise<Answer["json"]> {
  const { id } = await good("POST", "/jobs", order);
  let detail: Answer["json"];
  await eventually("the job has ended", async () => {
    detail = await good("GET", `/jobs/${id}`);
    return detail.job.state !== "running";
  });
  return detail;
}

async function reads(): Promise<Record<string, unknown>[]> {
  const { entries } = await good("GET", "/audit");
  return entries.filter(({ action }: { action: string }) => action === "read");
}

describe("scenarios of a console", () => {
  it("read no file of the server's user, and no other project's", async () => {
    const secret = `${cache}/shadow`;
    await Deno.writeTextFile(secret, "root:HASHED");
    await upload("other", "theirs.bin", "theirs");
    const files = [secret, "../../../shadow", "../other/theirs.bin", "/etc/passwd"];
    for (const file of files) {
      const { problems, scenario } = await good("POST", "/scenarios/validate", { text: put(file) });
      assert.equal(scenario, null, file);
      assert.match(problems[0].found, /is outside of what this scenario may read/, file);
      const like = await good("POST", "/scenarios/validate", {
        text: put(file),
        like: "persist_pair",
      });
      assert.equal(like.scenario, null, file);
      const { job, result } = await ended({
        kind: "run",
        packing: "all",
        scenario: { text: put(file) },
      });
      assert.equal(job.state, "failed", file);
      assert.match(job.error, /is outside of what this scenario may read/);
      assert.equal(result, null);
    }
    // Of a perftest the programs of its own take the place of the scenario's.
    for (const kind of ["up", "explore", "chaos", "sweep"]) {
      const more = kind === "sweep" ? { vary: ["seed=1,2"] } : {};
      const { job } = await ended({ kind, scenario: { text: put(secret) }, ...more });
      assert.equal(job.state, "failed", kind);
      assert.match(job.error, /is outside of what/, kind);
    }
    assert.deepEqual(await reads(), []);
  });

  it("run with uploaded data and programs, and the audit log says what they read", async () => {
    assert.equal((await upload("mine", "data.bin", "some data")).status, 200);
    assert.equal((await upload("mine", "well.ts", PROGRAM)).status, 200);
    assert.deepEqual(
      (await good("GET", "/projects/mine/files")).files.map((file: { name: string }) => file.name),
      ["data.bin", "well.ts"],
    );
    const scenario = { text: text(`{ on: a, program: ./well.ts }`), project: "mine" };
    const { problems } = await good("POST", "/scenarios/validate", scenario);
    assert.deepEqual(problems, []);
    const { job, result } = await ended({ kind: "run", packing: "all", scenario });
    assert.equal(job.error, "");
    assert.deepEqual(result.report.results.map(({ value }: { value: unknown }) => value), [{
      all: "well",
    }]);
    // A changed shipped scenario begins in its own folder, and finds uploads all the same.
    const like = { text: put("data.bin"), like: "persist_pair", project: "mine" };
    const ran = await ended({ kind: "run", packing: "all", scenario: like });
    assert.deepEqual([ran.job.state, ran.job.error], ["done", ""]);
    const found = await reads();
    const own = "uploads/mine";
    assert.deepEqual(
      found.map(({ target, session, detail }) => [target, session, detail]).toReversed(),
      [
        [`${own}/well.ts`, "operator-1", { job: job.id }],
        [`${own}/data.bin`, "operator-1", { job: ran.job.id }],
      ],
    );
    // As it was run, it can be run again.
    const again = await good("GET", `/runs/${ran.job.run}/scenario`);
    const repeated = { text: again.text, project: "mine" };
    assert.deepEqual((await good("POST", "/scenarios/validate", repeated)).problems, []);
  });

  it("of a run are validated against its project, and a look at them is no entry in the log", async () => {
    await upload("looked", "well.ts", PROGRAM);
    const scenario = { text: text("{ on: a, program: ./well.ts }"), project: "looked" };
    const { job } = await ended({ kind: "run", packing: "all", scenario });
    assert.equal(job.state, "done", job.error);
    const before = await reads();
    const found = await good("GET", `/runs/${job.run}/scenario`);
    assert.deepEqual(found.problems, []);
    assert.equal(found.project, "looked");
    assert.equal((await reads()).length, before.length);
    await good("DELETE", "/projects/looked/files/well.ts");
    const [problem] = (await good("GET", `/runs/${job.run}/scenario`)).problems;
    assert.match(problem.found, /well\.ts/);
  });

  it("show nowhere in a run where the server keeps uploads", async () => {
    const bad =
      `export default function* ({ cpu }) { cpu.log("x"); throw new Error("it broke"); }\n`;
    await upload("bad", "bad.ts", bad);
    const scenario = { text: text("{ on: a, program: ./bad.ts }"), project: "bad" };
    const { job } = await ended({ kind: "run", packing: "all", scenario });
    const paths = [
      `/jobs/${job.id}`,
      "/jobs",
      `/runs/${job.run}/report`,
      `/runs/${job.run}/programs`,
      `/runs/${job.run}/file?path=report.json`,
    ];
    const told = async (path: string, by = viewer) => {
      const { status, text } = await console.send("GET", `${API}${path}`, { key: by });
      assert.equal(status, 200, path);
      for (const folder of [cache, ROOT]) {
        assert.ok(!text.includes(folder), `${path}: ${text}`);
      }
      return text;
    };
    for (const path of paths) {
      const text = await told(path);
      if (path !== "/jobs") assert.match(text, /it broke/, path);
    }
    assert.match(await told(`/runs/${job.run}/scenario`), /program: \.\/bad\.ts/);
    await told(`/runs/${job.run}/file?path=run.json`);
    await told(`/runs/${job.run}/file?path=scenario.yaml`);
    await told("/scenarios/new");
    await told("/audit", key);
    const outside = await console.send("POST", `${API}/scenarios/validate`, {
      ...{ key, json: { text: text("{ on: a, program: ../x.ts }"), project: "bad" } },
    });
    assert.match(outside.text, /may read \(uploads\/bad, \.\/scripts\/scenarios\)/);
    const report = await good("GET", `/runs/${job.run}/report`);
    assert.match(JSON.stringify(report.results), /uploads\/bad\/bad\.ts:1:/);
  });

  it("of a sweep have an entry for each file that any combination has read", async () => {
    for (const name of ["one.bin", "two.bin"]) await upload("swept", name, name);
    const { job, result } = await ended({
      kind: "sweep",
      scenario: { text: put("one.bin"), project: "swept" },
      vary: ["programs[0].file=one.bin,two.bin,none.bin"],
    });
    const states = result.sweep.combinations.map(({ state }: { state: string }) => state);
    assert.deepEqual(states, ["done", "done", "failed"]);
    const files = (await reads()).filter(({ detail }) =>
      (detail as { job?: string }).job === job.id
    ).map(({ target }) => String(target).replace(/.*\//, ""));
    assert.deepEqual(files.sort(), ["one.bin", "two.bin"]);
  });

  it("write into their run's directory alone", async () => {
    await upload("captures", "mine.txt", "years of work");
    await upload("captures", "well.ts", PROGRAM);
    for (const place of ["{ perfetto: mine.txt }", "{ pcap: ./pcap }"]) {
      const { job } = await ended({
        kind: "run",
        packing: "all",
        scenario: {
          text: `${text("{ on: a, program: ./well.ts }")}capture: ${place}\n`,
          project: "captures",
        },
      });
      assert.equal(job.state, "failed", place);
      assert.match(job.error, /writes into its run's directory alone/, place);
    }
    const kept = await console.send("GET", `${API}/projects/captures/files/mine.txt`, { key });
    assert.equal(kept.text, "years of work");
    assert.equal((await good("GET", "/projects/captures/files")).files.length, 2);
  });

  it("read below what the command line of the console names", async () => {
    const folder = `${cache}/named`;
    await Deno.mkdir(folder);
    await Deno.writeTextFile(`${folder}/data.bin`, "data");
    const named = new TestConsole({ isReal: true, allowRead: [folder] });
    const sent = { key: await named.signIn("operator"), json: { text: put(`${folder}/data.bin`) } };
    const { json } = await named.send("POST", `${API}/scenarios/validate`, sent);
    assert.deepEqual(json.problems, []);
    await named.end();
  });
});

describe("uploads", () => {
  it("have names that are files of their project alone", async () => {
    for (const name of ["../x", "a/b", ".hidden", "-x", "..", "x".repeat(101), "ä"]) {
      const { status } = await upload("names", name, "x");
      assert.ok(status === 400 || status === 404, `${name}: ${status}`);
    }
    for (const name of ["..", "A", "a_b", "-a", "x".repeat(41)]) {
      const status = (await upload(encodeURIComponent(name), "x", "x")).status;
      assert.ok(status === 400 || status === 404, `${name}: ${status}`);
    }
    assert.deepEqual((await good("GET", "/projects/names/files")).files, []);
    // A link that somebody has put there is no upload.
    await upload("names", "x.bin", "x");
    await Deno.symlink("/etc/passwd", `${cache}/console/projects/names/link.bin`);
    const link = await console.send("GET", `${API}/projects/names/files/link.bin`, { key });
    assert.equal(link.status, 404);
  });

  it("are replaced, read and deleted, and a project goes with its last file", async () => {
    await upload("one", "x.bin", "before");
    await upload("one", "x.bin", "after");
    const got = await console.send("GET", `${API}/projects/one/files/x.bin`, { key });
    assert.equal(got.text, "after");
    assert.match(got.headers.get("content-disposition")!, /^attachment/);
    const names = async () =>
      (await good("GET", "/projects")).projects.map(({ name }: { name: string }) => name);
    assert.ok((await names()).includes("one"));
    await good("DELETE", "/projects/one/files/x.bin");
    assert.ok(!(await names()).includes("one"));
    const gone = await console.send("DELETE", `${API}/projects/one/files/x.bin`, { key });
    assert.equal(gone.status, 404);
  });

  it("have room for so much, and one that is too large leaves nothing", async () => {
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(1 << 20)),
    });
    const large = await upload("large", "x.bin", endless);
    assert.equal(large.status, 413);
    assert.deepEqual((await good("GET", "/projects/large/files")).files, []);
    assert.deepEqual(
      (await good("GET", "/projects")).projects.filter(({ name }: { name: string }) =>
        name === "large"
      ),
      [],
    );
    const folder = `${cache}/console/projects/full`;
    await Deno.mkdir(folder);
    for (let i = 0; i < PROJECT_LIMITS.files; i++) await Deno.writeTextFile(`${folder}/f${i}`, "x");
    assert.equal((await upload("full", "more", "x")).status, 413);
    assert.equal((await upload("full", "f1", "instead")).status, 200);
    await Deno.truncate(`${folder}/f0`, PROJECT_LIMITS.projectBytes - 1_000);
    assert.equal((await upload("full", "f1", "x".repeat(1_001))).status, 413);
    assert.equal(
      (await console.send("GET", `${API}/projects/full/files/f1`, { key })).text,
      "instead",
    );
  });

  it("keep to their limits when several come in at once", async () => {
    const folder = `${cache}/console/projects/crowd`;
    await Deno.mkdir(folder);
    await Deno.writeTextFile(`${folder}/f0`, "x");
    await Deno.truncate(`${folder}/f0`, PROJECT_LIMITS.projectBytes - 1_000);
    const gates = ["a", "b"].map((name) => {
      const gate = new TransformStream<Uint8Array, Uint8Array>();
      const answer = console.send("PUT", `${API}/projects/crowd/files/${name}`, {
        key,
        body: gate.readable,
        // Without a length the server reads all of it first.
        headers: { "Content-Type": "application/octet-stream", "Content-Length": "600" },
      });
      return { gate: gate.writable.getWriter(), answer };
    });
    // Both have begun when either ends.
    for (const { gate } of gates) await gate.write(new Uint8Array(300));
    await eventually("both uploads are under way", () => {
      const halves = [...Deno.readDirSync(folder)].filter(({ name }) =>
        name.startsWith(".upload-")
      );
      return halves.length === 2;
    });
    for (const { gate } of gates) {
      await gate.write(new Uint8Array(300));
      await gate.close();
    }
    const answers = await Promise.all(gates.map(({ answer }) => answer));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 413]);
    assert.equal((await good("GET", "/projects/crowd/files")).files.length, 2);
    assert.deepEqual(
      [...Deno.readDirSync(folder)].filter(({ name }) => name.startsWith(".")),
      [],
    );
  });

  it("that a console has left half done go when one starts, but none that grows", async () => {
    const folder = `${cache}/console/projects/half`;
    await Deno.mkdir(folder);
    for (const name of [".upload-old", ".upload-new"]) {
      await Deno.writeTextFile(`${folder}/${name}`, "x");
    }
    const yesterday = new Date(Date.now() - 86_400_000);
    await Deno.utime(`${folder}/.upload-old`, yesterday, yesterday);
    console.projects.removeHalves();
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name), [".upload-new"]);
  });

  it("are a viewer's to read only", async () => {
    await upload("seen", "x.bin", "x");
    const path = `${API}/projects/seen/files/x.bin`;
    assert.equal((await console.send("GET", path, { key: viewer })).status, 200);
    const other = { key: viewer, body: "other" };
    assert.equal((await console.send("PUT", path, other)).status, 403);
    assert.equal((await console.send("DELETE", path, { key: viewer })).status, 403);
  });
});

describe("credentials of a rack", () => {
  it("are in no file and no line that leaves the console, and the log says what left", async () => {
    const run = "secret-20260101-120000-1a2b", folder = `${cache}/runs/${run}`;
    const word = "0123456789abcdef".repeat(3), other = "fedcba9876543210".repeat(3);
    await Deno.mkdir(`${folder}/inputs`, { recursive: true });
    await Deno.mkdir(`${folder}/logs`);
    await Deno.writeTextFile(`${folder}/supervisor.json`, JSON.stringify({ password: word }));
    await Deno.writeTextFile(`${folder}/nats-server.conf`, `user: "a", password: "${other}"`);
    await Deno.writeTextFile(`${folder}/inputs/0-mine`, `x ${word} y ${other}\n`);
    await Deno.writeTextFile(`${folder}/logs/a.log`, `it is ${word}\n`);
    const { files } = await good("GET", `/runs/${run}/files`);
    const paths = files.map(({ path }: { path: string }) => path);
    assert.ok(paths.includes("inputs/0-mine"), `${paths}`);
    for (const path of paths) {
      const file = await console.send("GET", `${API}/runs/${run}/file?path=${path}`, {
        key: viewer,
      });
      assert.equal(file.status, 200, path);
      assert.ok(!file.text.includes(word) && !file.text.includes(other), path);
    }
    const logs = await console.send("GET", `${API}/runs/${run}/logs`, { key: viewer });
    assert.equal(logs.status, 200);
    assert.ok(!logs.text.includes(word), logs.text);
    const { entries } = await good("GET", "/audit");
    const left = entries.filter(({ action, target, session }: Record<string, string>) =>
      action === "GET /api/v1/runs/…/file" && target!.includes(run) && session === "viewer-2"
    );
    assert.deepEqual(left.length, paths.length);
  });
});
