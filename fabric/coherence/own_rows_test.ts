import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { stepsOf } from "./explore.ts";
import { HOME_TABLE, type HomeLine, type HomeRow, NEW_HOME_LINE } from "./home_card_table.ts";
import { HOST_TABLE, newHostLine } from "./host_agent_table.ts";
import { explore, smallest } from "./mutations_testing.ts";
import { checkProtocol, type CoherenceProtocol, rowNames, tablesWith } from "./own_rows.ts";
import { TABLES } from "./tables.ts";

const MESSAGE = { agent: 1, life: 0, data: undefined };

/** What is said of a file's default export. */
function saidOf(found: unknown): string {
  try {
    checkProtocol(found);
  } catch (error) {
    if (error instanceof TypeError) return error.message;
    throw error;
  }
  return "nothing";
}

/** What a row of the home card's that answers this is told as. */
function saidOfRow(row: HomeRow, line: HomeLine = NEW_HOME_LINE): string {
  const { home } = tablesWith({ home: { "idle free": { GetM: row, SnpInv: row } } });
  try {
    home["idle free"][line.snoop === null ? "GetM" : "SnpInv"]!(line, MESSAGE);
  } catch (error) {
    return (error as Error).message;
  }
  return "nothing";
}

describe("checkProtocol", () => {
  it("names each table, state, message and field that is none, and what would be one", () => {
    const wrong: readonly (readonly [found: unknown, said: RegExp])[] = [
      [5, /^its default export is 5, expected rows of far, home and host$/],
      [[], /^its default export is an empty list, expected rows/],
      [{}, /has no row, expected one or more$/],
      [{ far: { S: {} } }, /has no row, expected one or more$/],
      [{ fat: {} }, /^found "fat", which is no table, expected "far" \(one of far, home, host\)$/],
      [{ far: 1 }, /^far is 1, expected rows by state$/],
      [{ far: { Q: {} } }, /^far: found "Q", which is no state, expected one of I, S, E, M, IS/],
      [{ far: { S: 1 } }, /^far S is 1, expected rows by message or event$/],
      [{ far: { S: { lod: {} } } }, /^far S: found "lod", .*, expected "load" \(one of load/],
      [{ far: { S: { load: 1 } } }, /^far S: load is 1, expected \{ next, send\?/],
      [{ far: { S: { load: { next: "Z" } } } }, /^far S: load: next: found "Z", which is no state/],
      [{ far: { S: { load: { next: "S", send: "Inv" } } } }, /send: found "Inv", which is no mess/],
      [{ far: { S: { load: { next: "S", serves: 1 } } } }, /serves is 1, expected true, or none$/],
      [{ far: { S: { load: { next: "S", sned: "GetS" } } } }, /"sned", .*, expected "send" \(/],
      [{ home: { "idle free": { GetS: {} } } }, /GetS is a mapping, expected a function/],
      [{ host: { none: { RspI: null } } }, /RspI is null, and the table has no such row/],
    ];
    for (const [found, said] of wrong) assert.match(saidOf(found), said);
  });

  it("tells of all that is wrong at once", () => {
    const found = { far: { Q: {}, S: { lod: {} } }, host: { nine: {} } };
    assert.equal(saidOf(found).split("; ").length, 3);
  });

  it("takes rows that are changed, added and taken out", () => {
    const rows: CoherenceProtocol = {
      far: { IS: { DataE: { next: "E", send: "Complete" } }, S: { evict: null } },
      home: { "idle free": { GetS: HOME_TABLE["idle free"].GetM! } },
      host: { none: { load: HOST_TABLE.S.load! } },
    };
    assert.equal(saidOf(rows), "nothing");
    assert.deepEqual(rowNames(rows), [
      "far IS: DataE",
      "far S: evict",
      "home idle free: GetS",
      "host none: load",
    ]);
    const { far } = tablesWith(rows);
    assert.deepEqual(far.IS.DataE, { next: "E", send: "Complete" });
    assert.equal(far.S.evict, undefined);
    assert.equal(far.S.load, TABLES.far.S.load);
    assert.equal(TABLES.far.IS.DataE, undefined);
    assert.notEqual(TABLES.far.S.evict, undefined);
  });
});

describe("a row of one's own", () => {
  it("is told by its name where it answers what no row may", () => {
    const lineWith = (change: object): HomeRow => (line) => ({ line: { ...line, ...change } });
    const sending = (send: unknown): HomeRow => (line) => ({ line, send: send as never });
    const wrong: readonly (readonly [row: HomeRow, said: RegExp])[] = [
      [
        () => undefined as never,
        /^home idle free: GetM: found that it answers nothing, expected \{/,
      ],
      [(line) => ({ line, more: 1 }) as never, /it answers more, too, expected line and send$/],
      [lineWith({ phase: "P9" }), /line\.phase is "P9", expected "P0" \(one of idle, P0/],
      [lineWith({ right: "Q" }), /line\.right is "Q", expected one of I, S, X$/],
      [lineWith({ owner: -2 }), /line\.owner is -2, expected a whole number from -1 on$/],
      [lineWith({ sharers: 0.5 }), /line\.sharers is 0\.5/],
      [lineWith({ waiting: undefined }), /line\.waiting is nothing/],
      [lineWith({ dirty: 1 }), /line\.dirty is 1, expected true or false$/],
      [lineWith({ serving: { kind: "GetX", agent: 1, life: 0 } }), /serving\.kind is "GetX"/],
      [lineWith({ snoop: { kind: "SnpInv" } }), /snoop\.isServed is nothing/],
      [lineWith({ data: 7 }), /line\.data is 7, expected content that the row was given/],
      [lineWith({ colour: "red" }), /it answers colour, too, expected a line's fields alone$/],
      [sending("all"), /send is "all", expected a list of messages$/],
      [sending([{ to: "buss", kind: "RdData" }]), /send\.to is "buss", expected "bus", or/],
      [sending([{ to: "bus", kind: "GrantS" }]), /send\.kind is "GrantS", expected one of RdData/],
      [sending([{ to: 1, kind: "GetS" }]), /send\.kind is "GetS", expected .*one of Inv, RecI/],
      [sending([{ to: 1, kind: "DataS", data: "x" }]), /send\.data is "x"/],
    ];
    for (const [row, said] of wrong) assert.match(saidOfRow(row), said);
  });

  it("changes nothing in place, and depends on nothing but its line and message", () => {
    let calls = 0;
    const counting: HomeRow = (line) => ({ line: { ...line, waiting: calls++ } });
    assert.match(saidOfRow(counting), /differently the second time, expected a row that depends/);
    const changing: HomeRow = (line) => {
      (line as { waiting: number }).waiting = 1;
      return { line };
    };
    assert.match(saidOfRow(changing), /read only property 'waiting'/);
  });

  it("defers no snoop of an idle line: it would be served again at once", () => {
    const snoop = { kind: "SnpInv", isServed: false } as const;
    const deferring: HomeRow = (line) => ({ line: { ...line, snoop } });
    const said = saidOfRow(deferring, { ...NEW_HOME_LINE, snoop });
    assert.match(said, /^home idle free: SnpInv: found that it defers the snoop of an idle line/);
  });

  it("of the host agent is looked at in the same way", () => {
    const said = (row: (line: ReturnType<typeof newHostLine>) => unknown) => {
      const { host } = tablesWith({ host: { none: { load: row as never } } });
      try {
        host.none.load!(newHostLine(1), { data: undefined });
      } catch (error) {
        return (error as Error).message;
      }
      return "nothing";
    };
    assert.equal(said((line) => ({ line, serves: true })), "nothing");
    assert.match(said((line) => ({ line, serves: 1 })), /^host none: load: .* serves is 1/);
    assert.match(said((line) => ({ line, send: "RdData" })), /send is "RdData", expected one of/);
    assert.match(said((line) => ({ line: { ...line, llc: "F" } })), /line\.llc is "F"/);
    assert.match(said((line) => ({ line: { ...line, phase: "busy" } })), /line\.phase is "busy"/);
    assert.match(said((line) => ({ line: { ...line, memory: 2 } })), /line\.memory is 2/);
    assert.match(said((line) => ({ line: { ...line, memory: undefined } })), /memory is nothing/);
    assert.match(said((line) => ({ line: { ...line, queued: "Cmp" } })), /line\.queued is "Cmp"/);
  });
});

describe("the explorer, with rows of one's own", () => {
  const OWN = { size: smallest(1), with: ["own"] } as const;

  it("C-12: finds what a row breaks, and says which step has changed what", () => {
    // Decision 10: E is written without a word to home.
    const tables = tablesWith({ far: { E: { store: { next: "M", serves: true } } } });
    const { violation } = explore({ ...OWN, tables });
    assert.equal(violation?.message, "card 1 in M: the directory takes it for E");
    const steps = stepsOf({ ...OWN, tables }, violation?.path ?? []);
    const names = steps.map(({ name, at, to }) => `${at} ${to ?? "-"}: ${name}`);
    assert.deepEqual(names, [
      "card 1 -: card 1: store 0",
      "card 1 home card: GetM 0, 1 → home",
      "home card home: RdInvOwn 0, card → agent",
      "home home card: GrantE 0, agent → card",
      "home card card 1: DataE 0, home → 1",
      "card 1 home card: Complete 0, 1 → home",
    ]);
    assert.deepEqual(steps.map(({ state }) => state === null), [
      false,
      false,
      false,
      false,
      false,
      true,
    ]);
  });

  it("finds a row of home's core that neither does the access nor has it wait", () => {
    const tables = tablesWith({ host: { none: { load: (line) => ({ line }) } } });
    const { violation } = explore({ ...OWN, tables });
    assert.match(violation?.message ?? "", /load is neither served nor waits$/);
  });

  it("finds messages that pile up: such a protocol has states without end", () => {
    const inv: HomeRow = (line, message) => ({
      line,
      send: [{ to: message.agent ?? 1, kind: "Inv" }, { to: message.agent ?? 1, kind: "Inv" }],
    });
    const ignored = { InvAck: inv };
    const tables = tablesWith({
      home: { "idle free": { ...ignored, GetS: inv }, "P0 free": ignored },
    });
    const { violation } = explore({ ...OWN, tables, isAnswered: false });
    assert.match(violation?.message ?? "", /^\d+ messages are on their way by one link$/);
  });
});
