import { EXIT } from "../../fabric/base/exit.ts";
import {
  exploreCells,
  type MatrixCell,
  matrixPlaces,
  matrixText,
} from "../../console/explore/matrix.ts";
import { JunitFile, type JunitFlags } from "../../console/reports/junit/file.ts";
import { matrixSuites } from "../../console/reports/junit/suites.ts";
import { given } from "./options.ts";
import { print, Progress, say } from "./output.ts";

/**
 * @param options.jobs processes at a time.
 * @param options.isStopped between cells, true ends with the finished ones.
 * @throws Refusal where the file of `--junit` cannot be written.
 */
export async function exploreTheMatrix(
  { json, junit: file, isStopped, jobs }: JunitFlags & {
    readonly jobs: number;
    readonly json: boolean;
    readonly isStopped: () => boolean;
  },
): Promise<void> {
  const places = matrixPlaces();
  const junit = await JunitFile.open(given({ junit: file }), "rack explore --matrix");
  const progress = new Progress({ quiet: json });
  const cells: MatrixCell[] = [];
  const explore = async () => {
    for await (const cell of exploreCells(places, jobs)) {
      cells.push(cell);
      const { method, update } = cell;
      progress.show(`${method}, ${update}: ${cells.length} cells`, cells.length / places.length);
      if (isStopped()) return;
    }
  };
  await junit.of(explore().finally(() => progress.clear()));
  await junit.write(matrixSuites(cells, places.length - cells.length));
  if (json) print(JSON.stringify({ cells }));
  else print(`${matrixText(cells)}\n\n${countsText(cells)}`);
  if (cells.length === places.length) return;
  Deno.exitCode = EXIT.unclear;
  say(`stopped after ${cells.length} of ${places.length} cells`);
}

function countsText(cells: readonly MatrixCell[]): string {
  const unsafe = cells.filter(({ safe }) => !safe).length;
  const points = cells.reduce((sum, { crashPoints }) => sum + crashPoints, 0);
  return `${cells.length} cells, ${unsafe} of them unsafe, ${points} crash points; what a method takes ` +
    "for persistence counts as promised. --json has a counterexample for each unsafe cell.";
}
