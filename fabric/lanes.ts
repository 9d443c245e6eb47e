/**
 * Lanes: several racks in one set of processes, as variants of a scenario with the same devices and
 * cables. Each has its own run id, clock and files; processes and connections are shared, so code
 * is loaded and compiled once.
 */
import type { Bus } from "./bus/bus.ts";
import { laneVerb } from "./bus/access.ts";
import { decode, encode } from "./bus/codec.ts";
import { patternOf } from "./bus/subjects.ts";

export interface LanesFile {
  readonly run: string;
  readonly runFiles: readonly string[];
}

/** Repeated until it is answered. */
export type LaneRequest =
  | { readonly open: OpenRequest }
  | { readonly close: string };

export interface OpenRequest {
  readonly run: string;
  readonly runFile: string;
  readonly instance: string;
}

export interface Lane {
  close(): void;
}

export interface LanesOptions {
  readonly first: { readonly run: string; readonly lane: Lane };
  /** Undefined: the process has one rack. */
  readonly set: LanesFile | undefined;
  readonly name: string;
  readonly open: (runFile: string, instance: string) => Promise<Lane>;
  /** An error of `open`, after which the process is useless. */
  readonly onFatal: (error: unknown) => void;
}

/** @returns a function that leaves all of them. */
export function answerLanes(
  bus: Bus,
  { first, set, name, open, onFatal }: LanesOptions,
): () => void {
  const lanes = new Map([[first.run, first.lane]]);
  const opening = new Map<string, Promise<void>>();
  const closed = new Set<string>();
  const take = async ({ run, runFile, instance }: OpenRequest) => {
    const lane = await open(runFile, instance);
    lanes.set(run, lane);
    opening.delete(run);
  };
  const leave = async (run: string) => {
    closed.add(run);
    await opening.get(run);
    lanes.get(run)?.close();
    lanes.delete(run);
  };
  const obey = (request: LaneRequest): Promise<void> => {
    if ("close" in request) return leave(request.close);
    const { run } = request.open;
    // The set repeats a request until it is answered, so a copy may have arrived before.
    if (closed.has(run) || lanes.has(run)) return Promise.resolve();
    if (!opening.has(run)) opening.set(run, take(request.open));
    return opening.get(run)!;
  };
  if (set !== undefined) {
    const subject = patternOf({ kind: "control", run: set.run, verb: laneVerb(name) });
    bus.subscribe(subject, (payload, _, reply) => {
      const request = requestFrom(decode(payload), set);
      if (request === undefined) return reply?.(encode({ error: "malformed request" }));
      obey(request).then(() => reply?.(encode({ done: true })), onFatal);
    });
  }
  return () => {
    for (const lane of lanes.values()) lane.close();
  };
}

function requestFrom(value: unknown, set: LanesFile): LaneRequest | undefined {
  const { open, close } = Object(value) as Readonly<Record<string, unknown>>;
  if (typeof close === "string") return { close };
  const { run, runFile, instance } = Object(open) as Readonly<Record<string, unknown>>;
  if (typeof run !== "string" || typeof instance !== "string") return undefined;
  if (typeof runFile !== "string" || !set.runFiles.includes(runFile)) return undefined;
  return { open: { run, runFile, instance } };
}
