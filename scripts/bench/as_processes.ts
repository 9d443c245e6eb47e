import { USERS } from "../../fabric/bus/access.ts";
import type { Broker } from "../../console/rack/nats_server.ts";
import { say } from "../commands/output.ts";
import type { BenchRack } from "./bench_rack.ts";
import type { Figure, Measured } from "./figure.ts";
import { type ProcessRun, runAsProcesses } from "./processes.ts";
import { roundTripUs } from "./round_trip.ts";

export interface Place extends Measured {
  readonly broker: Broker;
  readonly directory: string;
}

const MIB = 2 ** 20;

/** (b) Relative to a request and its answer over the same server just before and after. */
export async function measureHops(place: Place): Promise<Figure[]> {
  const { quick, seed } = place;
  const one: BenchRack = {
    hosts: 2,
    writers: 1,
    seed,
    load: { writes: quick ? 500 : 2_000, bytes: 64, depth: 1 },
  };
  const many: BenchRack = {
    hosts: 8,
    writers: 8,
    seed,
    load: { writes: quick ? 100 : 400, bytes: 64, depth: 32 },
  };
  return [
    ...await hopFigures(one, { place, label: "2 hosts, depth 1: a hop", atMost: 0.95 }),
    ...await hopFigures(many, { place, label: "8 hosts, depth 32: a packet", atMost: 0.39 }),
  ];
}

async function hopFigures(
  rack: BenchRack,
  { place, label, atMost }: {
    readonly place: Place;
    readonly label: string;
    readonly atMost: number;
  },
): Promise<Figure[]> {
  const { broker, directory, quick } = place;
  const trips: number[] = [], hops: number[] = [], ratios: number[] = [], grants: number[] = [];
  const count = quick ? 1_000 : 4_000;
  for (let i = 0; i < (quick ? 1 : 3); i++) {
    say(`${label}, run ${i + 1}`);
    const before = await roundTripUs(broker.addressOf(USERS.supervisor), { directory, count });
    const run = await runAsProcesses(rack, {
      broker,
      directory,
      run: `hops-${rack.hosts}-${i}`,
    });
    const after = await roundTripUs(broker.addressOf(USERS.supervisor), { directory, count });
    const trip = (before + after) / 2, hop = 1_000 * run.hopsMs / run.hops;
    trips.push(trip);
    hops.push(hop);
    ratios.push(hop / trip);
    grants.push(run.grants / run.allHops);
  }
  return [
    { group: "b", what: label, unit: "µs", values: hops },
    { group: "b", what: "NATS request and reply meanwhile", unit: "µs", values: trips },
    {
      group: "b",
      what: "the one over the other",
      unit: "×",
      values: ratios,
      target: { is: "at most", value: atMost },
    },
    { group: "b", what: "spans granted for each", unit: "", values: grants },
  ];
}

/** (c) Of racks, and the memory of their processes then. */
export async function measureStartUp(place: Place): Promise<Figure[]> {
  const { broker, directory, seed, quick } = place;
  const figures: Figure[] = [];
  for (const hosts of quick ? [2, 8] : [2, 8, 32]) {
    const runs: ProcessRun[] = [];
    for (let i = 0; i < (quick ? 1 : 3); i++) {
      say(`${hosts} hosts up, run ${i + 1}`);
      const run = `up-${hosts}-${i}`;
      runs.push(await runAsProcesses({ hosts, writers: 1, seed }, { broker, directory, run }));
    }
    figures.push(...startUpFigures(hosts, runs));
  }
  return figures;
}

function startUpFigures(hosts: number, runs: readonly ProcessRun[]): Figure[] {
  const what = `${hosts} hosts, ${runs[0]!.processes} processes`;
  const resident = runs.map(({ residentBytes }) => residentBytes.map((bytes) => bytes / MIB));
  return [
    {
      group: "c",
      what: `${what}: all granted their first span`,
      unit: "s",
      values: runs.map(({ upMs }) => upMs / 1_000),
    },
    {
      group: "c",
      what: `${what}: all devices open`,
      unit: "s",
      values: runs.map(({ wholeMs }) => wholeMs / 1_000),
      target: { is: "at most", value: 20 },
    },
    {
      group: "c",
      what: `${what}: resident, the largest process`,
      unit: "MiB",
      values: resident.map((sizes) => Math.max(...sizes)),
      target: { is: "at most", value: 70 },
    },
    {
      group: "c",
      what: `${what}: resident, the mean`,
      unit: "MiB",
      values: resident.map((sizes) => sizes.reduce((sum, size) => sum + size, 0) / sizes.length),
    },
  ];
}

const BUSY_LOOPS = 4;

/** (k) A hundred hosts, each device its own process: alone, and beside loops that never rest. */
export async function measureLargeRack(place: Place): Promise<Figure[]> {
  const { broker, directory, seed, quick } = place;
  const rack: BenchRack = { hosts: 100, writers: 0, seed };
  const figures: Figure[] = [];
  for (const busy of [0, BUSY_LOOPS]) {
    const beside = busy === 0 ? "" : `, beside ${busy} busy loops`;
    const runs: ProcessRun[] = [];
    for (let i = 0; i < (quick ? 1 : 3); i++) {
      say(`100 hosts up${beside}, run ${i + 1}`);
      const loops = Array.from({ length: busy }, busyLoop);
      try {
        const run = `large-${busy}-${i}`;
        runs.push(await runAsProcesses(rack, { broker, directory, run }));
      } finally {
        for (const loop of loops) loop.kill("SIGKILL");
        await Promise.all(loops.map(({ status }) => status));
      }
    }
    const what = `100 hosts, ${runs[0]!.processes} processes${beside}`;
    figures.push(
      {
        group: "k",
        what: `${what}: all granted`,
        unit: "s",
        values: runs.map(({ upMs }) => upMs / 1_000),
        target: { is: "at most", value: 60 },
      },
      {
        group: "k",
        what: `${what}: PSS, the largest`,
        unit: "MiB",
        values: runs.map(({ proportionalBytes }) => Math.max(...proportionalBytes) / MIB),
        target: { is: "at most", value: 45 },
      },
      {
        group: "k",
        what: `${what}: unasked power failures`,
        unit: "",
        values: runs.map(({ deaths }) => deaths),
        target: { is: "at most", value: 0 },
      },
    );
  }
  return figures;
}

function busyLoop(): Deno.ChildProcess {
  const text =
    'while kill -0 "$PPID"; do i=0; while [ "$i" -lt 100000 ]; do i=$((i+1)); done; done';
  return new Deno.Command("sh", { args: ["-c", text], stdin: "null", stdout: "null" }).spawn();
}
