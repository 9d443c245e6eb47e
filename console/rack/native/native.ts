/** What a run with native programs needs of this machine, and which commands take such a scenario. */
import type { NativeSetUp } from "../../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { nativeIn } from "../../../fabric/rack/plan/plan.ts";
import { type Refusal, refusal } from "../../../fabric/rack/plan/problem.ts";
import type { ProgramScenario } from "../../../fabric/rack/scenario/scenario.ts";
import { runsDirectory } from "../../base/paths.ts";
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
  /** The scenario is only looked at: their binaries have to be there. */
  | { readonly kind: "look" }
  | { readonly kind: "refuse"; readonly expected: string };

/** Of a console: its page starts binaries of this machine only where its owner has said so. */
export function consoleDoor(
  allowNative: boolean | undefined,
  onNotice?: (text: string) => void,
): NativeDoor {
  if (allowNative) return { kind: "run", ...(onNotice && { onNotice }) };
  return { kind: "refuse", expected: "a console that was started with --allow-native" };
}

/** [choice] A replay needs what threads of such programs have asked, which is not recorded yet. */
const NOT_AGAIN =
  "none, as native programs cannot be run again exactly (rack run, up, sweep and explore run them)";

/** `off`: the library answers nothing by itself, for comparisons. It goes into the programs' environment. */
const LEASE_VARIABLE = "RACKMESH_LEASE";

/**
 * Programs with the paths of native ones' binaries, and what a run of them needs.
 * @throws Refusal where native programs are refused here, or cannot run on this machine.
 */
export async function withBinaries(
  programs: readonly ProgramScenario[],
  { base, door }: { readonly base: string; readonly door: NativeDoor | undefined },
): Promise<{ readonly programs: readonly ProgramScenario[]; readonly native?: NativeSetUp }> {
  const natives = programs.filter(({ native }) => native !== undefined);
  const [first] = natives;
  if (first === undefined) return { programs };
  if (door === undefined || door.kind === "refuse") throw refusedHere(first, door?.expected);
  const binaries = new Map<string, Binary>();
  const commands = natives.flatMap(({ run, on, native }) => [
    { run, on, env: native!.env },
    ...native!.recover === undefined
      ? []
      : [{ run: native!.recover.argv[0]!, on, env: native!.env }],
  ]);
  const flushes: Record<string, number> = {};
  for (const { run, on, env } of commands) {
    if (!binaries.has(run)) binaries.set(run, await findBinary(run, { base, on }));
    const { file } = binaries.get(run)!;
    const count = flushes[file] ?? unseenFlushes(file, env);
    if (count > 0) flushes[file] = count;
  }
  const lease = Deno.env.get(LEASE_VARIABLE);
  const env = lease === undefined ? {} : { [LEASE_VARIABLE]: lease };
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

async function setUp(
  natives: readonly ProgramScenario[],
  { binaries, flushes, door: { onNotice } }: {
    readonly binaries: readonly Binary[];
    readonly flushes: NonNullable<NativeSetUp["flushes"]>;
    readonly door: Extract<NativeDoor, { readonly kind: "run" }>;
  },
): Promise<NativeSetUp> {
  const onBuild = () => onNotice?.("builds the library for native programs, once");
  const library = await nativeLibrary({ onBuild });
  const sandbox = await sandboxHere();
  const which = natives.map(({ run, on }) => `${run} on ${on}`).join(", ");
  onNotice?.(`native programs: ${which}, ${rightsText(sandbox)}`);
  return {
    library,
    binaries: Object.fromEntries(binaries.map(({ file, sha256 }) => [file, sha256])),
    ...(Object.keys(flushes).length > 0 && { flushes }),
    ...("bwrap" in sandbox && { bwrap: sandbox.bwrap }),
    runs: runsDirectory(),
  };
}

function refusedHere(
  { run, on }: Pick<ProgramScenario, "run" | "on">,
  expected = NOT_AGAIN,
): Refusal {
  return refusal("", { found: `Program ${run} on ${on} is a native one`, expected });
}

/** For what plays a kept run again. @throws Refusal where its plan has a native program. */
export function refuseNative(plan: RackPlan): void {
  const [first] = nativeIn(plan);
  if (first !== undefined) throw refusedHere({ run: first.program.run, on: first.host });
}
