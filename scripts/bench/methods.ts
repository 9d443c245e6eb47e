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

/** The document's baseline of each flow (P-10, P-11). */
export const BASELINES = { off: "write-read", on: "write-send" } as const;

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
