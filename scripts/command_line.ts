import { Command, CommanderError } from "commander";
import { explain } from "../console/rack/failure.ts";
import { versionText } from "../console/base/version.ts";
import { commandsFor } from "./command_files.ts";
import { interruptedCode } from "./commands/interrupt.ts";
import { OutputClosed, print, say, StdoutError, write } from "./commands/output.ts";
import { EXIT } from "../fabric/base/exit.ts";

/** As shells report a process that SIGPIPE has ended. */
const EXIT_CLOSED = 128 + 13;

async function rack(args: readonly string[]): Promise<Command> {
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
  for (const add of await commandsFor(args)) add(program);
  program.commands.forEach(refuseOptionsAsValues);
  return program;
}

/** The parser takes the next word for an option's value, whatever it is. */
function refuseOptionsAsValues(command: Command): void {
  const isFlag = (word: unknown) => command.options.some(({ long }) => long === word);
  for (const option of command.options.filter(({ required }) => required)) {
    command.on(`option:${option.name()}`, (value: unknown) => {
      if (!isFlag(value)) return;
      command.error(`error: option '${option.flags}' has no value: found the option '${value}'`);
    });
  }
  command.commands.forEach(refuseOptionsAsValues);
}

/** @param args the line's words. @returns the exit code. */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  try {
    await (await rack(args)).parseAsync(args, { from: "user" });
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
  return interruptedCode() ?? Deno.exitCode;
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
