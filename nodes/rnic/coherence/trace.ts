/** A coherent card's lines in a trace: the state of each line that changes, in both caches and in the directory. */
import { farLine } from "../../../fabric/coherence/far_card.ts";
import { homeLine } from "../../../fabric/coherence/home_card_state.ts";
import { agentsOf, type HomeLine } from "../../../fabric/coherence/home_card_table.ts";
import { NONE } from "../../../fabric/coherence/messages.ts";
import type { Coherence, FarEnd, HomeEnd } from "../state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import { firstLine, regionAt } from "./report.ts";

type Track = "remote-cache" | "local-cache" | "directory";

/** Lines of the remote cache that have changed. */
export function showFar(
  device: Device,
  { coherence, far, changed }: {
    readonly coherence: Coherence;
    readonly far: FarEnd;
    readonly changed: readonly number[];
  },
): void {
  for (const line of changed) {
    const { state } = farLine(far.card, line);
    show(device, coherence, { track: "remote-cache", line, state, regions: far.regions });
  }
}

/** Lines of the directory and of the local cache that have changed. */
export function showHome(
  device: Device,
  { coherence, home, changed }: {
    readonly coherence: Coherence;
    readonly home: HomeEnd;
    readonly changed: readonly number[];
  },
): void {
  const { card, regions } = home;
  for (const line of changed) {
    const { state } = farLine(card.local, line);
    show(device, coherence, { track: "local-cache", line, state, regions });
    const entry = textOf(homeLine(card, line));
    show(device, coherence, { track: "directory", line, state: entry, regions });
  }
}

/** `I`, `S{0,2}`, `X(1)`: who has it; agent 0 is the local cache. */
function textOf({ owner, sharers }: HomeLine): string {
  if (owner !== NONE) return `X(${owner})`;
  return sharers === 0 ? "I" : `S{${agentsOf(sharers).join(",")}}`;
}

function show(
  device: Device,
  { shown }: Coherence,
  { track, line, state, regions }: {
    readonly track: Track;
    readonly line: number;
    readonly state: string;
    readonly regions: Coherence["regions"];
  },
): void {
  const region = regionAt(regions, line);
  const key = `${track} ${region?.id} ${line}`;
  const before = shown.get(key) ?? "I";
  if (before === state) return;
  shown.set(key, state);
  const index = region === undefined ? line : line - firstLine(region);
  const name = region?.name ?? "no region";
  device.out.trace({
    step: "state",
    text: `${track}: ${name} line ${index}: ${before} → ${state}`,
  });
}
