/** Audit records of a coherent card: each change of a line's state in its two caches, by which C-09 is judged. */
import type { LineStateRecord } from "../../../fabric/audit.ts";
import type { FarState } from "../../../fabric/coherence/far_card_table.ts";
import type { Output } from "../../../fabric/coherence/output.ts";
import type { Outputs } from "../../../fabric/node.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Coherence } from "../state/coherence/coherence_state.ts";
import type { Device } from "../state/device.ts";
import { firstLine, regionAt } from "./report.ts";

/** What a line's state allows cores to do: a line that waits for ownership is readable, a write-back is not. */
const STATES: Readonly<Record<FarState, LineStateRecord["state"]>> = {
  I: "I",
  S: "S",
  E: "E",
  M: "M",
  IS: "I",
  IM: "I",
  SM: "S",
  MI: "I",
  II: "I",
};

/**
 * Notes the states that lines of a remote or the local cache have taken, one after the other, where cores can do something
 * else than before: a small cache may have had a line within one step alone.
 */
export function auditLines(
  device: Device,
  { noted }: Coherence,
  { cache, regions, states }: {
    readonly cache: "local" | "remote";
    readonly regions: readonly SharedRegion[];
    readonly states: Output["states"];
  },
): void {
  for (const { line: number, state: taken } of states) {
    const region = regionAt(regions, number);
    if (region === undefined) continue;
    const line = number - firstLine(region);
    const state = STATES[taken];
    const key = `${cache} ${region.id} ${line}`;
    if ((noted.get(key)?.state ?? "I") === state) continue;
    const note = { kind: "line-state", region: region.name, line, cache, state } as const;
    noted.set(key, note);
    device.out.audit?.(device.name, note);
  }
}

/** The card is reset, as its host has lost its power: its caches have nothing any more. */
export function auditReset(
  { name, coherence }: Pick<Device, "name" | "coherence">,
  out: Outputs,
): void {
  if (coherence === undefined || out.auditing !== true) return;
  for (const note of coherence.noted.values()) {
    if (note.state !== "I") out.audit?.(name, { ...note, state: "I" });
  }
}
