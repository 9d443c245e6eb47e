/** `rack down`: also where the rack's supervisor has ended. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/base/exit.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import { addOrderOptions, given, type OrderFlags } from "./options.ts";
import { print, say } from "./output.ts";

interface DownFlags extends OrderFlags {
  readonly all?: boolean;
}

export function addDown(program: Command): void {
  addOrderOptions(program.command("down"))
    .description("end every process of a rack, or detach it; what is in its SCM files stays")
    .option("--all", "every rack that is up")
    .addHelpText("after", "\nExample:\n  rack down")
    .action(down);
}

async function down({ run, all, json, overrideLock }: DownFlags): Promise<void> {
  const onForeign = (ids: readonly string[]) =>
    say(`left up, as they are another user's: ${ids.join(", ")}`);
  const ended = await takeRacksDown({ ...given({ run, all, overrideLock }), onForeign });
  if (json) print(JSON.stringify(ended));
  for (const { run, processes, captures, detached, problem } of json ? [] : ended) {
    print(
      detached === true
        ? `${run} is detached${problem === undefined ? ": it goes on where it runs" : ""}`
        : `${run} is down: ${processes} processes ended`,
    );
    for (const path of captures) print(`capture ${path}`);
  }
  for (const { run, problem } of ended) {
    if (problem === undefined) continue;
    say(`${run} is ${problem}`);
    Deno.exitCode = EXIT.unclear;
  }
}
