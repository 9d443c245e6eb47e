/**
 * Writes a file that a user has named: all of it or nothing, and never in the place of a device.
 */
import { ifThere } from "./files.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";

/** @throws Refusal where a folder has that name, or a link leads to nothing. */
export function checkTarget(path: string): void {
  const info = ifThere(() => Deno.statSync(path));
  const found = info?.isDirectory
    ? `${path} is a folder`
    : info === undefined && ifThere(() => Deno.lstatSync(path)) !== undefined
    ? `${path} is a link to nothing`
    : undefined;
  if (found !== undefined) throw refusal("", { found, expected: "a file to write to" });
}

/**
 * Writes beside the file and renames: a regular file, also one behind a link, stays as it is until
 * the new one is complete. A FIFO, a device, and this process's own output are written to.
 */
export async function replaceFile(path: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const info = ifThere(() => Deno.statSync(path));
  if (isOutput(path) || (info !== undefined && !info.isFile)) {
    using file = await Deno.open(path, { write: true, append: true });
    for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
    return;
  }
  const target = info === undefined ? path : await Deno.realPath(path);
  const part = `${target}.part-${Deno.pid}`;
  try {
    // Several users may write to the folder: no link is followed to another place.
    await Deno.writeFile(part, bytes, {
      createNew: true,
      ...(typeof info?.mode === "number" && { mode: info.mode & 0o777 }),
    });
    await Deno.rename(part, target);
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) await Deno.remove(part).catch(() => {});
    throw error;
  }
}

/** The file is this process's standard output, under any name. */
export function isOutput(path: string): boolean {
  const file = ifThere(() => Deno.statSync(path));
  const output = ifThere(() => Deno.statSync("/dev/stdout"));
  return file !== undefined && file.ino === output?.ino && file.dev === output.dev;
}
