/**
 * Activity is what a verdict is about: in a run that did nothing every promise is kept, and the verdict
 * proves nothing.
 */
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import { MOVED_TOPIC } from "../../fabric/rack/plan/shared_region.ts";
import { LOG_TOPIC } from "../../nodes/host/cpu/log_text.ts";
import { RESERVED_TOPICS } from "../../nodes/host/cpu/report_data.ts";
import { NEW_DIRECTORY_BYTES } from "../../nodes/host/programs/common/scm_directory.ts";
import type { ImageView, ReportSeen, RunRecord } from "./run_record.ts";
import { directoryIn, HEADER_BYTES } from "./scm_objects.ts";

export interface Activity {
  readonly reports: readonly Pick<ReportSeen, "topic">[];
  readonly notes: readonly Pick<TimedRecord, "node" | "note">[];
  /** Asked last, as it may read SCM. */
  readonly hasWritten: () => boolean;
}

/**
 * True if some host's SCM has more at the end than a new directory, which each host's service
 * makes, or a cache has newer lines. Statistics begin anew with each life, and a host without power
 * has none: they only reveal zeros that were written.
 */
export function hasWritten(
  { plan, scm }: Pick<RunRecord, "plan" | "scm">,
  finals: readonly Pick<FinalReply, "statistics">[],
): boolean {
  const isMore = finals.some(({ statistics }) =>
    Object.values(statistics).some(({ scmBytesIn = 0, scmLinesDirty = 0 }) =>
      scmBytesIn > NEW_DIRECTORY_BYTES || scmLinesDirty > 0
    )
  );
  if (isMore) return true;
  return plan.nodes.some((node) => {
    const image = node.kind === "host" ? scm(node.name) : undefined;
    return node.kind === "host" && image !== undefined && isWritten(image, node.config.scmBytes);
  });
}

const PAGE_BYTES = 4096;

function isWritten(image: ImageView, scmBytes: number): boolean {
  const directory = directoryIn(image, scmBytes);
  for (let from = 0; from < scmBytes; from += PAGE_BYTES) {
    const to = Math.min(from + PAGE_BYTES, scmBytes);
    if (image.touches?.(from, to) === false) continue;
    if (hasContent(image.read(from, to), { from, directory })) return true;
  }
  return false;
}

/**
 * True if bytes of SCM, from `from` on, are more than empty memory and a new directory of objects:
 * a header with zeros behind it.
 */
export function hasContent(
  bytes: Uint8Array,
  { from, directory }: {
    readonly from: number;
    readonly directory: ReturnType<typeof directoryIn>;
  },
): boolean {
  const header = (directory?.from ?? Infinity) - from;
  return bytes.some((byte, i) => byte !== 0 && (i < header || i >= header + HEADER_BYTES));
}

/** They report without a program's own doing. */
const OF_THE_RACK: ReadonlySet<string> = new Set([
  ...RESERVED_TOPICS,
  ...["recovered", "warning", "iommu-fault", "region-fenced", "region-lost", MOVED_TOPIC],
]);

/** QP 1 is the connection manager's. */
const CM_QPN = 1;

/**
 * Why a verdict on what a power failure leaves has no ground; undefined where something was written
 * to SCM, promised or reported.
 */
export function whyNothingToKeep(activity: Activity): string | undefined {
  if (hasLeftSomething(activity)) return undefined;
  const { notes } = activity;
  return `no program wrote to SCM or reported anything${refusedText(notes)}`;
}

/**
 * Why no verdict has a ground; undefined where a program wrote, promised or reported something,
 * wrote to its log, or completed a work request of its own.
 */
export function whyNothingDone(activity: Activity): string | undefined {
  const { reports, notes } = activity;
  if (hasLeftSomething(activity)) return undefined;
  if (reports.some(({ topic }) => topic === LOG_TOPIC)) return undefined;
  const isWork = notes.some(({ note }) => note.kind === "completed" && note.qpn !== CM_QPN);
  if (isWork) return undefined;
  const what =
    "nothing of a program's reached SCM, and none reported or logged anything or completed a work request";
  return what + refusedText(notes);
}

function hasLeftSomething({ reports, notes, hasWritten }: Activity): boolean {
  return reports.some(isOfProgram) || notes.some(({ note }) => isPromise(note)) || hasWritten();
}

function isOfProgram({ topic }: Activity["reports"][number]): boolean {
  return topic === "program-failed" || !OF_THE_RACK.has(topic);
}

function isPromise(note: AuditRecord): boolean {
  switch (note.kind) {
    case "writes":
    case "visible":
    case "persistent":
    case "log":
    case "freed":
    case "operation":
    case "operation-end":
      return true;
    case "object":
      return note.state !== "begun";
    case "accessed":
      return note.result !== "refused";
    default:
      return false;
  }
}

function refusedText(notes: Activity["notes"]): string {
  const first = new Map<string, string>();
  for (const { node, note } of notes) {
    if (note.kind !== "refused" || first.has(`${node} ${note.to}`)) continue;
    first.set(
      `${node} ${note.to}`,
      `${node}'s connection to ${note.to} was refused: ${note.reason}`,
    );
  }
  const shown = [...first.values()].slice(0, REFUSED_MOST);
  const more = first.size - shown.length;
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].map((text) => `; ${text}`).join("");
}

const REFUSED_MOST = 3;
