/**
 * A process without any right that makes one instance of a bundled program, whose text is its
 * standard input, and answers on standard output with why that failed, or with nothing. Started by
 * `bundle.ts`: top levels of users' files run here, not in the command.
 */
import { loadOwnPrograms } from "../../../nodes/files.ts";

/** Why the program cannot be loaded; empty where it can. */
async function probe(text: string): Promise<string> {
  try {
    const { probed } = await loadOwnPrograms({ programs: { probed: text } });
    probed!();
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

if (import.meta.main) {
  const why = await probe(await new Response(Deno.stdin.readable).text());
  // Whatever the program has left behind, the answer is the last that is written.
  Deno.stdout.writeSync(new TextEncoder().encode(why));
  Deno.exit(0);
}
