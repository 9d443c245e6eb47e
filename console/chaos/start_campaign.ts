/** A campaign with a directory of its own, and an input where the scenario leaves it open. */
import { createRunDirectory } from "../rack/run_directory.ts";
import { lacksInput, readScenario } from "../rack/prepare.ts";
import { type CampaignOptions, type CampaignReport, runCampaign } from "./campaign.ts";

export interface StartOptions extends Omit<CampaignOptions, "scenario" | "directory" | "run"> {
  /** Told before the first round. */
  readonly onStart?: (run: { readonly id: string; readonly seed: number }) => void;
}

/** Runs a campaign on a scenario, see {@link runCampaign}. @throws Refusal before the first round. */
export async function startCampaign(
  scenario: string,
  { onStart, ...options }: StartOptions,
): Promise<CampaignReport> {
  const file = await Deno.realPath(scenario).catch(() => scenario);
  const input = options.fixed.input ?? await inputFor(file);
  const { id, path } = await createRunDirectory(`chaos-${(await readScenario(file)).name}`);
  const place = input === undefined ? {} : { input: await placed(input, path) };
  onStart?.({ id, seed: options.seed });
  const fixed = { ...options.fixed, ...place };
  return await runCampaign({ ...options, scenario: file, directory: path, run: id, fixed });
}

/** Where a scenario leaves open what is written: so many bytes, of which none is 0. */
const INPUT_BYTES = 40 * 1024 - 100;

async function inputFor(scenario: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const { programs } = await readScenario(scenario);
  if (!programs.some((program) => lacksInput(program, undefined))) return undefined;
  return Uint8Array.from(
    { length: INPUT_BYTES },
    (_, i) => (i * 197 + (i >> 8) * 31 + 7) % 251 + 1,
  );
}

/** A file that is there for the replay, too: its path. */
async function placed(input: string | Uint8Array, directory: string): Promise<string> {
  if (typeof input === "string") return await Deno.realPath(input).catch(() => input);
  const path = `${directory}/input.bin`;
  await Deno.writeFile(path, input);
  return path;
}
