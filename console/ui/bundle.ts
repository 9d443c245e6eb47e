/** The only file here that runs in Deno, not in the browser. */
import { createRequire } from "node:module";
import type { Plugin } from "esbuild";
import { fromFileUrl, projectFile, ROOT } from "../base/paths.ts";

export interface PageFile {
  /** As `index.html` asks for it: `/`, `/app-1f3a….js`. */
  readonly path: string;
  readonly type: string;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly gzip: Uint8Array<ArrayBuffer>;
  /** The path holds a hash of the content: a browser need not ask again. */
  readonly immutable: boolean;
}

/** Takes some 0.2 s, without a network. @throws Error of esbuild where a module has an error. */
export async function pageFiles(): Promise<PageFile[]> {
  const style = await Promise.all([
    Deno.readFile(resolved("uplot/dist/uPlot.min.css")),
    read("style.css"),
    read("views.css"),
  ]);
  const [app, sheet, icon] = await Promise.all([
    pageFile("app.js", await bundle()),
    pageFile("style.css", await new Blob(style).bytes()),
    pageFile("icon.svg", await read("icon.svg")),
  ]);
  const html = new TextDecoder().decode(await read("index.html"))
    .replace("main.tsx", app.path.slice(1))
    .replace("style.css", sheet.path.slice(1))
    .replace("icon.svg", icon.path.slice(1));
  const page = await pageFile("index.html", new TextEncoder().encode(html));
  return [{ ...page, path: "/", immutable: false }, app, sheet, icon];
}

const TYPES: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

async function pageFile(name: string, body: Uint8Array<ArrayBuffer>): Promise<PageFile> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", body));
  const [stem, ending] = name.split(".") as [string, string];
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
  return {
    path: `/${stem}-${digest.slice(0, 8).toHex()}.${ending}`,
    type: TYPES[ending]!,
    body,
    gzip: await new Response(stream).bytes(),
    immutable: true,
  };
}

function read(name: string): Promise<Uint8Array<ArrayBuffer>> {
  return Deno.readFile(projectFile(`console/ui/${name}`));
}

async function bundle(): Promise<Uint8Array<ArrayBuffer>> {
  // Loaded only by a server that has the page.
  const { build, stop } = await import("esbuild");
  try {
    const { outputFiles } = await build({
      entryPoints: ["console/ui/main.tsx"],
      absWorkingDir: ROOT,
      bundle: true,
      write: false,
      minify: true,
      format: "esm",
      platform: "browser",
      target: "es2023",
      jsx: "automatic",
      jsxImportSource: "preact",
      charset: "utf8",
      legalComments: "none",
      tsconfigRaw: "{}",
      logLevel: "silent",
      plugins: [packagesOfDeno],
    });
    return new Uint8Array(outputFiles[0]!.contents);
  } finally {
    await stop();
  }
}

/** Packages are in Deno's own cache, where esbuild would not look for them. */
const packagesOfDeno: Plugin = {
  name: "packages-of-deno",
  setup(build) {
    build.onResolve({ filter: /^[^./]/ }, ({ path, importer, kind }) => {
      return kind === "entry-point" ? undefined : { path: resolved(path, importer) };
    });
  },
};

function resolved(name: string, importer?: string): string {
  try {
    const file = fromFileUrl(new URL(import.meta.resolve(name)));
    // Deno resolves as Node does, whose build is not for a browser.
    return name === "yaml" ? file.replace(/dist\/index\.js$/, "browser/index.js") : file;
  } catch (error) {
    if (importer === undefined) throw error;
    return createRequire(importer).resolve(name);
  }
}
