/** Files that a user wants of a sweep or of runs: their names are checked before anything runs. */
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { checkTarget, replaceFile } from "../base/replace_file.ts";
import { isThere } from "../base/files.ts";
import type { Chart } from "../plot/chart.ts";

export interface Outputs {
  /** `….svg` or `….html`. */
  readonly plot?: string | undefined;
  /** `….csv`. */
  readonly csv?: string | undefined;
}

const ENDINGS = { "--plot": [".svg", ".html"], "--csv": [".csv"] } as const;

/** @throws Refusal for another ending, a folder, or a folder that is not there. */
export function checkOutputs({ plot, csv }: Outputs): void {
  for (const [option, path] of [["--plot", plot], ["--csv", csv]] as const) {
    if (path === undefined) continue;
    const endings: readonly string[] = ENDINGS[option];
    if (!endings.some((ending) => path.endsWith(ending))) {
      const expected = `a file whose name ends with ${oneOf(endings)}`;
      throw refusal(option, { found: JSON.stringify(path), expected });
    }
    checkTarget(path);
    const folder = path.includes("/") ? path.replace(/[^/]*$/, "") : ".";
    if (!isThere(folder)) {
      throw refusal(option, { found: JSON.stringify(path), expected: "a folder that is there" });
    }
  }
}

export async function writePlot(path: string, chart: Chart): Promise<void> {
  // The library is large, and most commands draw nothing.
  const text = path.endsWith(".html")
    ? (await import("../plot/html.ts")).pageOf(chart)
    : (await import("../plot/svg.ts")).svgOf(chart);
  await writeText(path, text);
}

export async function writeText(path: string, text: string): Promise<void> {
  await replaceFile(path, new TextEncoder().encode(text));
}
