/** What native programs of a run came to: their ends, and what they printed, line by line. */
import { nativeSetUpOf } from "../../fabric/rack/assembly/run_file.ts";
import type { Time } from "../../fabric/base/time.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { LOG_TOPIC, type LogLine } from "../../nodes/host/cpu/log_text.ts";
import { countOf } from "../checks/finding.ts";
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
  /** Steps in which it has stored into several cache lines of SCM, where it has ended; absent: 0. */
  readonly steps?: number;
  /** Instructions of its code that flush unseen; absent: 0. */
  readonly flushes?: number;
}

interface Growing extends Omit<NativeRow, "code" | "lines" | "steps"> {
  code: number | null;
  readonly lines?: { readonly atPs: Time; readonly text: string }[];
  steps?: number;
}

/** Said beside the report of a run that has native programs. */
export const NATIVE_NOTE =
  "instructions of native programs take no time, their calls that of the verbs: what they print of time is the model's";

/** What the run could not see of a program; undefined where it saw all. */
export function unseenText(
  { steps = 0, flushes = 0 }: Pick<NativeRow, "steps" | "flushes">,
): string | undefined {
  const parts = [
    ...(steps > 0
      ? [
        `${
          countOf(steps, "time")
        } it has stored into several cache lines between two calls, in one step`,
      ]
      : []),
    ...(flushes > 0
      ? [
        `it flushes by itself: up to ${
          countOf(flushes, "instruction")
        } (clwb, clflush, movnt) are not seen`,
      ]
      : []),
  ];
  return parts.length === 0 ? undefined : parts.join("; ");
}

/** Those that ended or printed something, by host and begin. */
export function nativeRows(
  { label, plan, ...manner }: Pick<Prepared, "label" | "plan" | "native">,
  { finals, record }: Pick<Reported, "finals" | "record">,
): NativeRow[] {
  const natives = nativeIn(plan), setUp = nativeSetUpOf(manner);
  if (natives.length === 0) return [];
  const rows = new Map<string, Growing>();
  const reports = record?.reports ?? finals.flatMap(({ reports }) => reports);
  for (const { node, topic, value } of reports) {
    if (topic !== LOG_TOPIC && topic !== NATIVE_ENDED) continue;
    const { program, at, text, ...ended } = value as LogLine & Ended;
    const run = program.replace(/#\d+$/, "");
    const own = natives.find(({ host, program }) => host === node && program.run === run);
    if (own === undefined) continue;
    const key = `${node} ${program}`, flushes = setUp?.flushes?.[own.program.native.file] ?? 0;
    const row: Growing = rows.get(key) ?? {
      ...{ node, variant: label, program, code: null },
      ...(record !== undefined && { lines: [] }),
      ...(flushes > 0 && { flushes }),
    };
    if (topic === NATIVE_ENDED) {
      row.code = ended.code;
      if (ended.steps !== undefined) row.steps = ended.steps;
    } else row.lines?.push({ atPs: at, text });
    rows.set(key, row);
  }
  return [...rows.values()];
}

interface Ended {
  readonly code: number;
  readonly steps?: number;
}

/** The topic under which a host reports the end of a native program. */
export const NATIVE_ENDED = "native-ended";
