/** A folder for a native program of the user's: a C program over verbs, its Makefile, and a scenario that runs it. */
import { basename, resolve } from "node:path";
import { isThere } from "../base/files.ts";
import { fromFileUrl, projectFile, toFileUrl } from "../base/paths.ts";
import { alreadyThere, type NewProtocol, stemOf, writeNew } from "./new_protocol.ts";
import { SCHEMA_COMMENT, SCHEMA_FILE } from "./shipped.ts";

/** The program that is shipped for it. */
const TEMPLATE = "scripts/scenarios/native/my_native.c";

/**
 * Writes the missing files of such a folder.
 * @throws Refusal where the program or its scenario exists, before anything is written.
 */
export async function writeNewNative(target: string): Promise<NewProtocol> {
  const folder = resolve(target);
  const stem = stemOf(basename(folder), { isFile: false, otherwise: "my_native" });
  const protocol = `${stem}.c`, scenario = `${stem}.yaml`;
  for (const file of [protocol, scenario]) {
    if (isThere(`${folder}/${file}`)) throw alreadyThere(`${folder}/${file}`, "a folder");
  }
  const files = {
    [protocol]: await Deno.readTextFile(projectFile(TEMPLATE)),
    [scenario]: scenarioOf(stem),
    Makefile: makefileOf(stem),
    "README.md": readmeOf(stem),
  };
  const written: string[] = [], kept: string[] = [];
  for (const [file, text] of Object.entries(files)) {
    (await writeNew(`${folder}/${file}`, text) ? written : kept).push(file);
  }
  return { folder, written, kept, protocol, scenario };
}

function scenarioOf(stem: string): string {
  return `${SCHEMA_COMMENT}${SCHEMA_FILE}
# A program in C, as it is, on two hosts: make && rack run ${stem}.yaml --pack all
name: ${stem.replaceAll(/_+/g, "-").replace(/-$/, "")}
hosts:
  a: {}
  b: {}
programs:
  - { on: b, native: [./${stem}] }
  - { on: a, native: [./${stem}, b], at: 1ms }
`;
}

function makefileOf(stem: string): string {
  return `CFLAGS = -std=gnu11 -O2 -g -Wall -Wextra

${stem}: ${stem}.c
\t$(CC) $(CFLAGS) -o $@ $< -libverbs

clean:
\trm -f ${stem}
`;
}

function readmeOf(stem: string): string {
  const guide = toFileUrl(fromFileUrl(projectFile("scripts/scenarios/NATIVE.md"))).href;
  return `# ${stem}

A program over libibverbs that runs on a rack of Rackmesh, [how](${guide}), and on machines with real cards.

- \`make\` builds it: it needs Debian's packages make, gcc and libibverbs-dev.
- \`rack run ${stem}.yaml --pack all\` runs it on two hosts of a rack, a client and a server.
- \`./${stem}\` and \`./${stem} SERVER\` run it on two real machines.
`;
}
