/** A scenario as an order gives it: a shipped one, or a text; and what it may read. */
import { DEFAULT_PROJECT } from "../api/page_terms.ts";
import type { ScenarioSource } from "../api/jobs.ts";
import { catalogueFolder, catalogueRow, scenarioOf } from "../scenarios/catalogue.ts";
import { keepText } from "../scenarios/kept_text.ts";
import type { Reach } from "../scenarios/read_door.ts";
import { SHIPPED_FOLDER, shippedScenarios } from "../scenarios/shipped.ts";
import type { Console } from "./context.ts";
import { ApiFailure } from "./doors/errors.ts";

export interface GivenScenario {
  readonly path: string;
  readonly reach: Reach;
  readonly title: string;
}

/**
 * The file of a scenario, and its reach: what is shipped, the files of its project, and what the
 * console's command line names.
 * @throws ApiFailure for an unknown shipped one.
 */
export async function givenScenario(
  source: ScenarioSource,
  { projects, allowRead }: Pick<Console, "projects" | "allowRead">,
): Promise<GivenScenario> {
  if ("shipped" in source) {
    const { path, name, base } = await shippedNamed(source.shipped);
    return {
      path,
      reach: { base, allowRead: [], isReadOnly: true },
      title: name,
    };
  }
  const { text, like, project = DEFAULT_PROJECT } = source;
  const shipped = like === undefined ? undefined : await shippedNamed(like);
  const own = projects.folderOf(project);
  const [base, other] = shipped === undefined ? [own, SHIPPED_FOLDER] : [shipped.base, own];
  return {
    path: await keepText(text),
    reach: { base, allowRead: [other, ...allowRead], isReadOnly: true },
    title: shipped?.name ?? "a text",
  };
}

/** A scenario that comes with the emulator. */
export interface Shipped {
  readonly name: string;
  readonly text: string;
  /** Where its paths begin. */
  readonly base: string;
  /** By which a command reads it: a file, or the name of a protocol of the catalogue. */
  readonly path: string;
}

/** @param wanted of a shipped scenario, or of a protocol of the catalogue. @throws ApiFailure */
export async function shippedNamed(wanted: string): Promise<Shipped> {
  const all = await shippedScenarios(), found = all.find(({ name }) => name === wanted);
  if (found !== undefined) {
    const { name, file } = found;
    return { name, path: file, text: await Deno.readTextFile(file), base: SHIPPED_FOLDER };
  }
  const row = catalogueRow(wanted);
  if (row !== undefined) {
    return { name: wanted, path: wanted, text: scenarioOf(row), base: catalogueFolder() };
  }
  const known = all.map(({ name }) => name).join(", ");
  throw new ApiFailure(
    "not-found",
    `There is no scenario ${wanted}: there are ${known}, and the protocols of the catalogue`,
  );
}
