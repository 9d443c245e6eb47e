/** How the native programs of a run start: their folders, the library in them, and their sandbox. */
import type { RunFile } from "../fabric/rack/assembly/run_file.ts";
import type { NativePort } from "./host/native/port.ts";
import { createNativePort } from "./native_process.ts";
import { sandboxWords } from "./native_sandbox.ts";

/** Of a run's directory: a folder for each host, and in it one for each of its native programs. */
export const NATIVE_FOLDER = "native";

/** @returns what starts a host's native programs; undefined where the run has none. */
export function nativePorts(
  { directory, native }: Pick<RunFile, "directory" | "native">,
): ((host: string, life: number) => NativePort) | undefined {
  if (native === undefined) return undefined;
  const { library, bwrap, runs } = native;
  const hidden = directory.startsWith(`${runs}/`) ? [runs] : [runs, directory];
  return (host, life) =>
    createNativePort({
      library,
      // A program that starts again finds what it left in the SCM, and no file of its earlier life.
      directory: `${directory}/${NATIVE_FOLDER}/${host}${life === 0 ? "" : `.${life}`}`,
      ...(bwrap !== undefined && {
        wrap: (folder: string) => sandboxWords({ bwrap, hidden, folder }),
      }),
    });
}
