/** What whole-system persistence keeps of a home's card, line by line (decisions 7, 12). */
import assert, { deepEqual as same } from "node:assert/strict";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import { FAR_TABLE, type FarState } from "../../../fabric/coherence/far_card_table.ts";
import { newHomeCard } from "../../../fabric/coherence/home_card_state.ts";
import {
  HOME_TABLE,
  type HomeLine,
  NEW_HOME_LINE,
} from "../../../fabric/coherence/home_card_table.ts";
import { BYTE_CONTENTS } from "../../../fabric/coherence/line_bytes.ts";
import {
  BUS_MESSAGES,
  type BusKind,
  type LineMessage,
} from "../../../fabric/wire/host_bus/region_messages.ts";
import { type Data, LOCAL_CACHE, LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import {
  directoryAt,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import { createJournal } from "../dma/journal.ts";
import type { HomeEnd } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import type { Journal } from "../state/dma_state.ts";
import { regionPlan } from "../testing/region_testing.ts";
import { keepLocalCache, logLocalCache, noteLine } from "./kept_lines.ts";
import { describe, it } from "@std/testing/bdd";

const REGION = {
  ...{ id: 0, name: "s", memory: "scm", directory: "memory" },
  ...{ address: SCM_BASE, bytes: 4 * 64 },
} as SharedRegion;
const CONTENT = new Uint8Array(64).fill(7);

/** What the journal takes up of a message about line 2. */
function noted(op: BusKind, data?: LineMessage["data"], region = REGION) {
  const flushOnFail = { busLatencyPs: 100, noticePs: 200 };
  const journal = createJournal({ host: "a", flushOnFail } as RnicPlan)!;
  const device = { now: 1_000, journal, coherence: { regions: [region] } } as unknown as Device;
  const message = { kind: "line", op, address: SCM_BASE + 128 } as const;
  noteLine(device, data === undefined ? message : { ...message, data }, 1_500);
  return Array.from({ length: journal.writes.length }, (_, i) => {
    const { message: { address, data }, arrivesAt } = journal.writes.at(journal.writes.first + i)!;
    return [address, data.length > 2 ? "content" : data.toHex(), arrivesAt];
  });
}

describe("noteLine", () => {
  const entry = directoryAt(REGION, 2);

  it("decisions 7, 12: notes that a right is given back, as memory has the line, poison or not", () => {
    const kinds = Object.keys(BUS_MESSAGES) as BusKind[];
    const given = kinds.filter((op) => noted(op).length > 0);
    same(given.toSorted(), ["RspI", "RspS", "WbMtoE", "WbMtoI", "WbMtoS"]);
    same(noted("RspI"), [[entry + 1, "00", 1_600]]);
  });

  it("decisions 7, 12: notes content, and that the line is neither lent nor poison then", () => {
    same(noted("RspS", CONTENT), [[SCM_BASE + 128, "content", 1_600], [entry, "0000", 1_600]]);
    same(noted("RspS", CONTENT, { ...REGION, directory: "card" }), [
      [SCM_BASE + 128, "content", 1_600],
    ]);
  });

  it("decisions 7, 12: notes that the line is poison where the answer says that it is lost", () => {
    // The next far card's GetM is in P0 while that is on the bus: of it alone the card would say that nothing is lent.
    same(noted("RspI", LOST), [[entry, "0200", 1_600]]);
    same(noted("RspI", LOST, { ...REGION, directory: "card" }), []);
  });

  it("notes nothing of DRAM", () => {
    const dram = { ...REGION, memory: "dram" } as const;
    same([...noted("RspI", CONTENT, dram), ...noted("RspI", LOST, dram)], []);
  });
});

interface Given {
  readonly line: Partial<HomeLine>;
  /** Of the local cache. */
  readonly cached?: readonly [FarState, Data];
}

const BYTES = new Uint8Array(64).fill(7);
const OWN = { right: "X", owner: LOCAL_CACHE } as const;

/** Line 3 of a region in SCM is so: whether its content and its directory's entry are kept. */
function kept(
  { line, cached }: Given,
  of: Parameters<typeof regionPlan>[0] = { memory: "scm", directory: "memory" },
): string {
  const region = regionPlan({ address: SCM_BASE, ...of });
  const cache = { lines: 4, writeBacks: 2 };
  const card = newHomeCard({
    tables: { home: HOME_TABLE, far: FAR_TABLE },
    size: { slots: 2, entries: 4, localCache: cache },
    contents: BYTE_CONTENTS,
    regionOf: () => 0,
  });
  const number = region.address / 64 + 3;
  card.lines.set(number, { ...NEW_HOME_LINE, ...line });
  if (cached !== undefined) card.local.lines.set(number, { state: cached[0], data: cached[1] });
  const all: { readonly address: number; readonly data: Uint8Array }[] = [];
  const heldLog = { cached: (_: number, writes: typeof all) => void all.push(...writes) };
  const device = { now: 5, heldLog } as unknown as Device;
  logLocalCache(device, { card, regions: [region] } as unknown as HomeEnd);
  return all.map(({ address, data }) => {
    if (address === number * 64) return `content ${data[0]}`;
    const entry = directoryAt(region, 3);
    // All of it, or only that the line is not lent.
    const isWhole = address === entry;
    assert.deepEqual([address, [...data]], isWhole ? [entry, [0, 0]] : [entry + 1, [0]]);
    return isWhole ? "entry" : "right";
  }).join(", ");
}

describe("whole-system persistence", () => {
  it("decision 12: keeps what the local cache alone has, and its directory's entry with it", () => {
    assert.equal(kept({ line: OWN, cached: ["M", BYTES] }), "content 7, entry");
    assert.equal(kept({ line: OWN, cached: ["E", BYTES] }), "right", "memory has its content");
    assert.equal(kept({ line: { right: "S", sharers: 1 }, cached: ["S", BYTES] }), "");
  });

  it("decision 7: leaves the entry of a line whose last content is not here as it is: it is poison", () => {
    assert.equal(kept({ line: { right: "X", owner: 1 } }), "", "a far card has it alone");
    assert.equal(kept({ line: OWN }), "", "its grant is not here yet");
    assert.equal(kept({ line: OWN, cached: ["E", LOST] }), "", "it is lost");
    assert.equal(kept({ line: { right: "X", phase: "P1", data: LOST } }), "");
  });

  it("decision 7: keeps the entry of a line that was lent and is no longer, with its content on the bus or here", () => {
    assert.equal(kept({ line: { right: "X", phase: "P1", data: BYTES } }), "right");
    assert.equal(kept({ line: { right: "X", phase: "P2" } }), "right");
  });

  it("decision 7: keeps the entry of a line that a far card is about to get alone, not of one that it shares", () => {
    const serving = (kind: "GetM" | "GetS") => ({ kind, agent: 1, life: 1 }) as HomeLine["serving"];
    assert.equal(kept({ line: { phase: "P0", serving: serving("GetM") } }), "right");
    assert.equal(kept({ line: { phase: "P0", serving: serving("GetS") } }), "");
    assert.equal(kept({ line: { phase: "P0" } }), "");
  });

  it("decision 7: entries go to the host behind the lines, in the order of their places", () => {
    const region = {
      ...REGION,
      ...regionPlan({ address: SCM_BASE }),
      memory: "scm",
    } as SharedRegion;
    const flushOnFail = { busLatencyPs: 100, noticePs: 200 };
    const journal = createJournal({ host: "a", flushOnFail } as RnicPlan)!;
    const card = newHomeCard({
      tables: { home: HOME_TABLE, far: FAR_TABLE },
      size: { slots: 2, entries: 4, localCache: { lines: 4, writeBacks: 2 } },
      contents: BYTE_CONTENTS,
      regionOf: () => 0,
    });
    for (const line of [2, 3, 0, 1]) {
      card.lines.set(SCM_BASE / 64 + line, { ...NEW_HOME_LINE, ...OWN });
      card.local.lines.set(SCM_BASE / 64 + line, { state: "M", data: BYTES });
    }
    const coherence = { regions: [region], home: { card, regions: [region] } };
    keepLocalCache({ now: 1_000, journal, coherence } as unknown as Device);
    const addresses = Array.from(
      { length: journal.writes.length },
      (_, i) => journal.writes.at(journal.writes.first + i)!.message.address,
    );
    const order = [0, 1, 2, 3];
    same(addresses, [
      ...order.map((line) => SCM_BASE + 64 * line),
      ...order.map((line) => directoryAt(region, line)),
    ]);
  });

  it("decision 7: knows of entries only where the directory is in memory, and of content only in SCM", () => {
    const given: Given = { line: OWN, cached: ["M", BYTES] };
    assert.equal(kept(given, { memory: "scm", directory: "card" }), "content 7");
    assert.equal(kept(given, { memory: "dram", address: 0x20_0000 }), "");
  });
});

describe("a line on its way to the host", () => {
  const region = regionPlan({ address: SCM_BASE, memory: "scm", directory: "memory" });
  const address = region.address + 3 * 64;

  /** What the journal has of a line of nines, behind these writes of verbs. */
  function noted(
    writes: readonly {
      readonly from: number;
      readonly bytes: number[];
      readonly arrivesAt: number;
    }[],
    of: Parameters<typeof regionPlan>[0] = {},
  ) {
    const journal: Journal = {
      ...{ host: "a", busLatencyPs: 10, noticePs: 1_000, log: undefined },
      writes: new Fifo(),
    };
    for (const { from, bytes, arrivesAt } of writes) {
      const data = Uint8Array.from(bytes), at = address + from;
      const message = { kind: "memory-write", address: at, data, noSnoop: true } as const;
      journal.writes.push({ message, arrivesAt });
    }
    const coherence = { regions: [regionPlan({ ...region, ...of })] };
    const device = { now: 90, journal, coherence } as unknown as Device;
    const data = new Uint8Array(64).fill(9);
    noteLine(device, { kind: "line", op: "WbMtoI", address, data }, 100);
    const all: { readonly at: number; readonly data: number[]; readonly arrivesAt: number }[] = [];
    for (let i = journal.writes.first + writes.length; i < journal.writes.end; i++) {
      const { message, arrivesAt } = journal.writes.at(i)!;
      all.push({ at: message.address, data: [...message.data], arrivesAt });
    }
    return all;
  }

  it("decision 12: is kept with its entry, until it has arrived", () => {
    const entry = { at: directoryAt(region, 3), data: [0, 0], arrivesAt: 110 };
    assert.deepEqual(noted([]), [
      { at: address, data: Array(64).fill(9), arrivesAt: 110 },
      entry,
    ]);
    assert.deepEqual(noted([], { directory: "card" }).length, 1);
    assert.deepEqual(noted([], { memory: "dram" }), []);
  });

  it("decision 12: has earlier writes over it that are not done, and none that has arrived", () => {
    const [line] = noted([
      { from: 8, bytes: [1, 1], arrivesAt: NEVER },
      { from: 16, bytes: [2, 2], arrivesAt: 95 },
      { from: -2, bytes: [3, 3, 3], arrivesAt: NEVER },
      { from: 62, bytes: [4, 4, 4], arrivesAt: NEVER },
      { from: 64, bytes: [5], arrivesAt: NEVER },
      { from: 9, bytes: [6], arrivesAt: NEVER },
    ]);
    const expected = Array(64).fill(9);
    expected[0] = 3, expected[8] = 1, expected[9] = 6, expected[62] = expected[63] = 4;
    assert.deepEqual(line!.data, expected);
  });
});
