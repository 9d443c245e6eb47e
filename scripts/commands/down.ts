/** `rack down`: ends every process of a rack, also where its supervisor has ended. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { takeRacksDown } from "../../console/rack/bring_up.ts";
import { addRunOption, given, type RunFlag } from "./options.ts";
import { print } from "./output.ts";

interface DownFlags extends RunFlag {
  readonly all?: boolean;
  readonly json?: boolean;
}

export function addDown(program: Command): void {
  addRunOption(program.command("down"))
    .description("end every process of a rack; what is in its SCM files stays")
    .option("--all", "every rack that is up")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack down")
    .action(async (flags: DownFlags) => {
      Deno.exitCode = await down(flags);
    });
}

async function down({ run, all, json }: DownFlags): Promise<number> {
  const ended = await takeRacksDown(given({ run, all }));
  if (json) print(JSON.stringify(ended));
  for (const { run, processes, captures } of json ? [] : ended) {
    print(`${run} is down: ${processes} processes ended`);
    for (const path of captures) print(`capture ${path}`);
  }
  return EXIT.done;
}
