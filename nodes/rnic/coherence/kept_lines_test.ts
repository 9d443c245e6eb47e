/** What whole-system persistence keeps of a home's card, line by line (decisions 7, 12). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { FAR_TABLE } from "../../../fabric/coherence/far_card_table.ts";
import type { FarState } from "../../../fabric/coherence/far_card_table.ts";
import { newHomeCard } from "../../../fabric/coherence/home_card_state.ts";
import {
  HOME_TABLE,
  type HomeLine,
  NEW_HOME_LINE,
} from "../../../fabric/coherence/home_card_table.ts";
import { LINE_BYTES } from "../../../fabric/coherence/line_bytes.ts";
import { type Data, LOCAL_CACHE, LOST } from "../../../fabric/coherence/messages.ts";
import { directoryAt, SCM_BASE } from "../../../fabric/rack/plan/shared_region.ts";
import type { HomeEnd } from "../state/coherence/coherence_state.ts";
import type { Device } from "../state/device.ts";
import { regionPlan } from "../testing/region_testing.ts";
import { logLocalCache } from "./kept_lines.ts";

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
    contents: LINE_BYTES,
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
    assert.deepEqual([address, [...data]], [directoryAt(region) + 3, [0]]);
    return "entry";
  }).join(", ");
}

describe("whole-system persistence", () => {
  it("decision 12: keeps what the local cache alone has, and its directory's entry with it", () => {
    assert.equal(kept({ line: OWN, cached: ["M", BYTES] }), "content 7, entry");
    assert.equal(kept({ line: OWN, cached: ["E", BYTES] }), "entry", "memory has its content");
    assert.equal(kept({ line: { right: "S", sharers: 1 }, cached: ["S", BYTES] }), "");
  });

  it("decision 7: leaves the entry of a line whose last content is not here as it is: it is poison", () => {
    assert.equal(kept({ line: { right: "X", owner: 1 } }), "", "a far card has it alone");
    assert.equal(kept({ line: OWN }), "", "its grant is not here yet");
    assert.equal(kept({ line: OWN, cached: ["E", LOST] }), "", "it is lost");
    assert.equal(kept({ line: { right: "X", phase: "P1", data: LOST } }), "");
  });

  it("decision 7: keeps the entry of a line that was lent, and is nobody's now, with its content on the bus or here", () => {
    assert.equal(kept({ line: { right: "X", phase: "P1", data: BYTES } }), "entry");
    assert.equal(kept({ line: { right: "X", phase: "P2" } }), "entry");
  });

  it("decision 7: knows of entries only where the directory is in memory, and of content only in SCM", () => {
    const given: Given = { line: OWN, cached: ["M", BYTES] };
    assert.equal(kept(given, { memory: "scm", directory: "card" }), "content 7");
    assert.equal(kept(given, { memory: "dram", address: 0x20_0000 }), "");
  });
});
