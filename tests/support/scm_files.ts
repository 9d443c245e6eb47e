/** SCM files in a temporary folder, for the tests of `ScmFile`. */
import { ScmFile } from "../../nodes/host/store/scm_file.ts";
import { SUITE_BYTES } from "./scm_size.ts";

export const PLAN = { host: "b", bytes: SUITE_BYTES };

export const directory = Deno.makeTempDirSync({ prefix: "rackmesh-scm-" });
globalThis.addEventListener("unload", () => Deno.removeSync(directory, { recursive: true }));
let files = 0;

export function newPath(): string {
  return `${directory}/${files++}.scm`;
}

/** The files as a process leaves them that is killed now: a copy, as this process keeps its lock. */
export function copyAfterKill(path: string): string {
  const copy = newPath();
  Deno.copyFileSync(path, copy);
  for (const beside of ["log", "sums"]) {
    Deno.copyFileSync(`${path}.${beside}`, `${copy}.${beside}`);
  }
  return copy;
}

/** The file as a process opens it after the last one was killed. Not settled yet. */
export function reopenAfterKill({ path }: ScmFile): ScmFile {
  return ScmFile.open(copyAfterKill(path), PLAN);
}
