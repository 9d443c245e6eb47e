/** Files that the command reads, writes and keeps: what is in the way of them is told, and nothing is lost. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { forEachAtOnce } from "../../console/base/at_once.ts";
import { CommandRig, type Ended } from "../support/command.ts";
import { itUnless, mountMissing } from "../support/skipping.ts";
import { contentOf } from "../support/process_rack.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
/** Few processes: packing changes nothing of a rack's files. A host that is killed needs a process of its own. */
const PACKED = ["--ddio", "off", "--pack", "machine"];
const CONTENT = contentOf(70_000);
const SHORT_PATIENCE = { RACKMESH_NATS_PATIENCE_MS: "1500" };

const noMount = await mountMissing();
const notRoot = Deno.uid() === 0 ? undefined : "only root can give a file to another user";

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.closeDown());

function run(...args: string[]): Promise<Ended> {
  return rig.run(args, { cwd: rig.cache });
}

/** A command that must succeed. */
function rack(...args: string[]): Promise<string> {
  return rig.must(args, { cwd: rig.cache });
}

/** Runs a shell script in the cache, in which `rack` is the command. */
function shell(script: string, env: Record<string, string> = {}): Promise<Ended> {
  return rig.shell(script, { env });
}

/** A rack that is up with an object in it: of the first two groups of tests. */
let up: { readonly run: string; readonly directory: string };

describe("rack get", () => {
  beforeAll(async () => {
    await rig.file("data.bin", CONTENT);
    const pcap = `${rig.cache}/captures`;
    up = JSON.parse(await rack("up", PAIR, ...PACKED, "--json", "--pcap", pcap));
    await rack("put", "--to", "b", "data.bin");
  });

  it("writes to a FIFO, a device and its own output, and leaves them what they are", async () => {
    const reader = "mkfifo fifo; cat fifo >read & rack get --from b data.bin fifo; wait; cat read";
    const fifo = await shell(reader);
    assert.equal(fifo.code, 0, fifo.stderr);
    assert.deepEqual(fifo.bytes.subarray(-CONTENT.length), CONTENT);
    assert.ok((await Deno.lstat(`${rig.cache}/fifo`)).isFifo);

    const piped = await shell("rack get --from b data.bin /dev/stdout | cat");
    assert.deepEqual(piped.bytes, CONTENT, piped.stderr);
    assert.match(piped.stderr, /data\.bin: 70000 B from b to \/dev\/stdout/);
    const appended = await shell(
      "printf first >out; rack get --from b data.bin /dev/stdout >>out; cat out",
    );
    assert.deepEqual(appended.bytes.subarray(5), CONTENT, appended.stderr);

    await rack("get", "--from", "b", "data.bin", "/dev/null");
    assert.ok((await Deno.lstat("/dev/null")).isCharDevice);
  });

  it("replaces the file behind a link as a whole, and neither a link to nothing nor a folder", async () => {
    await shell("echo old >old; chmod 640 old; ln -s old link; ln -s nowhere broken; mkdir folder");
    await rack("get", "--from", "b", "data.bin", "link");
    assert.ok((await Deno.lstat(`${rig.cache}/link`)).isSymlink);
    assert.deepEqual(await Deno.readFile(`${rig.cache}/old`), CONTENT);
    assert.equal((await Deno.stat(`${rig.cache}/old`)).mode! & 0o777, 0o640);
    for (
      const [name, found] of [["broken", /link to nothing/], ["folder", /is a folder/]] as const
    ) {
      const { code, stderr } = await run("get", "--from", "b", "data.bin", name);
      assert.equal(code, 64, stderr);
      assert.match(stderr, found);
    }
    assert.deepEqual([...Deno.readDirSync(rig.cache)].filter(({ name }) => /part/.test(name)), []);
  });

  it("and rack put refuse names that a file system or a terminal takes for something else", async () => {
    const names = [".", "..", "x".repeat(97), "\x1b[31mred", "a\nb", "\x9b31m"];
    await forEachAtOnce(names, async (name, place) => {
      const puts = ["put", "data.bin", "--to", "b", "--as", name];
      const gets = ["get", name, "copy", "--from", "b"];
      const { code, stderr } = await run(...place % 2 === 0 ? puts : gets);
      assert.equal(code, 64, stderr);
      assert.match(stderr, /cannot name an object: expected 1 to 96 bytes/);
      // deno-lint-ignore no-control-regex
      assert.doesNotMatch(stderr.trimEnd(), /[\x00-\x1f\x7f-\x9f]/);
    });
    const longest = "x".repeat(96);
    await rack("put", "data.bin", "--to", "b", "--as", longest);
    await rack("get", longest, "copy", "--from", "b");
  });
});

describe("the cache", () => {
  itUnless(notRoot, "a run of another user")(
    "leaves runs of another user alone, and says so",
    async () => {
      const { directory } = up;
      await Deno.chown(directory, 65_534, 65_534);
      const runs = JSON.parse(await rack("runs", "--json")) as { path: string; state: string }[];
      assert.equal(runs.find(({ path }) => path === directory)?.state, "another user's");
      const { code, stderr } = await run("down", "--all");
      assert.deepEqual(
        [code, /left up, as they are another user's/.test(stderr)],
        [0, true],
        stderr,
      );
      assert.match(await rack("runs", "rm", "--all"), /0 removed, \d kept/);
      assert.equal(rig.processes().length, 6);
      await Deno.chown(directory, 0, 0);
    },
  );

  it("goes on with every other run where files of one are damaged", async () => {
    const { run: id, directory } = up;
    const files = ["owner", "supervisor", "processes", "ended", "run"];
    const texts = ["", "{", "null", "7", "[1, 2", '"x"', "{}", "\0\0\0"];
    for (const [i, text] of texts.entries()) {
      const path = `${rig.cache}/runs/damaged-${i}`;
      await Deno.mkdir(path, { recursive: true });
      for (const file of files) await Deno.writeTextFile(`${path}/${file}.json`, text);
    }
    await Deno.writeTextFile(`${rig.cache}/runs/damaged-0/kept.txt`, "\0");
    const { stderr } = await run("runs");
    assert.match(stderr, /damaged-1: .*owner\.json is damaged/);
    for (const damaged of ["damaged-0", "damaged-1"]) {
      const trace = await run("trace", "--run", damaged);
      assert.equal(trace.code, 2);
      assert.match(trace.stderr, /^\S+run\.json is damaged: expected what rackmesh has written/);
    }
    assert.match(await rack("ps"), new RegExp(id));
    await Deno.writeTextFile(`${directory}/processes.json`, "");
    await Deno.writeTextFile(`${directory}/run.json`, "{");
    assert.equal(await rack("completion", "nodes"), "timekeeper\nnats\n");
    const down = await run("down");
    assert.match(down.stdout, /is down: 6 processes ended/);
    assert.match(down.stderr, /is without captures: \S+run\.json is damaged/);
    assert.equal(down.code, 2);
    assert.match(await rack("runs", "rm", "damaged-2"), /1 removed/);
    assert.match(await rack("runs", "prune", "--runs", "0"), /runs? removed/);
    assert.match(await rack("runs", "rm", "--all"), /removed/);
    const left = JSON.parse(await rack("runs", "--json")) as { id: string }[];
    assert.deepEqual(left.map((each) => each.id), ["damaged-0"]);
  });

  it("is one place under whatever name: no rack that is up is removed, and down finds it", async () => {
    await shell("mkdir -p cache; ln -sfn cache link");
    const names = ["cache/", "./link", `${rig.cache}//cache/.`, `${rig.cache}/link/`];
    const up = await shell(`rack up '${PAIR}' ${PACKED.join(" ")} --json`, {
      RACKMESH_CACHE: names[0]!,
    });
    const { run, directory } = JSON.parse(up.stdout);
    assert.equal(directory, `${await Deno.realPath(rig.cache)}/cache/runs/${run}`);
    for (const name of names) {
      const { code, stderr, stdout } = await shell("rack runs rm --all", { RACKMESH_CACHE: name });
      assert.equal(code, 0, stderr);
      assert.match(stdout, /0 removed, 1 kept/);
    }
    const down = await shell("rack down", { RACKMESH_CACHE: names[3]! });
    assert.match(down.stdout, /is down: 6 processes ended/);
  });
});

describe("a full disk under a rack that is up", () => {
  /** Runs a script with a small disk as the cache, and a rack that is up in it. */
  async function onSmallDisk(script: string): Promise<Ended> {
    const cache = `${rig.cache}/disk`;
    await Deno.mkdir(cache, { recursive: true });
    const ended = await rig.shell(
      `
        fill() { cat /dev/zero >${cache}/ballast; truncate -s "-$1" ${cache}/ballast; }
        free() { rm ${cache}/ballast; }
        mount -t tmpfs -o size=3m none ${cache} && rack up '${PAIR}' --ddio off || exit
        rack put --to b '${import.meta.filename}' >/dev/null
        ${script}
        rack ps; rack down; cat ${cache}/runs/*/ended.json`,
      // A command whose rack goes down does not wait for its broker for long.
      { before: ["unshare", "-rm"], env: { RACKMESH_CACHE: cache, ...SHORT_PATIENCE } },
    );
    await rig.gone();
    return ended;
  }

  const withMount = itUnless(noMount, "a full disk under a rack");

  withMount("refuses the order that cannot be written, and the rack goes on", async () => {
    const { stdout, stderr } = await onSmallDisk(`
      fill 0
      rack kill b --at 1s; echo code $?
      rack link loss a 1% --at 1s; echo code $?
      rack put --to b '${import.meta.filename}'; echo code $?
      free
      rack ls --from b >/dev/null; echo code $?
      rack kill b --at 1s; echo code $?
      rack link loss a 1% --at 2s; echo code $?`);
    const codes = [...stdout.matchAll(/^code (\d+)$/gm)].map(([, code]) => Number(code));
    assert.deepEqual(codes, [64, 64, 64, 0, 0, 0], stderr);
    assert.match(stderr, /Cannot run: Cannot write .*orders\/\d+: No space left/);
    assert.match(stderr, /Cannot kill b: Cannot write .*planned\.jsonl: No space left/);
    assert.match(stderr, /faults\.jsonl: No space left/);
    assert.match(stdout, /is down: 7 processes ended/);
  });

  withMount("ends the rack in order where power fails, with the reason", async () => {
    const { stdout, stderr } = await onSmallDisk("fill 0\n rack kill b; echo code $?");
    assert.match(stdout, /^code 2$/m, stderr);
    const end = JSON.parse(/^\{.*\}/m.exec(stdout)![0]);
    assert.equal(end.code, 2);
    assert.match(end.message, /timekeeper ended by itself[^]*faults\.jsonl: No space left/);
    assert.doesNotMatch(stderr + end.message, /\n\s+at /);
  });

  withMount(
    "ends the rack in order where a host cannot keep its SCM, with the reason",
    async () => {
      await rig.file("data.bin", CONTENT);
      const { stdout, stderr } = await onSmallDisk(
        // Room for the order, and not for what it does.
        `fill ${CONTENT.length + 16_384}\n rack put --to b ${rig.cache}/data.bin; echo code $?`,
      );
      assert.match(stdout, /^code 2$/m, stderr);
      assert.match(stdout, /b ended by itself.*Cannot write .*b\.scm.*: No space left/);
      // At once: a command asks a rack that has gone down for ten seconds.
      assert.match(stderr, /has just gone down: b ended by itself.*\nCannot write .*No space left/);
      assert.doesNotMatch(stderr, /No answer from/);
      assert.doesNotMatch(stderr, /\n\s+at /);
    },
  );
});

describe("what a command prints", () => {
  it("ends quietly where its reader has seen enough", async () => {
    const commands = ["scenarios", "--help", "run --help", "schema", "completion bash"];
    await forEachAtOnce(commands, async (command, i) => {
      const { stdout, stderr } = await shell(
        `(rack ${command}; echo $? >code${i}) | true; cat code${i}`,
      );
      assert.match(stdout, /^(0|141)$/m);
      assert.equal(stderr, "", command);
    });
  });

  it("names the rack that it leaves up, which is known by its processes when its directory was deleted", async () => {
    const { stderr } = await shell(`rack up '${PAIR}' ${PACKED.join(" ")} | true`);
    const [, id] = /(\S+) stays up: rack down --run \S+/.exec(stderr)!;
    // At once: the rack may be writing there.
    await Deno.rename(`${rig.cache}/runs/${id}`, `${rig.cache}/deleted`);
    const runs = JSON.parse(await rack("runs", "--json")) as { id: string; state: string }[];
    assert.equal(runs.find((each) => each.id === id)?.state, "left over");
    assert.match(await rack("down"), /is down: [56] processes ended/);
    await rig.gone(0);
  });

  it("is told to be in the way where its output takes nothing", async () => {
    const { code, stderr } = await shell("rack scenarios >/dev/full");
    assert.deepEqual(
      [code, stderr],
      [2, "Cannot write to the standard output: No space left on device (os error 28)\n"],
    );
    assert.equal((await shell("rack scenarios 2>/dev/full")).code, 0);
  });
});

describe("a command in a strange place", () => {
  const RACK = fromFileUrl(projectFile("scripts/rack"));
  const DENO_DIR = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;

  /** One sentence, and the exit code. */
  async function refused(code: number, message: RegExp, script: string): Promise<void> {
    const ended = await shell(script, { DENO_DIR });
    assert.equal(ended.code, code, `${script}: ${ended.stderr}`);
    assert.match(ended.stderr, message);
    assert.match(ended.stderr, /^[^\n]*\n$/, script);
  }

  it("says what is missing: HOME, a folder for its cache, descriptors", async () => {
    const bare = "unset HOME XDG_CACHE_HOME RACKMESH_CACHE;";
    await refused(64, /HOME is not set: expected HOME, XDG_CACHE_HOME or/, `${bare} rack runs`);
    await refused(64, /expected HOME or XDG_CACHE_HOME to be set/, `${bare} '${RACK}' runs`);
    await rig.file("file", "");
    for (const command of ["runs", "ps", `run '${PAIR}' --input file0`]) {
      await rig.file("file0", "x");
      await refused(64, /runs in .*file\/runs: Not a dir/, `RACKMESH_CACHE=file rack ${command}`);
    }
    await refused(
      64,
      /allows 20 open files: expected at least 256/,
      `ulimit -n 20; '${RACK}' runs`,
    );
  });

  it("says what cannot be written or reached", async () => {
    const writes =
      `rack run '${PAIR}' --pack all --input file0 --method write-read --ddio off --json`;
    await rig.file("file0", "x");
    await refused(
      64,
      /--perfetto is .*\/cache.*, a folder: expected a file/,
      `mkdir -p cache; ${writes} --perfetto cache`,
    );
    const { code, stderr } = await shell(
      `${writes} --pack node --nats nats://%zz@127.0.0.1:1`,
      SHORT_PATIENCE,
    );
    assert.equal(code, 2);
    assert.match(stderr, /does not answer/);
    await shell("cp file0 $(printf 'x%.0s' {1..97})");
    await refused(
      64,
      /"x{97}" cannot name an object: expected name: or a file of 1 to 96 bytes/,
      `rack run '${PAIR}' --input $(printf 'x%.0s' {1..97})`,
    );
  });

  it("takes a scenario from a pipe, and refuses what is too large to be one", async () => {
    const incast = fromFileUrl(projectFile("scripts/scenarios/incast.yaml"));
    for (const from of [`<(cat '${incast}')`, `/dev/stdin < <(cat '${incast}')`]) {
      const { code, stdout, stderr } = await shell(`rack validate ${from}`);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /^ok .*: incast, 10 hosts/);
    }
    await shell("truncate -s 100M large");
    for (const file of ["large", "/dev/zero"]) {
      await refused(64, /has more than 4 MiB: expected a scenario/, `rack run ${file}`);
    }
  });

  it("says all that is wrong with 500 KB of scenario", async () => {
    const lines = Array.from({ length: 16_000 }, (_, i) => `  h${i}: { ddio: offf, wrong: 3 }`);
    const path = await rig.file("wrong.yaml", `name: x\nhosts:\n${lines.join("\n")}\n`);
    const { code, stderr } = await run("validate", path);
    assert.equal(code, 64);
    assert.match(stderr, /wrong\.yaml:16002: hosts\.h15999\.ddio: found "offf"/);
  });
});
