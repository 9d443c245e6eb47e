import { machineOf } from "../../fabric/rack/plan/names.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import type { FollowedFrame, FramedSteps } from "../../fabric/capture/framed_steps.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { describeFrame, formatAddress, type Naming } from "../../fabric/trace/describe.ts";
import { frameFields } from "../../fabric/trace/frame_fields.ts";
import {
  endsOf,
  hostsByAddress,
  type Ladder,
  type LadderRow as TracedRow,
  type Operation,
} from "../../fabric/trace/trace.ts";
import { documentText } from "../../fabric/trace/trace_figures.ts";
import type {
  FrameField,
  LadderDocument,
  LadderFrame,
  LadderRow,
  ROW_PLACES,
} from "../api/operations.ts";

export interface ObservedRun extends FramedSteps {
  readonly plan: RackPlan;
  readonly label: string;
  /** Of a frame of which only the first bytes were kept. */
  readonly lengthOf?: (bytes: Uint8Array<ArrayBuffer>) => number;
}

export function ladderDocumentOf(run: ObservedRun, ladder: Ladder): LadderDocument {
  const { plan, label, frames, lengthOf = ({ length }) => length } = run;
  const { operation, columns, rows, conclusion, figure } = ladder;
  const { node, connection, number, startPs } = operation;
  const naming = namingOf(plan);
  const numbers = [...new Set(rows.flatMap((row) => row.frame ?? []))].sort((x, y) => x - y);
  const places = new Map(numbers.map((frame, i) => [frame, i]));
  const rowOf = (row: TracedRow): LadderRow => {
    const { frame, ...rest } = row;
    const own = frame === undefined ? undefined : places.get(frame);
    return {
      ...rest,
      sincePs: row.time - startPs,
      document: documentText(row.step) ?? null,
      place: placeOf(row),
      ...(own !== undefined && { frame: own }),
    };
  };
  return {
    scenario: plan.scenario,
    seed: plan.seed,
    variant: label,
    operation: { node, connection, number, startPs },
    figure: figure ?? null,
    columns: [...columns],
    rows: rows.map(rowOf),
    conclusion: rowOf(conclusion),
    promise: promiseOf(run, operation),
    frames: numbers.map((frame, i) =>
      frameDocument(frames[frame]!, { number: i, naming, length: lengthOf(frames[frame]!.bytes) })
    ),
  };
}

const SHOWN_BYTES = 1024;

function frameDocument(
  { bytes, passes }: FollowedFrame,
  { number, naming, length }: {
    readonly number: number;
    readonly naming: Naming;
    readonly length: number;
  },
): LadderFrame {
  const fields = frameFields(bytes, naming, length);
  return {
    number,
    text: length === bytes.length ? describeFrame(bytes, naming) : textOf(fields, length),
    bytes: bytes.subarray(0, SHOWN_BYTES).toHex(),
    length,
    fields,
    passes: passes.map((pass) => ({ ...pass })),
  };
}

function textOf(fields: readonly FrameField[], length: number): string {
  const find = (header: string, name: string) =>
    fields.find((field) => field.header === header && field.name === name);
  const nameOf = (name: string) => {
    const field = find("IPv4", name);
    return field === undefined ? "?" : field.meaning || field.value;
  };
  const opcode = find("BTH", "opcode");
  if (opcode === undefined) return `${length} B`;
  const qp = find("BTH", "destQpn")!.value, psn = find("BTH", "psn")!.value;
  return `${nameOf("source")}→${
    nameOf("destination")
  } ${opcode.meaning} qp=${qp} psn=${psn}, ${length} B`;
}

function namingOf(plan: RackPlan): Naming {
  const hosts = hostsByAddress(plan);
  return (address) => hosts.get(formatAddress(address)) ?? formatAddress(address);
}

/** Steps after which the bytes are durable, or in a cache that a power failure empties. */
const STEP_PLACES: Readonly<Record<string, typeof ROW_PLACES[number]>> = {
  imc: "durable",
  flush: "durable",
  "copy-flush": "durable",
  S320: "durable",
  S1008: "durable",
  S907: "durable",
  S1016: "durable",
  llc: "volatile",
  power: "lost",
};

function placeOf({ step, to }: TracedRow): typeof ROW_PLACES[number] {
  return STEP_PLACES[step] ?? (to === undefined ? "none" : "in flight");
}

function promiseOf({ notes, lines, plan }: ObservedRun, operation: Operation): string {
  const { node, from, until, number, connection } = operation;
  const hosts = endsOf(connection, new Map()).map(({ host }) => machineOf(host));
  const own = lines.slice(from, Math.min(until, lines.length)).find((line) =>
    line.scm !== undefined && line.node === node &&
    (line.operation === undefined || line.operation === number)
  )?.scm;
  const declared = own &&
    notes.findLast(({ node: by, time, note }) =>
      by === node && note.kind === "writes" && hosts.includes(note.on) &&
      time <= lines[from]!.time && note.at < own[1] && note.at + note.bytes.length > own[0]
    );
  if (declared === undefined || declared.note.kind !== "writes") {
    return "No program has said what it relies on: nothing is promised.";
  }
  const { id, on, bytes } = declared.note;
  const about = notes.filter(({ by, node: of, note, time }) =>
    of === declared.node && by === declared.by && time >= declared.time && "id" in note &&
    note.id === id
  );
  const what = `${bytes.length} B in the SCM of ${on}`;
  const domain = domainOf(plan, on);
  const persistent = about.find(({ note }) => note.kind === "persistent");
  if (persistent?.note.kind === "persistent") {
    const after = sinceText(persistent, operation.startPs);
    return persistent.note.promised
      ? `${after}, ${node} is promised that ${what}${domain} survive a power cut.`
      : `${after}, the method claims that ${what}${domain} survive a power cut; it does not promise it.`;
  }
  const visible = about.find(({ note }) => note.kind === "visible");
  return visible === undefined
    ? `Nothing is promised of ${what}${domain}: the operation has not completed.`
    : `${
      sinceText(visible, operation.startPs)
    }, ${node} knows that ${what}${domain} can be read there. ` +
      "Nothing is promised of a power cut.";
}

function domainOf(plan: RackPlan, name: string): string {
  const host = plan.nodes.find((node) => node.name === name);
  if (host?.kind !== "host") return "";
  const { ddio, domain } = host.config;
  return ` (${domain.toUpperCase()}, DDIO ${ddio ? "on" : "off"})`;
}

function sinceText({ time }: TimedRecord, startPs: Time): string {
  return `After ${((time - startPs) / 1_000_000).toFixed(3)} µs`;
}
