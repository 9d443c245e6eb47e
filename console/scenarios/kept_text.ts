/** Scenarios that come as text, kept as files: a run of one can be repeated. */
import { writeWhole } from "../base/files.ts";
import { cacheFolder } from "../base/paths.ts";

const KEPT_MAX = 200;

/** Returns the path of the text's file: one for equal texts. */
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
