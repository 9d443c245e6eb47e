/**
 * (m) What a persistent write takes by each method, message by message: exact, as all of it is counted
 * in virtual time. A table of `RESULTS.md` is made of it, and a test makes it again and compares.
 */
import { type MethodName, METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import {
  DDIOS,
  type PerMessage,
  putCells,
  putHeader,
  type PutTable,
  runPut,
  SIZES,
} from "./put_table.ts";

/** One method at one size. */
export interface MethodFigure extends PerMessage {
  readonly method: MethodName;
}

/** What a method is compared with: the document's baseline of the flow (P-10, P-11). */
export const BASELINES = { off: "write-read", on: "write-send" } as const;

/** Every method at every size, with DDIO off and on: one message after the other. */
export function measureMethods(seed: number): MethodFigure[] {
  return DDIOS.flatMap((ddio) =>
    METHODS.flatMap((method) =>
      SIZES.map((size): MethodFigure => {
        // A SEND can persist only where the receive buffers do.
        const hosts = `receive: ${method === "send-read" ? "scm" : "dram"}`;
        return { method, ...runPut({ ddio, size, seed, put: `method: ${method}`, hosts }) };
      })
    )
  );
}

/** The figures as a table, one row for each method and size. */
export function methodsTable(figures: readonly MethodFigure[]): PutTable {
  const rows = figures.map((figure) => {
    const { ddio, method, size, promises } = figure;
    const baseline = figures.find((other) =>
      other.ddio === ddio && other.size === size && other.method === BASELINES[ddio]
    )!;
    return [...putCells(figure, method, baseline), promises ? "persisted" : "nothing"];
  });
  return { name: "methods", header: [...putHeader("method"), "promises"], rows };
}
