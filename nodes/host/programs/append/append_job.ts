/**
 * The state of an `append`, and the log that it writes: a tail in a line of its own, then records
 * of one size.
 *
 *   0    tail: the number of records, 8 B big-endian, written as one word
 *   64   record 0, record 1, …
 */
import { METHODS, UPDATES } from "../../../../fabric/rack/plan/vocabulary.ts";
import { countOption, type Options, textOption, wordOption } from "../common/options.ts";
import type { CompoundPlan, CompoundRequest } from "./compound_methods.ts";
import { madeUpBytes } from "../common/made_up.ts";
import { createWindow, type PersistClient, type Region } from "../persist/persist_client.ts";
import type { Mr } from "../../verbs/objects.ts";

export const TAIL_BYTES = 8;
export const RECORDS_AT = 64;

export function readOptions(options: Options) {
  return {
    to: textOption(options, "to"),
    name: textOption(options, "name", "log"),
    records: countOption(options, "records", { least: 1, otherwise: 64 }),
    recordBytes: countOption(options, "size", { least: 1, otherwise: 256 }),
    method: wordOption(options, "method", { words: METHODS, otherwise: "persist-opcode" }),
    update: wordOption(options, "update", { words: UPDATES, otherwise: "ordered" }),
    depth: countOption(options, "depth", { least: 1, otherwise: 1 }),
  };
}

export type AppendOptions = Readonly<ReturnType<typeof readOptions>>;

/** A checker can compute a record from name, number and length. */
export function recordOf(
  log: { readonly name: string; readonly recordBytes: number },
  index: number,
): Uint8Array<ArrayBuffer> {
  return madeUpBytes(log.recordBytes, `${log.name}/${index}`);
}

export function logBytes(log: { readonly records: number; readonly recordBytes: number }): number {
  return RECORDS_AT + log.records * log.recordBytes;
}

export function tailOf(records: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(TAIL_BYTES);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(records));
  return bytes;
}

export function rangeOf(
  { recordBytes }: { readonly recordBytes: number },
  index: number,
  part: CompoundRequest["part"],
): readonly [from: number, to: number] {
  const from = RECORDS_AT + index * recordBytes;
  if (part === "record") return [from, from + recordBytes];
  return [0, part === "tail" ? TAIL_BYTES : from + recordBytes];
}

export interface UpdateState {
  readonly slot: number;
  round: number;
  completions: number;
  answers: number;
}

export function createAppend(
  append: {
    readonly options: AppendOptions;
    readonly client: PersistClient;
    readonly region: Region;
    readonly plan: CompoundPlan;
    readonly slots: Mr;
    readonly slotBytes: number;
  },
) {
  const { client, options: { records, depth } } = append;
  return {
    ...append,
    ...createWindow(depth, records),
    cpu: client.device.cpu,
    updates: new Array<UpdateState | undefined>(records),
    nextSecond: 0,
    confirmed: 0,
    isConfirmed: new Uint8Array(records),
    rounds: 0,
    deposits: 0,
  };
}

export type Append = ReturnType<typeof createAppend>;
