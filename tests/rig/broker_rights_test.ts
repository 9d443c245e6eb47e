/**
 * The rights of each user of a rack's broker, tried with every user's credential on every subject of
 * every other one: directly, by reply, by import, through a queue group. What each may do is said here
 * anew, by the cables, and not read out of the table that the broker is given.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { readProcesses } from "../../console/rack/process_table.ts";
import { prepare } from "../../console/rack/prepare.ts";
import { type NatsServer, startNatsServer } from "../../console/rack/nats_server.ts";
import { accessOfContainers, accessOfProcesses, USERS } from "../../fabric/bus/access.ts";
import { until } from "../../fabric/bus/bus_contract.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { parseSubject, subjectOf } from "../../fabric/bus/subjects.ts";
import { BUS_ENVIRONMENT } from "../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import { encodeSealed } from "../../fabric/bus/codec.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { contentOf } from "../support/process_rack.ts";
import { CommandRig, processesNaming } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

const RUN = "r1";
const SCENARIO = "name: three\nhosts: { a: {}, b: {}, c: {} }\n";
/** Subjects beside those of a rack: NATS's own, whose services answer on any subject that is named. */
const FOREIGN = [
  "foreign",
  "rack.other.clock.ask",
  "_INBOX.x.1",
  "$SYS.REQ.USER.INFO",
  "$SYS.REQ.ACCOUNT.PING.CONNZ",
  "$SYS.REQ.SERVER.PING",
  "$JS.API.INFO",
];
/** What a viewer may ask: nothing of it changes a device or the clock. */
const QUERIES = /^(status|faults|steps|(final|inspect)-.*)$/;
/** What parents hear and say of their process, and files of plans and machines. */
const OF_PARENTS = /^(kill|boot|process|leave|death|plan|files)-/;
/** Who keeps the time of which run: not of one run. */
const CENSUS = { asks: "rack._.control.racks", answers: "rack._.control.rack" };
/** May do anything: looks on, and plays all others. */
const OBSERVER = "_observer";

for (
  const [place, accessOf] of [["processes", accessOfProcesses], [
    "containers",
    accessOfContainers,
  ]] as const
) {
  describe(`the broker of a rack of ${place}`, () => {
    const inContainers = place === "containers";
    let dir: string;
    let server: NatsServer;
    let rack: { plan: RackPlan; partitions: readonly { name: string; nodes: readonly string[] }[] };
    let users: string[];
    let subjects: string[];
    let open: RawClient[];

    beforeEach(async () => {
      dir = await Deno.makeTempDir({ prefix: "rackmesh-rights-" });
      await Deno.writeTextFile(`${dir}/three.yaml`, SCENARIO);
      rack = (await prepare(await readScenario(`${dir}/three.yaml`), { packing: "node" }))[0]!;
      const rights = accessOf({ ...rack, run: RUN });
      users = [...rights.keys()];
      subjects = subjectsOf(users, rack.partitions.map(({ name }) => name));
      const all = { publish: [">"], subscribe: [">"] };
      server = await startNatsServer({ dir, users: new Map([...rights, [OBSERVER, all]]) });
      open = [];
    });

    afterEach(async () => {
      for (const client of open) client.close();
      await server.stop();
      await Deno.remove(dir, { recursive: true });
    });

    const connect = async (user: string) => {
      const client = await RawClient.connect(server, user);
      open.push(client);
      return client;
    };

    it("lets each user publish what is its own, and nothing else", async () => {
      const observer = await connect(OBSERVER);
      await observer.send("SUB > 1");
      for (const user of users) {
        const client = await connect(user);
        for (const subject of subjects) await client.publish(subject, { body: user });
        await client.send();
        await observer.send();
        const heard = observer.take().map(({ subject }) => subject);
        assert.deepEqual(heard.sort(), subjects.filter((s) => mayPublish(user, s)).sort(), user);
      }
    });

    it("lets no user publish on another's subject by naming it for a reply", async () => {
      const observer = await connect(OBSERVER);
      for (const user of users) {
        const client = await connect(user);
        const own = subjects.filter((subject) => mayHear(user, subject));
        await client.send(...own.map((subject, sid) => `SUB ${subject} ${sid + 1}`));
        const forbidden = subjects.filter((subject) => !mayPublish(user, subject));
        await observer.send("SUB > 1");
        for (const [i, reply] of forbidden.entries()) {
          // The request is another's, its own to itself, or one that a service of NATS would answer.
          const on = own[i % own.length]!;
          await observer.publish(on, { reply, body: "asked" });
          for (const subject of [on, ...FOREIGN]) {
            await client.publish(subject, { reply, body: "asked" });
          }
        }
        await observer.send();
        await client.send();
        assert.ok(client.take().length >= forbidden.length, "it was asked");
        for (const reply of forbidden) await client.publish(reply, { body: "forged" });
        await client.send();
        await observer.send();
        const forged = observer.take().filter(({ subject, body }) =>
          body !== "asked" && !mayPublish(user, subject)
        );
        assert.deepEqual(forged, [], user);
        await observer.send("UNSUB 1");
      }
    });

    it("lets each user hear what is its own, by no subscription anything else", async () => {
      const observer = await connect(OBSERVER);
      const wide = [">", "*", "rack.>", "*.>", `rack.${RUN}.>`, `rack.${RUN}.wire.>`, "$SYS.>"];
      for (const user of users) {
        const client = await connect(user);
        // A member of a queue group takes a message away from the others.
        const patterns = [...subjects, ...wide, `rack.${RUN}.wire.*.*`]
          .flatMap((pattern) => [pattern, `${pattern} thieves`]);
        await client.send(...patterns.map((pattern, sid) => `SUB ${pattern} ${sid + 1}`));
        for (const subject of subjects) await observer.publish(subject, { body: "secret" });
        await observer.send();
        await client.send();
        const heard = new Set(client.take().map(({ subject }) => subject));
        const hears = subjects.filter((subject) => mayHear(user, subject));
        assert.deepEqual([...heard].sort(), hears.sort(), user);
        client.close();
      }
    });

    /** By its fields: who the sender of a subject is. */
    function mayPublish(user: string, subject: string): boolean {
      if (subject === CENSUS.answers) return user === USERS.timekeeper;
      if (subject === CENSUS.asks) return user === USERS.supervisor || !user.startsWith("_");
      const name = parseSubject(subject);
      if (name?.run !== RUN) return false;
      switch (name.kind) {
        case "wire":
          return name.from === user && areCabled(name.from, name.to);
        case "again":
          return name.asker === user && areCabled(name.asker, name.of);
        case "clock.join":
        case "clock.alive":
        case "clock.report":
          return name.partition === user;
        case "report":
        case "trace":
          return name.node === user;
        case "answer":
          // In containers the supervisor is the console, which nobody asks.
          return name.by === user && user !== USERS.report && user !== USERS.viewer &&
            (user !== USERS.supervisor || !inContainers);
        case "clock.grant":
        case "clock.order":
        case "clock.ask":
          return user === USERS.timekeeper;
        case "control":
          if (/^(finished|stalled|power)$/.test(name.verb)) return user === USERS.timekeeper;
          if (OF_PARENTS.test(name.verb)) return mayPublishOfParents(user, name.verb);
          if (inContainers && /^(death|boot|kill|process)$/.test(name.verb)) return false;
          return user === USERS.supervisor ||
            (user === USERS.report && /^(status|final-.*)$/.test(name.verb)) ||
            (user === USERS.viewer && QUERIES.test(name.verb));
      }
    }

    function mayHear(user: string, subject: string): boolean {
      if (subject === CENSUS.asks) return user === USERS.timekeeper;
      if (subject === CENSUS.answers) return user === USERS.supervisor || !user.startsWith("_");
      const name = parseSubject(subject);
      if (name?.run !== RUN) return false;
      if (user === USERS.supervisor && !inContainers) return true;
      const isWatching = user === USERS.viewer || user === USERS.supervisor;
      const asks = isWatching || user === USERS.report || !user.startsWith("_");
      switch (name.kind) {
        case "wire":
          return name.to === user && areCabled(name.from, name.to);
        case "again":
          return name.of === user && areCabled(name.asker, name.of);
        case "clock.join":
        case "clock.alive":
          return user === USERS.timekeeper;
        case "clock.report":
          return user === USERS.timekeeper || isWatching;
        case "clock.grant":
        case "clock.order":
          return name.partition === user;
        case "clock.ask":
          return rack.partitions.some((partition) => partition.name === user);
        case "report":
          return user === USERS.report || isWatching;
        case "answer":
          return name.asker === user && asks;
        case "control":
          if (/^(finished|stalled|power)$/.test(name.verb)) return isWatching;
          if (OF_PARENTS.test(name.verb)) return mayHearOfParents(user, name.verb);
          if (/^(boot|kill|process)$/.test(name.verb)) return false;
          if (/^(final|inspect)-/.test(name.verb)) {
            return [`final-${user}`, `inspect-${user}`].includes(name.verb);
          }
          if (name.verb === "steps") return !user.startsWith("_");
          return user === USERS.timekeeper;
        case "trace":
          return isWatching;
      }
    }

    /** Orders are the supervisor's, and a parent speaks of its own process alone. */
    function mayPublishOfParents(user: string, verb: string): boolean {
      const isDevice = !user.startsWith("_"), isSupervisor = user === USERS.supervisor;
      const [what, of] = [verb.slice(0, verb.indexOf("-")), verb.slice(verb.indexOf("-") + 1)];
      switch (what) {
        case "death":
          return isDevice && of === user;
        case "plan":
          return of === user && (isDevice || isSupervisor || user === USERS.report);
        case "files":
          // In containers no supervisor has files.
          return (isSupervisor || user === USERS.report) &&
            (!of.startsWith("_") || of === USERS.timekeeper ||
              (of === USERS.supervisor && !inContainers));
        case "process":
          return isSupervisor || (isDevice && of === user) ||
            (inContainers && user === USERS.viewer);
        case "leave":
          return isSupervisor && !inContainers;
        default:
          return isSupervisor;
      }
    }

    function mayHearOfParents(user: string, verb: string): boolean {
      const isTimekeeper = user === USERS.timekeeper;
      if (verb === `files-${USERS.timekeeper}`) return isTimekeeper;
      if (verb.startsWith("death-")) return isTimekeeper;
      if (verb.startsWith("plan-")) {
        const of = verb.slice("plan-".length);
        return isTimekeeper && ![USERS.timekeeper, USERS.viewer].some((other) => other === of);
      }
      return !user.startsWith("_") && verb.endsWith(`-${user}`);
    }

    function areCabled(x: string, y: string): boolean {
      return rack.plan.cables.some(({ a, b }) =>
        (a.node === x && b.node === y) || (a.node === y && b.node === x)
      );
    }
  });
}

describe("a rack that rack up has brought up", () => {
  it("has given each process a credential of its own, which does not act as another", async () => {
    const rig = await CommandRig.open();
    try {
      const scenario = await rig.file("three.yaml", SCENARIO);
      assert.equal((await rig.run(["up", scenario])).code, 0);
      const [directory] = rig.runs();
      const { run } = JSON.parse(await Deno.readTextFile(`${directory}/run.json`));
      const entries = readProcesses(directory!).filter(({ kind }) =>
        kind === "partition" || kind === "timekeeper"
      );
      const credentials = entries.map(({ name, pid }) => ({ name, ...credentialOf(pid!) }));
      assert.equal(credentials.length, 8);
      assert.equal(new Set(credentials.map(({ password }) => password)).size, 8);
      for (const { name, user } of credentials) {
        assert.equal(user, name === "timekeeper" ? USERS.timekeeper : name);
      }
      // What stands in one's environment neither kills nor orders, nor is there a common one.
      const a = credentials.find(({ name }) => name === "a")!;
      const refused: string[] = [];
      const onError = (error: Error) => refused.push(error.message);
      const bus = await connectNats({ ...a, run, name: "a", onError });
      const grant = subjectOf({ kind: "clock.grant", run, partition: "b" });
      const kill = subjectOf({ kind: "control", run, verb: "kill" });
      for (const subject of [grant, kill]) bus.publish(subject, Uint8Array.of(1));
      await until(() => refused.length === 2);
      await bus.close();
      assert.deepEqual(refused, [grant, kill].map((subject) => `Not allowed: publish ${subject}`));
    } finally {
      await rig.run(["down"]);
      await rig.close();
    }
  });
});

describe("what is forged", () => {
  let rig: CommandRig;

  beforeEach(async () => {
    rig = await CommandRig.open();
  });

  afterEach(async () => {
    await rig.run(["down", "--all"]);
    await rig.close();
  });

  /** Publishes with the credential of host a: on what is its own, and on what is the timekeeper's. */
  async function forge(run: string): Promise<string[]> {
    const directory = rig.runs()[0]!;
    const a = processesNaming(`${directory}/run.json a `)[0]!;
    const bus = await connectNats({ ...credentialOf(parseInt(a)), run, name: "a", onError() {} });
    const own = subjectOf({ kind: "wire", run, from: "a", to: "a-rnic" });
    const report = subjectOf({ kind: "clock.report", run, partition: "a" });
    const grant = subjectOf({ kind: "clock.grant", run, partition: "b" });
    const garbage = Uint8Array.of(0xff, 1, 2);
    for (const subject of [own, own, report, grant]) bus.publish(subject, garbage);
    // b's report, on a's subject.
    const join = subjectOf({ kind: "clock.join", run, partition: "a" });
    bus.publish(join, encodeSealed(["b", "b-forged"]));
    await bus.flush();
    await bus.close();
    return [
      `a-rnic refused 2 messages on ${own}, sent as a: malformed, or not a's to say`,
      `timekeeper refused 1 message on ${report}, sent as a: malformed, or not a's to say`,
      `timekeeper refused 1 message on ${join}, sent as a: malformed, or not a's to say`,
      `nats-server refused 1 message on ${grant}, sent as a: a has no right to it`,
    ];
  }

  it("stands beside the verdict of a run, which it does not change", async () => {
    const input = await rig.file("data.bin", contentOf(64 * 1024));
    const pair = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
    const choices = ["--method", "persist-opcode", "--ddio", "off", "--delay", "3"];
    const command = rig.start(["run", pair, "--input", input, ...choices]);
    await rig.moving();
    const { run } = JSON.parse(await Deno.readTextFile(`${rig.runs()[0]}/run.json`));
    const lines = await forge(run);
    const ended = await command.ended;
    assert.equal(ended.code, 0, ended.stderr);
    for (const line of lines) assert.ok(ended.stdout.includes(`note ${line}\n`), ended.stdout);
    const again = await rig.run(["run", pair, "--input", input, ...choices, "--pack", "all"]);
    assert.equal(again.code, 0, again.stderr);
    assert.doesNotMatch(again.stdout, /refused/);
    const digestOf = (text: string) => /digest (\w+)/.exec(text)![1];
    assert.equal(digestOf(ended.stdout), digestOf(again.stdout));
  });

  it("is shown by rack why", async () => {
    const scenario = await rig.file("three.yaml", SCENARIO);
    assert.equal((await rig.run(["up", scenario])).code, 0);
    const { run } = JSON.parse(await Deno.readTextFile(`${rig.runs()[0]}/run.json`));
    assert.doesNotMatch((await rig.run(["why"])).stdout, /refused/);
    const lines = await forge(run);
    // A process tells the timekeeper with its next heartbeat.
    await eventually("every line is shown", async () => {
      const { stdout } = await rig.run(["why"]);
      return lines.every((line) => stdout.includes(line));
    });
    const { refusals } = JSON.parse((await rig.run(["why", "--json"])).stdout);
    assert.equal(refusals.length, 4);
  });
});

/** The credential in a process's environment. */
function credentialOf(pid: number) {
  const lines = Deno.readTextFileSync(`/proc/${pid}/environ`).split("\0");
  const valueOf = (name: string) =>
    lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
  const { url, user, password } = BUS_ENVIRONMENT;
  return { url: valueOf(url), user: valueOf(user), password: valueOf(password) };
}

describe("a request over a broker with rights", () => {
  it("is answered by who is meant, on a subject that nobody else may publish", async () => {
    const dir = await Deno.makeTempDir({ prefix: "rackmesh-rights-" });
    await Deno.writeTextFile(`${dir}/three.yaml`, SCENARIO);
    const [rack] = await prepare(await readScenario(`${dir}/three.yaml`), { packing: "node" });
    const users = accessOfProcesses({ ...rack!, run: RUN });
    const server = await startNatsServer({ dir, users });
    const errors: string[] = [];
    const [clock, asker, device] = await Promise.all(
      [USERS.timekeeper, USERS.supervisor, "a"].map((name) =>
        connectNats({
          ...server.addressOf(name),
          run: RUN,
          name,
          onError: (error) => errors.push(`${name}: ${error.message}`),
        })
      ),
    );
    try {
      const subject = subjectOf({ kind: "control", run: RUN, verb: "status" });
      const replies: unknown[] = [];
      clock!.subscribe(subject, (payload, _, reply) => {
        replies.push(reply);
        reply?.(payload);
      });
      await clock!.flush();
      const by = USERS.timekeeper;
      const answer = await asker!.request(subject, Uint8Array.of(7), {
        by,
        timeoutMs: PATIENCE_MS,
      });
      assert.deepEqual([...answer], [7]);
      const refused = device!.request(subject, Uint8Array.of(7), { by, timeoutMs: PATIENCE_MS });
      await assert.rejects(refused, { kind: "forbidden" });
      // A subject for the reply that is not of answers is none.
      const raw = await RawClient.connect(server, USERS.supervisor);
      await raw.publish(subject, { reply: `rack.${RUN}.clock.grant.b`, body: "x" });
      await raw.send();
      raw.close();
      await until(() => replies.length === 2);
      assert.equal(replies[1], undefined);
      assert.deepEqual(errors, []);
    } finally {
      await Promise.all([clock, asker, device].map((bus) => bus!.close()));
      await server.stop();
      await Deno.remove(dir, { recursive: true });
    }
  });
});

/** Every subject of a run, with these names in each of its places. */
function subjectsOf(users: readonly string[], partitions: readonly string[]): string[] {
  const run = RUN;
  const time = ["status", "pause", "resume", "step", "pace"];
  const verbs = [...time, "death", "run", "shutdown", "fault", "faults"];
  const control = [
    ...verbs,
    "link",
    "steps",
    "boot",
    "kill",
    "process",
    "finished",
    "stalled",
    "power",
  ];
  const pairs = partitions.flatMap((x) => partitions.map((y) => [x, y] as const));
  return [
    ...pairs.map(([from, to]) => subjectOf({ kind: "wire", run, from, to })),
    ...pairs.map(([asker, of]) => subjectOf({ kind: "again", run, asker, of })),
    ...partitions.flatMap((partition) =>
      (["grant", "order", "report", "join", "alive"] as const).map((kind) =>
        subjectOf({ kind: `clock.${kind}`, run, partition })
      )
    ),
    ...partitions.map((node) => subjectOf({ kind: "report", run, node })),
    ...partitions.map((node) => subjectOf({ kind: "trace", run, node })),
    ...[
      ...control,
      ...partitions.flatMap((name) =>
        ["final", "inspect", "kill", "boot", "process", "leave", "death"].map((verb) =>
          `${verb}-${name}`
        )
      ),
      ...users.flatMap((name) => [`plan-${name}`, `files-${name}`]),
    ].map((verb) => subjectOf({ kind: "control", run, verb })),
    ...users.flatMap((by) =>
      users.map((asker) => subjectOf({ kind: "answer", run, by, asker, number: "1" }))
    ),
    subjectOf({ kind: "clock.ask", run }),
    ...Object.values(CENSUS),
    ...FOREIGN,
  ];
}

/** A client that keeps to no rule: the protocol by hand. */
class RawClient {
  readonly #connection: Deno.Conn;
  #text = "";
  #pongs = 0;
  #messages: { subject: string; body: string }[] = [];

  private constructor(connection: Deno.Conn) {
    this.#connection = connection;
    void this.#read();
  }

  static async connect(server: NatsServer, user: string): Promise<RawClient> {
    const { url, password } = server.addressOf(user);
    const [hostname, port] = url.replace("nats://", "").split(":");
    const client = new RawClient(await Deno.connect({ hostname: hostname!, port: Number(port) }));
    await client.send(`CONNECT ${JSON.stringify({ user, pass: password, verbose: false })}`);
    return client;
  }

  close(): void {
    try {
      this.#connection.close();
    } catch {
      // It is closed.
    }
  }

  /** Sends these lines; settles when the server has read them and its answers are here. */
  async send(...lines: string[]): Promise<void> {
    const pongs = this.#pongs;
    await this.#write([...lines, "PING"].map((line) => `${line}\r\n`).join(""));
    await until(() => this.#pongs > pongs);
  }

  async publish(subject: string, of: { reply?: string; body: string }): Promise<void> {
    const { reply = "", body } = of;
    await this.#write(`PUB ${subject} ${reply} ${body.length}\r\n${body}\r\n`);
  }

  /** Messages since the last call. */
  take(): { subject: string; body: string }[] {
    return this.#messages.splice(0);
  }

  async #write(text: string): Promise<void> {
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) bytes = bytes.subarray(await this.#connection.write(bytes));
  }

  async #read(): Promise<void> {
    const buffer = new Uint8Array(64 * 1024);
    try {
      for (;;) {
        const length = await this.#connection.read(buffer);
        if (length === null) return;
        this.#text += new TextDecoder().decode(buffer.subarray(0, length));
        while (this.#takeOne());
      }
    } catch {
      // Closed here.
    }
  }

  /** Takes one line, or one message with its body, out of what has come. */
  #takeOne(): boolean {
    const end = this.#text.indexOf("\r\n");
    if (end < 0) return false;
    const words = this.#text.slice(0, end).split(" ");
    let next = end + 2;
    if (words[0] === "MSG") {
      const length = Number(words.at(-1));
      if (this.#text.length < next + length + 2) return false;
      const body = this.#text.slice(next, next + length);
      this.#messages.push({ subject: words[1]!, body });
      next += length + 2;
    }
    if (words[0] === "PONG") this.#pongs++;
    if (words[0] === "PING") void this.#write("PONG\r\n");
    this.#text = this.#text.slice(next);
    return true;
  }
}
