/**
 * The console's API on a rack of processes, without a browser: each answer is held against the schema that
 * the OpenAPI document has for it. The tests share one rack, in their order.
 */
import assert from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Batch, Message } from "../../console/api/feed.ts";
import { type Answer, type Sent, TestConsole } from "../../console/server/app_testing.ts";
import { catalogueRows } from "../../console/scenarios/catalogue.ts";
import { ifThere } from "../../console/base/files.ts";
import { isAlive, statOf } from "../../console/base/process_stat.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import { removeUnlessKept } from "../support/leavings.ts";
import { promProblems } from "../support/promlint.ts";
import { eventually } from "../support/eventually.ts";

const API = "/api/v1";

let cache: string;
let before: string | undefined;
let console: TestConsole;
let key: string;
let rack: string;
// deno-lint-ignore no-explicit-any
let document: any;
const ajv = new Ajv2020({ strict: false, validateFormats: false });
/** Method and route of each call. */
const called = new Set<string>();

beforeAll(async () => {
  cache = await Deno.makeTempDir({ prefix: "rackmesh-console-" });
  before = Deno.env.get("RACKMESH_CACHE");
  Deno.env.set("RACKMESH_CACHE", cache);
  console = new TestConsole({ isReal: true });
  key = await console.signIn("operator");
  document = (await console.send("GET", `${API}/openapi.json`, { key })).json;
  ajv.addSchema(document, "api");
});

afterAll(async () => {
  await console.end();
  await takeRacksDown({ all: true }).catch(() => {});
  if (before === undefined) Deno.env.delete("RACKMESH_CACHE");
  else Deno.env.set("RACKMESH_CACHE", before);
  await removeUnlessKept(cache);
});

/** Sends a request by its route, and holds the answer against the route's schema. */
async function call(
  route: string,
  names: Readonly<Record<string, string>> = {},
  { query = "", ...sent }: Sent & { readonly query?: string } = {},
): Promise<Answer> {
  const [method, template] = route.split(" ") as [string, string];
  const path = template.replaceAll(
    /\{(\w+)\}/g,
    (_, name) => encodeURIComponent(names[name] ?? rack),
  );
  const answer = await console.send(method, `${API}${path}${query}`, { key, ...sent });
  assertFits(route, answer);
  return answer;
}

function assertFits(route: string, { status, json, text }: Answer): void {
  const [method, template] = route.split(" ") as [string, string];
  const { responses } = document.paths[template]?.[method.toLowerCase()] ?? assert.fail(route);
  called.add(route);
  const name = status === 200 ? "200" : `${Math.floor(status / 100)}XX`;
  const content = responses[name]?.content ?? assert.fail(`${route}: ${status} ${text}`);
  const type = status < 400 ? "application/json" : "application/problem+json";
  if (content[type] === undefined) return;
  const pointer = [template, method.toLowerCase(), "responses", name, "content", type]
    .map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/");
  const validate = ajv.getSchema(`api#/paths/${pointer}/schema`)!;
  assert.ok(validate(json), `${route} ${status}: ${ajv.errorsText(validate.errors)}: ${text}`);
}

/** The answer's document, which has to be one of success. */
async function good(...given: Parameters<typeof call>): Promise<Answer["json"]> {
  const { status, json, text } = await call(...given);
  assert.equal(status, 200, `${given[0]}: ${text}`);
  return json;
}

async function refused(expected: string, ...given: Parameters<typeof call>): Promise<string> {
  const { status, json } = await call(...given);
  assert.equal(`${status} ${json.kind}`, expected, given[0]);
  return json.detail;
}

/** A page's feed. */
class Feed {
  readonly messages: Message[] = [];
  seq = 0;
  readonly #reader: ReadableStreamDefaultReader<string>;
  readonly done: Promise<void>;

  private constructor(response: Response) {
    this.#reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    this.done = this.#read();
  }

  static async open(query: string): Promise<Feed> {
    const response = await console.open("GET", `${API}/feed?${query}`, { key });
    assert.equal(response.status, 200, query);
    called.add("GET /feed");
    return new Feed(response);
  }

  async #read(): Promise<void> {
    const validate = ajv.getSchema("api#/components/schemas/Batch")!;
    let rest = "";
    for (;;) {
      const { value, done } = await this.#reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        const batch: Batch = JSON.parse(line);
        assert.ok(validate(batch), `${ajv.errorsText(validate.errors)}: ${line}`);
        this.messages.push(...batch.messages);
        this.seq = batch.seq;
      }
    }
  }

  async until<Type extends Message["type"]>(
    type: Type,
    fits: (message: Extract<Message, { type: Type }>) => boolean = () => true,
  ): Promise<Extract<Message, { type: Type }>> {
    let found: Extract<Message, { type: Type }> | undefined;
    await eventually(`a message ${type}`, () => {
      found = this.messages.find((message): message is Extract<Message, { type: Type }> =>
        message.type === type && fits(message as Extract<Message, { type: Type }>)
      );
      return found !== undefined;
    });
    return found!;
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
    await this.done;
  }
}

async function ended(job: string) {
  let detail: Answer["json"];
  await eventually(`the end of ${job}`, async () => {
    detail = await good("GET /jobs/{job}", { job });
    return !["running", "ending"].includes(detail.job.state);
  });
  return detail;
}

/** The processes of explorers that jobs of this console have started. */
function explorersOfJobs(module = "explore_main.ts"): number[] {
  const parentOf = (pid: number) => Number(statOf(pid)?.[1]);
  return [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter((pid) =>
    parentOf(parentOf(pid)) === Deno.pid &&
    ifThere(() => Deno.readTextFileSync(`/proc/${pid}/cmdline`))?.includes(module)
  );
}

describe("the console's API", () => {
  it("has no schema that is a named one and null at once, which nothing fits", () => {
    const wrong: unknown[] = [];
    JSON.stringify(document, (_, value) => {
      if (value?.allOf?.some?.((each: object) => "$ref" in each)) wrong.push(value);
      return value;
    });
    assert.deepEqual(wrong, []);
  });

  it("brings a rack up as a job, and lists it with the kept runs", async () => {
    const order = { kind: "up", scenario: { shipped: "persist_pair" }, method: "persist-opcode" };
    const both = await good("POST /jobs", {}, { json: order });
    const failed = await ended(both.id);
    assert.equal(failed.job.state, "failed");
    assert.match(failed.job.error, /stands for 2 runs/);
    // perftest has ended before the tests begin: what they do to the rack is all that happens then.
    const text = `
name: persist-pair
seed: 7
hosts: { a: {}, b: { ddio: on } }
programs:
  - { on: b, run: perftest-server }
  - { on: a, run: perftest, to: b, test: ib_write_lat, iterations: 11 }
`;
    const job = await good("POST /jobs", {}, { json: { kind: "up", scenario: { text } } });
    const detail = await ended(job.id);
    assert.equal(detail.job.state, "done", detail.job.error);
    rack = detail.result.run;
    const { runs } = await good("GET /runs");
    const row = runs.find(({ id }: { id: string }) => id === rack);
    assert.equal(`${row.state} ${row.scenario} ${row.isOwn}`, "up persist-pair true");
    await good("POST /runs/{run}/note", {}, { json: { note: "for Ada" } });
    const listed = async (query: string) => {
      const { runs } = await good("GET /runs", {}, { query });
      return runs.map(({ id }: { id: string }) => id);
    };
    assert.deepEqual(await listed("?text=ADA&state=up&verdict=none"), [rack]);
    assert.deepEqual(await listed("?method=write-flush"), []);
    await refused("400 bad-request", "GET /runs", {}, { query: "?sort=best" });
    const { jobs } = await good("GET /jobs");
    assert.deepEqual(jobs.map(({ id }: { id: string }) => id), [job.id, both.id]);
    const run = await good("GET /runs/{run}");
    assert.equal(run.hasReport, false);
    const { nodes, cables } = await good("GET /runs/{run}/topology");
    assert.equal(nodes.length, 5);
    assert.match((await good("GET /runs/{run}/scenario")).text, /name: persist-pair/);
    assert.ok(cables.some(({ name }: { name: string }) => name === "a-rnic/tor"));
    await eventually("perftest's figures", async () => {
      const { operations } = await good("GET /racks/{run}/devices/{node}", { node: "a" });
      return operations[0]?.count === 10;
    });
  });

  it("tells a page the state first, then each change, and goes on where a page was", async () => {
    const feed = await Feed.open(`run=${rack}`);
    const state = await feed.until("state");
    assert.ok(state.nodes.every(({ power }) => power));
    await feed.until("counters");
    const dead = await good("POST /racks/{run}/power", {}, { json: { action: "kill", node: "b" } });
    assert.deepEqual(dead.nodes, ["b"]);
    const told = await feed.until("power", ({ action }) => action === "kill");
    assert.equal(told.atPs, dead.atPs);
    // A number of an earlier server: what was missed is said, and the state is new.
    const late = await Feed.open(`run=${rack}&after=1`);
    const newState = await late.until("state");
    assert.equal(late.messages[0]?.type, "dropped");
    assert.equal(newState.nodes.find(({ name }) => name === "b")?.power, false);
    const { seq } = feed;
    await feed.close();
    const healed = await good("POST /racks/{run}/heal");
    assert.deepEqual([healed.started, healed.problems], [["b"], []]);
    const again = await Feed.open(`run=${rack}&after=${seq}`);
    await again.until("power", ({ action }) => action === "start");
    assert.ok(!again.messages.some(({ type }) => type === "state" || type === "dropped"));
    await again.close();
    await late.close();
    assert.equal(console.watchers.size, 1);
    await eventually("nobody watches", () => console.watchers.size === 0);
  });

  it("C-09: shuts a host down in order, at once or when time goes on, and refuses a card", async () => {
    const power = "POST /racks/{run}/power";
    const shutDown = { action: "shutdown", node: "b", withinPs: 50 * PS_PER_US };
    const done = await good(power, {}, { json: shutDown });
    assert.deepEqual(done.nodes, ["b"]);
    assert.ok(done.atPs > 50 * PS_PER_US);
    assert.match(await refused("422 refused", power, {}, { json: shutDown }), /b has no power/);
    await good("POST /racks/{run}/heal");
    const short = { ...shutDown, withinPs: 1 };
    // It begins when a core has its turn, which may be later.
    const left =
      /b's power went off at .*(1 ps after its shutdown had begun and before|before its)/;
    assert.match(await refused("409 failed", power, {}, { json: short }), left);
    await good("POST /racks/{run}/heal");
    const card = { ...shutDown, node: "b-rnic" };
    assert.match(await refused("422 refused", power, {}, { json: card }), /expected a host/);
    await good("POST /racks/{run}/time", {}, { json: { order: "pause" } });
    const held = await good(power, {}, { json: { action: "shutdown", node: "b" } });
    assert.deepEqual(held, { nodes: [], atPs: null });
    await good("POST /racks/{run}/time", {}, { json: { order: "resume" } });
    await eventually("b is off", async () => {
      const state = await refused("422 refused", power, {}, { json: shutDown }).catch(() => "");
      return /b has no power/.test(state);
    });
    await good("POST /racks/{run}/heal");
  });

  it("puts, lists, reads and removes objects by RDMA", async () => {
    const names = { host: "b", object: "x y/z.bin" };
    const content = new Uint8Array(10_000).map((_, i) => i);
    const put = await good("PUT /racks/{run}/objects/{host}/{object}", names, { body: content });
    assert.equal(put.promises, true);
    const { objects } = await good("POST /racks/{run}/objects/{host}/list", names);
    assert.deepEqual(objects, [{ name: names.object, length: 10_000 }]);
    const get = "POST /racks/{run}/objects/{host}/{object}/get";
    const path = `${API}/racks/${rack}/objects/b/${encodeURIComponent(names.object)}/get`;
    called.add(get);
    const response = await console.open("POST", path, { key });
    assert.deepEqual(new Uint8Array(await response.arrayBuffer()), content);
    await good("DELETE /racks/{run}/objects/{host}/{object}", names);
    assert.match(await refused("409 failed", get, names), /not-found/);
  });

  it("says at once that time stands to who would list, put or get, unless they wait for it", async () => {
    const names = { host: "b", object: "x" }, list = "POST /racks/{run}/objects/{host}/list";
    await good("POST /racks/{run}/time", {}, { json: { order: "pause" } });
    const { clock: { events } } = await good("GET /racks/{run}/why");
    const put = "PUT /racks/{run}/objects/{host}/{object}";
    const told = await Promise.all([
      refused("409 failed", list, names),
      refused("409 failed", put, names, { body: new Uint8Array(8) }),
      refused("409 failed", "POST /racks/{run}/objects/{host}/{object}/get", names),
      refused("409 failed", "DELETE /racks/{run}/objects/{host}/{object}", names),
    ]);
    for (const each of told) assert.match(each, /^Time is held at .*wait=true$/);
    const waiting = good(list, names, { query: "?wait=true" });
    await good("POST /racks/{run}/time", {}, { json: { order: "resume" } });
    assert.deepEqual((await waiting).objects, [], "what was refused did not come later");
    const { clock } = await good("GET /racks/{run}/why");
    assert.ok(clock.events > events);
  });

  it("orders cable faults with a scenario's words, and ends them", async () => {
    const path = "POST /racks/{run}/links";
    const loss = { target: "a-rnic/tor", action: "loss", value: "50%", forPs: 1_000_000_000_000 };
    const { fault } = await good(path, {}, { json: loss });
    const { faults } = await good("GET /racks/{run}/links");
    assert.equal(faults.find((each: { fault: number }) => each.fault === fault).action, "loss");
    const { healed } = await good("POST /racks/{run}/heal");
    assert.deepEqual(healed, ["a-rnic/tor"]);
    for (
      const [json, message] of [
        [{ ...loss, target: "x-rnic" }, /target/],
        [{ ...loss, value: "150%" }, /150%/],
        [{ target: "a", action: "loss" }, /value/],
      ] as const
    ) assert.match(await refused("422 refused", path, {}, { json }), message);
  });

  it("locks a rack for its owner, and attaches none that does not answer", async () => {
    const path = "/racks/{run}/lock";
    assert.equal((await good(`POST ${path}`, {}, { json: { action: "lock" } })).isLocked, true);
    const { owner, isLocked } = await good(`GET ${path}`);
    assert.deepEqual([owner.session, isLocked], [(await good("GET /session")).session, true]);
    await good(`POST ${path}`, {}, { json: { action: "unlock" } });
    const { users } = await good("GET /users");
    assert.ok(users.length > 0);
    const nowhere = { json: { url: "http://127.0.0.1/" } };
    assert.match(
      await refused("422 refused", "POST /racks", {}, nowhere),
      /nats:\/\/user:password/,
    );
  });

  it("holds, steps and continues time", async () => {
    const path = "POST /racks/{run}/time";
    const paused = await good(path, {}, { json: { order: "pause" } });
    assert.equal(paused.clock.paused, true);
    const { clock } = await good("GET /racks/{run}/why");
    assert.match(clock.why, /paused/);
    await refused("422 refused", path, {}, { json: { order: "until" } });
    await refused("422 refused", path, {}, { json: { order: "until", atPs: 1 } });
    const wrong = (order: object) => {
      return refused("400 bad-request", path, {}, { json: { order: "until", ...order } });
    };
    assert.match(
      await wrong({ step: "S907; rm" }),
      /S907; rm.*one of S201–S214, .*persistence-ack/,
    );
    assert.match(await wrong({ breaks: [{ step: "S970" }] }), /S970.*expected S907 \(one of /);
    await good(path, {}, { json: { order: "step", events: 2 } });
    const last = { order: "until", breaks: [{ step: "S903" }], atPs: clock.virtualPs + 1_000 };
    assert.deepEqual((await good(path, {}, { json: last })).clock.hits, []);
    await good(path, {}, { json: { order: "pace", psPerSecond: 1_000_000 } });
    await good(path, {}, { json: { order: "pause" } });
    const resumed = await good(path, {}, { json: { order: "resume" } });
    assert.deepEqual([resumed.clock.paused, resumed.clock.psPerSecond], [false, 1_000_000]);
    const full = await good(path, {}, { json: { order: "pace", psPerSecond: 0 } });
    assert.equal(full.clock.psPerSecond, 0);
  });

  it("says what processes and devices do, and what a power cut would lose", async () => {
    const { processes } = await good("GET /racks/{run}/processes");
    assert.equal(processes.length, 8);
    const { nodes, missing } = await good("GET /racks/{run}/counters");
    assert.deepEqual([Object.keys(nodes).sort(), missing], [
      ["a", "a-rnic", "b", "b-rnic", "tor"],
      [],
    ]);
    const card = await good("GET /racks/{run}/devices/{node}", { node: "b-rnic" });
    assert.ok(card.rnic.queuePairs.length > 0);
    const host = await good("GET /racks/{run}/devices/{node}", { node: "b" }, {
      query: "?loss=true",
    });
    assert.equal(host.loss.domain, "adr");
  });

  it("replays the run to any instant", async () => {
    assert.deepEqual(await good("GET /runs/{run}/replay"), { state: "closed" });
    const timeline = await good("GET /runs/{run}/timeline");
    assert.deepEqual(await good("GET /runs/{run}/replay"), { state: "ready" });
    assert.ok(timeline.isLive);
    assert.deepEqual(
      timeline.faults.map(({ action }: { action: string }) => action).slice(0, 2),
      ["kill", "start"],
    );
    const at = timeline.faults[0].at;
    const told = await good("GET /runs/{run}/programs", {}, { query: "?host=a" });
    assert.ok(told.programs.some(({ state }: { state: string }) => state === "ended"));
    const { checks } = await good("GET /runs/{run}/verdicts");
    assert.ok(checks.every(({ state }: { state: string }) => state !== "fails"));
    const off = await good("GET /runs/{run}/snapshot", {}, { query: `?at=${at + 1}` });
    const b = off.devices.find(({ node }: { node: string }) => node === "b");
    assert.equal(b.hasPower, false);
    await good("GET /runs/{run}/memory", {}, { query: `?host=b&at=${timeline.endPs}` });
    const map = { query: `?host=b&at=${timeline.endPs}&from=0&to=${1 << 20}&parts=4` };
    assert.equal((await good("GET /runs/{run}/memory-map", {}, map)).partBytes, 1 << 18);
    await good("GET /runs/{run}/loss", {}, { query: "?nodes=b" });
    const { operations, all } = await good("GET /runs/{run}/operations", {}, {
      query: "?most=1000",
    });
    assert.equal(operations.length, all);
    const { node: on, kind } = operations.find(({ status }: { status: string }) =>
      status === "completed"
    );
    const isOne = (row: { node: string; kind: string; status: string }) =>
      row.node === on && row.kind === kind && row.status === "completed";
    const wanted = `?on=${on}&kind=${kind}&status=completed&minPs=1&sort=duration&most=2`;
    const fit = await good("GET /runs/{run}/operations", {}, { query: wanted });
    assert.ok(fit.operations.length > 0 && fit.operations.every(isOne), JSON.stringify(fit));
    assert.equal(fit.total, operations.filter(isOne).length);
    const wrong = { query: "?status=lost" };
    assert.match(await refused("400 bad-request", "GET /runs/{run}/operations", {}, wrong), /open/);
    const search = { query: "?at=0&before=0&after=2&text=loses%20power" };
    const searched = await good("GET /runs/{run}/events", {}, search);
    assert.match(searched.rows[0].text, /b.* loses power/);
    const query = `?index=${operations[0].index}`;
    const { json: ladder, text } = await call("GET /runs/{run}/ladder", {}, { query });
    assert.ok(ladder.rows.length > 0);
    await good("GET /runs/{run}/density", {}, { query: "?buckets=10&byNode=true" });
    const cable = "cable=a-rnic%2Ftor";
    const history = await good("GET /runs/{run}/cable-history", {}, { query: `?${cable}` });
    for (const { sentBytes } of history.directions) {
      assert.equal(sentBytes.length, history.at.length);
    }
    const capture = await call("GET /runs/{run}/cable-capture", {}, { query: `?${cable}&last=3` });
    assert.deepEqual([capture.status, capture.headers.get("X-Frames")], [200, "3"]);
    await refused("422 refused", "GET /runs/{run}/cable-capture", {}, { query: "?cable=nothing" });
    await good("GET /runs/{run}/events", {}, { query: `?at=${at}&before=5&after=5` });
    const { step, node } = ladder.rows.at(-1);
    const found = await good("GET /runs/{run}/find", {}, {
      query: `?after=0&node=${node}&step=${encodeURIComponent(step)}`,
    });
    assert.equal(found.event?.name, step, text);
    const asText = `?step=${encodeURIComponent(`${node}:${step}`)}`;
    assert.deepEqual(await good("GET /runs/{run}/find", {}, { query: asText }), found);
    const unknown = { query: "?step=b:S970" };
    assert.match(
      await refused("400 bad-request", "GET /runs/{run}/find", {}, unknown),
      /b:S970.*: S907 \(one of /,
    );
    const same = await good("GET /runs/{run}/compare", {}, { query: `?with=${rack}` });
    assert.equal(same.isSame, true);
    assert.equal(console.replays.size, 1);
  });

  it("keeps where the rack stood, and brings one up there as a job", async () => {
    const path = "POST /runs/{run}/checkpoints";
    const { endPs, faults: [kill] } = await good("GET /runs/{run}/timeline");
    const now = await good(path, {}, { json: {} });
    assert.ok(now.name === "c1" && now.atPs >= endPs, `${now.atPs} ${endPs}`);
    const dead = await good(path, {}, { json: { name: "dead", atPs: kill.at + 1 } });
    const { checkpoints } = await good("GET /runs/{run}/checkpoints");
    assert.deepEqual(checkpoints, [dead, now]);
    const remove = "DELETE /runs/{run}/checkpoints/{checkpoint}";
    await refused("422 refused", remove, { checkpoint: "c1" }, { query: "?variant=2" });
    await good(remove, { checkpoint: "c1" });
    assert.match(
      await refused("422 refused", remove, { checkpoint: "c1" }),
      /expected one of dead/,
    );
    assert.deepEqual((await good("GET /runs/{run}")).checkpoints, ["dead"]);
    const late = { atPs: 2 * now.atPs };
    assert.match(await refused("422 refused", path, {}, { json: late }), /The instant is/);
    await refused("422 refused", path, {}, { json: { name: "../x" } });
    await refused("404 not-found", path, { run: "none" }, { json: {} });
    const order = { kind: "resume", run: rack, at: "dead" };
    await refused("404 not-found", "POST /jobs", {}, { json: { ...order, run: rack.slice(1) } });
    const { job, result } = await ended((await good("POST /jobs", {}, { json: order })).id);
    assert.equal(job.state, "done", job.error);
    assert.deepEqual(
      [result.atPs, result.digest, result.from],
      [kill.at + 1, dead.digest, rack],
    );
    const { clock } = await good("GET /racks/{run}/why", { run: result.run });
    assert.equal(clock.paused, true);
    await good("POST /runs/{run}/down", { run: result.run });
  });

  it("measures racks for Prometheus", async () => {
    const { text, headers } = await console.send("GET", "/metrics", { key });
    assert.match(headers.get("content-type")!, /^text\/plain; version=0\.0\.4/);
    const value = (name: string, labels: string) => {
      const line = text.split("\n").find((each) =>
        each.startsWith(`${name}{`) && each.includes(labels)
      );
      return Number(line?.split(" ").at(-1) ?? assert.fail(`${name} ${labels} in ${text}`));
    };
    assert.equal(value("rackmesh_up", rack), 1);
    assert.ok(value("rackmesh_virtual_seconds_total", rack) > 0);
    assert.ok(value("rackmesh_link_bytes_total", 'from="a-rnic"') > 10_000);
    assert.equal(value("rackmesh_device_power", 'node="b"'), 1);
    assert.equal(value("rackmesh_scm_volatile_bytes", 'node="b",place="iio"'), 0);
    // The object that was put.
    const put = 'node="a",operation="put",method="persist-opcode"';
    assert.equal(value("rackmesh_promised_bytes_total", put), 10_000);
    const messages = value("rackmesh_operation_latency_seconds_count", put);
    assert.ok(messages > 0);
    const mean = value("rackmesh_operation_latency_seconds_sum", put) / messages;
    assert.ok(mean > 1e-6 && mean < 1e-3, `${mean} s of virtual time`);
    // Between 11 posts are 10 latencies.
    const test = 'node="a",test="ib_write_lat",bytes="2"';
    assert.equal(value("rackmesh_perftest_latency_seconds_count", test), 10);
    const oneWay = value("rackmesh_perftest_latency_seconds_sum", test) / 10;
    assert.ok(oneWay > 0.8e-6 && oneWay < 2e-6, `${oneWay} s of virtual time`);
    assert.ok(!text.includes('operation="perftest"'));
    assert.ok(value("rackmesh_link_bytes_total", 'from="tor"') > 1_000);
    assert.equal(value("rackmesh_switch_queue_bytes", 'from="tor"'), 0);
    assert.ok(value("rackmesh_grants_waited_for", rack) >= 0);
    assert.deepEqual(promProblems(text), []);
  });

  it("checks names against what there is before anything is done", async () => {
    const none = [
      "..",
      "../../etc",
      "%2e%2e",
      "none",
      `${rack}x`,
      rack.slice(0, -1),
      "a b;rm -rf /",
    ];
    for (const run of none) {
      const path = "POST /racks/{run}/power";
      const { status } = await console.send(
        "POST",
        `${API}/racks/${encodeURIComponent(run)}/power`,
        { key, json: { action: "kill", node: "b" } },
      );
      assert.equal(status, 404, run);
      called.add(path);
    }
    for (const node of ["none", "../b", "supervisor", ""]) {
      const json = { action: "kill", node };
      const { status } = await call("POST /racks/{run}/power", {}, { json });
      assert.ok(status === 422 || status === 400, node);
    }
    const file = "GET /runs/{run}/file";
    for (
      const path of ["../../../etc/passwd", "/etc/passwd", "supervisor.json", "scm/../run.json"]
    ) {
      await refused("404 not-found", file, {}, { query: `?path=${encodeURIComponent(path)}` });
    }
    const { files } = await good("GET /runs/{run}/files");
    const paths = files.map(({ path }: { path: string }) => path);
    assert.ok(paths.includes("run.json") && !paths.includes("supervisor.json"), paths.join());
    const { status, text } = await call(file, {}, { query: "?path=run.json" });
    assert.equal(status, 200);
    assert.equal(JSON.parse(text).plan.scenario, "persist-pair");
    const { lines } = await good("GET /runs/{run}/logs", {}, { query: "?last=5" });
    assert.ok(lines.length > 0 && lines.length <= 5);
    await refused("404 not-found", "GET /runs/{run}/report");
  });

  it("has the scenarios, and all that is wrong with one", async () => {
    const { scenarios, protocols } = await good("GET /scenarios");
    const names = protocols.map(({ name }: { name: string }) => name);
    assert.deepEqual(names, catalogueRows().map(({ name }) => name));
    const like = "ack_before_flush", protocol = await good("GET /scenarios/{name}", { name: like });
    const read = await good("POST /scenarios/validate", {}, {
      json: { ...protocol, like, name: undefined },
    });
    assert.deepEqual(read.problems, [], "its program lies in the catalogue");
    const shipped = new Set(scenarios.map(({ name }: { name: string }) => name));
    assert.deepEqual(
      names.filter((name: string) => shipped.has(name)),
      [],
      "a name means one thing",
    );
    assert.ok(scenarios.some(({ name }: { name: string }) => name === "my_protocol"));
    const { text } = await good("GET /scenarios/{name}", { name: "my_protocol" });
    await good("GET /scenarios/{name}", { name: "new" });
    await refused("404 not-found", "GET /scenarios/{name}", { name: "../../deno" });
    const { $schema } = await good("GET /scenario-schema");
    assert.match($schema, /json-schema/);
    const path = "POST /scenarios/validate";
    const wrong = await good(path, {}, { json: { text: text.replace("seed:", "sed:") } });
    assert.equal(wrong.scenario, null);
    assert.ok(wrong.problems.length > 0 && wrong.problems[0].line > 0);
    // Its own program lies beside the shipped file.
    const right = await good(path, {}, { json: { text, like: "my_protocol" } });
    assert.deepEqual(right.problems, []);
  });

  it("runs a scenario's text, and ends a job that is asked to", async () => {
    const { text } = await good("GET /scenarios/{name}", { name: "persist_pair" });
    const choices = { method: "write-read", ddio: "on", packing: "all", size: 4096 };
    const order = { kind: "run", scenario: { text, like: "persist_pair" }, ...choices };
    const feed = await Feed.open("");
    const job = await good("POST /jobs", {}, { json: order });
    const detail = await ended(job.id);
    assert.equal(detail.job.state, "done", detail.job.error);
    assert.equal(detail.job.verdict, "every check holds");
    await feed.until("job", (message) => message.job.id === job.id && message.job.state === "done");
    await feed.until("runs");
    await feed.close();
    const report = await good("GET /runs/{run}/report", { run: detail.job.run });
    assert.deepEqual(report, detail.result.report);
    const run = await good("GET /runs/{run}", { run: detail.job.run });
    assert.deepEqual([run.verdict, run.digest], ["holds", report.digest]);
    await good("POST /runs/{run}/keep", { run: run.id }, { json: { keep: true, name: "mine" } });
    assert.equal((await good("GET /runs/{run}", { run: run.id })).mark, "mine");
    await good("POST /runs/{run}/keep", { run: run.id }, { json: { keep: false } });
    // The last of its processes may be ending.
    await eventually("the run is deleted", async () => {
      return (await call("DELETE /runs/{run}", { run: run.id })).status === 200;
    });
    const one = "method: write-flush\n    bytes: 16KiB\n";
    const small = text.replace("both", "on").replace(/method:\n(?: +- .*\n)+/, one);
    const vary = { kind: "sweep", scenario: { text: small }, vary: ["depth=1,2"], by: [] };
    const swept = await ended((await good("POST /jobs", {}, { json: vary })).id);
    assert.equal(swept.job.verdict, "2 of 2 done", swept.job.error);
    assert.equal(swept.result.sweep.combinations[1].report.methods[0].messages, 4);
    assert.match(swept.result.svg, /^<svg .*Median latency by depth: persist-pair/s);
    const explore = { kind: "explore", scenario: { shipped: "coherent_lock_pair" }, cut: "none" };
    const bounds = { preemptions: 1, stallPs: 20_000_000, interleavings: 4 };
    const tried = await ended(
      (await good("POST /jobs", {}, { json: { ...explore, ...bounds } })).id,
    );
    const { verdict, interleavings } = tried.result.explored.runs[0];
    assert.deepEqual([verdict, interleavings.preemptions], ["partial", 1], tried.job.error);
    assert.equal(interleavings.stallPs, bounds.stallPs);
    const none = { ...explore, preemptions: 0 };
    const why = await refused("400 bad-request", "POST /jobs", {}, { json: none });
    assert.match(why, /cut is "none" with preemptions 0, .*: expected one of the two/);
    const nobody = { ...explore, cut: { host: "nobody" } };
    const strange = await ended((await good("POST /jobs", {}, { json: nobody })).id);
    assert.match(strange.job.error, /^cut is "nobody": expected .*, each, all or none$/);
    await refused("400 bad-request", "POST /jobs", {}, { json: { ...explore, preemptions: 9 } });
  });

  it("explores with as many processes as an order says, with one verdict, and ends them with the job", async () => {
    const explore = { kind: "explore", scenario: { shipped: "coherent_lock_pair" }, cut: "none" };
    const found: unknown[] = [];
    for (const jobs of [1, 2]) {
      const json = { ...explore, interleavings: 4, jobs };
      const { job, result } = await ended((await good("POST /jobs", {}, { json })).id);
      const { wallMs: _, perSecond: __, ...verdict } = result?.explored.runs[0] ??
        assert.fail(job.error);
      found.push(verdict);
    }
    assert.deepEqual(found[1], found[0]);
    for (const jobs of [0, 1_025]) {
      await refused("400 bad-request", "POST /jobs", {}, { json: { ...explore, jobs } });
    }
    const { id } = await good("POST /jobs", {}, { json: { ...explore, jobs: 2 } });
    let explorers: number[] = [];
    await eventually("two processes explore", () => {
      explorers = explorersOfJobs();
      return explorers.length === 2;
    });
    await good("DELETE /jobs/{job}", { job: id });
    assert.equal((await ended(id)).job.state, "cancelled");
    assert.deepEqual(explorers.filter(isAlive), []);
    const matrix = await good("POST /jobs", {}, { json: { kind: "matrix", jobs: 2 } });
    await eventually("two processes explore the matrix", () => {
      explorers = explorersOfJobs("matrix_main.ts");
      return explorers.length === 2;
    });
    await eventually("it has cells", async () => {
      const { result } = await good("GET /jobs/{job}", { job: matrix.id });
      return result?.matrix.cells.length > 0;
    });
    await good("DELETE /jobs/{job}", { job: matrix.id });
    assert.equal((await ended(matrix.id)).job.state, "cancelled");
    assert.deepEqual(explorers.filter(isAlive), []);
  });

  it("tells a page that its rack has gone down", async () => {
    const feed = await Feed.open(`run=${rack}`);
    await feed.until("state");
    await refused("422 refused", "DELETE /runs/{run}");
    const down = await good("POST /runs/{run}/down");
    assert.equal(down.run, rack);
    await feed.until("ended");
    await feed.close();
    await refused("404 not-found", "GET /racks/{run}/why");
    await refused("404 not-found", "POST /racks/{run}/time", {}, { json: { order: "pause" } });
  });

  it("keeps sessions, links and the audit log by the same schemas, and none of it had a bug", async () => {
    const session = await good("GET /session");
    assert.equal(session.role, "operator");
    const { url } = await good("POST /links", {}, { json: { role: "viewer" } });
    const token = url.split("#token=")[1];
    const viewer = await good("POST /session", {}, { json: { token } });
    await good("DELETE /session", {}, { key: viewer.key });
    const { entries } = await good("GET /audit");
    assert.ok(entries.some(({ action }: { action: string }) => action.includes("/power")));
    assert.deepEqual(console.errors, []);
  });

  it("takes uploads, lists them, gives them back and deletes them", async () => {
    const names = { project: "uploads", file: "data.bin" };
    const path = "/projects/{project}/files/{file}";
    const body = new Uint8Array([1, 2, 3]);
    const headers = { "Content-Type": "application/octet-stream" };
    const { bytes } = await good(`PUT ${path}`, names, { body, headers });
    assert.equal(bytes, 3);
    const { projects } = await good("GET /projects");
    assert.deepEqual(projects, [{ name: "uploads", files: 1, bytes: 3 }]);
    const { files } = await good("GET /projects/{project}/files", names);
    assert.deepEqual(files.map(({ name }: { name: string }) => name), ["data.bin"]);
    assert.equal((await call(`GET ${path}`, names)).text, "\x01\x02\x03");
    await good(`DELETE ${path}`, names);
    await refused("404 not-found", `GET ${path}`, names);
  });

  it("describes every route that there is, each of which was called", () => {
    const routes = Object.entries<Record<string, unknown>>(document.paths).flatMap((
      [path, methods],
    ) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    assert.deepEqual([...called].sort(), routes.sort());
  });
});
