/** The set-up of a machine: what is downloaded is checked, and what is in the way leaves nothing behind. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { itUnless } from "../support/skipping.ts";

const RACK = fromFileUrl(projectFile("scripts/rack"));
const TARGET = `deno-${Deno.build.target.replace("musl", "gnu")}.zip`;

const withHash = itUnless(
  Deno.build.target === "x86_64-unknown-linux-gnu"
    ? undefined
    : "the set-up keeps no hash of this platform",
  "the hash of a package of npm's",
);

let home: string;

beforeEach(async () => {
  home = await Deno.makeTempDir({ prefix: "rackmesh-setup-" });
});

afterEach(() => Deno.remove(home, { recursive: true }));

/** Runs a script in the home folder, with a mirror of Deno's site and no programs but the system's. */
async function shell(script: string, npm = "exit 1") {
  await Deno.mkdir(`${home}/bin`, { recursive: true });
  await Deno.writeTextFile(`${home}/bin/npm`, `#!/bin/sh\n${npm}\n`, { mode: 0o755 });
  const { code, stdout, stderr } = await new Deno.Command("bash", {
    args: ["-c", script],
    cwd: home,
    env: {
      PATH: `${home}/bin:/usr/bin:/bin`,
      HOME: home,
      XDG_CACHE_HOME: `${home}/cache`,
      DENO_DIR: `${home}/deno-cache`,
      RACKMESH_PROGRAM_PATH: `${home}/bin`,
      RACKMESH_NATS_SERVER: "/bin/true",
      RACKMESH_DENO_SITE: `file://${home}/site`,
    },
    clearEnv: true,
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

/** Puts a release of a Deno that prints its version on the mirror. */
async function release(hash = "$(sha256sum <$zip | cut -d ' ' -f 1)"): Promise<void> {
  const version = /DENO_VERSION=(\S+)/.exec(
    await Deno.readTextFile(projectFile("scripts/setup.sh")),
  )![1]!;
  const { code, stderr } = await shell(`
    mkdir -p site/v${version} && cd site/v${version} && zip=${TARGET} &&
    printf '#!/bin/sh\\necho deno ${version}\\n' >deno &&
    python3 -m zipfile -c $zip deno && echo "${hash}  $zip" >$zip.sha256sum`);
  assert.equal(code, 0, stderr);
}

/** What a set-up has left in its cache. */
function left(): string[] {
  return [...Deno.readDirSync(`${home}/cache/rackmesh`)].map(({ name }) => name).sort();
}

describe("scripts/rack on a fresh machine", () => {
  it("takes a release that has the hash of the site's list, and leaves no other file", async () => {
    await release();
    const { code, stdout, stderr } = await shell(`'${RACK}' --version`);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^deno \d/);
    assert.match(left().join(" "), /^deno-\S+ setup\.lock setup\.log$/);
  });

  it("takes no release that has another hash, or none", async () => {
    for (const hash of ["0".repeat(64), ""]) {
      await release(hash);
      const { code, stdout, stderr } = await shell(`'${RACK}' --version`);
      assert.deepEqual([code, stdout], [70, ""], stderr);
      assert.match(stderr, /deno\.zip is not what it should be: SHA-256 is [0-9a-f]{64}, expected/);
      assert.deepEqual(left(), ["setup.lock", "setup.log"]);
    }
  });

  withHash("takes no package of npm's that has another hash than the set-up keeps", async () => {
    const pack = "mkdir package; echo >package/deno; tar -czf deno-x.tgz package";
    const { code, stderr } = await shell(`'${RACK}' --version`, pack);
    assert.equal(code, 70);
    assert.match(stderr, /npm: failed \(deno-x\.tgz is not what it should be: SHA-512 is/);
    assert.deepEqual(left(), ["setup.lock", "setup.log"]);
  });

  it("fetches a program of the cache again that does not run, and says so", async () => {
    await release();
    const broken = ["", "\\177ELF", "#!/bin/sh\\nexit 1\\n"];
    for (const text of broken) {
      await shell(`'${RACK}' --version; printf '${text}' >$(echo cache/rackmesh/deno-*/deno)`);
      const { code, stdout, stderr } = await shell(`'${RACK}' --version`);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /^deno \d/);
      assert.match(stderr, /deno does not run; it is fetched again/);
    }
  });

  it("leaves nothing of a set-up that is interrupted, and clears up after one that was killed", async () => {
    await release();
    const slow = "touch $HOME/packing; sleep 2; exit 1";
    for (const signal of ["INT", "TERM", "KILL"]) {
      // Looked at from there: what the set-up leaves meanwhile is there for an instant.
      const { stdout } = await shell(
        `set -m; '${RACK}' --version & pid=$!
        until [ -e packing ]; do sleep 0.05; done; rm packing
        echo has $(ls cache/rackmesh | wc -l)
        kill -${signal} -$pid; wait $pid; echo code $?`,
        slow,
      );
      assert.ok(Number(/^has (\d+)$/m.exec(stdout)?.[1]) > 2, `the set-up has begun: ${stdout}`);
      assert.match(stdout, { INT: /code 130/, TERM: /code 143/, KILL: /code 137/ }[signal]!);
      if (signal !== "KILL") assert.deepEqual(left(), ["setup.lock", "setup.log"], signal);
    }
    const { code, stderr } = await shell(`'${RACK}' --version`);
    assert.equal(code, 0, stderr);
    assert.match(left().join(" "), /^deno-\S+ setup\.lock setup\.log$/);
  });
});
