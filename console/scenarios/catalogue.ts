/**
 * The catalogue of protocols, right and wrong ones: `tests/crash/catalogue/`, one file each. Its
 * list has the verdict that the explorer must come to, and why. A protocol's name stands for its
 * scenario wherever a command takes a scenario's file.
 */
import { parse } from "yaml";
import { z } from "zod";
import { fromFileUrl, projectFile } from "../base/paths.ts";

const FOLDER = "tests/crash/catalogue";

const rowSchema = z.strictObject({
  name: z.string().regex(/^[a-z][a-z0-9_]*$/),
  verdict: z.enum(["safe", "unsafe"]),
  /** One sentence. */
  why: z.string().min(1),
  /** Where the protocol, or what it is a part of, was published. */
  source: z.string().optional(),
  ddio: z.enum(["on", "off"]).default("on"),
  domain: z.enum(["adr", "eadr", "wsp"]).default("adr"),
  /** Servers besides the client. */
  servers: z.number().int().min(1).max(2).default(1),
  /** Runs with a stall, and with a frame lost or late, that show the verdict. */
  stalls: z.number().int().min(0).default(0),
  frames: z.number().int().min(0).default(0),
});
export type CatalogueRow = z.infer<typeof rowSchema>;

/** In the order of the list. */
export function catalogueRows(): CatalogueRow[] {
  const text = Deno.readTextFileSync(projectFile(`${FOLDER}/catalogue.yaml`));
  return z.array(rowSchema).parse(parse(text));
}

/** @param name as in the list: a word, which is no file's path. */
export function catalogueRow(name: string): CatalogueRow | undefined {
  if (!/^[a-z][a-z0-9_]*$/.test(name)) return undefined;
  return catalogueRows().find((each) => each.name === name);
}

/** Options of an exploration, with the frames that show the protocol's verdict, if it is one. */
export function withFrames<Options extends { readonly frames?: number | undefined }>(
  row: CatalogueRow | undefined,
  options: Options,
): Options {
  return row === undefined ? options : { frames: row.frames, ...options };
}

/** The rack on which a protocol is explored: a client on `a`, a server each on `b` and `c`. */
export function scenarioOf(row: CatalogueRow): string {
  const { name, ddio, domain, servers } = row;
  const program = `program: ./${name}.ts`;
  const hosts = ["b", "c"].slice(0, servers);
  return [
    `# ${row.why}`,
    `name: ${name.replaceAll("_", "-")}`,
    "seed: 5",
    `defaults: { services: none, ddio: ${ddio}, domain: ${domain}, scm: { size: 64KiB } }`,
    "hosts:",
    ...["a", ...hosts].map((host) => `  ${host}: {}`),
    "programs:",
    // The last one is there first: a chain's head connects to its tail before it accepts.
    ...hosts.toReversed().map((host, i) => `  - { on: ${host}, ${program}, at: ${20 * i}us }`),
    `  - { on: a, ${program}, at: ${hosts.length}00us }`,
  ].join("\n") + "\n";
}

/** Where a protocol's file is, and its paths begin. */
export function catalogueFolder(): string {
  return Deno.realPathSync(fromFileUrl(projectFile(FOLDER)));
}
