import type { Command } from "commander";
import { logLines } from "../../console/rack/kept_runs.ts";
import { addRunOption, given, type LiveFlags } from "./options.ts";
import { print } from "./output.ts";

interface LogFlags extends LiveFlags {
  readonly follow?: boolean;
}

export function addLogs(program: Command): void {
  addRunOption(program.command("logs [node]"))
    .description("the output of the processes; nats, timekeeper and supervisor included")
    .option("-f, --follow", "follow new lines until Ctrl-C")
    .addHelpText("after", "\nExample:\n  rack logs b -f")
    .action(async (node: string | undefined, { run, follow }: LogFlags) => {
      for await (const { log, line, alone } of logLines(given({ run, node, follow }))) {
        print(alone ? line : `${log}: ${line}`);
      }
    });
}
