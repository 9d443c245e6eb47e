/** From a prepared scenario to a rack that can be run again and again. */
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { importPrograms } from "../../nodes/files.ts";
import type { Prepared } from "../rack/prepare.ts";
import type { ExploredRack } from "./types.ts";

/** @throws Refusal where a file cannot be read, or is no program. */
export async function preparedRack(prepared: Prepared): Promise<ExploredRack> {
  const { plan } = prepared;
  const inputs: Record<string, Record<string, Uint8Array>> = {};
  for (const [host, files] of Object.entries(prepared.inputs)) {
    const read: Record<string, Uint8Array> = {};
    for (const [name, path] of Object.entries(files)) read[name] = await readInput(path);
    inputs[host] = read;
  }
  return { plan, inputs, ...await importPrograms(prepared) };
}

async function readInput(path: string): Promise<Uint8Array> {
  try {
    return await Deno.readFile(path);
  } catch (cause) {
    throw refusal("", { found: `Cannot read ${path}: ${(cause as Error).message}`, cause });
  }
}
