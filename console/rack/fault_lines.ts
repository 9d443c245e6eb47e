/**
 * The record of a run's faults (`faults.jsonl`), read for a replay: power, cables, early
 * write-backs, held programs and stalls of a counterexample, programs that a round of `rack chaos` adds.
 */
import { z } from "zod";
import { linesIfThere, textIfThere } from "../base/files.ts";
import { cutRecords } from "../../nodes/native_records.ts";
import type { FaultPlan, HoldPlan, StallPlan, WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import { Refusal, refusal, showFound } from "../../fabric/rack/plan/problem.ts";
import type { PrepareOptions } from "./prepare.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";

export interface ReplayedFaults
  extends
    Required<Pick<PrepareOptions, "faults" | "writebacks" | "holds" | "stalls" | "morePrograms">> {
  readonly linkFaults: readonly LinkFaultPlan[];
}

const instant = z.int().nonnegative();
const nodes = z.array(z.string());
/** 8 B words, the granule of the memory record (P-41). */
const word = z.int().nonnegative().multipleOf(8);

const lineSchema = z.discriminatedUnion("action", [
  z.object({ action: z.enum(["kill", "start"]), at: instant, nodes }),
  z.object({ action: z.literal("link"), at: instant, nodes, fault: z.custom<LinkFaultPlan>() }),
  z.object({
    action: z.literal("writeback"),
    at: instant,
    nodes,
    scm: z.tuple([word, word]).refine(([from, to]) => from < to),
    buffered: z.boolean().default(false),
    data: z.hex().optional(),
  }).refine(({ scm: [from, to], data }) => data === undefined || data.length === 2 * (to - from), {
    path: ["data"],
  }),
  z.object({
    action: z.literal("hold"),
    at: instant,
    nodes: z.tuple([z.string()]),
    by: z.string(),
    step: z.enum(["access", "store"]),
    number: z.int().positive(),
  }),
  z.object({
    action: z.literal("stall"),
    at: instant,
    nodes: z.tuple([z.string()]),
    by: z.string(),
    number: z.int().positive(),
    ps: z.int().positive(),
  }),
  z.object({
    action: z.literal("program"),
    at: instant,
    nodes: z.tuple([z.string()]),
    run: z.string(),
    options: z.record(z.string(), z.json()),
  }),
]);

/** @throws Refusal naming the file or the line, where the file is no such record. */
export async function readFaultLines(path: string): Promise<ReplayedFaults> {
  const text = await Deno.readTextFile(path).catch((cause) => {
    const why = (cause as Error).message;
    throw refusal("", { found: `Cannot read --faults ${path}: ${why}`, cause });
  });
  const faults = faultsIn(text, path);
  if (text.trim() !== "") return faults;
  throw refusal("", {
    found: `--faults ${path} is empty`,
    expected: "a line for each fault; for a run without faults, no --faults",
  });
}

/** The record of a run's timekeeper; empty where there is none. */
export function recordedIn(directory: string): ReplayedFaults {
  const path = `${directory}/faults.jsonl`;
  return faultsIn(textIfThere(path) ?? "", path);
}

/**
 * Why a run cannot be replayed exactly: as its timekeeper wrote it down, and records of native programs that
 * are not whole; empty where it can.
 */
export function inexactIn(directory: string): string[] {
  const lines = linesIfThere<unknown>(`${directory}/inexact.jsonl`).map(String);
  return [...new Set(lines), ...cutRecords(directory).map((text) => `the ${text}`)];
}

/**
 * @param path for messages.
 * @throws Refusal naming the line that is invalid.
 */
export function faultsIn(text: string, path: string): ReplayedFaults {
  const faults: FaultPlan[] = [], writebacks: WritebackPlan[] = [], holds: HoldPlan[] = [];
  const stalls: StallPlan[] = [];
  const linkFaults: LinkFaultPlan[] = [], morePrograms: ProgramScenario[] = [];
  const known = new Set<string>(), dead = new Set<string>();
  for (const [i, each] of text.split("\n").entries()) {
    if (each === "") continue;
    const place = { file: path, line: i + 1 };
    const line = lineOf(each, place);
    if (known.has(each)) refuseLine(place, { found: "an earlier line again", expected: "it once" });
    known.add(each);
    notePower(line, { dead, place });
    const { action, at } = line;
    if (action === "link") linkFaults.push(line.fault);
    if (action === "hold") {
      const { nodes: [node], by, step, number } = line;
      holds.push({ node, by, step, number, until: at });
    }
    if (action === "stall") {
      const { nodes: [node], by, number, ps } = line;
      stalls.push({ at, node, by, number, ps });
    }
    if (action === "program") {
      morePrograms.push({ on: line.nodes[0], run: line.run, at, options: line.options });
    }
    for (const node of line.nodes) {
      if (action === "kill" || action === "start") faults.push({ at, action, node });
      if (action !== "writeback") continue;
      const [from, to] = line.scm;
      const { buffered, data } = line;
      writebacks.push({ at, node, from, to, buffered, ...(data !== undefined && { data }) });
    }
  }
  return { faults, writebacks, holds, stalls, linkFaults, morePrograms };
}

/** {@link readFaultLines} parses it. */
export function programLine({ on, run, at, options }: ProgramScenario): string {
  return JSON.stringify({ at, action: "program", nodes: [on], run, options });
}

/** {@link readFaultLines} parses it. */
export function writebackLine({ at, node, from, to, buffered, data }: WritebackPlan): string {
  return JSON.stringify({
    at,
    action: "writeback",
    nodes: [node],
    scm: [from, to],
    buffered,
    data,
  });
}

/** {@link readFaultLines} parses it; `at` is the hold's end. */
export function holdLine({ node, by, step, number, until }: HoldPlan): string {
  return JSON.stringify({ at: until, action: "hold", nodes: [node], by, step, number });
}

/** {@link readFaultLines} parses it. */
export function linkFaultLine(fault: LinkFaultPlan): string {
  return JSON.stringify({ at: fault.at, action: "link", nodes: [], fault });
}

/** {@link readFaultLines} parses it; `at` is when it begins. */
export function stallLine({ at, node, by, number, ps }: StallPlan): string {
  return JSON.stringify({ at, action: "stall", nodes: [node], by, number, ps });
}

interface Place {
  readonly file: string;
  readonly line: number;
}

function refuseLine(place: Place, problem: { found: string; expected: string }): never {
  throw new Refusal([{ ...place, path: "", ...problem }]);
}

/** A node has power at first; then its power fails and returns in turn. */
function notePower(
  { action, nodes }: z.infer<typeof lineSchema>,
  { dead, place }: { readonly dead: Set<string>; readonly place: Place },
): void {
  for (const node of action === "kill" || action === "start" ? nodes : []) {
    if (dead.has(node) === (action === "start")) {
      if (action === "kill") dead.add(node);
      else dead.delete(node);
    } else if (action === "kill") {
      refuseLine(place, {
        found: `a kill of ${node}, which is dead`,
        expected: "its start before",
      });
    } else {
      refuseLine(place, {
        found: `a start of ${node}, which has power`,
        expected: "its kill before",
      });
    }
  }
}

function lineOf(
  text: string,
  place: Place,
): z.infer<typeof lineSchema> {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    // Not JSON: the refusal below reports it.
  }
  const { success, data, error } = lineSchema.safeParse(found);
  if (success) return data;
  const [issue] = error.issues;
  const path = issue?.path ?? [];
  const problem = { path: path.join("."), found: showFound(foundAt(found ?? text, path)) };
  throw new Refusal([{ ...place, ...problem, expected: "a line of a run's faults.jsonl" }]);
}

function foundAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((at, key) => Object(at)[key], value);
}
