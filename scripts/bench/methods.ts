/**
 * (m) The cost of a persistent write by each method, per message: exact, as all of it is measured
 * in virtual time. A table of `RESULTS.md` is generated from it, and a test regenerates and compares it.
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

export interface MethodFigure extends PerMessage {
  readonly method: MethodName;
}

/** The document's baseline of each flow (P-10, P-11), with which methods are compared. */
export const BASELINES = { off: "write-read", on: "write-send" } as const;

/** Every method at every size, with DDIO off and on: one message after the other. */
export function measureMethods(seed: number): MethodFigure[] {
  return DDIOS.flatMap((ddio) =>
    METHODS.flatMap((method) =>
      SIZES.map((size): MethodFigure => {
        // A SEND can be persistent only in persistent receive buffers.
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
