/** Cells of the matrix, explored by several processes at a time. */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { resultsInOrder } from "../base/at_once.ts";
import { WorkerPool } from "../rack/own/worker_pool.ts";
import { exploreCell, type MatrixCell, type MatrixPlace } from "./matrix.ts";

/**
 * The cells of these places, in their order, each as soon as it and those before it are explored.
 * @param jobs processes at a time; with one the cells are explored in this process.
 * @throws Error where a cell was not explored whole.
 */
export async function* exploreCells(
  places: readonly MatrixPlace[],
  jobs: number,
): AsyncGenerator<MatrixCell, void> {
  if (jobs === 1) {
    for (const place of places) {
      // Lets the event loop handle signals.
      await sleep(0);
      yield await exploreCell(place);
    }
    return;
  }
  await using pool = new WorkerPool({
    module: "console/explore/matrix_main.ts",
    programs: ["the matrix"],
  });
  yield* resultsInOrder(places, {
    atOnce: jobs,
    work: (place, _, lane) => pool.ask<MatrixCell>(lane, place),
  });
}
