import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Column, columnsOf, latencyColumns, tableText, timeColumn } from "./table.ts";

interface Row {
  readonly name: string;
  readonly count: number | null;
}

const ROWS: readonly Row[] = [{ name: "a", count: 7 }, { name: "bb-rnic", count: null }];
const COLUMNS: readonly Column<Row>[] = [
  { title: "node", value: ({ name }) => name },
  { title: "frames", value: ({ count }) => count },
];

describe("tableText", () => {
  it("puts numbers to the right and all else to the left, and nothing for null", () => {
    assert.equal(
      tableText(COLUMNS, ROWS),
      ["node     frames", "-------  ------", "a             7", "bb-rnic"].join("\n"),
    );
  });

  it("shows a value as its column says", () => {
    const columns = [
      timeColumn<Row>("time", ({ count }) => count === null ? undefined : count * 1e6),
    ];
    assert.equal(tableText(columns, ROWS), ["time", "----", "7 us", ""].join("\n"));
  });

  it("has a title and a rule where there are no rows", () => {
    assert.equal(tableText(COLUMNS, []), "node  frames\n----  ------");
  });
});

describe("columnsOf", () => {
  it("leaves out what stands behind a condition that does not hold", () => {
    assert.deepEqual(columnsOf(COLUMNS[0]!, false, COLUMNS[1]!), COLUMNS);
  });
});

describe("latencyColumns", () => {
  it("is empty in a row that has none", () => {
    const columns = latencyColumns<Row>(({ count }) =>
      count === null ? undefined : { median: 1e3, p99: 2e3, max: 3e3 }
    );
    const [title, , first, second] = tableText(columns, ROWS).split("\n");
    assert.equal(title, "median   p99   max");
    assert.equal(first, "  1 ns  2 ns  3 ns");
    assert.equal(second, "");
  });
});
