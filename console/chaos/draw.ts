/** A round, drawn from the campaign's seed and the round's number alone. */
import type { Packing } from "../../fabric/rack/assembly/topology.ts";
import { takes, type VariantChoices } from "../../fabric/rack/scenario/variants.ts";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import { prepare, type Prepared, type PrepareOptions } from "../rack/prepare.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { pick } from "./chaos_actions.ts";

/** At different speeds actions hit work in progress in different ways. */
export type Manner =
  /** Virtual time is limited: actions are taken at their times, often on a rack at rest. */
  | { readonly kind: "paced"; readonly overMs: number }
  /** Every process waits before each span: actions are taken while others are at work. */
  | { readonly kind: "slow"; readonly delayMsMax: number }
  | { readonly kind: "free" };

export interface RoundDraft {
  readonly number: number;
  readonly rng: Rng;
  readonly packing: Exclude<Packing, "all">;
  readonly manner: Manner;
  readonly choices: VariantChoices;
  readonly seed: number;
  /** Frames are many: only some rounds record them for checkers. */
  readonly observe: "notes" | "wire";
}

export interface DrawOptions {
  readonly scenario: ScenarioSource;
  readonly seed: number;
  readonly fixed: VariantChoices;
  readonly packing?: RoundDraft["packing"];
  readonly field: Field;
}

const SIZES = [undefined, 256, 1000, 2048, 16384] as const;
const DEPTHS = [undefined, 1, 2, 5, 8] as const;

export function drawRound(number: number, options: DrawOptions): RoundDraft {
  const rng = rngFor(options.seed, `round ${number}`);
  const drawn = pick(rng, ["node", "node", "machine"] as const);
  const packing = options.field.hasFaults ? "node" : drawn;
  const manner = drawManner(rng);
  const variant = pick(rng, options.field.variants);
  const size = pick(rng, SIZES);
  const depth = pick(rng, DEPTHS);
  const { takes } = options.field;
  const choices = {
    ...(size !== undefined && takes.size && { size }),
    ...(depth !== undefined && takes.depth && { depth }),
    ...variant,
    ...options.fixed,
  };
  return {
    number,
    rng,
    packing: options.packing ?? packing,
    manner,
    choices,
    seed: rng.below(2 ** 31),
    observe: rng.below(3) === 0 ? "wire" : "notes",
  };
}

function drawManner(rng: Rng): Manner {
  switch (rng.below(5)) {
    case 0:
      return { kind: "free" };
    case 1:
    case 2:
      return { kind: "slow", delayMsMax: 1 + rng.below(3) };
    default:
      return { kind: "paced", overMs: 300 + rng.below(900) };
  }
}

export interface Field {
  readonly variants: readonly VariantChoices[];
  /**
   * It has power failures of its own. A process of several devices makes them itself, and misses
   * those at which it is killed, without a record.
   */
  readonly hasFaults: boolean;
  /** Some program uses the option: no others are drawn. */
  readonly takes: { readonly size: boolean; readonly depth: boolean };
}

/** @throws Refusal; the signal's reason. */
export async function fieldOf(
  scenario: ScenarioSource,
  { fixed, ...more }: Pick<DrawOptions, "fixed"> & Pick<PrepareOptions, "signal" | "native">,
): Promise<Field> {
  const all = await prepare(scenario, { ...fixed, packing: "node", isTyped: true, ...more });
  const hasFaults = all.some(({ plan }) => plan.faults.length > 0);
  const programs = all.flatMap(({ variant }) => variant.programs);
  const isTaken = (option: string) => programs.some((program) => takes(program, option));
  const common = { hasFaults, takes: { size: isTaken("size"), depth: isTaken("depth") } };
  if (all.length === 1) return { variants: [{}], ...common };
  const variants = all.map(({ variant: { method, ddio } }) => ({
    ...(method !== null && { method }),
    ...(ddio !== null && { ddio }),
  }));
  return { variants, ...common };
}

export async function prepareRound(
  scenario: ScenarioSource,
  draft: RoundDraft,
  more: Pick<PrepareOptions, "faults" | "linkFaults" | "morePrograms" | "native" | "signal"> & {
    readonly packing?: Packing;
  } = {},
): Promise<Prepared> {
  const { choices, packing, seed } = draft;
  const [prepared] = await prepare(scenario, { ...choices, packing, seed, ...more });
  return prepared!;
}

/** `write-send, ddio on; machine, paced over 400 ms`. */
export function draftText({ packing, manner }: RoundDraft, label: string): string {
  const pace = manner.kind === "paced"
    ? `paced over ${manner.overMs} ms`
    : manner.kind === "slow"
    ? `slow by ${manner.delayMsMax} ms`
    : "free";
  return `${label}; ${packing}, ${pace}`;
}
