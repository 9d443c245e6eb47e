/**
 * Carries out command lines one after the other in this process: see `CommandRig.each`. Its argument is a list of
 * lists of words, and what it prints a list of what each has said, as JSON.
 */
import { runCommandLine } from "../../scripts/command_line.ts";

const decoder = new TextDecoder();
let stdout = "", stderr = "";
const print = Deno.stdout.writeSync.bind(Deno.stdout);
Deno.stdout.writeSync = (bytes) => {
  stdout += decoder.decode(bytes);
  return bytes.length;
};
Deno.stderr.writeSync = (bytes) => {
  stderr += decoder.decode(bytes);
  return bytes.length;
};

const said = [];
for (const args of JSON.parse(Deno.args[0]!)) {
  [stdout, stderr, Deno.exitCode] = ["", "", 0];
  const code = await runCommandLine(args);
  said.push({ code, stdout, stderr });
}
const bytes = new TextEncoder().encode(JSON.stringify(said));
for (let at = 0; at < bytes.length;) at += print(bytes.subarray(at));
Deno.exit(0);
