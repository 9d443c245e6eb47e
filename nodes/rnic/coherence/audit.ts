/** Audit records of a coherent card, by which C-09 is judged: states of lines in its two caches, turns of requests. */
import type { LineStateRecord } from "../../../fabric/audit.ts";
import { type FarCard, farLine } from "../../../fabric/coherence/far_card.ts";
import type { FarState } from "../../../fabric/coherence/far_card_table.ts";
import type { Turn } from "../../../fabric/coherence/output.ts";
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

/** Notes the states of these lines, of a remote or the local cache, where they are others than before. */
export function auditLines(
  device: Device,
  { noted }: Coherence,
  { cache, card, regions, changed }: {
    readonly cache: "local" | "remote";
    readonly card: FarCard;
    readonly regions: readonly SharedRegion[];
    readonly changed: readonly number[];
  },
): void {
  for (const number of changed) {
    const region = regionAt(regions, number);
    if (region === undefined) continue;
    const line = number - firstLine(region);
    const state = STATES[farLine(card, number).state];
    const key = `${cache} ${region.id} ${line}`;
    if ((noted.get(key)?.state ?? "I") === state) continue;
    const note = { kind: "line-state", region: region.name, line, cache, state } as const;
    noted.set(key, note);
    device.out.audit?.(device.name, note);
  }
}

/** Notes which requests home's card takes and begins. */
export function auditTurns(
  { name, out }: Device,
  { regions, turns }: {
    readonly regions: readonly SharedRegion[];
    readonly turns: readonly Turn[];
  },
): void {
  for (const { step, line: number, message: { agent, kind } } of turns) {
    const region = regionAt(regions, number);
    if (region === undefined) continue;
    const line = number - firstLine(region);
    out.audit?.(name, { kind: "line-turn", region: region.name, line, agent, request: kind, step });
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
