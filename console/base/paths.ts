import { refusal } from "../../fabric/rack/plan/problem.ts";
import { ifThere } from "./files.ts";

export const ROOT = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");

export function projectFile(path: string): URL {
  return new URL(`../../${path}`, import.meta.url);
}

/** Percent-decoded. */
export function fromFileUrl(url: URL): string {
  return decodeURIComponent(url.pathname);
}

/** Any character may be in the absolute path. */
export function toFileUrl(path: string): URL {
  return new URL(`file://${path.split("/").map(encodeURIComponent).join("/")}`);
}

/**
 * `$RACKMESH_CACHE`, else `$XDG_CACHE_HOME/rackmesh`, else `$HOME/.cache/rackmesh`.
 * @returns also the words for it that a shell of the same environment takes.
 * @throws Refusal where the environment has none of them.
 */
function cacheDirectory(): { readonly path: string; readonly words: string } {
  const own = Deno.env.get("RACKMESH_CACHE"), cache = Deno.env.get("XDG_CACHE_HOME");
  const home = Deno.env.get("HOME");
  if (own) return { path: own, words: "$RACKMESH_CACHE" };
  if (cache) return { path: `${cache}/rackmesh`, words: "$XDG_CACHE_HOME/rackmesh" };
  if (home) return { path: `${home}/.cache/rackmesh`, words: "~/.cache/rackmesh" };
  const found = "There is no place for runs: HOME is not set";
  throw refusal("", { found, expected: "HOME, XDG_CACHE_HOME or RACKMESH_CACHE" });
}

/**
 * Without links, dots and slashes too many: command lines of processes have the path, and a rack is
 * found by it whatever the cache was called.
 */
export function runsDirectory(): string {
  return cacheFolder("runs");
}

/** In the user's cache; it may not be there yet. @throws Refusal */
export function cacheFolder(name: string): string {
  return `${canonical(cacheDirectory().path)}/${name}`;
}

/** The folder of all that is in {@link cacheFolder}, and how to write it without the user's own. */
export function cacheRoot(): { readonly path: string; readonly words: string } {
  const { path, words } = cacheDirectory();
  return { path: canonical(path), words };
}

function canonical(path: string): string {
  const absolute = (path.startsWith("/") ? path : `${Deno.cwd()}/${path}`).replace(
    /(?:\/\.?)+$/,
    "",
  );
  if (absolute === "") return "";
  const real = ifThere(() => Deno.realPathSync(absolute));
  if (real !== undefined) return real === "/" ? "" : real;
  const name = absolute.lastIndexOf("/");
  return canonical(`${absolute.slice(0, name)}/`) + absolute.slice(name);
}
