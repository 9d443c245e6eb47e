/** (z) A grant and its report between two machines, by the nats-servers between them. */
import { busEnvironment } from "../../fabric/rack/assembly/run_file.ts";
import { rackProcessArgs } from "../../console/base/v8_flags.ts";
import { type ClusterOptions, NatsCluster } from "./nats_cluster.ts";
import { Machines, machinesMissing } from "./machines.ts";
import { say } from "../commands/output.ts";
import { threadsCpuUs } from "./messages.ts";
import { type Figure, type Measured, median } from "./figure.ts";

/** A round trip of 0.65 ms, as between halls of a data centre. */
const DELAY_US = 325;
const MACHINES = 3;

/** The last server is not at either end. */
const SERVERS: Readonly<Record<string, Pick<ClusterOptions, "servers" | "topology">>> = {
  "one server": { servers: 1 },
  "a cluster of three": { servers: 3 },
  "leaf nodes at a hub": { servers: 3, topology: "hub with leaf nodes" },
};
type Between = keyof typeof SERVERS;

interface Turn {
  readonly tripUs: number;
  /** Of all servers, for each trip. */
  readonly serversCpuUs: number;
}

export async function measureServers({ quick }: Measured): Promise<Figure[]> {
  const directory = await Deno.makeTempDir({ prefix: "rackmesh-bench-" });
  const missing = await machinesMissing();
  if (missing !== undefined) say(`servers with a delay between them: not measured, as ${missing}`);
  try {
    const options = { directory, quick };
    const figures = await measured("on loopback", options);
    if (missing !== undefined) return figures;
    for (const delayUs of [0, DELAY_US]) {
      const machines = await Machines.open(directory, { count: MACHINES, delayUs });
      try {
        const where = delayUs === 0 ? "on three machines" : `${2 * delayUs} µs between machines`;
        figures.push(...await measured(where, { ...options, machines }));
      } finally {
        await machines.close();
      }
    }
    return figures;
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

interface Options {
  readonly directory: string;
  readonly quick: boolean;
  readonly machines?: Machines;
}

async function measured(where: string, options: Options): Promise<Figure[]> {
  const turns = new Map<Between, Turn[]>(Object.keys(SERVERS).map((between) => [between, []]));
  for (let i = 0; i < (options.quick ? 2 : 7); i++) {
    for (const [between, taken] of turns) {
      say(`${between} ${where}, round ${i + 1}`);
      taken.push(await turn(between, options));
    }
  }
  const one = turns.get("one server")!;
  return [...turns].flatMap(([between, taken]): Figure[] => [
    { group: "z", what: `${between} ${where}`, unit: "µs", values: taken.map((t) => t.tripUs) },
    {
      group: "z",
      what: "  over one server's",
      unit: "×",
      values: taken.map(({ tripUs }, i) => tripUs / one[i]!.tripUs),
    },
    { group: "z", what: "  CPU of servers", unit: "µs", values: taken.map((t) => t.serversCpuUs) },
  ]).filter(({ values }) => values.some((value) => value !== 1));
}

async function turn(between: Between, { directory, quick, machines }: Options): Promise<Turn> {
  const on = (machine: number) => machines?.on(machine) ?? [];
  // Each end is at its own machine's server, the hub at neither's.
  const isHub = SERVERS[between]!.topology === "hub with leaf nodes";
  const machineOf = (server: number) => isHub ? (server + MACHINES - 1) % MACHINES : server;
  const cluster = await NatsCluster.open(directory, {
    ...SERVERS[between]!,
    ...(machines !== undefined && {
      place: (server) => ({
        before: on(machineOf(server)),
        host: machines.address(machineOf(server)),
      }),
    }),
  });
  const all = Array.from({ length: SERVERS[between]!.servers }, (_, i) => cluster.server(i));
  const at = (machine: number) => all.find((_, i) => machineOf(i) === machine) ?? all[0]!;
  const end = (module: string, machine: number, words: readonly string[] = []) => {
    const { host, port } = at(machine);
    const line = [...on(machine), Deno.execPath(), ...rackProcessArgs(module, words)];
    return new Deno.Command(line[0]!, {
      args: line.slice(1),
      env: busEnvironment({ url: `nats://${host}:${port}` }),
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
  };
  const far = end("scripts/bench/echo_main.ts", 1);
  try {
    const before = all.reduce((sum, { pid }) => sum + threadsCpuUs(pid), 0);
    const count = quick ? 1_000 : 3_000;
    const near = end("scripts/bench/trips_main.ts", 0, [String(count)]);
    const trips = await new Response(near.stdout).json() as number[];
    const after = all.reduce((sum, { pid }) => sum + threadsCpuUs(pid), 0);
    // V8 compiles in the first ones.
    return {
      tripUs: median(trips.slice(count / 3)),
      serversCpuUs: (after - before) / count,
    };
  } finally {
    far.kill("SIGKILL");
    await far.stdout.cancel();
    await far.status;
    await cluster.close();
  }
}
