/** The `rack` command. Each subcommand has its own file in `commands/`. */
import { runCommandLine } from "./command_line.ts";

Deno.exit(await runCommandLine(Deno.args));
