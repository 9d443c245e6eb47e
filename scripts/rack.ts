import { runCommandLine } from "./command_line.ts";

Deno.exit(await runCommandLine(Deno.args));
