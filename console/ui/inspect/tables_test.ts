import { deepEqual as same, equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { fitting, type Inspected, TABLE_NAMES, tableOf, tablesOf } from "./tables.ts";

const QUEUE_PAIR = {
  ...{ qpn: 17, type: "rc" as const, state: "rts", peer: { address: "10.0.0.2", qpn: 18 } },
  ...{ nextPsn: 40, unacknowledgedPsn: 38, outstanding: 2, unanswered: 2, persistWaiting: 0 },
  ...{ retriesLeft: 7, rnrRetriesLeft: 6, rnrWaiting: false, expectedPsn: 9, answersOwed: 1 },
  ...{ receivesFetched: 3, receivesAwaited: 0 },
};
const REGION = { key: 310, pd: 2, va: 4096, bytes: 8192, isWindow: false, persistent: true };
const FOUND: Inspected = {
  ...{ at: 5, hasPower: true, counters: { framesIn: 4, "port0.sentFrames": 2 } },
  rnic: {
    queuePairs: [QUEUE_PAIR],
    regions: [{ ...REGION, access: 3 }, { ...REGION, access: 0 }, { ...REGION, access: 2048 }],
    warnings: [],
  },
};
const HOSTS = new Map([["10.0.0.2", "b"]]);

function table(name: typeof TABLE_NAMES[number]) {
  return tableOf(name, { found: FOUND, why: undefined, hosts: HOSTS });
}

it("tableOf has a queue pair's state, peer by name, and PSNs", () => {
  const { columns, rows: [row] } = table("qps");
  const cell = (column: string) => row![columns.indexOf(column)];
  same(
    ["number", "state", "peer", "next PSN", "unacknowledged", "expected PSN", "owes"].map(cell),
    [
      ...["17", "RTS", "b:18", "40", "38", "9", "1"],
    ],
  );
});

it("tableOf says a region's rights in words, and one without a name by its bit", () => {
  const { columns, rows } = table("regions"), at = columns.indexOf("rights");
  same(rows.map((row) => row[at]), ["local write, remote write", "local read", "0x800"]);
});

it("tableOf has as many cells as columns, and a sentence where there are no rows", () => {
  for (const name of TABLE_NAMES) {
    const { columns, rows, none, figures } = table(name);
    for (const row of rows) equal(row.length, columns.length, name);
    for (const figure of figures) equal(columns.includes(figure), true, `${name}: ${figure}`);
    equal(none.endsWith("."), true, name);
  }
});

it("fitting finds each word anywhere in a row", () => {
  equal(fitting(table("regions"), "remote PERSISTENT").length, 1);
  equal(fitting(table("regions"), "").length, 3);
  equal(fitting(table("qps"), "rc c").length, 1);
  equal(fitting(table("qps"), "ud").length, 0);
});

it("tablesOf has queue pairs of a card alone, and rack why of every device", () => {
  equal(tablesOf({ kind: "rnic" }).includes("qps"), true);
  equal(tablesOf({ kind: "host" }).includes("qps"), false);
  for (const kind of ["host", "rnic", "switch"] as const) {
    equal(tablesOf({ kind }).includes("why"), true, kind);
  }
});
