/**
 * Audit records of a coherent card, from which C-09 is checked: each change of a line's state in its two caches,
 * turns of requests at home, and accesses of verbs and other DMA to lines of this host's regions, whose times no
 * program knows (decision 6).
 */
import type { AccessRecord, LineStateRecord } from "../../../fabric/audit.ts";
import type { FarState } from "../../../fabric/coherence/far_card_table.ts";
import { turnsForgotten } from "../../../fabric/coherence/home_card_transactions.ts";
import type { Answer } from "../../../fabric/coherence/access.ts";
import type { Output, Turn } from "../../../fabric/coherence/output.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { Outputs } from "../../../fabric/node.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Coherence } from "./state/coherence_state.ts";
import type { LineTask } from "../state/coherent_port_state.ts";
import type { Device } from "../state/device.ts";
import { wordOf } from "../state/memory.ts";
import { firstLine, regionAt } from "./report.ts";

/**
 * The accesses of cores that a line's state allows: a line that waits for ownership is readable, a write-back is
 * not.
 */
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
 * Records the states that lines of a remote or the local cache have passed through, where the cores' rights change:
 * a small cache may have had a line within one step alone.
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

/** Records which requests home's card takes, begins and drops. */
export function auditTurns(
  { name, out }: Pick<Device, "name" | "out">,
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

/**
 * The card is reset, as its host has lost its power: its caches are empty, and the requests that it had taken and
 * not begun are gone.
 */
export function auditReset(
  { name, coherence }: Pick<Device, "name" | "coherence">,
  out: Outputs,
): void {
  if (coherence === undefined || out.auditing !== true) return;
  const { home } = coherence;
  if (home !== undefined) {
    auditTurns({ name, out }, { regions: home.regions, turns: turnsForgotten(home.card) });
  }
  for (const note of coherence.noted.values()) {
    if (note.state !== "I") out.audit?.(name, { ...note, state: "I" });
  }
}

/** Agent 0 begins an access for a verb or other DMA. */
export function noteLineTask(device: Device, id: number, task: LineTask): void {
  const at = placeOf(device, task);
  if (at === undefined) return;
  const { region, line } = at, { from, to } = bytesIn(task);
  const range = { offset: line * LINE_BYTES + from, length: to - from };
  const note = { kind: "access", id, region: region.name, ...range, dma: true } as const;
  device.out.audit?.(byOf(device), { ...note, ...changeIn(task) });
}

export function noteLineAnswer(device: Device, task: LineTask, answer: Answer): void {
  if (placeOf(device, task) === undefined) return;
  const { access: { ticket: id }, result, data } = answer, { from, to } = bytesIn(task);
  const isTold = result === "done" && task.kind !== "write" && data instanceof Uint8Array;
  device.out.audit?.(byOf(device), {
    kind: "accessed",
    id,
    result,
    ...(isTold && { bytes: data.slice(from, to) }),
  });
}

/** Numbers of accesses begin anew with each life of the card. */
function byOf({ name, startedAt }: Device): string {
  return `${name}/${startedAt}/dma`;
}

function placeOf(
  { coherence }: Device,
  { address }: LineTask,
): { readonly region: SharedRegion; readonly line: number } | undefined {
  const number = Math.floor(address / LINE_BYTES);
  const region = coherence?.home && regionAt(coherence.home.regions, number);
  return region && { region, line: number - firstLine(region) };
}

function bytesIn({ address, length }: LineTask): { readonly from: number; readonly to: number } {
  const from = address % LINE_BYTES;
  return { from, to: from + length };
}

function changeIn(
  task: LineTask,
): Pick<AccessRecord, "op" | "bytes" | "compare"> {
  if (task.kind === "read") return { op: "load" };
  const { change } = task, { from, to } = bytesIn(task);
  switch (change.kind) {
    case "write":
      return { op: "store", bytes: change.bytes.slice(from, to) };
    case "add":
      return { op: "add", bytes: wordOf(change.operand) };
    case "compare-swap":
      return { op: "compare-swap", bytes: wordOf(change.swap), compare: wordOf(change.compare) };
  }
}
