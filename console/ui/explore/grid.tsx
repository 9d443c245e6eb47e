/** Equal verdicts of a row or a column are one cell; a click on a cell shows the reason. */

export interface GridCell {
  readonly row: string;
  readonly column: string;
  readonly verdict: string;
  readonly title: string;
  readonly key: string;
  /** Its row is what one has come for. */
  readonly isMeant?: true;
}

interface Look {
  readonly tone: string;
  readonly text: string;
}

const LOOKS: Readonly<Record<string, Look>> = {
  safe: { tone: "durable", text: "safe" },
  unsafe: { tone: "lost", text: "unsafe" },
  failed: { tone: "lost", text: "failed" },
  partial: { tone: "volatile", text: "partial" },
  unchecked: { tone: "off", text: "unchecked" },
};

export function VerdictGrid(
  { cells, rowTitle, selected, onSelect }: {
    readonly cells: readonly GridCell[];
    readonly rowTitle: string;
    readonly selected: string | undefined;
    readonly onSelect: (key: string) => void;
  },
) {
  const columns = [...new Set(cells.map(({ column }) => column))];
  const rows = Map.groupBy(cells, ({ row }) => row);
  return (
    <table class="verdicts">
      <thead>
        <tr>
          <th>{rowTitle}</th>
          {columns.map((column) => <th key={column} scope="col">{column}</th>)}
        </tr>
      </thead>
      <tbody>
        {[...rows].map(([row, own]) => (
          <tr
            key={row}
            class={own.some(({ isMeant }) => isMeant) ? "is-selected" : ""}
          >
            <th scope="row">{row}</th>
            {columns.map((column) => {
              const cell = own.find((each) => each.column === column);
              return (
                <td key={column}>
                  {cell !== undefined && (
                    <Verdict cell={cell} isSelected={cell.key === selected} onSelect={onSelect} />
                  )}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Verdict(
  { cell, isSelected, onSelect }: {
    readonly cell: GridCell;
    readonly isSelected: boolean;
    readonly onSelect: (key: string) => void;
  },
) {
  const { tone, text } = LOOKS[cell.verdict] ?? { tone: "off", text: cell.verdict };
  return (
    <button
      type="button"
      class={`verdict on-${tone}`}
      aria-pressed={isSelected}
      title={cell.title}
      onClick={() => onSelect(cell.key)}
    >
      {text}
    </button>
  );
}
