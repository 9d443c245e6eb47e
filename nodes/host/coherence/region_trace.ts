/** A host's trace lines for shared regions: its cores' accesses, its home agent's messages, its LLC's states. */
import { LOST } from "../../../fabric/coherence/messages.ts";
import type { Outputs } from "../../../fabric/node.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { FarResult, LineMessage } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { FarRequest } from "./far_port.ts";

/** A core's access to a line begins. */
export function traceBegin(
  out: Outputs,
  { region, isHome, request, ticket }: {
    readonly region: SharedRegion;
    readonly isHome: boolean;
    readonly request: Omit<FarRequest, "region">;
    readonly ticket: number;
  },
): void {
  const { op, line, change, lines = 1 } = request;
  const what = change === undefined || change.kind === "write" ? op : change.kind;
  const more = lines > 1 ? ` and ${lines - 1} more` : "";
  out.trace({
    step: `${isHome ? "home" : "core"}-${op}`,
    text: `${what} of ${region.name} line ${line}${more}`,
    shared: [region.id, line],
    access: ticket,
  });
}

/** It has ended. */
export function traceEnd(
  out: Outputs,
  { ticket, result }: { readonly ticket: number; readonly result: FarResult },
): void {
  out.trace({ step: "core-end", text: `the access is ${result}`, access: ticket });
}

/** The home agent sends a message to the card. */
export function traceLineMessage(
  out: Outputs,
  { region, line, op, data }: Pick<LineMessage, "op"> & {
    readonly data: LineMessage["data"] | undefined;
    readonly region: SharedRegion;
    readonly line: number;
  },
): void {
  const content = data === LOST ? ", lost" : data === undefined ? "" : " with its data";
  out.trace({
    step: `bus-${op}`,
    text: `sends ${op} of ${region.name} line ${line}${content}`,
    shared: [region.id, line],
  });
}

/** The LLC's state of a line has changed (C-05: in the CPU's cache, too). */
export function traceState(
  out: Outputs,
  { region, line, state }: {
    readonly region: SharedRegion;
    readonly line: number;
    readonly state: string;
  },
): void {
  out.trace({
    step: "state",
    text: `LLC: ${region.name} line ${line}: ${state}`,
    shared: [region.id, line],
    cached: { cache: "LLC", state },
  });
}
