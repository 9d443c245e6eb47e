/** `rack logs`: the output of a run's processes. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { logLines } from "../../console/rack/kept_runs.ts";
import { addRunOption, given, type RunFlag } from "./options.ts";
import { print } from "./output.ts";

interface LogFlags extends RunFlag {
  readonly follow?: boolean;
}

export function addLogs(program: Command): void {
  addRunOption(program.command("logs [node]"))
    .description("what the processes have said; nats, timekeeper and supervisor included")
    .option("-f, --follow", "follow new lines until Ctrl-C")
    .addHelpText("after", "\nExample:\n  rack logs b -f")
    .action(async (node: string | undefined, { run, follow }: LogFlags) => {
      for await (const { log, line, alone } of logLines(given({ run, node, follow }))) {
        print(alone ? line : `${log}: ${line}`);
      }
      Deno.exitCode = EXIT.done;
    });
}
