/** The page's files, from memory: they are few, and made once when the console starts. */

export interface PageFile {
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Changes with the content. */
  readonly tag: string;
}

/** By path, `/` among them. */
export type Page = ReadonlyMap<string, PageFile>;

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  png: "image/png",
  ico: "image/x-icon",
  json: "application/json",
  woff2: "font/woff2",
};

/** @param files by name; `index.html` is `/`, too. */
export async function pageOf(files: ReadonlyMap<string, string | Uint8Array>): Promise<Page> {
  const page = new Map<string, PageFile>();
  for (const [name, content] of files) {
    const bytes = typeof content === "string"
      ? new TextEncoder().encode(content)
      : new Uint8Array(content);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
    const type = TYPES[name.split(".").at(-1)!] ?? "application/octet-stream";
    const file = { type, bytes, tag: `"${digest.slice(0, 16)}"` };
    page.set(`/${name}`, file);
    if (name === "index.html") page.set("/", file);
  }
  return page;
}

/** Stands in for a page that could not be made. @param why a sentence. */
export async function pageWithout(why: string): Promise<Page> {
  const text = why.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Rackmesh</title>
<h1>Rackmesh</h1>
<p>${text}</p>
<p>The API is there: <a href="/api/v1/openapi.json">/api/v1/openapi.json</a> describes it.</p>
</html>
`;
  return await pageOf(new Map([["index.html", html]]));
}

/** The page as `console/ui` builds it; where that is not there, one that says so. */
export async function makePage(): Promise<Page> {
  return await pageWithout("The page is not built here: this is a tree without console/ui.");
}
