/**
 * The server's own folders in what goes out: a user of the API sees where a file is from where they
 * look, and nothing of the machine's. In commands that are to be copied, a shell on the machine takes
 * the words back.
 */
import { createMiddleware } from "hono/factory";
import type { MiddlewareHandler } from "hono";
import { cacheRoot, ROOT } from "../../base/paths.ts";
import type { Console, Env } from "../context.ts";

/** @param text JSON, or plain. @param uploads where they are; undefined: there are none. */
export function withoutFolders(text: string, uploads: string | undefined): string {
  const cache = cacheRoot();
  const folders = [[uploads, "uploads"], [cache.path, cache.words], [ROOT, "."]]
    .filter((pair): pair is [string, string] => pair[0] !== undefined && pair[0].length > 1)
    // One may be in another.
    .sort(([one], [other]) => other.length - one.length);
  return folders.reduce((left, [path, shown]) => {
    const written = JSON.stringify(path).slice(1, -1);
    if (!left.includes(written)) return left;
    const whole = `(?:file://|(?<![\\w./-]))${RegExp.escape(written)}(?![\\w.-])`;
    return left.replaceAll(new RegExp(whole, "g"), () => shown);
  }, text);
}

/** Of every JSON answer, errors included; a file of a run, and the feed, have it from their routes. */
export function folderGuard({ projects }: Pick<Console, "projects">): MiddlewareHandler<Env> {
  return createMiddleware<Env>(async (c, next) => {
    await next();
    const type = c.res.headers.get("content-type") ?? "";
    if (!/^application\/(?:problem\+)?json\b/.test(type)) return;
    const text = await c.res.text();
    c.res = new Response(withoutFolders(text, projects.place), c.res);
  });
}
