/** Scenarios with native programs by the command: Debian's binaries, each packing, ends of all kinds. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { executableInPath } from "../../console/base/executables.ts";
import { LEASE_VARIABLE } from "../../nodes/host/native/port.ts";
import { nativeMissing } from "../support/native_rack.ts";
import { CommandRig, type Ended } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { processesIn } from "../support/native_processes.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing() ?? lacks("ibv_rc_pingpong", "ibverbs-utils") ??
  lacks("ib_write_lat", "perftest");
const it = itUnless(missing, "tests/native/command_test.ts");

function lacks(program: string, debian: string): string | undefined {
  if (executableInPath(program) !== undefined) return undefined;
  return `there is no ${program} (Debian's package ${debian})`;
}

const SERVER = "{ on: b, native: [ibv_rc_pingpong, -g, '0', -c, -n, '20'] }";
const CLIENT = "{ on: a, native: [ibv_rc_pingpong, -g, '0', -c, -n, '20', b], at: 1ms }";

function scenario(programs: readonly string[], more = ""): string {
  return `name: native\nhosts: { a: {}, b: {} }\nprograms:\n` +
    programs.map((program) => `  - ${program}\n`).join("") + more;
}

interface Native {
  readonly node: string;
  readonly program: string;
  readonly code: number | null;
  readonly lines: ReadonlyArray<{ readonly atPs: number; readonly text: string }>;
}

interface Report {
  readonly digest: string;
  readonly directory: string;
  readonly virtualPs: number;
  readonly natives: readonly Native[];
  readonly checks: ReadonlyArray<{ readonly holds: boolean; readonly detail: string }>;
}

function reportOf({ stdout, stderr }: Ended): Report {
  assert.ok(stdout.startsWith("{"), stderr);
  return JSON.parse(stdout);
}

describe("native programs by the command", () => {
  let rig: CommandRig;
  beforeAll(async () => rig = await CommandRig.open());
  afterAll(async () => {
    await rig.gone();
    await rig.close();
  });

  const run = async (text: string, args: readonly string[], env = {}) => {
    const path = await rig.file("native.yaml", text);
    return await rig.run(["run", path, ...args], { env });
  };

  it("ibv_rc_pingpong comes to one digest and the same lines in each packing, and without leases", async () => {
    const reports: Report[] = [];
    const text = scenario([SERVER, CLIENT]);
    for (
      const [packing, lease] of [["node", "on"], ["machine", "on"], ["all", "off"]] as const
    ) {
      const env = { [LEASE_VARIABLE]: lease };
      reports.push(reportOf(await run(text, ["--pack", packing, "--json"], env)));
    }
    const [first] = reports;
    assert.deepEqual(first!.natives.map(({ node, code }) => [node, code]), [["b", 0], ["a", 0]]);
    assert.ok(first!.natives.every(({ lines }) => lines.some(({ text }) => /20 iters/.test(text))));
    for (const { digest, virtualPs, natives } of reports) {
      assert.deepEqual({ digest, virtualPs, natives }, {
        digest: first!.digest,
        virtualPs: first!.virtualPs,
        natives: first!.natives,
      });
    }
    const file = JSON.parse(Deno.readTextFileSync(`${first!.directory}/run.json`));
    const [[path, sha256]] = Object.entries<string>(file.native.binaries) as [[string, string]];
    assert.match(path, /\/ibv_rc_pingpong$/);
    assert.match(sha256, /^[0-9a-f]{64}$/);
  });

  it("the shipped scenario of ib_write_lat measures one latency, at both ends the same, and says what it starts", async () => {
    const { code, stderr } = await rig.run([
      "run",
      "scripts/scenarios/native_write_lat.yaml",
      "--pack",
      "all",
    ]);
    assert.equal(code, 0, stderr);
    const rows = stderr.split("\n").filter((line) => /\] +2 +100 /.test(line));
    const figures = rows.map((row) => row.replace(/^\[.*?\]\s*/, "").split(/\s+/));
    assert.equal(rows.length, 2, stderr);
    assert.deepEqual(figures[0], figures[1]);
    const [, , least, most] = figures[0]!;
    assert.equal(least, most);
    // Before it starts them it says so, and with which rights.
    const lines = stderr.split("\n");
    const notice = lines.findIndex((line) =>
      line.startsWith("native programs: ib_write_lat on b, ib_write_lat on a, ")
    );
    assert.ok(notice >= 0, stderr);
    assert.match(lines[notice]!, /in bwrap: no network|with your rights, as bwrap/);
    assert.ok(notice < lines.findIndex((line) => line.startsWith("[b ")), stderr);
  });

  it("an exit code that is not 0 is a failure, told by the last line", async () => {
    const { code, stdout } = await run(
      scenario(["{ on: a, native: [ibv_rc_pingpong, -g, '0', b] }"]),
      ["--pack", "all"],
    );
    assert.equal(code, 1, stdout);
    assert.match(
      stdout,
      /FAIL programs-run-through: native: a: exit code 1: Couldn't connect to b/,
    );
    assert.doesNotMatch(stdout, /\.ts:\d+/);
  });

  for (const packing of ["all", "node"]) {
    it(`--pack ${packing}: a power failure ends its host's programs, and only a service starts again`, async () => {
      const path = await rig.file("server.c", WAITS);
      const program = path.replace(/\.c$/, "");
      const { success } = new Deno.Command("cc", { args: ["-o", program, path] }).outputSync();
      assert.ok(success);
      const text = scenario(
        [
          `{ on: b, native: [${program}, once] }`,
          `{ on: b, native: [${program}, again], restart: true, service: true }`,
        ],
        "faults: [{ at: 2ms, kill: b }, { at: 4ms, start: b }]\nuntil: 8ms\n",
      );
      const { natives, directory } = reportOf(await run(text, ["--pack", packing, "--json"]));
      const said = natives.flatMap(({ lines }) => lines.map(({ text }) => text));
      assert.deepEqual(said.toSorted(), ["begins: again", "begins: again", "begins: once"]);
      assert.ok(natives.every(({ code }) => code === null));
      await eventually("no process of it", () => processesIn(directory).length === 0);
    });
  }

  it("an end of each kind is told in one sentence, and nothing stays", async () => {
    const ends = {
      'execl("/bin/sleep", "sleep", "1000", NULL)': "exit code 70: rackmesh: .*\\(exec\\)",
      "daemon(1, 1)": "exit code 70: rackmesh: .*\\(daemon\\)",
      // The pipes are gone, and the program goes on.
      "syscall(SYS_close_range, 3, ~0u, 0); for (;;)": "ended by signal 9",
      'closefrom(3); if (!fork()) pause(); puts("whole"); return 7': "exit code 7: whole",
      "raise(SIGTERM)": "ended by signal 15",
    };
    const programs = await Promise.all(
      Object.keys(ends).map(async (code, i) => {
        const path = await rig.file(`end${i}.c`, `${HEADERS}int main(void) { ${code}; }\n`);
        const program = path.replace(/\.c$/, "");
        const args = ["-w", "-D_GNU_SOURCE", "-o", program, path];
        assert.ok(new Deno.Command("cc", { args }).outputSync().success, code);
        return `{ on: a, native: [${program}] }`;
      }),
    );
    const { code, stdout } = await run(scenario(programs), ["--pack", "all"]);
    assert.equal(code, 1);
    for (const end of Object.values(ends)) assert.match(stdout, new RegExp(end));
    assert.doesNotMatch(stdout, /\.ts:\d+/);
    await eventually("no native process", () => processesIn(rig.cache).length === 0);
  });

  it("a service is refused beside a native program, and there is none by default", async () => {
    const text = scenario([SERVER]);
    const { code, stderr } = await run(text.replace("b: {}", "b: { services: persistd }"), []);
    assert.equal(code, 64);
    assert.match(stderr, /found "persistd" on b, which has a native program/);
    const put = await run(
      scenario([SERVER, "{ on: a, run: put, to: b, bytes: 4KiB }"], "until: 4ms\n"),
      ["--pack", "all"],
    );
    assert.equal(put.code, 64);
    assert.match(put.stderr, /programs\[1\]\.to: found "b", .* which b has not: it has a native/);
  });

  it("Ctrl-C leaves no native process behind", async () => {
    const path = await rig.file(
      "native.yaml",
      scenario([SERVER.replace("'20'", "'1000000'"), CLIENT.replace("'20'", "'1000000'")]),
    );
    for (const packing of ["all", "node"]) {
      const command = rig.start(["run", path, "--pack", packing], { detached: true });
      await eventually(
        "both programs",
        () => processesIn(rig.cache, "ibv_rc_pingpong").length >= 2,
      );
      command.interrupt();
      assert.equal((await command.ended).code, 130);
      await eventually("no native process", () => processesIn(rig.cache).length === 0);
    }
  });

  it("a program that only reads its clock ends with its host's process", async () => {
    const path = await rig.file("clock.c", READS_CLOCK), program = path.replace(/\.c$/, "");
    assert.ok(new Deno.Command("cc", { args: ["-o", program, path] }).outputSync().success);
    const file = await rig.file("native.yaml", scenario([`{ on: b, native: [${program}] }`]));
    const command = rig.start(["run", file, "--pack", "all"], { detached: true });
    await eventually("the program", () => processesIn(rig.cache, program).length >= 1);
    command.interrupt();
    assert.equal((await command.ended).code, 130);
    await eventually("no native process", () => processesIn(rig.cache).length === 0);
  });

  it("the death of the process that a host runs in is the death of its programs", async () => {
    const path = await rig.file("native.yaml", scenario([SERVER]));
    const command = rig.start(["up", path]);
    assert.equal((await command.ended).code, 0);
    await eventually("the server", () => processesIn(rig.cache, "ibv_rc_pingpong").length >= 1);
    // It has no service that could answer an order, and says so before one is given.
    const orders = [
      ["put", "--to", "b", path],
      ["get", "--from", "b", "x", `${rig.cache}/x`],
      ["ls", "--from", "b"],
      ["rm", "--from", "b", "x"],
    ];
    for (const { code, stderr } of await rig.each(orders)) {
      assert.equal(code, 64, stderr);
      assert.match(stderr, /"b": expected a host with the service persistd, which b has not: it/);
    }
    const { stdout } = await rig.run(["ps", "--json"]);
    const { pid } = JSON.parse(stdout).processes.find(({ name }: { name: string }) => name === "b");
    Deno.kill(pid, "SIGKILL");
    await eventually("no native process", () => processesIn(rig.cache).length === 0);
    await rig.run(["down", "--all"]);
  });

  it("what cannot run it is refused, and the console without --allow-native", async () => {
    const path = await rig.file("native.yaml", scenario([SERVER, CLIENT]));
    const explored = await rig.run(["explore", path]);
    assert.equal(explored.code, 64);
    assert.match(explored.stderr, /is a native one, and no host has a recovery/);
    const { code, stderr } = await rig.run(["console", path]);
    assert.equal(code, 64);
    assert.match(stderr, /expected a console that was started with --allow-native/);
  });

  it("a program of one's own in the same process is refused", async () => {
    await rig.file("own.ts", "export default function* own() {}\n");
    const text = scenario([SERVER, "{ on: a, program: ./own.ts }"]);
    const packed = await run(text, ["--pack", "all"]);
    assert.equal(packed.code, 64);
    assert.match(
      packed.stderr,
      /--pack is all, and native program ibv_rc_pingpong on b in one process/,
    );
    const beside = await run(scenario([SERVER, "{ on: b, program: ./own.ts }"]), []);
    assert.equal(beside.code, 64);
    assert.match(beside.stderr, /in the process of b: expected hosts of their own/);
  });

  it("rack new --native writes a program that is built and runs", async () => {
    const { code, stderr } = await rig.shell(`
      rack new --native mine && make --quiet -C mine && rack run mine/mine.yaml --pack all
    `);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /server: written by RDMA WRITE/);
  });
});

const HEADERS = ["signal.h", "stdio.h", "sys/syscall.h", "unistd.h"]
  .map((name) => `#include <${name}>\n`).join("");

const READS_CLOCK = `
#include <time.h>
int main(void) {
	for (struct timespec now;;)
		clock_gettime(CLOCK_MONOTONIC, &now);
}
`;

/** Waits for good: in a read of a connection that nobody makes. */
const WAITS = `
#include <stdio.h>
#include <netinet/in.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(argv[argc - 1][0]) };
	int made = socket(AF_INET, SOCK_STREAM, 0);
	printf("begins: %s\\n", argv[1]);
	bind(made, (struct sockaddr *)&address, sizeof address);
	listen(made, 1);
	return accept(made, NULL, NULL);
}
`;
