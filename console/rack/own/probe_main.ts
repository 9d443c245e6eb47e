/**
 * Makes one instance of a bundled program, the text on its standard input, and writes its findings
 * to standard output.
 */
import { loadOwnPrograms } from "../../../nodes/load_own_programs.ts";
import { hasHooks } from "../../../nodes/host/own_programs.ts";
import type { Probed } from "./probe.ts";
import { PROBE_BEGINS } from "./frames.ts";

async function probe(text: string): Promise<Probed> {
  try {
    const { probed } = await loadOwnPrograms({ programs: { probed: text } });
    return { isHooked: hasHooks(probed!), isProtocol: probed!().rows !== undefined };
  } catch (error) {
    return {
      why: error instanceof Error ? error.message : String(error),
      isHooked: false,
      isProtocol: false,
    };
  }
}

if (import.meta.main) {
  const text = await new Response(Deno.stdin.readable).text();
  Deno.stdout.writeSync(new TextEncoder().encode(PROBE_BEGINS));
  const probed = await probe(text);
  // Whatever the program has left behind, the answer is the last that is written.
  Deno.stdout.writeSync(new TextEncoder().encode(JSON.stringify(probed)));
  Deno.exit(0);
}
