/** Programs of this machine, looked up as a shell does. */
import { ifThere } from "../../fabric/files/reading.ts";

/** The folders of PATH; relative ones, which depend on where a command is given, are none. */
export function foldersOfPath(): readonly string[] {
  return (Deno.env.get("PATH") ?? "").split(":").filter((folder) => folder.startsWith("/"));
}

/** The file of a command, without links; undefined where no folder of PATH has it. */
export function executableInPath(name: string): string | undefined {
  const path = foldersOfPath().map((folder) => `${folder}/${name}`).find(isExecutable);
  return path && Deno.realPathSync(path);
}

/** Whether there is such a file, and it may be executed by somebody. */
export function isExecutable(path: string): boolean {
  const info = ifThere(() => Deno.statSync(path));
  return info?.isFile === true && ((info.mode ?? 0) & 0o111) !== 0;
}
