/**
 * perftest's output: its header, both ends of each queue pair, a line for each size
 * (`ctx_print_pingpong_data`).
 */
import type {
  PerftestEnd,
  PerftestResult,
  PerftestRow,
} from "../../nodes/host/programs/perftest/client.ts";
import { PERFTEST } from "../../nodes/host/programs/perftest/terms.ts";
import {
  fieldsOf,
  lineOf,
  outputOf,
  type PerftestForm,
  perftestTitle,
  titlesOf,
} from "./perftest_columns.ts";
import { shortest } from "./printf.ts";

const RULE = "-".repeat(87);
/** First line of a test by time or with too many messages (`force_dependecies`). */
const NO_PEAK = " WARNING: BW peak won't be measured in this run.";
const US = 1e6;

export function perftestText(result: PerftestResult, form: PerftestForm = {}): string {
  const { rows, ends } = result;
  if (form.output !== undefined) {
    return rows.map((row) => outputOf(row, form).value.toFixed(6)).join("\n");
  }
  const titles = titlesOf(result, form);
  const side = (name: "local" | "remote") =>
    ends[name].flatMap((end) => endLines(end, name, result));
  const isPeakMissing = rows.some((row) =>
    row.measures === "bandwidth" && row.peakBytesPerSecond === null
  );
  return [
    ...(isPeakMissing && !form.noPeak ? [NO_PEAK] : []),
    RULE,
    ...headerLines(result),
    RULE,
    ...side("local"),
    ...side("remote"),
    RULE,
    titles,
    ...rows.flatMap((row) => [...sampleLines(row, { form, titles }), lineOf(row, form)]),
    ...(form.reportBoth ? bothEnds(rows, titles, form) : []),
    RULE,
  ].join("\n");
}

function headerLines(result: PerftestResult): string[] {
  const text = fieldsOf(result)
    .map(([label, , value, behind = "\n"]) => label === null ? "" : label + value + behind)
    .join("");
  const title = perftestTitle(result.test, result.settings);
  return [`                    ${title}`, ...text.trimEnd().split("\n")];
}

function endLines(end: PerftestEnd, side: string, { test, settings }: PerftestResult): string[] {
  const { address, qpn, psn, rkey, va } = end;
  // As printf's `%#06x`: the digits with their `0x`.
  const hex = (value: number, width: number) => `0x${value.toString(16).padStart(width - 2, "0")}`;
  const { verb } = PERFTEST[test];
  const reads = verb === "read" ? ` OUT ${hex(settings.outstanding, 4)}` : "";
  const place = verb === "read" || verb === "write"
    ? ` RKey ${hex(rkey, 8)} VAddr ${hex(va, 16)}`
    : "";
  const bytes = [24, 16, 8, 0].map((shift) => (address >>> shift) & 0xff);
  const gid = [...new Array<number>(10).fill(0), 255, 255, ...bytes].map((byte) =>
    String(byte).padStart(2, "0")
  );
  return [
    ` ${side} address: LID 0000 QPN ${hex(qpn, 6)} PSN ${hex(psn, 6)}${reads}${place}`,
    ` GID: ${gid.join(":")}`,
  ];
}

function sampleLines(
  row: PerftestRow,
  { form, titles }: { readonly form: PerftestForm; readonly titles: string },
): string[] {
  if (row.measures !== "latency" || row.samplesPs === undefined) return [];
  const wanted = form.samples ?? [];
  const all = row.samplesPs;
  const lists = wanted.map((order) => {
    // perftest leaves the two longest out of the sorted list.
    const list = order === "unsorted" ? all : all.toSorted((x, y) => x - y).slice(0, -2);
    return ["#, usec", ...list.map((ps, i) => `${i + 1}, ${shortest(ps / US)}`)];
  });
  return lists.length === 0 ? [] : [...lists.flat(), RULE, titles];
}

function bothEnds(rows: readonly PerftestRow[], titles: string, form: PerftestForm): string[] {
  return (["local", "remote"] as const).flatMap((side) => [
    RULE,
    "",
    ` ${side === "local" ? "Local" : "Remote"} results: `,
    RULE,
    titles,
    ...rows.flatMap((row) =>
      row.measures === "bandwidth" && row[side] ? [lineOf({ ...row, ...row[side] }, form)] : []
    ),
  ]);
}
