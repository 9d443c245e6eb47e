import assert from "node:assert/strict";
import { afterAll, describe, it as always } from "@std/testing/bdd";
import { executableInPath } from "../../base/executables.ts";
import { failuresWithSources, withSourceLines } from "./source_lines.ts";

const TOOLS = ["cc", "nm", "addr2line"];
const hasTools = TOOLS.every((tool) => executableInPath(tool) !== undefined);
const it = hasTools ? always : always.skip;
const folder = Deno.makeTempDirSync({ prefix: "rackmesh-source-lines-" });
afterAll(() => Deno.remove(folder, { recursive: true }));

function output(command: string, ...args: string[]): string {
  const { success, stdout, stderr } = new Deno.Command(command, { args }).outputSync();
  assert.ok(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

/** @returns a binary, and the address of its `main`, which is on line 3. */
function built(name: string, ...flags: string[]): { readonly file: string; readonly main: string } {
  const file = `${folder}/${name}`;
  Deno.writeTextFileSync(`${file}.c`, "\n\nint main(void) { return 0; }\n");
  output("cc", ...flags, "-o", file, `${file}.c`);
  const [, address] = /^0*([0-9a-f]+) T main$/m.exec(output("nm", file))!;
  return { file, main: `0x${address}` };
}

describe("withSourceLines", () => {
  it("adds lines of the source where the binary has them, and nothing elsewhere", () => {
    const { file, main } = built("lines", "-g"), bare = built("bare");
    const text = `at main (${main} in lines), in ${bare.main} in bare, in 0x1 in libc.so.6`;
    assert.equal(
      withSourceLines(text, [file, bare.file]),
      `at main (${main} in lines: lines.c:3), in ${bare.main} in bare, in 0x1 in libc.so.6`,
    );
  });
});

describe("failuresWithSources", () => {
  it("changes what failed programs are told by, in finals and record, and no other report", () => {
    const { file, main } = built("fails", "-g"), message = `stuck at ${main} in fails`;
    const reports = [
      { topic: "program-failed", value: { program: "fails", message } },
      { topic: "log", value: { message } },
    ];
    const { finals: [final], record } = failuresWithSources(
      { finals: [{ reports }], record: { reports } },
      [file],
    );
    const failed = {
      topic: "program-failed",
      value: { program: "fails", message: `${message}: fails.c:3` },
    };
    assert.deepEqual(final!.reports, [failed, reports[1]]);
    assert.deepEqual(record.reports, [failed, reports[1]]);
  });
});
