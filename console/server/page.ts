import { type PageFile, pageFiles } from "../ui/bundle.ts";

/** By path, `/` among them. */
export type Page = ReadonlyMap<string, PageFile>;

/** Where the page cannot be made: a page that says why. */
export async function makePage(): Promise<Page> {
  try {
    return new Map((await pageFiles()).map((file) => [file.path, file]));
  } catch (error) {
    return pageWithout(`The page cannot be made: ${(error as Error).message.split("\n")[0]}`);
  }
}

/** @param why a sentence, for a page that is not there. */
export function pageWithout(why: string): Page {
  const text = why.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const body = new TextEncoder().encode(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Rackmesh</title>
<h1>Rackmesh</h1>
<p>${text}</p>
<p>The API is there: console/server/README.md describes it.</p>
</html>
`);
  const type = "text/html; charset=utf-8";
  return new Map([["/", { path: "/", type, body, gzip: body.slice(0, 0), immutable: false }]]);
}

/** Undefined where there is no file of that path. */
export function pageResponse(
  page: Page,
  { path, encodings }: { readonly path: string; readonly encodings: string | undefined },
): Response | undefined {
  const file = page.get(path);
  if (file === undefined) return undefined;
  const headers = {
    "Content-Type": file.type,
    "Cache-Control": file.immutable ? "public, max-age=31536000, immutable" : "no-cache",
    Vary: "Accept-Encoding",
  };
  const isZipped = file.gzip.length > 0 && /\bgzip\b/.test(encodings ?? "");
  if (!isZipped) return new Response(file.body, { headers });
  return new Response(file.gzip, { headers: { ...headers, "Content-Encoding": "gzip" } });
}
