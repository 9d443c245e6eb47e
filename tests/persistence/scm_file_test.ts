import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { itUnless, mountMissing } from "../support/skipping.ts";
import { pattern } from "../../nodes/host/testing/host_testing.ts";
import { ScmDamageError, ScmFile, ScmFileError } from "../../nodes/host/store/scm_file.ts";
import { ScmSums } from "../../nodes/host/store/scm_sums.ts";
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

const withMount = itUnless(await mountMissing(), "an SCM file on a full disk");

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

  /**
   * Two spans of which the first is merged, and a function for files as a kill leaves them that has
   * cut the writing of the second record.
   */
  function tornAfter() {
    const first = settled(path);
    first.commit(1, [{ offset: 0, data: pattern(64, 1) }]);
    const old = Deno.readFileSync(`${path}.log`);
    first.close();
    const atRest = copyAfterKill(path);
    const second = settled(path);
    second.commit(2, [{ offset: 64, data: pattern(64, 2) }]);
    const whole = Deno.readFileSync(`${path}.log`);
    second.close();
    return {
      whole: whole.length,
      copy(written: number): string {
        const copy = copyAfterKill(atRest);
        const log = old.slice();
        log.set(whole.subarray(0, written));
        Deno.writeFileSync(`${copy}.log`, log);
        return copy;
      },
    };
  }

  it("discards a record that a kill tore, at whichever byte", () => {
    const { whole, copy } = tornAfter();
    for (let written = 0; written < whole; written += 7) {
      const next = settled(copy(written));
      assert.deepEqual([...next.readImage(0, 64)], [...pattern(64, 1)]);
      assert.deepEqual([...next.readImage(64, 64)], Array(64).fill(0), `${written} B`);
      next.close();
    }
  });

  it("says that the record it found was torn", () => {
    const { whole, copy } = tornAfter();
    const fates: string[] = [];
    const next = ScmFile.open(copy(whole - 1), { ...PLAN, onSettled: (fate) => fates.push(fate) });
    assert.equal(next.settle("unknown"), "torn");
    assert.deepEqual(fates, ["torn"]);
    next.close();
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
    withMount(`survives a disk that is full when it writes the ${full}`, async () => {
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

  /** A file with two merged spans and one in the log, as a process leaves it that is killed. */
  function written(): string {
    const file = settled(path);
    for (const span of [1, 2, 3]) {
      file.commit(span, [{ offset: 5000 * span, data: pattern(3000, span) }]);
    }
    const copy = copyAfterKill(path);
    file.close();
    return copy;
  }

  function flip(name: string, at: number): void {
    const bytes = Deno.readFileSync(name);
    bytes[at]! ^= 4;
    Deno.writeFileSync(name, bytes);
  }

  const DAMAGES: readonly (readonly [name: string, harm: (path: string) => void, said: RegExp])[] =
    [
      ["it is missing", (path) => Deno.removeSync(path), /it is missing/],
      ["it is empty", (path) => Deno.truncateSync(path, 0), /it is empty/],
      ["a bit of it is turned over", (path) => flip(path, 5001), /page at 4096 is not/],
      ["one of a page that nobody wrote", (path) => flip(path, SUITE_BYTES - 1), /is not what/],
      [
        "its log is emptied",
        (path) => Deno.truncateSync(`${path}.log`, 0),
        /log has 0 B, expected/,
      ],
      ["its log is missing", (path) => Deno.removeSync(`${path}.log`), /log has 0 B, expected/],
      ["its log has a byte too many", (path) => {
        Deno.writeFileSync(`${path}.log`, new Uint8Array(1), { append: true });
      }, /log has \d+ B, expected/],
      [
        "a bit of its log is turned over",
        (path) => flip(`${path}.log`, 99),
        /not hold span 3 whole/,
      ],
      ["its sums are missing", (path) => Deno.removeSync(`${path}.sums`), /sums is missing/],
      ["its sums are cut", (path) => Deno.truncateSync(`${path}.sums`, 50), /sums has 50 B/],
      ["a bit of their head is turned over", (path) => flip(`${path}.sums`, 20), /sums is none/],
      ["a bit of a sum is turned over", (path) => flip(`${path}.sums`, 45), /page at 4096 is not/],
    ];

  for (const [name, harm, said] of DAMAGES) {
    it(`refuses at every opening that ${name}, until the user accepts it`, () => {
      const copy = written();
      harm(copy);
      for (let opening = 0; opening < 2; opening++) {
        assert.throws(() => ScmFile.open(copy, PLAN), (error) => {
          assert.ok(error instanceof ScmDamageError);
          assert.match(error.message, said);
          return /of host b is damaged: .*--accept-damage/.test(error.message);
        });
      }
      Deno.writeTextFileSync(`${copy}.accept`, "");
      settled(copy).close();
      settled(copy).close();
      assert.throws(() => Deno.statSync(`${copy}.accept`), Deno.errors.NotFound);
    });
  }

  it("notices a bit turned over anywhere in its content", () => {
    const copy = written();
    for (let at = 0; at < SUITE_BYTES; at += 1009) {
      const other = copyAfterKill(copy);
      flip(other, at);
      assert.throws(() => ScmFile.open(other, PLAN), /is not what was written/, `${at}`);
    }
    settled(copy).close();
  });

  it("knows a page of zeros that was written from one that never was", () => {
    const file = settled(path);
    file.commit(1, [{ offset: 0, data: new Uint8Array(4096) }]);
    file.close();
    const sums = Deno.readFileSync(`${path}.sums`).subarray(-4 * Math.ceil(PLAN.bytes / 4096));
    assert.deepEqual([...sums.subarray(0, 8)], [0, 0, 0, 1, 0, 0, 0, 0]);
    // A byte in a hole: as the file system has given it a block, it is found.
    using main = Deno.openSync(path, { write: true });
    main.seekSync(PLAN.bytes - 1, Deno.SeekMode.Start);
    main.writeSync(Uint8Array.of(1));
    assert.throws(() => ScmFile.open(path, PLAN), ScmDamageError);
  });

  it("takes no damage from a kill in the middle of a merge", () => {
    const file = settled(path);
    file.commit(1, [{ offset: 100, data: pattern(64, 1) }, { offset: 9000, data: pattern(64, 2) }]);
    const copy = copyAfterKill(path);
    file.close();
    // The next life has begun to merge the record, and one of its two writes is there.
    const sums = new ScmSums({
      read: (offset, length) => Deno.readFileSync(`${copy}.sums`).slice(offset, offset + length),
      write: (offset, bytes) => {
        const all = Deno.readFileSync(`${copy}.sums`);
        all.set(bytes, offset);
        Deno.writeFileSync(`${copy}.sums`, all);
      },
    }, SUITE_BYTES);
    assert.ok(sums.open());
    sums.mark({ merging: true });
    const content = Deno.readFileSync(copy);
    content.set(pattern(64, 1), 100);
    Deno.writeFileSync(copy, content);
    const next = settled(copy);
    assert.deepEqual(next.readImage(9000, 64), pattern(64, 2));
    next.close();
    settled(copy).close();
  });
});
