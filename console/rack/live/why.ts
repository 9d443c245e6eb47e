/** Why time is not moving, and what else is wrong with a rack that is up: as `rack why` tells it. */
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import type { UnfinishedProgram } from "../../../fabric/node.ts";
import { inexactIn } from "../fault_lines.ts";
import { type Refused, refusedByProcesses, violationsOf } from "../refused.ts";
import { inspectDevice } from "./inspect.ts";
import { partitionOf, type RackLink } from "./racks.ts";

export interface WaitingProgram extends UnfinishedProgram {
  readonly host: string;
}

export interface Why {
  readonly status: ClockStatus;
  /** Messages that were forged, damaged or beyond their sender's rights. */
  readonly refused: readonly Refused[];
  /** Why the run cannot be replayed exactly; empty where it can. */
  readonly inexact: readonly string[];
}

/** @throws BusError where the timekeeper does not answer. */
export async function whyOf({ control, rack: { directory } }: RackLink): Promise<Why> {
  const status = await control.status();
  const broker = violationsOf(`${directory}/nats-server.log`);
  const refused = [...refusedByProcesses(status.refusals), ...broker];
  return { status, refused, inexact: inexactIn(directory) };
}

/**
 * Programs that wait, with their hosts: of those whose processes are neither busy, and so would not answer,
 * nor gone. Programs that serve are left out.
 */
export async function waitingPrograms(
  link: RackLink,
  { why }: ClockStatus,
): Promise<WaitingProgram[]> {
  const { plan } = link.rack.file;
  const quiet = new Set(why.filter(({ status }) => status === "idle").map((row) => row.partition));
  const hosts = plan.nodes.filter(({ kind, name }) =>
    kind === "host" && quiet.has(partitionOf(link.rack, name) ?? "")
  );
  const found = await Promise.all(hosts.map(async ({ name: host }) => {
    // It may fail or begin to work meanwhile.
    const inspected = await inspectDevice(link, host).catch(() => undefined);
    return (inspected?.programs ?? []).map((program) => ({ host, ...program }));
  }));
  return found.flat().filter(({ serves }) => !serves);
}
