import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { CoherentPort, LineTask } from "../state/coherent_port_state.ts";
import { changeOf, noteDropped } from "./region_lines.ts";

/** A store into line 2 that was done, or dropped as the line is lost. */
function store(port: CoherentPort, length: number, isGood: boolean): void {
  const address = 2 * LINE_BYTES;
  const change = changeOf(address, new Uint8Array(length));
  noteDropped(port, { kind: "write", address, length, change, isGood } as LineTask);
}

it("decision 12: what was dropped of a lost line is made up for by a write of all of the line, by no part of it", () => {
  const port = { dropped: new Set<number>() } as unknown as CoherentPort;
  const lost = () => [...port.dropped];
  store(port, 8, true);
  same(lost(), []);
  store(port, 8, false);
  same(lost(), [2]);
  for (const length of [1, 8, LINE_BYTES - 1]) {
    store(port, length, true);
    same(lost(), [2], `${length} B of it`);
  }
  store(port, LINE_BYTES, false);
  same(lost(), [2]);
  store(port, LINE_BYTES, true);
  same(lost(), []);
});
