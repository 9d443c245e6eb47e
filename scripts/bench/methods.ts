import { type MethodName, METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import {
  DDIOS,
  type PerMessage,
  type PutAsked,
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

/** Each method by DDIO and size; `hosts` and `fabric`: settings of the rack, in a scenario's syntax. */
export function measureMethods(
  seed: number,
  { sizes = SIZES, hosts, fabric }: Pick<PutAsked, "hosts" | "fabric"> & {
    readonly sizes?: readonly number[];
  } = {},
): MethodFigure[] {
  return DDIOS.flatMap((ddio) =>
    METHODS.flatMap((method) =>
      sizes.map((size): MethodFigure => {
        // A SEND can be persistent only in persistent receive buffers.
        const receive = `receive: ${method === "send-read" ? "scm" : "dram"}`;
        const rack = {
          hosts: hosts === undefined ? receive : `${receive}, ${hosts}`,
          ...(fabric !== undefined && { fabric }),
        };
        return { method, ...runPut({ ddio, size, seed, put: `method: ${method}`, ...rack }) };
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
