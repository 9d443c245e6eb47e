/** `rack compose` as a person calls it: what is in the folder, and what is refused. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { nativeSetUpOf, type RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { ROOT } from "../../console/base/paths.ts";
import { sha256 } from "../../console/base/sha256.ts";
import { findNatsServer } from "../../console/rack/nats_server.ts";
import { nativeMissing } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const PAIR = `${ROOT}/scripts/scenarios/persist_pair.yaml`;
const withNative = itUnless(await nativeMissing(), "tests/tools/compose_test.ts");
const ONE_RUN = ["--method", "persist-opcode", "--ddio", "off"] as const;

describe("rack compose", () => {
  let folder: string;

  beforeEach(async () => {
    folder = await Deno.realPath(await Deno.makeTempDir({ prefix: "rackmesh-compose-" }));
    await Deno.writeFile(`${folder}/data.bin`, new Uint8Array([1, 2, 3]));
  });

  afterEach(() => Deno.remove(folder, { recursive: true }));

  async function compose(...args: string[]): Promise<{ code: number; error: string }> {
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--quiet",
        "--no-check",
        "--no-prompt",
        "--allow-all",
        "--config",
        `${ROOT}/deno.json`,
        `${ROOT}/scripts/rack.ts`,
        "compose",
        ...args,
      ],
      cwd: folder,
    }).output();
    return { code, error: new TextDecoder().decode(stderr) };
  }

  const mode = async (path: string) => (await Deno.stat(`${folder}/${path}`)).mode! & 0o777;
  const text = (path: string) => Deno.readTextFile(`${folder}/${path}`);

  async function runFile(): Promise<RunFile> {
    return JSON.parse(await text("out/run.json")) as RunFile;
  }

  it("writes a folder of the user's own, with all that containers are given", async () => {
    const result = await compose(PAIR, ...ONE_RUN, "--input", "data.bin", "--out", "out");
    assert.deepEqual([result.code, await mode("out")], [0, 0o700], result.error);
    const { run, inputs, livenessMs, partitions } = await runFile();
    const place = "inputs/a/0-data.bin";
    assert.deepEqual(inputs, { a: { "data.bin": `/etc/rackmesh/${place}` } });
    assert.deepEqual([...await Deno.readFile(`${folder}/out/${place}`)], [1, 2, 3]);
    // Whatever user a container has must be able to read it.
    for (const file of [place, "run.json", "nats.conf", "compose.yaml"]) {
      assert.equal(await mode(`out/${file}`), 0o644, file);
    }
    assert.ok(livenessMs > 0, "nobody else sees a container die");
    assert.match(await text("out/.env"), new RegExp(`^COMPOSE_PROJECT_NAME=${run}\n`));
    assert.equal((await text("out/.env")).match(/^RACKMESH_PASSWORD/gm)?.length, 9);
    assert.match(await text("out/.env"), /^RACKMESH_CONSOLE_PORT=4280\n/m);
    assert.equal(partitions.length, 5);
  });

  it("keeps passwords to one file that is the user's alone, new ones each time", async () => {
    const arguments_ = [PAIR, ...ONE_RUN, "--input", "data.bin", "--out"];
    for (const out of ["out", "again"]) assert.equal((await compose(...arguments_, out)).code, 0);
    assert.equal(await mode("out/.env"), 0o600);
    const passwords = async (out: string) =>
      [...(await text(`${out}/.env`)).matchAll(/(?:PASSWORD_\d+=|CONSOLE_KEY=)(.{33,})/g)].map((
        [, word],
      ) => word!);
    const both = [...await passwords("out"), ...await passwords("again")];
    assert.equal(new Set(both).size, 20);
    for (const file of ["compose.yaml", "nats.conf", "run.json"]) {
      const content = await text(`out/${file}`);
      for (const word of both) assert.ok(!content.includes(word), file);
    }
  });

  for (
    const [format, secret] of [["stack", "secrets"], ["kubernetes", "secrets.env"]] as const
  ) {
    it(`${format}: keeps what is secret to the user, and out of all other files`, async () => {
      const args = [PAIR, ...ONE_RUN, "--input", "data.bin", "--format", format, "--out", "out"];
      const { code, error } = await compose(...args);
      assert.equal(code, 0, error);
      const texts = new Map<string, string>();
      for await (const path of filesIn(`${folder}/out`)) {
        texts.set(path, await Deno.readTextFile(`${folder}/out/${path}`));
      }
      const secrets = [...texts].filter(([path]) => path.startsWith(secret));
      const words = new Set(
        secrets.flatMap(([, text]) => text.match(/\bp?[0-9a-f]{32,}\b/g) ?? []),
      );
      // Of nine users and the console, and of the servers among themselves.
      assert.equal(words.size, format === "stack" ? 10 : 11);
      for (const [path] of secrets) assert.equal(await mode(`out/${path}`), 0o600, path);
      for (const [path, text] of texts) {
        if (path.startsWith(secret)) continue;
        assert.equal(await mode(`out/${path}`), 0o644, path);
        for (const word of words) assert.ok(!text.includes(word), path);
      }
      const { inputs } = await runFile();
      assert.deepEqual(inputs, { a: { "data.bin": "/etc/rackmesh/inputs/a/0-data.bin" } });
    });

    it(`${format}: puts what is too large for a config into an image`, async () => {
      await Deno.writeFile(`${folder}/data.bin`, new Uint8Array(1_100_000));
      const args = [PAIR, ...ONE_RUN, "--input", "data.bin", "--format", format, "--out", "out"];
      const { code, error } = await compose(...args, "--image", "hub:5000/rackmesh");
      assert.equal(code, 0, error);
      const { run, inputs } = await runFile(), file = "inputs/a/0-data.bin";
      assert.deepEqual(inputs, { a: { "data.bin": `/srv/rackmesh/${file}` } });
      assert.equal((await Deno.stat(`${folder}/out/layer/${file}`)).size, 1_100_000);
      const dockerfile = await text("out/layer/Dockerfile");
      assert.match(dockerfile, /^FROM hub:5000\/rackmesh\nCOPY \. \/srv\/rackmesh$/m);
      const image = `hub:5000/rackmesh:${run}`;
      assert.match(error, new RegExp(`docker build -t ${image} out/layer`));
      const written = format === "stack" ? "out/stack.yaml" : "out/services.yaml";
      // The timekeeper's, which serves it to the others.
      assert.equal((await text(written)).split(`"image": "${image}"`).length, 2);
      assert.ok(!(await text(written)).includes("0-data.bin"));
    });

    withNative(`${format}: refuses native programs, which need a seccomp profile`, async () => {
      await scenario("native: [./mine]");
      await Deno.copyFile("/usr/bin/true", `${folder}/mine`);
      const { code, error } = await compose("scenario.yaml", "--format", format, "--out", "out");
      assert.equal(code, 64);
      assert.match(
        error,
        new RegExp(`--format is ${format} for a scenario with native.*: expected compose`),
      );
      await assert.rejects(Deno.stat(`${folder}/out`), Deno.errors.NotFound);
    });
  }

  it("kubernetes: writes settings that nats-server takes, with all that its environment has", async () => {
    const args = [
      PAIR,
      ...ONE_RUN,
      "--input",
      "data.bin",
      "--format",
      "kubernetes",
      "--out",
      "out",
    ];
    const { code, error } = await compose(...args);
    assert.equal(code, 0, error);
    const lines = (await text("out/secrets.env")).trim().split("\n");
    const env = Object.fromEntries(lines.map((line) => line.split(/=(.*)/s).slice(0, 2)));
    const tried = async (more: Record<string, string>) =>
      (await new Deno.Command(findNatsServer(), {
        args: ["-t", "-c", `${folder}/out/nats.conf`],
        clearEnv: true,
        env: { ...env, ...more },
      }).output()).success;
    assert.ok(await tried({ POD_NAME: "nats-0" }));
    // It misses what it is not given.
    assert.ok(!await tried({}));
  });

  it("refuses an engine that it does not know", async () => {
    const { code, error } = await compose(PAIR, ...ONE_RUN, "--format", "nomad", "--out", "out");
    assert.equal(code, 64);
    assert.match(error, /--format.*nomad.*compose, stack.*kubernetes/);
  });

  it("says to an older docker-compose how many services there are, where that is over its limit", async () => {
    for (const [hosts, expected] of [[29, undefined], [30, "81"]] as const) {
      const names = Array.from({ length: hosts }, (_, i) => `  h${i}: {}\n`).join("");
      await Deno.writeTextFile(
        `${folder}/many.yaml`,
        `name: many\nseed: 7\nprofile: clx-optane-cx5\nhosts:\n${names}programs:\n` +
          "  - { on: h0, run: put, to: h1, method: persist-opcode, bytes: 4KiB }\n",
      );
      const { code, error } = await compose("many.yaml", "--ddio", "off", "--out", `out${hosts}`);
      assert.equal(code, 0, error);
      const limit = /^COMPOSE_PARALLEL_LIMIT=(\d+)$/m.exec(await text(`out${hosts}/.env`))?.[1];
      assert.equal(limit, expected);
    }
  });

  it("refuses more users than an engine's configs have room for, and says what helps", async () => {
    const names = Array.from({ length: 170 }, (_, i) => `  h${i}: {}\n`).join("");
    await Deno.writeTextFile(
      `${folder}/many.yaml`,
      `name: many\nseed: 7\nprofile: clx-optane-cx5\nhosts:\n${names}programs:\n` +
        "  - { on: h0, run: put, to: h1, method: persist-opcode, bytes: 4KiB }\n",
    );
    const many = ["many.yaml", "--ddio", "off", "--format", "stack", "--out"];
    const { code, error } = await compose(...many, "out");
    assert.equal(code, 64);
    assert.match(
      error,
      /--format is stack, which takes 512000 B, for \d+ B of users of nats-server.*--pack machine/,
    );
    await assert.rejects(Deno.stat(`${folder}/out`), Deno.errors.NotFound);
    const packed = await compose(...many, "packed", "--pack", "machine");
    assert.equal(packed.code, 0, packed.error);
  });

  it("gives Kubernetes more users than a ConfigMap has room for in several, which nats-server takes", async () => {
    const names = Array.from({ length: 300 }, (_, i) => `h${i}: {}`).join(", ");
    await Deno.writeTextFile(`${folder}/many.yaml`, `name: many\nhosts: { ${names} }\n`);
    const many = ["many.yaml", "--up", "--format", "kubernetes", "--out", "out"];
    const { code, error } = await compose(...many);
    assert.equal(code, 0, error);
    const files = [...Deno.readDirSync(`${folder}/out`)].map(({ name }) => name)
      .filter((name) => /^users.*conf$/.test(name)).sort();
    assert.deepEqual(files, ["users-1.conf", "users-2.conf", "users.conf"]);
    let users = 0;
    for (const file of files) {
      const content = await text(`out/${file}`);
      assert.ok(content.length <= 1 << 20, file);
      users += content.match(/user: "/g)?.length ?? 0;
      for (const place of ["kustomization.yaml", "nats.yaml", "nats-values.yaml"]) {
        const map = file.replace(/^users(.*)\.conf$/, "nats-users$1");
        assert.ok((await text(`out/${place}`)).includes(`"${map}"`), `${place}: ${map}`);
      }
    }
    // Devices, the timekeeper, supervisor, viewer and report.
    const { partitions } = await runFile();
    assert.equal(users, partitions.length + 4);
    const secrets = (await text("out/secrets.env")).trim().split("\n")
      .map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]);
    const checked = await new Deno.Command((await findNatsServer())!, {
      args: ["-t", "-c", `${folder}/out/nats.conf`],
      env: { ...Object.fromEntries(secrets), POD_NAME: "nats-0" },
    }).output();
    assert.equal(checked.code, 0, new TextDecoder().decode(checked.stderr));
  });

  it("makes a rack that stays up, without the file that a put lacks", async () => {
    const stay = ["--up", "--console-port", "4999"];
    const result = await compose(PAIR, ...ONE_RUN, ...stay, "--out", "out");
    assert.equal(result.code, 0, result.error);
    assert.match(result.error, /put on a is left out/);
    const { stayUp, inputs } = await runFile();
    assert.deepEqual([stayUp, inputs], [true, {}]);
    assert.match(await text("out/.env"), /^RACKMESH_CONSOLE_PORT=4999\n/m);
  });

  it("takes a program of the user's, with what it imports beside it", async () => {
    await Deno.mkdir(`${folder}/mine`);
    await Deno.writeTextFile(`${folder}/mine/part.ts`, "export const text = 'hello';\n");
    await Deno.writeTextFile(
      `${folder}/mine/program.ts`,
      `import type { Steps } from "rackmesh";\n` +
        `import { text } from "./part.ts";\n` +
        `export default function* (): Steps<void> { text; }\n`,
    );
    await scenario("run: ./mine/program.ts");
    const result = await compose("scenario.yaml", "--out", "out");
    assert.equal(result.code, 0, result.error);
    const { programs } = await runFile();
    assert.match(programs["./mine/program.ts"]!, /"hello"/);
    assert.doesNotMatch(await text("out/compose.yaml"), /program\.ts/);
  });

  it("takes what the program imports from elsewhere", async () => {
    await Deno.mkdir(`${folder}/mine`);
    await Deno.writeTextFile(`${folder}/elsewhere.ts`, "export const text = 'hello';\n");
    await Deno.writeTextFile(
      `${folder}/mine/program.ts`,
      `import { text } from "../elsewhere.ts";\nexport default function* () { text; }\n`,
    );
    await scenario("run: ./mine/program.ts");
    const { code, error } = await compose("scenario.yaml", "--out", "out");
    assert.equal(code, 0, error);
    assert.match((await runFile()).programs["./mine/program.ts"]!, /"hello"/);
  });

  it("asks for one run of a scenario that stands for several", async () => {
    const { code, error } = await compose(PAIR, "--input", "data.bin", "--out", "out");
    assert.equal(code, 64);
    assert.match(error, /16 runs, .*: choose --method .*\|persist-opcode\|.* and --ddio off\|on/);
  });

  it("does not write into a folder that is in use", async () => {
    await Deno.mkdir(`${folder}/out`);
    await Deno.writeTextFile(`${folder}/out/notes.txt`, "mine");
    const { code, error } = await compose(PAIR, ...ONE_RUN, "--input", "data.bin", "--out", "out");
    assert.equal(code, 64);
    assert.match(error, /notes\.txt: expected an empty folder/);
    assert.deepEqual([...Deno.readDirSync(`${folder}/out`)].map(({ name }) => name), ["notes.txt"]);
  });

  it("refuses a host that is called as a container of the rack's own", async () => {
    await scenario("run: put, to: nats, method: persist-opcode, bytes: 4KiB", "nats");
    const { code, error } = await compose("scenario.yaml", "--out", "out");
    assert.equal(code, 64);
    assert.match(error, /called nats, as a container of the rack's own is/);
  });

  it("lets devices record what the scenario or the command asks to capture", async () => {
    await scenario("run: put, to: b, method: persist-opcode, bytes: 4KiB");
    const file = `${folder}/scenario.yaml`;
    const recorded = async (out: string, ...more: string[]) => {
      const { code, error } = await compose("scenario.yaml", "--out", out, ...more);
      assert.equal(code, 0, error);
      const { observe, captures } = JSON.parse(
        await Deno.readTextFile(`${folder}/${out}/run.json`),
      );
      return [observe, captures];
    };
    assert.deepEqual(await recorded("none"), [undefined, undefined]);
    const pcap = "/var/lib/rackmesh/captures", perfetto = `${pcap}/perfetto.json`;
    assert.deepEqual(await recorded("all", "--perfetto"), ["all", { pcap, perfetto }]);
    await Deno.writeTextFile(file, "capture: { pcap: true }\n", { append: true });
    assert.deepEqual(await recorded("frames"), ["frames", { pcap }]);
  });

  withNative("takes native programs with all that they load, each below its own path", async () => {
    await scenario("native: [./mine/true, /etc/hosts, '/not/there']");
    await Deno.mkdir(`${folder}/mine`);
    await Deno.copyFile("/usr/bin/true", `${folder}/mine/true`);
    const { code, error } = await compose("scenario.yaml", "--out", "out");
    assert.equal(code, 0, error);
    assert.match(error, /native programs: \.\/mine\/true on a, in the containers of their hosts/);
    const run = await runFile(), { directory } = run, native = nativeSetUpOf(run);
    const files = native!.files!;
    for (
      const path of [
        ...[`${folder}/mine/true`, "/etc/hosts", native!.library, "/lib64/ld-linux-x86-64.so.2"],
        ...["/usr/bin/sh", "/usr/bin/mkfifo", "/usr/bin/env"],
      ]
    ) {
      const bytes = await Deno.readFile(`${folder}/out/native${path}`);
      assert.equal(files[path], await sha256(bytes), path);
    }
    const names = Object.keys(files).map((path) => path.replace(/.*\//, ""));
    for (const name of ["libc.so.6", "libm.so.6", "libselinux.so.1"]) {
      assert.ok(names.includes(name), `${name} of ${names}`);
    }
    assert.equal(files["/not/there"], undefined);
    assert.equal(await mode("out/native/usr/bin/sh"), 0o755);
    assert.deepEqual([native!.bwrap, native!.runs], [undefined, directory]);
    assert.match(await text("out/seccomp.json"), /SCMP_ACT_ERRNO/);
  });

  withNative("refuses a native program that no container could run", async () => {
    await Deno.copyFile("/usr/bin/true", `${folder}/mine`);
    await Deno.chmod(`${folder}/mine`, 0o4755);
    for (
      const [run, expected] of [
        ["./mine", /is setuid or setgid: expected a dynamic program/],
        ["./nothing", /cannot find .*nothing: expected a file that can be read/],
      ] as const
    ) {
      await scenario(`native: [${run}]`);
      const { code, error } = await compose("scenario.yaml", "--out", "out");
      assert.equal(code, 64);
      assert.match(error, expected);
    }
  });

  async function* filesIn(root: string, below = ""): AsyncGenerator<string> {
    for await (const { name, isDirectory } of Deno.readDir(`${root}/${below}`)) {
      if (isDirectory) yield* filesIn(root, `${below}${name}/`);
      else yield `${below}${name}`;
    }
  }

  function scenario(program: string, second = "b"): Promise<void> {
    return Deno.writeTextFile(
      `${folder}/scenario.yaml`,
      `name: own\nseed: 7\nprofile: clx-optane-cx5\nhosts:\n  a: {}\n  ${second}: { ddio: off }\n` +
        `programs:\n  - { on: a, ${program} }\n`,
    );
  }
});
