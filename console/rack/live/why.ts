import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import type { CardWarning } from "../../../fabric/inspection.ts";
import type { NodeKind, UnfinishedProgram } from "../../../fabric/node.ts";
import { hostsByAddress } from "../../../fabric/trace/trace.ts";
import { named } from "../../reports/summarise.ts";
import { inexactIn } from "../fault_lines.ts";
import { type Refused, refusedByProcesses, violationsOf } from "../refused.ts";
import { inspectDevice, type Inspected } from "./inspect.ts";
import { partitionOf, type RackLink, refreshRecord } from "./racks.ts";

export interface WaitingProgram extends UnfinishedProgram {
  readonly host: string;
}

export interface WarningOfCard extends CardWarning {
  readonly card: string;
}

export interface Why {
  readonly status: ClockStatus;
  /** Forged, damaged, or beyond their sender's rights. */
  readonly refused: readonly Refused[];
  /** Empty where the run can be replayed exactly. */
  readonly inexact: readonly string[];
}

/** @throws BusError where the timekeeper does not answer. */
export async function whyOf({ control, rack }: RackLink): Promise<Why> {
  const { directory } = rack;
  const status = await control.status();
  await refreshRecord(rack);
  const broker = violationsOf(`${directory}/nats-server.log`);
  const refused = [...refusedByProcesses(status.refusals), ...broker];
  return { status, refused, inexact: inexactIn(directory) };
}

/**
 * Programs that wait, with their hosts; those that serve are left out, and those of processes that
 * are busy or gone.
 */
export async function waitingPrograms(
  link: RackLink,
  { why }: ClockStatus,
): Promise<WaitingProgram[]> {
  const found = await inspectQuiet(link, { why, kind: "host" });
  return found.flatMap(({ node: host, programs }) =>
    programs.filter(({ serves }) => !serves).map((program) => ({ host, ...program }))
  );
}

/** The last warnings of each card whose process would answer, in the order of time. */
export async function cardWarnings(
  link: RackLink,
  { why }: ClockStatus,
): Promise<WarningOfCard[]> {
  const names = hostsByAddress(link.rack.file.plan);
  const found = await inspectQuiet(link, { why, kind: "rnic" });
  return found.flatMap(({ node: card, rnic }) =>
    (rnic?.warnings ?? []).map(({ atPs, message }) => ({
      card,
      atPs,
      message: named(message, names),
    }))
  ).sort((one, other) => one.atPs - other.atPs);
}

async function inspectQuiet(
  link: RackLink,
  { why, kind }: Pick<ClockStatus, "why"> & { readonly kind: NodeKind },
): Promise<Inspected[]> {
  const { plan } = link.rack.file;
  const quiet = new Set(why.filter(({ status }) => status === "idle").map((row) => row.partition));
  const nodes = plan.nodes.filter((node) =>
    node.kind === kind && quiet.has(partitionOf(link.rack, node.name) ?? "")
  );
  // One may fail or begin to work meanwhile.
  const found = await Promise.all(
    nodes.map(({ name }) => inspectDevice(link, name).catch(() => undefined)),
  );
  return found.filter((each) => each !== undefined);
}
