import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { canMount } from "../support/can_mount.ts";
import { pattern } from "../../nodes/host/testing/host_testing.ts";
import { ScmFile, ScmFileError } from "../../nodes/host/store/scm_file.ts";
import { copyAfterKill, directory, newPath, PLAN } from "../support/scm_files.ts";
import { SUITE_BYTES } from "../support/scm_size.ts";

const CHILD = new URL("../support/scm_file_child.ts", import.meta.url).href;
const FULL_CHILD = new URL("../support/scm_file_full.ts", import.meta.url).href;
/** Small spans fill the disk with content; one large span, with its record. */
const FULL_DISKS = [
  { full: "content", pagesEach: 1, ballast: 7 },
  { full: "log", pagesEach: 6, ballast: 9 },
] as const;

function settled(path: string): ScmFile {
  const file = ScmFile.open(path, PLAN);
  file.settle("unknown");
  return file;
}

describe("ScmFile", () => {
  let path: string;

  beforeEach(() => {
    path = newPath();
  });

  it("is sparse: exactly as large as the SCM, and on disk what was written", () => {
    const file = ScmFile.open(path, { host: "b", bytes: 64 << 20 });
    file.settle("unknown");
    file.commit(1, [{ offset: 32 << 20, data: pattern(64) }]);
    file.close();
    const { size, blocks } = Deno.statSync(path);
    assert.equal(size, 64 << 20);
    assert.ok(blocks! * 512 <= 1 << 20, `${blocks} blocks`);
    assert.equal(Deno.statSync(`${path}.log`).size, 0);
  });

  it("writes nothing for a span without writes", () => {
    const file = settled(path);
    file.commit(1, []);
    assert.equal(Deno.statSync(`${path}.log`).size, 0);
    file.close();
  });

  it("discards a record that a kill tore, at whichever byte", () => {
    const file = settled(path);
    file.commit(1, [{ offset: 0, data: pattern(64, 1) }]);
    file.commit(2, [{ offset: 64, data: pattern(64, 2) }]);
    const log = Deno.readFileSync(`${path}.log`);
    for (let written = 0; written < log.length; written += 7) {
      const copy = copyAfterKill(path);
      Deno.truncateSync(`${copy}.log`, written);
      const next = settled(copy);
      assert.deepEqual([...next.readImage(0, 64)], [...pattern(64, 1)]);
      assert.deepEqual([...next.readImage(64, 64)], Array(64).fill(0), `${written} B`);
      next.close();
    }
    file.close();
  });

  it("says that the record it found was torn", () => {
    const file = settled(path);
    file.commit(1, [{ offset: 0, data: pattern(64, 1) }]);
    const copy = copyAfterKill(path);
    Deno.truncateSync(`${copy}.log`, Deno.statSync(`${copy}.log`).size - 1);
    const fates: string[] = [];
    const next = ScmFile.open(copy, { ...PLAN, onSettled: (fate) => fates.push(fate) });
    assert.equal(next.settle("unknown"), "torn");
    assert.deepEqual(fates, ["torn"]);
    next.close();
    file.close();
  });

  it("P-05: kill -9 of the process at any moment loses no reported span, and tears none", async () => {
    const child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        `--allow-read=${directory}`,
        `--allow-write=${directory}`,
        CHILD,
        path,
      ],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    let output = "", killed = false;
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      output += decoder.decode(chunk, { stream: true });
      if (killed || output.length < 2000) continue;
      child.kill("SIGKILL");
      killed = true;
    }
    await child.status;
    const reported = Number(output.slice(0, output.lastIndexOf("\n")).split("\n").at(-1));
    assert.ok(reported >= 400);
    const file = ScmFile.open(path, PLAN);
    file.settle(reported);
    // Every span writes its number to the two ends of the SCM.
    const view = new DataView(file.readImage(0, SUITE_BYTES).buffer);
    assert.equal(view.getUint32(0), view.getUint32(SUITE_BYTES - 4));
    assert.equal(view.getUint32(0), reported);
    file.close();
  });

  for (const { full, pagesEach, ballast } of FULL_DISKS) {
    it(`survives a disk that is full when it writes the ${full}`, async (test) => {
      if (!await canMount(directory)) {
        return test.skip("this machine lets no user mount a file system");
      }
      // 16 pages for content, log and ballast; removing the ballast is what an operator would do.
      const child =
        `'${Deno.execPath()}' run --no-prompt --allow-read --allow-write '${FULL_CHILD}'`;
      const script = [
        `mount -t tmpfs -o size=64k none ${directory}`,
        `head -c ${ballast * 4096} /dev/zero > ${directory}/ballast`,
        `filled=$(${child} fill ${directory}/x.scm ${pagesEach})`,
        `echo "$filled" >&2`,
        `rm ${directory}/ballast`,
        `reported=$(echo "$filled" | sed 's/.*"reported":\\([0-9]*\\).*/\\1/')`,
        `${child} check ${directory}/x.scm ${pagesEach} $reported`,
      ].join(" && ");
      const { stdout, stderr } = await new Deno.Command("unshare", {
        args: ["-rm", "sh", "-c", script],
      })
        .output();
      const { reported, name, message } = JSON.parse(new TextDecoder().decode(stderr));
      assert.deepEqual([name, reported > 0], ["ScmFileError", true]);
      const written = full === "log" ? "x\\.scm\\.log" : "x\\.scm";
      assert.match(message, new RegExp(`^Cannot write .*${written}: No space left`));
      const expected = Array.from({ length: SUITE_BYTES / 4096 }, (_, page) => {
        const span = page === 0 ? 1 : 2 + Math.floor((page - 1) / pagesEach);
        return span <= reported ? span : 0;
      });
      assert.deepEqual(JSON.parse(new TextDecoder().decode(stdout)), expected);
    });
  }

  it("refuses a file of another size, and leaves it alone", () => {
    Deno.writeFileSync(path, pattern(4096));
    assert.throws(() => ScmFile.open(path, PLAN), {
      name: "ScmFileError",
      message:
        `Cannot use SCM file ${path} as host b's scm.size is ${SUITE_BYTES} B: the file has 4096 B`,
    });
    assert.deepEqual(Deno.readFileSync(path), pattern(4096));
  });

  it("refuses what is no regular file", () => {
    Deno.mkdirSync(path);
    assert.throws(() => ScmFile.open(path, PLAN), /it must be a regular file/);
  });

  it("refuses a file that is open already", () => {
    const file = settled(path);
    assert.throws(() => ScmFile.open(path, PLAN), /another process has it open/);
    file.close();
    settled(path).close();
  });

  it("says what the file system said, with the cause", () => {
    assert.throws(
      () => ScmFile.open(`${directory}/nowhere/x.scm`, PLAN),
      (error) =>
        error instanceof ScmFileError && error.cause instanceof Deno.errors.NotFound &&
        /^Cannot open .*nowhere/.test(error.message),
    );
  });

  it("takes up an empty file, which a process left that died while making it", () => {
    Deno.writeFileSync(path, new Uint8Array(0));
    const file = settled(path);
    assert.deepEqual([...file.readImage(SUITE_BYTES - 2, 2)], [0, 0]);
    file.close();
  });
});
