/**
 * A coherent card's lines in a trace: messages that it sends on the bus and between cards, and the state of each
 * line that changes, in both caches and in the directory. `fabric/trace/access_ladder.ts` makes ladders of them.
 */
import { farLine } from "../../../fabric/coherence/far_card.ts";
import { homeLine } from "../../../fabric/coherence/home_card_state.ts";
import { agentsOf, type HomeLine, NONE } from "../../../fabric/coherence/home_card_table.ts";
import {
  type CardMessage,
  isControlKind,
  LOST,
} from "../../../fabric/wire/roce/coherence_messages.ts";
import type { Coherence, FarEnd, HomeEnd } from "./state/coherence_state.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { trace } from "../trace/trace.ts";
import { firstLine, regionAt } from "./report.ts";
import { spentOn } from "./timing.ts";

type Track = "remote-cache" | "local-cache" | "directory";

/** A message leaves for another card, by this queue pair. */
export function showSent(
  device: Device,
  qp: QueuePair,
  { coherence, message }: {
    readonly coherence: Coherence;
    readonly message: CardMessage;
  },
): void {
  const { kind } = message;
  const region = "line" in message && !isControlKind(kind)
    ? regionAt(coherence.regions, message.line)
    : undefined;
  const line = region === undefined || !("line" in message)
    ? undefined
    : message.line - firstLine(region);
  const about = line === undefined ? "" : ` of ${region!.name} line ${line}`;
  const { data, placement } = { data: undefined, placement: undefined, ...message };
  const where = placement === undefined ? "" : `, ${placement.place} v${placement.version}`;
  trace(device, qp, {
    step: `wire-${kind}`,
    text: `sends ${kind}${about}${contentText(data)}${where}`,
    ...(line !== undefined && {
      shared: [region!.id, line],
      spent: spentOn(device, coherence.links.get(qp)?.role ?? "far"),
    }),
  });
}

/** A message leaves for the host, of this line. `step`: `bus-` and its name, or `core-answer`. */
export function showToHost(
  device: Device,
  regions: readonly SharedRegion[],
  { step, text, line, data }: {
    readonly step: string;
    readonly text: string;
    readonly line: number;
    readonly data?: unknown;
  },
): void {
  const region = regionAt(regions, line);
  if (region === undefined) return;
  const index = line - firstLine(region);
  const about = `${text} of ${region.name} line ${index}${contentText(data)}`;
  const spent = spentOn(device, step === "core-answer" ? "far" : "home");
  device.out.trace({ step, text: about, shared: [region.id, index], spent });
}

function contentText(data: unknown): string {
  return data === LOST ? ", lost" : data === undefined ? "" : " with its data";
}

/** Shows changed lines of the remote cache. */
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

/** Shows changed lines of the directory and of the local cache. */
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

/** `I`, `S{0,2}`, `X(1)`: the state and its holders; agent 0 is the local cache. */
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
    ...(region !== undefined && { shared: [region.id, index] }),
    cached: { cache: track, state, before },
  });
}
