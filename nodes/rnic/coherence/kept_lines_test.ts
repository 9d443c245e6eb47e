import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { BUS_MESSAGES, type BusKind, LOST } from "../../../fabric/coherence/messages.ts";
import {
  directoryAt,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import type { LineMessage } from "../../../fabric/wire/host_bus/region_messages.ts";
import { createJournal } from "../dma/journal.ts";
import type { Device } from "../state/device.ts";
import { noteLine } from "./kept_lines.ts";

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

  it("notes nothing of what is lost, nor of DRAM", () => {
    same(noted("RspI", LOST), []);
    same(noted("RspI", CONTENT, { ...REGION, memory: "dram" }), []);
  });
});
