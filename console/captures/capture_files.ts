import { resolve } from "node:path";
import { PERFETTO_BEGIN } from "../../fabric/capture/perfetto.ts";
import type { ObservationScope } from "../../fabric/capture/observation.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import type { CaptureFiles } from "../../fabric/rack/assembly/run_file.ts";
import type { CaptureSection } from "../../fabric/rack/scenario/schema.ts";
import { ifThere, isThere, readInto } from "../base/files.ts";
import { admitTarget, type Reach } from "../scenarios/read_door.ts";

export function recordingsIn(directory: string): string {
  return `${directory}/observed`;
}

/** Undefined where no capture is requested. */
export function scopeFor({ pcap, perfetto }: CaptureFiles): ObservationScope | undefined {
  return perfetto !== undefined ? "all" : pcap !== undefined ? "frames" : undefined;
}

/** In the run's directory, of a rack whose devices record on other machines. */
export function ownCaptures(scope: ObservationScope, directory: string): CaptureFiles {
  const pcap = `${directory}/captures`;
  return scope === "all" ? { pcap, perfetto: `${pcap}/perfetto.json` } : { pcap };
}

/** A name below the run's directory. */
export function isRecording(name: string): boolean {
  return name.startsWith("observed/");
}

/**
 * From the command line (relative to the current directory), else from the scenario (relative to
 * its folder, or `true` for the run's directory).
 * @throws Refusal where a scenario names a place outside of its own folder, or a file there that is
 * no trace of an earlier run.
 */
export function captureFiles({ flags, scenario, reach, directory }: {
  readonly flags: { readonly pcap?: string | true; readonly perfetto?: string | true };
  readonly scenario: CaptureSection;
  readonly reach: Reach;
  readonly directory: string;
}): CaptureFiles {
  const place = (given: string | true | undefined, named: string | true | undefined, own: string) =>
    given === true
      ? `${directory}/${own}`
      : given !== undefined
      ? resolve(given)
      : named === true
      ? `${directory}/${own}`
      : named && admitted(named, reach);
  const pcap = place(flags.pcap, scenario.pcap, "captures");
  const perfetto = place(flags.perfetto, scenario.perfetto, "captures/perfetto.json");
  return { ...(pcap && { pcap }), ...(perfetto && { perfetto }) };
}

function admitted(named: string, reach: Reach): string {
  const target = admitTarget(named, reach, "A capture");
  const there = ifThere(() => Deno.lstatSync(target));
  if (there === undefined || there.isDirectory || beginsAsPerfetto(target)) return target;
  const found = `A capture: ${target} is there, and is no capture`;
  throw refusal("", { found, expected: "another place: a scenario overwrites nothing else" });
}

function beginsAsPerfetto(path: string): boolean {
  const begin = new TextEncoder().encode(PERFETTO_BEGIN), found = new Uint8Array(begin.length);
  using file = Deno.openSync(path);
  return readInto(file, found) === begin.length && found.every((byte, i) => byte === begin[i]);
}

/**
 * Makes the folders before the run, so that a long run does not fail at its end.
 * @throws Refusal
 */
export async function makeRoomFor({ pcap, perfetto }: CaptureFiles): Promise<void> {
  if (perfetto !== undefined && (perfetto.endsWith("/") || isFolder(perfetto))) {
    throw refusal("--perfetto", { found: `${perfetto}, a folder`, expected: "a file" });
  }
  const folders = { pcap, perfetto: perfetto?.replace(/\/[^/]*$/, "/") };
  for (const [option, folder] of Object.entries(folders)) {
    if (folder === undefined) continue;
    try {
      await Deno.mkdir(folder, { recursive: true });
      await Deno.remove(await Deno.makeTempFile({ dir: folder }));
    } catch (cause) {
      const why = (cause as Error).message;
      const found = `Cannot write what ${option} asks for to ${folder}: ${why}`;
      throw refusal("", { found, cause });
    }
  }
}

function isFolder(path: string): boolean {
  return ifThere(() => Deno.statSync(path))?.isDirectory === true;
}

export function removeRecordings(directory: string): void {
  if (isThere(recordingsIn(directory))) {
    Deno.removeSync(recordingsIn(directory), { recursive: true });
  }
}

export function pcapOf(folder: string, label: string): string {
  return `${folder}/${fileName(label)}.pcapng`;
}

/** With a number where the folder has a capture of that name: no capture is overwritten. */
export function unusedLabel(label: string, { pcap }: CaptureFiles): string {
  if (pcap === undefined) return label;
  let unused = label;
  for (let n = 2; isThere(pcapOf(pcap, unused)); n++) unused = `${label} ${n}`;
  return unused;
}

export function fileName(label: string): string {
  return label.replaceAll(/[^\w-]+/g, "_");
}
