/** What native programs of a run came to: their ends, and what they printed, line by line. */
import type { Time } from "../../fabric/base/time.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { LOG_TOPIC, type LogLine } from "../../nodes/host/cpu/log_text.ts";
import type { Prepared } from "../rack/prepare.ts";
import type { Reported } from "../rack/run_variant.ts";

/** A native program in one life of its host. Plain data. */
export interface NativeRow {
  readonly node: string;
  readonly variant: string;
  /** Its name, with its number on its host. */
  readonly program: string;
  /** Of its process, 128 and a signal's number where one ended it; null where it has not ended. */
  readonly code: number | null;
  /** Lines of its standard output and error, as they came; absent: nothing has kept them (containers). */
  readonly lines?: ReadonlyArray<{ readonly atPs: Time; readonly text: string }>;
}

interface Growing extends Omit<NativeRow, "code" | "lines"> {
  code: number | null;
  readonly lines?: { readonly atPs: Time; readonly text: string }[];
}

/** Said beside the report of a run that has native programs. */
export const NATIVE_NOTE =
  "instructions of native programs take no time, their calls that of the verbs: what they print of time is the model's";

/** Those that ended or printed something, by host and begin. */
export function nativeRows(
  { label, plan }: Pick<Prepared, "label" | "plan">,
  { finals, record }: Pick<Reported, "finals" | "record">,
): NativeRow[] {
  const natives = nativeIn(plan);
  if (natives.length === 0) return [];
  const rows = new Map<string, Growing>();
  const reports = record?.reports ?? finals.flatMap(({ reports }) => reports);
  for (const { node, topic, value } of reports) {
    if (topic !== LOG_TOPIC && topic !== NATIVE_ENDED) continue;
    const { program, code, at, text } = value as LogLine & { readonly code: number };
    const run = program.replace(/#\d+$/, "");
    if (!natives.some(({ host, program }) => host === node && program.run === run)) continue;
    const key = `${node} ${program}`;
    const row: Growing = rows.get(key) ?? {
      ...{ node, variant: label, program, code: null },
      ...(record !== undefined && { lines: [] }),
    };
    if (topic === NATIVE_ENDED) row.code = code;
    else row.lines?.push({ atPs: at, text });
    rows.set(key, row);
  }
  return [...rows.values()];
}

/** The topic under which a host reports the end of a native program. */
const NATIVE_ENDED = "native-ended";
