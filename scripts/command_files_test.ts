import { deepEqual } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Command } from "commander";
import { COMMAND_FILES, commandsFor } from "./command_files.ts";
import { SHELLS } from "./commands/completion.ts";

describe("COMMAND_FILES", () => {
  it("has every command under its file", async () => {
    for (const { commands, load } of COMMAND_FILES) {
      const program = new Command();
      (await load())(program);
      deepEqual(program.commands.map((each) => each.name()), commands);
    }
  });
});

describe("commandsFor", () => {
  it("loads the file of the command that is asked for, else all of them", async () => {
    const count = async (...args: string[]) => (await commandsFor(args)).length;
    deepEqual(
      [await count("ps", "--json"), await count("ls"), await count("completion", "runs")],
      [1, 1, 1],
    );
    for (
      const args of [
        [],
        ["--help"],
        ["help", "ps"],
        ["nonsense"],
        ...SHELLS.map((shell) => ["completion", shell]),
      ]
    ) {
      deepEqual(await count(...args), COMMAND_FILES.length, args.join(" "));
    }
  });
});
