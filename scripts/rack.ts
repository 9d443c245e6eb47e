/** The `rack` command. Each subcommand has its own file in `commands/`. */
import { Command, CommanderError } from "commander";
import { addChaos } from "./commands/chaos.ts";
import { addCompletion } from "./commands/completion.ts";
import { addConsole } from "./commands/console.ts";
import { addCompose } from "./commands/compose.ts";
import { explain } from "../console/rack/failure.ts";
import { versionText } from "../console/base/version.ts";
import { interruptedCode } from "./commands/interrupt.ts";
import { OutputClosed, print, say, StdoutError, write } from "./commands/output.ts";
import { addRun } from "./commands/run.ts";
import { addUp } from "./commands/up.ts";
import { addDown } from "./commands/down.ts";
import { addEvents } from "./commands/events.ts";
import { addExplore } from "./commands/explore.ts";
import { addPerftest } from "./commands/perftest.ts";
import { addPs } from "./commands/ps.ts";
import { addPower } from "./commands/power.ts";
import { addCables } from "./commands/cables.ts";
import { addClock } from "./commands/clock.ts";
import { addLogs } from "./commands/logs.ts";
import { addRuns } from "./commands/runs.ts";
import { addScenarioFiles } from "./commands/scenario_files.ts";
import { addTrace } from "./commands/trace.ts";
import { addTransfer } from "./commands/transfer.ts";
import { EXIT } from "../fabric/rack/build/run_file.ts";

/** As shells report a process that SIGPIPE has ended. */
const EXIT_CLOSED = 128 + 13;

function rack(): Command {
  const program = new Command("rack")
    .description("A rack of RDMA machines made of real processes under one virtual clock.")
    .option("-V, --version", "the version of rack, its commit and Deno's")
    .exitOverride()
    .configureOutput({ writeOut: write, writeErr: (text) => say(text.trimEnd()) })
    .showHelpAfterError("(rack --help shows what there is)");
  program.on("option:version", () => {
    print(versionText());
    throw new CommanderError(0, "commander.version", "");
  });
  addRun(program);
  addUp(program);
  addDown(program);
  addPs(program);
  addPower(program);
  addCables(program);
  addClock(program);
  addLogs(program);
  addRuns(program);
  addTransfer(program);
  addTrace(program);
  addExplore(program);
  addPerftest(program);
  addChaos(program);
  addCompose(program);
  addConsole(program);
  addEvents(program);
  addScenarioFiles(program);
  addCompletion(program);
  return program;
}

try {
  await rack().parseAsync(Deno.args, { from: "user" });
} catch (error) {
  if (error instanceof CommanderError) {
    Deno.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  } else if (error instanceof OutputClosed) {
    Deno.exitCode = EXIT_CLOSED;
  } else if (error instanceof StdoutError) {
    say(error.message);
    Deno.exitCode = EXIT.unclear;
  } else if (interruptedCode() === undefined || !isAbort(error)) {
    const { message, code } = explain(error);
    say(message);
    Deno.exitCode = code;
  }
}
Deno.exit(interruptedCode() ?? Deno.exitCode);

/** Whether the error is that of an interrupted command. */
function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
