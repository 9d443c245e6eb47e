/** Scenarios that come as text: kept as files, so that a run of one can be repeated. */
import { writeWhole } from "../base/files.ts";
import { cacheFolder } from "../base/paths.ts";

/** Texts that have not been used for the longest time go. */
const KEPT_MAX = 200;

/** @returns the path of the file with this text: the same text has the same one. */
export async function keepText(text: string): Promise<string> {
  const folder = cacheFolder("scenarios");
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const path = `${folder}/${new Uint8Array(digest).toHex().slice(0, 16)}.yaml`;
  writeWhole(path, text);
  await forgetOld(folder);
  return path;
}

async function forgetOld(folder: string): Promise<void> {
  const files: { readonly path: string; readonly mtime: number }[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    const stat = await Deno.stat(path).catch(() => undefined);
    if (stat !== undefined) files.push({ path, mtime: stat.mtime?.getTime() ?? 0 });
  }
  files.sort((x, y) => y.mtime - x.mtime);
  for (const { path } of files.slice(KEPT_MAX)) await Deno.remove(path).catch(() => {});
}
