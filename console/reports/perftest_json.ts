import type { PerftestResult } from "../../nodes/host/programs/perftest/client.ts";
import {
  cellsOf,
  fieldsOf,
  outputOf,
  type PerftestForm,
  perftestTitle,
} from "./perftest_columns.ts";

/**
 * perftest's `--out_json`: the document of the last size, as perftest writes the file anew with
 * each size. Keys and their order are perftest's (`REPORT_FMT_JSON`). Undefined where there is no
 * row.
 */
export function perftestJson(result: PerftestResult, form: PerftestForm = {}): string | undefined {
  const row = result.rows.at(-1);
  if (row === undefined) return undefined;
  const title = perftestTitle(result.test, result.settings).replaceAll(" ", "_");
  const fields = fieldsOf(result).flatMap(([, key, value]) => key === null ? [] : [[key, value]]);
  const { key, value } = outputOf(row, form);
  const figures = form.output === undefined
    ? cellsOf(row, form).map(({ key, text }) => [key, Number(text)])
    : [[key, Number(value.toFixed(6))]];
  const document = {
    test_info: { test: title, ...Object.fromEntries(fields) },
    results: Object.fromEntries(figures),
  };
  return JSON.stringify(document, null, 1);
}
