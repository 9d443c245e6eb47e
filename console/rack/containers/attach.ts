import type { NatsAddress } from "../../../fabric/bus/nats_bus.ts";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { ifThere } from "../../base/files.ts";
import { runsDirectory } from "../../base/paths.ts";
import { STATES } from "../live/racks.ts";
import { writeRunFile, writeSupervisor } from "../run_directory.ts";

export interface Attached {
  readonly runFile: RunFile;
  readonly address: NatsAddress;
  readonly viewer: Omit<NatsAddress, "url">;
  readonly record: string;
  readonly states: string;
  readonly brokerLog: string;
}

const RECORDS = [
  "faults.jsonl",
  "planned.jsonl",
  "orders.jsonl",
  "orders",
  "inexact.jsonl",
  "timekeeper.term",
  "clock.json",
];

/** Puts the rack into the list, again where an earlier console has; returns the run's name. */
export async function attachRack(rack: Attached): Promise<string> {
  const { runFile, address, viewer, record, states, brokerLog } = rack;
  const { run } = runFile;
  const directory = `${runsDirectory()}/${run}`;
  await writeRunFile({ ...runFile, directory });
  for (const name of RECORDS) link(`${record}/${name}`, `${directory}/${name}`);
  link(states, `${directory}/${STATES}`);
  link(brokerLog, `${directory}/nats-server.log`);
  for (const { name, nodes } of runFile.partitions) {
    for (const node of nodes) {
      for (const file of [`${node}.scm`, `${node}.scm.log`]) {
        link(`${states}/${name}/scm/${file}`, `${directory}/scm/${file}`);
      }
      if (!runFile.trace) continue;
      const file = `trace/${node}.ndjson`;
      link(`${states}/${name}/${file}`, `${directory}/${file}`);
    }
  }
  writeSupervisor(directory, { run, pid: null, ...address, viewer });
  return run;
}

function link(to: string, path: string): void {
  if (ifThere(() => Deno.lstatSync(path)) === undefined) Deno.symlinkSync(to, path);
}
