/**
 * A rack as containers: the compose file, and the configuration of the NATS server, whose access
 * list is the cabling. Pure text from a run file; `commands/compose.ts` writes it.
 * `docker/README.md` explains the settings and the rejected alternatives.
 */
import { accessOfContainers, USERS } from "../../fabric/bus/access.ts";
import { BUS_ENVIRONMENT, type RunFile } from "../../fabric/rack/build/run_file.ts";
import { authorization } from "./nats_server.ts";

export const IN_CONTAINER = {
  runFile: "/etc/rackmesh/run.json",
  inputs: "/etc/rackmesh/inputs",
  natsConfig: "/etc/rackmesh/nats.conf",
  /** `RunFile.directory`: a volume where its content has to outlive the container. */
  state: "/var/lib/rackmesh",
  /** In the report's container: the state of the timekeeper and, by partition, of the hosts. */
  record: "/mnt/record",
  states: "/mnt/states",
} as const;

/** The services beside the partitions; no partition can have one of these names. */
export const OWN_SERVICES: readonly string[] = ["nats", "timekeeper", "report"];

export interface ComposeOptions {
  readonly runFile: RunFile;
  /** Tells the run from other runs of the scenario, for the report. */
  readonly label: string;
  readonly image: string;
  readonly natsImage: string;
}

type Partition = RunFile["partitions"][number];

const NATS_PORT = 4222;
/**
 * Limit per Deno process: V8 and I/O threads grow with the number of cores. Measured: 5 on 2 cores.
 */
const PIDS_MAX = 256;
/** How long a NATS server may be unreachable: enough for a person to restart it. */
const BUS_PATIENCE_MS = 60_000;
/** Docker restarts a failed timekeeper or NATS server at most this often. */
const RETRIES = 5;

/** The users of the NATS server (`access.ts`). */
export function busUsers(runFile: RunFile): string[] {
  return [...accessOfContainers(runFile).keys()];
}

/** The variable that holds a user's password, by its place in {@link busUsers}. */
export function passwordVariable(place: number): string {
  return `RACKMESH_PASSWORD_${place}`;
}

/** The compose file. It holds no passwords: it refers to the variables of `.env`. */
export function composeFile(options: ComposeOptions): string {
  const { runFile, image } = options;
  const volumes = runFile.partitions.filter((partition) => hasState(runFile, partition))
    .map(({ name }) => stateOf(name));
  return `# The scenario ${runFile.plan.scenario} (${options.label}), seed ${runFile.plan.seed}, as containers.
# Written by \`rack compose\`. In this folder:
#   docker-compose run --rm -T report    brings everything up, waits for the end, prints the report
#   docker-compose kill b                power failure of b; docker-compose start b: its return
#   docker-compose down -v               takes everything away, SCM included
# \`docker compose\` (v2) works, too; \`docker-compose up\` shows the logs of all services.
x-process: &process
  image: ${text(image)}
  networks: [rack]
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  pids_limit: ${PIDS_MAX}

services:
${natsService(options)}
${timekeeperService(runFile)}
${runFile.partitions.map((partition) => partitionService(runFile, partition)).join("\n")}
${reportService(options)}
networks:
  rack:
    # No route to or from other networks: the rack needs none.
    internal: true

volumes:
${["record", ...volumes].map((name) => `  ${name}:\n`).join("")}`;
}

function natsService({ runFile, image, natsImage }: ComposeOptions): string {
  // The official images start the server by themselves; the project's image needs an entry point.
  const entrypoint = natsImage === image ? "\n    entrypoint: [nats-server]" : "";
  const passwords = busUsers(runFile).map((_, i) => variable(passwordVariable(i), i));
  return `  nats:
    <<: *process
    image: ${text(natsImage)}${entrypoint}
    command: ["-c", "${IN_CONTAINER.natsConfig}"]
    environment:
${passwords.join("\n")}
    volumes:
      - ./nats.conf:${IN_CONTAINER.natsConfig}:ro
    restart: on-failure:${RETRIES}
`;
}

function timekeeperService(runFile: RunFile): string {
  return `  timekeeper:
    <<: *process
    command: ["fabric/clock/timekeeper_main.ts", "${IN_CONTAINER.runFile}"]
${environment(runFile, USERS.timekeeper)}
    volumes:
      - ./run.json:${IN_CONTAINER.runFile}:ro
      - record:${IN_CONTAINER.state}
    depends_on: [nats]
    restart: on-failure:${RETRIES}
`;
}

function partitionService(runFile: RunFile, partition: Partition): string {
  const { name } = partition;
  const volumes = [`./run.json:${IN_CONTAINER.runFile}:ro`, ...inputMounts(runFile, partition)];
  if (hasState(runFile, partition)) volumes.push(`${stateOf(name)}:${IN_CONTAINER.state}`);
  return `  ${name}:
    <<: *process
    command: ["nodes/main.ts", "${IN_CONTAINER.runFile}", ${text(name)}]
${environment(runFile, name)}
    volumes:
${volumes.map((volume) => `      - ${volume}`).join("\n")}
    depends_on: [nats]
    restart: ${restartOf(runFile, partition)}
`;
}

function reportService({ runFile, label }: ComposeOptions): string {
  const { partitions } = runFile;
  const volumes = [`./run.json:${IN_CONTAINER.runFile}:ro`, `record:${IN_CONTAINER.record}:ro`];
  for (const partition of partitions) {
    volumes.push(...inputMounts(runFile, partition));
    if (!hasState(runFile, partition)) continue;
    volumes.push(`${stateOf(partition.name)}:${IN_CONTAINER.states}/${partition.name}:ro`);
  }
  const services = ["nats", "timekeeper", ...partitions.map(({ name }) => name)];
  return `  report:
    <<: *process
    command: ["docker/report_main.ts", "${IN_CONTAINER.runFile}", ${text(label)}]
${environment(runFile, USERS.report)}
    volumes:
${volumes.map((volume) => `      - ${volume}`).join("\n")}
    tmpfs: [/tmp]
    depends_on: ${JSON.stringify(services)}
    restart: "no"
`;
}

function environment(runFile: RunFile, user: string): string {
  const place = busUsers(runFile).indexOf(user);
  return `    environment:
      ${BUS_ENVIRONMENT.url}: nats://nats:${NATS_PORT}
      ${BUS_ENVIRONMENT.user}: ${text(user)}
      ${BUS_ENVIRONMENT.patienceMs}: ${BUS_PATIENCE_MS}
${variable(BUS_ENVIRONMENT.password, place)}`;
}

function variable(name: string, place: number): string {
  return `      ${name}: \${${passwordVariable(place)}}`;
}

/**
 * Docker restarts a process that the plan kills as often as the plan says. Any other death (`docker
 * kill`, a crash) is a power failure that lasts until the user starts the container.
 */
function restartOf({ plan }: RunFile, { nodes }: Partition): string {
  if (nodes.length > 1) return `"no"`;
  const starts = plan.faults.filter(({ action, node }) => action === "start" && node === nodes[0]);
  return starts.length === 0 ? `"no"` : `on-failure:${starts.length}`;
}

function hostsOf({ plan }: RunFile, { nodes }: Partition): string[] {
  return plan.nodes.filter(({ kind, name }) => kind === "host" && nodes.includes(name))
    .map(({ name }) => name);
}

function hasState(runFile: RunFile, partition: Partition): boolean {
  return runFile.trace || hostsOf(runFile, partition).length > 0;
}

function stateOf(partition: string): string {
  return `state-${partition}`;
}

function inputMounts(runFile: RunFile, partition: Partition): string[] {
  return hostsOf(runFile, partition).filter((host) => runFile.inputs[host] !== undefined)
    .map((host) => `./inputs/${host}:${IN_CONTAINER.inputs}/${host}:ro`);
}

/** A YAML scalar that is also a JSON string; compose would expand a single `$`. */
function text(value: string): string {
  return JSON.stringify(value).replaceAll("$", "$$$$");
}

/**
 * The NATS server's configuration. Each user may publish and receive on its own subjects only, so
 * that no container can send as another or listen to a cable that does not end at it.
 */
export function natsConfig(runFile: RunFile): string {
  const passwords = new Map(
    busUsers(runFile).map((user, i) => [user, `$${passwordVariable(i)}`]),
  );
  return `# Written by \`rack compose\`. Passwords come from the environment.
host: "0.0.0.0"
port: ${NATS_PORT}
max_payload: 8MB
# The server drops a client that vanished silently after 15 to 20 s.
ping_interval: "5s"
ping_max: 3
${authorization(passwords, accessOfContainers(runFile))}`;
}
