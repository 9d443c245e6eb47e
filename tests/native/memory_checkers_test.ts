/**
 * The library of native programs under valgrind and the compiler's sanitizers: what it reads and writes is its own or
 * the program's, and is set. The card's accesses (process_vm_writev) are the kernel's: valgrind takes what they write
 * for unset, so that its findings in a program's own code are not looked at.
 */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { isThere } from "../../console/base/files.ts";
import { nativeLibrary } from "../../console/rack/native/library.ts";
import { compiled, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

/** The library neither steps nor traps: valgrind does that itself, and a sanitizer's own loads are not to be stepped. */
const INSTRUMENTED = { RACKMESH_INSTRUMENTED: "1", RACKMESH_LEASE: "off" };
/** The tool itself, which is linked statically: the command `valgrind` would have the library in it, too. */
const FOLDER = "/usr/libexec/valgrind", TOOL = `${FOLDER}/memcheck-amd64-linux`;
const VALGRIND = {
  front: [TOOL, "-q", "--vgdb=no", "--child-silent-after-fork=no"],
  env: {
    VALGRIND_LAUNCHER: "/usr/bin/valgrind",
    VALGRIND_LIB: FOLDER,
    ...INSTRUMENTED,
  },
};
const SANITIZED = [
  ...["-g", "-O1", "-fno-omit-frame-pointer"],
  ...["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
];
/** The library comes before all others, its sanitizer's among them; what it has it keeps. */
const SANITIZERS = { ASAN_OPTIONS: "verify_asan_link_order=0:detect_leaks=0", ...INSTRUMENTED };

const NAME = "tests/native/memory_checkers_test.ts";
const missing = await nativeMissing();
const withValgrind = itUnless(
  missing ?? (isThere(TOOL) ? undefined : "there is no valgrind (Debian's package valgrind)"),
  NAME,
);
const withSanitizers = itUnless(missing, NAME);
const folder = await Deno.makeTempDir({ prefix: "rackmesh-checkers-" });
afterAll(() => Deno.remove(folder, { recursive: true }));

const TWO = [["server"], ["client", "b"]] as const;
interface Checked {
  readonly source: string;
  readonly libraries: readonly string[];
  /** Arguments of each program. */
  readonly ends: readonly (readonly string[])[];
}
const PROGRAMS: readonly Checked[] = [
  { source: "cm_check.c", libraries: ["-lrdmacm", "-libverbs"], ends: TWO },
  { source: "channel_check.c", libraries: ["-libverbs"], ends: TWO },
  { source: "net_check.c", libraries: [], ends: TWO },
  { source: "thread_check.c", libraries: [], ends: [[]] },
];

interface Manner {
  /** In front of each command. */
  readonly front?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly library?: string;
}

/** Each host's lines. */
async function linesOf(
  { source, libraries, ends }: Checked,
  { front = [], ...manner }: Manner = {},
): Promise<Readonly<Record<string, readonly string[]>>> {
  const file = compiled(folder, source, libraries);
  const text = [
    "name: checked",
    "hosts: { a: { services: none }, b: { services: none } }",
    "programs:",
    ...ends.map((words, i) => {
      const command = JSON.stringify([...front, file, ...words]);
      return `  - { on: ${["b", "a"][i]}, at: ${i}ms, native: ${command} }`;
    }),
  ].join("\n");
  return (await runNative(folder, text, manner)).lines;
}

/** Valgrind's lines are `==PID== …`, its findings paragraphs. */
function findingsIn(lines: readonly string[]): string[] {
  const said = lines.filter((line) => line.startsWith("=="))
    .map((line) => line.replace(/^==\d+== ?/, ""));
  return said.join("\n").split(/\n\n+/);
}

describe("the library of native programs, under checkers of memory", () => {
  for (const program of PROGRAMS) {
    withValgrind(`${program.source}: valgrind finds nothing, and all is as without`, async () => {
      const plain = await linesOf(program), checked = await linesOf(program, VALGRIND);
      for (const [host, lines] of Object.entries(plain)) {
        const own = checked[host]!.filter((line) => !line.startsWith("=="));
        assert.deepEqual(own, lines, host);
        const findings = findingsIn(checked[host]!);
        assert.deepEqual(findings.filter((finding) => finding.includes("librackmesh")), []);
      }
    });

    withSanitizers(
      `${program.source}: sanitizers find nothing, and all is as without`,
      async () => {
        const library = await nativeLibrary({ flags: SANITIZED });
        const checked = await linesOf(program, { env: SANITIZERS, library });
        assert.deepEqual(checked, await linesOf(program));
      },
    );
  }
});
