/** A picture as a page of its own: the SVG, and its figures as a table. It loads nothing. */
import { type Chart, withUnit } from "./chart.ts";
import { svgOf } from "./svg.ts";

const STYLE =
  `body{margin:2rem auto;max-width:780px;font:14px Helvetica,Arial,sans-serif;color:#222}
svg{max-width:100%;height:auto}
table{border-collapse:collapse;margin-top:1rem}
th,td{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}
th{border-bottom-color:#999}`;

/** The pointer on a point of the chart shows its figures. */
export function pageOf(chart: Chart): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${escaped(chart.title)}</title>
<style>${STYLE}</style>
</head>
<body>
${svgOf(chart)}${chart.isCurve ? "" : tableOf(chart)}</body>
</html>
`;
}

function tableOf(chart: Chart): string {
  const { x, y, panelLabel, series } = chart;
  const hasPanels = panelLabel !== "", hasNames = series.some(({ name }) => name !== "");
  const hasRange = series.some(({ points }) => points.some(({ least }) => least !== undefined));
  const unit = "numbers" in x ? x.unit : "";
  const titles = [
    ...(hasPanels ? [panelLabel] : []),
    ...(hasNames ? ["series"] : []),
    x.label,
    y.label,
    ...(hasRange ? ["least", "greatest", "values"] : []),
  ];
  const rows = series.flatMap(({ name, panel, points }) =>
    points.map((point) => [
      ...(hasPanels ? [panel] : []),
      ...(hasNames ? [name] : []),
      typeof point.x === "number" ? withUnit(unit, point.x) : point.x,
      withUnit(y.unit, point.y),
      ...(hasRange
        ? [
          withUnit(y.unit, point.least ?? point.y),
          withUnit(y.unit, point.greatest ?? point.y),
          String(point.count ?? 1),
        ]
        : []),
    ])
  );
  const line = (cells: readonly string[], cell: "th" | "td") =>
    `<tr>${cells.map((text) => `<${cell}>${escaped(text)}</${cell}>`).join("")}</tr>\n`;
  const body = rows.map((row) => line(row, "td")).join("");
  return `<table>\n<thead>${line(titles, "th")}</thead>\n<tbody>${body}</tbody>\n</table>\n`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
