/** Processes of native programs: they have nothing of a run on their command lines, but their working folder. */
import { ifThere } from "../../console/base/files.ts";

/**
 * Ids of the processes whose working folder, or a word of whose command line, lies in a folder.
 * @param word in the command line; absent: any.
 */
export function processesIn(folder: string, word = ""): number[] {
  const found: number[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === Deno.pid) continue;
    const words = ifThere(() => readable(() => Deno.readTextFileSync(`/proc/${pid}/cmdline`))) ??
      "";
    const at = ifThere(() => readable(() => Deno.readLinkSync(`/proc/${pid}/cwd`))) ?? "";
    // This tree's own path may have a folder of that name.
    const isIn = (path: string) =>
      path.split(`${folder}/`).slice(1).some((behind) => `/${behind}`.includes("/native/"));
    if (words.includes(word) && [at, ...words.split("\0")].some(isIn)) found.push(pid);
  }
  return found;
}

/** A process may end while it is looked at, or be another user's. */
function readable(read: () => string): string | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof Error && /os error (3|13)\b/.test(error.message)) return undefined;
    throw error;
  }
}
