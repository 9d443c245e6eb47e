/** The user's own programs in a process of the rack's. Their rules are in `host/own_programs.ts`. */
import type { RunFile } from "../fabric/rack/assembly/run_file.ts";
import { type MakeProgram, makerOf, surroundings } from "./host/own_programs.ts";

const AROUND = surroundings(globalThis, console.error);

/**
 * Loads the user's own programs from bundled texts (`console/rack/own/bundle.ts`), by their names in the scenario.
 * Needs no permission.
 * @param options.print receives what they print with `console`; default: stderr does.
 */
export async function loadOwnPrograms(
  { programs, print = AROUND.print }: Pick<RunFile, "programs"> & {
    readonly print?: (...values: unknown[]) => void;
  },
): Promise<Record<string, MakeProgram>> {
  // A call by `yield*` has three frames: of ten an error would name three functions.
  Error.stackTraceLimit = 60;
  const own: Record<string, MakeProgram> = {}, around = { ...AROUND, print };
  for (const [name, text] of Object.entries(programs)) {
    const encoded = new TextEncoder().encode(text).toBase64();
    const module = await import(`data:application/javascript;base64,${encoded}`);
    own[name] = makerOf(module.default, around);
  }
  return own;
}
