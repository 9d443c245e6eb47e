/** The plan of a run from its timekeeper, into a folder of this machine. */
import { planVerb } from "../../../fabric/bus/access.ts";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { OWN_FILE, type OwnPart, PLAN_FILE } from "../../../fabric/files/served_files.ts";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { ownCaptures } from "../../captures/capture_files.ts";
import { DamagedFileError, jsonIfThere } from "../../base/files.ts";
import { writeRunFile } from "../run_directory.ts";
import { RemoteFiles, type RemoteOptions } from "./remote_files.ts";

const FOLDER = "plan";

/**
 * Writes the run file, with `directory` in it, and the inputs of the user; what a folder has already
 * is only compared.
 * @param options.user of `access.ts`, whose connection `bus` is.
 * @throws RackError without an answer of the timekeeper.
 */
export async function takePlan(
  bus: Bus,
  { user, run, directory, ...options }:
    & Pick<RemoteOptions, "run" | "signal" | "goneMs" | "onWaiting">
    & { readonly user: string; readonly directory: string },
): Promise<{ readonly runFile: RunFile; readonly runFilePath: string }> {
  const owner = `the timekeeper of ${run}`,
    verb = planVerb(user),
    folder = `${directory}/${FOLDER}`;
  await new RemoteFiles(bus, { ...options, run, verb, owner }).mirror(folder);
  const common = readPart<RunFile>(`${folder}/${PLAN_FILE}`, ({ plan }) => !!plan);
  const own = readPart<OwnPart>(`${folder}/${OWN_FILE}`, ({ inputs }) => !!inputs);
  const inputs = Object.fromEntries(
    Object.entries(own.inputs).map(([host, files]) => [
      host,
      Object.fromEntries(
        Object.entries(files).map(([name, place]) => [name, `${folder}/${place}`]),
      ),
    ]),
  );
  // Those are files of the machine on which the run was ordered.
  const { captures: asked, ...rest } = common, { observe } = common;
  const captures = asked && observe && { captures: ownCaptures(observe, directory) };
  const runFile: RunFile = { ...rest, ...own, inputs, directory, ...captures };
  return { runFile, runFilePath: await writeRunFile(runFile) };
}

function readPart<T>(
  path: string,
  isOne: (value: Partial<Record<keyof T, unknown>>) => boolean,
): T {
  const part = jsonIfThere<T>(path, isOne);
  if (part !== undefined) return part;
  throw new DamagedFileError(`${path} is missing: expected it to be part of every plan`);
}
