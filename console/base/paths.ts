/** Where the project's own files and a user's runs are. */

/** The repository, as a path without a slash at its end. */
export const ROOT = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");

/** A file of the project, by its path from the top. */
export function projectFile(path: string): URL {
  return new URL(`../../${path}`, import.meta.url);
}

/** The path of a `file:` URL, for programs that take no URL. */
export function fromFileUrl(url: URL): string {
  return decodeURIComponent(url.pathname);
}

/** The user's cache, where runs are kept: `$RACKMESH_CACHE`, else `$XDG_CACHE_HOME/rackmesh`. */
function cacheDirectory(): string {
  const own = Deno.env.get("RACKMESH_CACHE");
  if (own !== undefined && own !== "") return own;
  const cache = Deno.env.get("XDG_CACHE_HOME");
  return cache ? `${cache}/rackmesh` : `${Deno.env.get("HOME") ?? "/tmp"}/.cache/rackmesh`;
}

/** The directory that holds one directory per run. */
export function runsDirectory(): string {
  return `${cacheDirectory()}/runs`;
}
