import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { readJobFile, substituted } from "./job_file.ts";

function worldOf(files: Record<string, string>) {
  return {
    variable: (name: string) => ({ HOST: "b", EMPTY: "" })[name],
    read(path: string) {
      const text = files[path];
      return text === undefined ? Promise.reject(new Error("no such file")) : Promise.resolve(text);
    },
  };
}

async function problemsOf(files: Record<string, string>): Promise<string> {
  const refused = await readJobFile("job.fio", worldOf(files)).then(() => "nothing", (error) => {
    assert.ok(error instanceof Refusal, String(error));
    return error.message;
  });
  return refused;
}

describe("readJobFile", () => {
  it("has sections with their settings and lines, without comments and blanks", async () => {
    const text = `; a comment
[global]
ioengine=rdma  # behind a value
  thread

[first job]
bs = 4k ; and a semicolon
`;
    const sections = await readJobFile("job.fio", worldOf({ "job.fio": text }));
    const shown = sections.map(({ name, line, settings }) => [
      name,
      line,
      ...settings.map(({ name, value, line }) => `${line} ${name}=${value}`),
    ]);
    assert.deepEqual(shown, [
      ["global", 2, "3 ioengine=rdma", "4 thread=undefined"],
      ["first job", 6, "7 bs=4k"],
    ]);
  });

  it("puts an included file in its place, from the folder of the file that names it", async () => {
    const files = {
      "dir/job.fio": "[a]\ninclude more.fio\nsize=1m\n",
      "dir/more.fio": "bs=8k\ninclude deep/most.fio\n",
      "dir/deep/most.fio": "iodepth=3",
    };
    const [section] = await readJobFile("dir/job.fio", worldOf(files));
    const shown = section!.settings.map(({ name, file, line }) => `${file}:${line} ${name}`);
    assert.deepEqual(shown, [
      "dir/more.fio:1 bs",
      "dir/deep/most.fio:1 iodepth",
      "dir/job.fio:3 size",
    ]);
  });

  for (
    const [what, files, expected] of [
      [
        "a setting without a section",
        { "job.fio": "bs=4k\n" },
        /job\.fio:1: found "bs=4k", expected a section/,
      ],
      [
        "a section that is not closed",
        { "job.fio": "[a\nbs=4k" },
        /job\.fio:1: found "\[a", expected a section \[name\]/,
      ],
      ["no job", { "job.fio": "[global]\nbs=4k" }, /job\.fio:1: found no job, expected a section/],
      [
        "a missing include",
        { "job.fio": "[a]\ninclude x.fio" },
        /job\.fio:2: include: found x\.fio: no such file/,
      ],
      [
        "a section in an include",
        { "job.fio": "[a]\ninclude x", x: "\n[b]" },
        /x:2: found the section \[b\]/,
      ],
      [
        "a file that includes itself",
        { "job.fio": "[a]\ninclude x", x: "include x" },
        /x:1: include: found x, expected at most 16/,
      ],
    ] as const
  ) {
    it(`refuses ${what}, with its line`, async () => {
      assert.match(await problemsOf(files), expected);
    });
  }
});

describe("substituted", () => {
  const setting = { name: "serverip", file: "job.fio", line: 1, unset: [] };

  it("puts variables and fio's keywords in their places, and tells which are not set", () => {
    const of = (value: string) => {
      const { value: text, unset } = substituted({ ...setting, value }, worldOf({}));
      return [text, ...unset];
    };
    assert.deepEqual(of("${HOST}.rack${EMPTY}"), ["b.rack"]);
    assert.deepEqual(of("x${NONE}y"), ["xy", "NONE"]);
    assert.deepEqual(of("$pagesize"), ["4096"]);
    assert.deepEqual(of("$other"), ["$other"]);
  });
});
