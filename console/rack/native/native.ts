/** What a run with native programs needs of this machine, and which commands take such a scenario. */
import type { NativeManner, NativeSetUp, RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { nativeIn } from "../../../fabric/rack/plan/plan.ts";
import { type Refusal, refusal } from "../../../fabric/rack/plan/problem.ts";
import type { ProgramScenario } from "../../../fabric/rack/scenario/scenario.ts";
import { isLease, LEASE_CHARACTERS, LEASE_VARIABLE } from "../../../nodes/host/native/port.ts";
import { ifThere } from "../../base/files.ts";
import { sha256 } from "../../base/sha256.ts";
import { runsDirectory } from "../../base/paths.ts";
import type { Reach } from "../../scenarios/read_door.ts";
import { type Binary, findBinary } from "./binary.ts";
import { nativeLibrary } from "./library.ts";
import { unseenFlushes } from "./unseen_flushes.ts";
import { rightsText, sandboxHere } from "./sandbox.ts";

/** A door by which native programs come in, or do not. */
export type NativeDoor =
  | {
    readonly kind: "run";
    /** Called before anything starts, with what starts, and with which rights. */
    readonly onNotice?: (text: string) => void;
  }
  /** As `run`, in the containers of their hosts. */
  | { readonly kind: "containers"; readonly onNotice?: (text: string) => void }
  /** The scenario is only looked at: their binaries have to be there. */
  | { readonly kind: "look" }
  /** Nothing starts: the records of the run in this directory serve. */
  | { readonly kind: "replay"; readonly records: string }
  | { readonly kind: "refuse"; readonly expected: string };

type RunDoor = Extract<NativeDoor, { readonly kind: "run" | "containers" }>;

/** Of a console: its page starts binaries of this machine only where its owner has said so. */
export function consoleDoor(
  allowNative: boolean | undefined,
  onNotice?: (text: string) => void,
): NativeDoor {
  if (allowNative) return { kind: "run", ...(onNotice && { onNotice }) };
  return { kind: "refuse", expected: "a console that was started with --allow-native" };
}

const NOT_HERE = "none (rack run, up, sweep, explore and chaos run native programs)";

/**
 * Programs with the paths of native ones' binaries, and what a run of them needs.
 * @throws Refusal where native programs are refused here, or cannot run on this machine.
 */
export async function withBinaries(
  programs: readonly ProgramScenario[],
  { reach, door }: { readonly reach: Reach; readonly door: NativeDoor | undefined },
): Promise<{ readonly programs: readonly ProgramScenario[]; readonly native?: NativeManner }> {
  const natives = programs.filter(({ native }) => native !== undefined);
  const [first] = natives;
  if (first === undefined) return { programs };
  if (door === undefined || door.kind === "refuse") throw refusedHere(first, door?.expected);
  if (door.kind === "replay") {
    return { programs: served(programs), native: { records: door.records } };
  }
  const binaries = new Map<string, Binary>();
  const commands = natives.flatMap(({ run, on, native }) => [
    { run, on, env: native!.env },
    ...native!.recover === undefined
      ? []
      : [{ run: native!.recover.argv[0]!, on, env: native!.env }],
  ]);
  const flushes: Record<string, number> = {};
  for (const { run, on, env } of commands) {
    if (!binaries.has(run)) binaries.set(run, await findBinary(run, { reach, on }));
    const { file } = binaries.get(run)!;
    const count = flushes[file] ?? unseenFlushes(file, env);
    if (count > 0) flushes[file] = count;
  }
  const lease = leaseGiven(), env = lease === undefined ? {} : { [LEASE_VARIABLE]: lease };
  const found = programs.map((program) => {
    const { native, run } = program;
    if (native === undefined) return program;
    const { recover } = native;
    const fileOf = (name: string) => ({ file: binaries.get(name)!.file });
    return {
      ...program,
      native: {
        ...native,
        ...fileOf(run),
        env: { ...native.env, ...env },
        ...(recover && { recover: { ...recover, ...fileOf(recover.argv[0]!) } }),
      },
    };
  });
  if (door.kind === "look") return { programs: found };
  return {
    programs: found,
    native: await setUp(natives, { ...{ flushes, door }, binaries: [...binaries.values()] }),
  };
}

/** It goes into the programs' environment. @throws Refusal where it is none. */
function leaseGiven(): string | undefined {
  const lease = Deno.env.get(LEASE_VARIABLE);
  if (lease === undefined || isLease(lease)) return lease;
  throw refusal(LEASE_VARIABLE, {
    found: `"${lease}"`,
    expected: `on, off, or a seed of up to ${LEASE_CHARACTERS} digits`,
  });
}

/** What is found out once for a door, however many runs it lets in. */
const MACHINES = new WeakMap<NativeDoor, Promise<Pick<NativeSetUp, "library" | "bwrap">>>();

/** As they were started, but that no file is needed. */
function served(programs: readonly ProgramScenario[]): readonly ProgramScenario[] {
  return programs.map((program) => {
    const { native } = program;
    return native === undefined ? program : { ...program, native: { ...native, file: "" } };
  });
}

async function setUp(
  natives: readonly ProgramScenario[],
  { binaries, flushes, door }: {
    readonly binaries: readonly Binary[];
    readonly flushes: NonNullable<NativeSetUp["flushes"]>;
    readonly door: RunDoor;
  },
): Promise<NativeSetUp> {
  return {
    ...await machineOf(natives, door),
    binaries: Object.fromEntries(binaries.map(({ file, sha256 }) => [file, sha256])),
    ...(Object.keys(flushes).length > 0 && { flushes }),
    runs: runsDirectory(),
  };
}

type Named = Pick<ProgramScenario, "run" | "on">;

function machineOf(
  natives: readonly Named[],
  door: RunDoor,
): Promise<Pick<NativeSetUp, "library" | "bwrap">> {
  const known = MACHINES.get(door) ?? machineFor(natives, door);
  MACHINES.set(door, known);
  return known;
}

async function machineFor(
  natives: readonly Named[],
  { kind, onNotice }: RunDoor,
): Promise<Pick<NativeSetUp, "library" | "bwrap">> {
  const onBuild = () => onNotice?.("builds the library for native programs, once");
  const library = await nativeLibrary({ onBuild });
  const sandbox = kind === "run" ? await sandboxHere() : { container: true } as const;
  const which = natives.map(({ run, on }) => `${run} on ${on}`).join(", ");
  onNotice?.(`native programs: ${which}, ${rightsText(sandbox)}`);
  return { library, ...("bwrap" in sandbox && { bwrap: sandbox.bwrap }) };
}

/**
 * What a run needs that repeats another one as processes: its native programs start again.
 * @throws Refusal where they may not, or where a binary is not the one that ran.
 */
export async function nativeAgain(
  { plan, native }: Pick<RunFile, "plan" | "native">,
  door: NativeDoor | undefined,
): Promise<NativeSetUp | undefined> {
  const natives = nativeIn(plan).map(({ host: on, program: { run } }) => ({ on, run }));
  const [first] = natives;
  if (first === undefined || native === undefined || "records" in native) return undefined;
  if (door?.kind !== "run") {
    throw refusedHere(first, door?.kind === "refuse" ? door.expected : undefined);
  }
  for (const [file, expected] of Object.entries(native.binaries)) {
    const bytes = ifThere(() => Deno.readFileSync(file));
    const found = bytes === undefined ? "it is not there" : `SHA-256 ${await sha256(bytes)}`;
    if (found === `SHA-256 ${expected}`) continue;
    throw refusal("", {
      found: `The native program ${file} is not the one that ran: ${found}`,
      expected: `SHA-256 ${expected}`,
    });
  }
  return { ...await machineOf(natives, door), binaries: native.binaries, runs: runsDirectory() };
}

function refusedHere(
  { run, on }: Pick<ProgramScenario, "run" | "on">,
  expected = NOT_HERE,
): Refusal {
  return refusal("", { found: `Program ${run} on ${on} is a native one`, expected });
}

/** For what tries a kept run in other ways. @throws Refusal where its plan has a native program. */
export function refuseNative(plan: RackPlan): void {
  const [first] = nativeIn(plan);
  if (first !== undefined) throw refusedHere({ run: first.program.run, on: first.host });
}
