import { csv, saveAs } from "../frame/save.ts";
import type { ReportColumn } from "./report_columns.ts";

export function ReportTable<Row>(
  { title, file, columns, rows }: {
    readonly title: string;
    readonly file: string;
    readonly columns: readonly ReportColumn<Row>[];
    readonly rows: readonly Row[];
  },
) {
  const save = () =>
    saveAs(
      file,
      csv([
        columns.map(({ head }) => head),
        ...rows.map((row) => columns.map((each) => each.cell(row))),
      ]),
    );
  return (
    <>
      <div class="row apart">
        <h2>{title}</h2>
        <button type="button" onClick={save}>
          Save as CSV
        </button>
      </div>
      <table class="wide list">
        <thead>
          <tr>
            {columns.map(({ name, isFigure }, i) => (
              <th key={i} class={isFigure ? "num" : ""}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {columns.map(({ text, isFigure }, at) => (
                <td key={at} class={isFigure ? "num" : ""}>{text(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
