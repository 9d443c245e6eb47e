/**
 * A rack as containers: the compose file, and the configuration of the NATS server, whose access
 * list is the cabling. Pure text from a run file; `commands/compose.ts` writes it.
 * `docker/README.md` explains the settings and the rejected alternatives.
 */
import { Document } from "yaml";
import { accessOfContainers, USERS } from "../../fabric/bus/access.ts";
import { BUS_ENVIRONMENT, type RunFile } from "../../fabric/rack/build/run_file.ts";
import { authorization } from "./nats_server.ts";
import { deviceRights } from "./device_rights.ts";

export const IN_CONTAINER = {
  runFile: "/etc/rackmesh/run.json",
  inputs: "/etc/rackmesh/inputs",
  natsConfig: "/etc/rackmesh/nats.conf",
  /** `RunFile.directory`: a volume where its content has to outlive the container. */
  state: "/var/lib/rackmesh",
  /** In the containers of nats-server, which writes its log there, and of the report, which reads it. */
  brokerLog: "/var/log/rackmesh",
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

const BUS_URL = `nats://nats:${NATS_PORT}`;
/** A device has fewer rights than the image's other processes. */
const DEVICE = [
  ...["deno", "run", "--quiet", "--no-prompt", "--frozen"],
  ...deviceRights(BUS_URL, IN_CONTAINER.state),
];

/** The users of the NATS server (`access.ts`). */
export function busUsers(runFile: RunFile): string[] {
  return [...accessOfContainers(runFile).keys()];
}

/** The variable that holds a user's password, by its place in {@link busUsers}. */
export function passwordVariable(place: number): string {
  return `RACKMESH_PASSWORD_${place}`;
}

type Service = Readonly<Record<string, unknown>>;

/** The volume with the broker's log. */
const BROKER_LOG = "broker-log";

/** The broker's log, as its container and the report's see it. */
export const BROKER_LOG_FILE = `${IN_CONTAINER.brokerLog}/nats-server.log`;

/** The compose file. It holds no passwords: it refers to the variables of `.env`. */
export function composeFile(options: ComposeOptions): string {
  const { runFile } = options;
  const { plan, partitions } = runFile;
  const states = partitions.filter((partition) => hasState(runFile, partition))
    .map(({ name }) => stateOf(name));
  const document = new Document({
    services: {
      nats: natsService(options),
      timekeeper: timekeeperService(options),
      ...Object.fromEntries(
        partitions.map((partition) => [partition.name, partitionService(options, partition)]),
      ),
      report: reportService(options),
    },
    // No route to or from other networks: the rack needs none.
    networks: { rack: { internal: true } },
    volumes: Object.fromEntries(["record", BROKER_LOG, ...states].map((name) => [name, {}])),
  }, { aliasDuplicateObjects: false });
  document.commentBefore = ` The scenario ${JSON.stringify(plan.scenario)} (${
    JSON.stringify(options.label)
  }), seed ${plan.seed}, as containers.
 Written by \`rack compose\`. In this folder:
   docker-compose run --rm -T report    brings everything up, waits for the end, prints the report
   docker-compose kill b                power failure of b; docker-compose start b: its return
   docker-compose down -v               takes everything away, SCM included
 \`docker compose\` (v2) works, too; \`docker-compose up\` shows the logs of all services.`;
  // Quoted, a key or value is a text in every version of YAML: on, no, 1 and null are names of hosts.
  const text = document.toString({
    defaultStringType: "QUOTE_DOUBLE",
    defaultKeyType: "QUOTE_DOUBLE",
    doubleQuotedAsJSON: true,
    lineWidth: 0,
  });
  return text.replaceAll(LINE_BREAKS, escaped);
}

/** Characters that end a line in YAML 1.1, and control characters: JSON leaves them as they are. */
const LINE_BREAKS = /[\u007f-\u009f\u2028\u2029\ufeff]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** What every container has. */
function process({ image }: ComposeOptions): Service {
  return {
    image: text(image),
    networks: ["rack"],
    read_only: true,
    cap_drop: ["ALL"],
    security_opt: ["no-new-privileges:true"],
    pids_limit: PIDS_MAX,
  };
}

function natsService(options: ComposeOptions): Service {
  const { runFile, image, natsImage } = options;
  return {
    ...process(options),
    image: text(natsImage),
    // The official images start the server by themselves; the project's image needs an entry point.
    ...(natsImage === image && { entrypoint: ["nats-server"] }),
    command: ["-c", IN_CONTAINER.natsConfig],
    environment: Object.fromEntries(
      busUsers(runFile).map((_, i) => [passwordVariable(i), valueOf(passwordVariable(i))]),
    ),
    volumes: [
      fileMount("./nats.conf", IN_CONTAINER.natsConfig),
      volumeMount(BROKER_LOG, IN_CONTAINER.brokerLog),
    ],
    restart: `on-failure:${RETRIES}`,
  };
}

function timekeeperService(options: ComposeOptions): Service {
  return {
    ...process(options),
    command: ["fabric/clock/timekeeper_main.ts", IN_CONTAINER.runFile],
    environment: environment(options.runFile, USERS.timekeeper),
    volumes: [RUN_FILE_MOUNT, volumeMount("record", IN_CONTAINER.state)],
    depends_on: ["nats"],
    restart: `on-failure:${RETRIES}`,
  };
}

function partitionService(options: ComposeOptions, partition: Partition): Service {
  const { runFile } = options;
  const { name } = partition;
  return {
    ...process(options),
    entrypoint: DEVICE,
    command: ["nodes/main.ts", IN_CONTAINER.runFile, name],
    environment: environment(runFile, name),
    volumes: [
      RUN_FILE_MOUNT,
      ...inputMounts(runFile, partition),
      ...(hasState(runFile, partition) ? [volumeMount(stateOf(name), IN_CONTAINER.state)] : []),
    ],
    depends_on: ["nats"],
    restart: restartOf(runFile, partition),
  };
}

function reportService(options: ComposeOptions): Service {
  const { runFile, label } = options;
  const { partitions } = runFile;
  const readOnly = { read_only: true };
  return {
    ...process(options),
    command: ["docker/report_main.ts", IN_CONTAINER.runFile, text(label)],
    environment: environment(runFile, USERS.report),
    // The log is of nats-server's user and group, which is root in the public images.
    group_add: ["0"],
    volumes: [
      RUN_FILE_MOUNT,
      { ...volumeMount("record", IN_CONTAINER.record), ...readOnly },
      { ...volumeMount(BROKER_LOG, IN_CONTAINER.brokerLog), ...readOnly },
      ...partitions.flatMap((partition) => [
        ...inputMounts(runFile, partition),
        ...(hasState(runFile, partition)
          ? [{
            ...volumeMount(stateOf(partition.name), `${IN_CONTAINER.states}/${partition.name}`),
            ...readOnly,
          }]
          : []),
      ]),
    ],
    tmpfs: ["/tmp"],
    depends_on: ["nats", "timekeeper", ...partitions.map(({ name }) => name)],
    restart: "no",
  };
}

function environment(runFile: RunFile, user: string): Service {
  return {
    [BUS_ENVIRONMENT.url]: BUS_URL,
    [BUS_ENVIRONMENT.user]: user,
    [BUS_ENVIRONMENT.patienceMs]: String(BUS_PATIENCE_MS),
    [BUS_ENVIRONMENT.password]: valueOf(passwordVariable(busUsers(runFile).indexOf(user))),
  };
}

/** Compose puts the value of this variable of `.env` in. */
function valueOf(variable: string): string {
  return `\${${variable}}`;
}

/** Compose would expand a single `$`. */
function text(value: string): string {
  return value.replaceAll("$", "$$$$");
}

/** In the long form, in which a path may hold a colon. */
function fileMount(from: string, to: string): Service {
  return { type: "bind", source: text(from), target: text(to), read_only: true };
}

const RUN_FILE_MOUNT = fileMount("./run.json", IN_CONTAINER.runFile);

function volumeMount(source: string, target: string): Service {
  return { type: "volume", source, target };
}

/**
 * Docker restarts a process that the plan kills as often as the plan says. Any other death (`docker
 * kill`, a crash) is a power failure that lasts until the user starts the container.
 */
function restartOf({ plan }: RunFile, { nodes }: Partition): string {
  if (nodes.length > 1) return "no";
  const starts = plan.faults.filter(({ action, node }) => action === "start" && node === nodes[0]);
  return starts.length === 0 ? "no" : `on-failure:${starts.length}`;
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

function inputMounts(runFile: RunFile, partition: Partition): Service[] {
  return hostsOf(runFile, partition).filter((host) => runFile.inputs[host] !== undefined)
    .map((host) => fileMount(`./inputs/${host}`, `${IN_CONTAINER.inputs}/${host}`));
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
# The report counts there what the server refused.
log_file: "${BROKER_LOG_FILE}"
# The server drops a client that vanished silently after 15 to 20 s.
ping_interval: "5s"
ping_max: 3
${authorization(passwords, accessOfContainers(runFile))}`;
}
