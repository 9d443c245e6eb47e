/**
 * Pure text from a run file. `docker/README.md` explains the settings and the rejected
 * alternatives.
 */
import { accessOfContainers, type AccessRack, USERS } from "../../../fabric/bus/access.ts";
import { hostsOf as hostsOfUrls } from "../../../fabric/bus/nats_bus.ts";
import {
  BUS_ENVIRONMENT,
  DEFAULT_PATIENCE_MS,
  nativeSetUpOf,
  type RunFile,
} from "../../../fabric/rack/assembly/run_file.ts";
import { nativeIn } from "../../../fabric/rack/plan/plan.ts";
import { authorization, authorizationFiles } from "../nats_server.ts";
import { SMALL_HEAP } from "../device_rights.ts";
import { v8Flags } from "../../base/v8_flags.ts";
import { yamlText } from "./yaml_text.ts";

const CONFIG = "/etc/rackmesh";

export const IN_CONTAINER = {
  /** Has the files that the engine brings. */
  config: CONFIG,
  /** Of the timekeeper, which serves them to the others over the bus. */
  runFile: `${CONFIG}/run.json`,
  inputs: `${CONFIG}/inputs`,
  natsConfig: `${CONFIG}/nats.conf`,
  /** `RunFile.directory`: a volume where its content has to outlive the container. */
  state: "/var/lib/rackmesh",
} as const;

/** The image's own user and group (`docker/base.sh`). */
export const CONTAINER_USER = 1993;

/** Beside the partitions, which have other names. */
export const OWN_SERVICES: readonly string[] = ["nats", "timekeeper", "report", "console"];

/**
 * Of `.env` and of the console's container: an operator's key, and the port on the loopback
 * interface.
 */
export const CONSOLE_KEY = "RACKMESH_CONSOLE_KEY", CONSOLE_PORT = "RACKMESH_CONSOLE_PORT";

/** In the console's container, for the broker's user that may watch but not drive. */
export const VIEWER_PASSWORD = "RACKMESH_VIEWER_PASSWORD";

/** In the console's container: which run's rack it shows. */
export const RUN_NAME = "RACKMESH_RUN";

/** In a device's container: the port on which its parent says whether the device has power. */
export const READY_VARIABLE = "RACKMESH_READY_PORT";

/** Of nats-server's settings. It drops a client that vanished silently after 15 to 20 s. */
export const NATS_LIMITS = `max_payload: 8MB
ping_interval: "5s"
ping_max: 3`;

export interface ComposeOptions {
  readonly runFile: RunFile;
  readonly label: string;
  readonly image: string;
  readonly natsImage: string;
}

/** Of the folder: files of native programs, each below its own absolute path; and their system calls. */
export const NATIVE_FILES = "native", SECCOMP_FILE = "seccomp.json";

type Partition = RunFile["partitions"][number];

export const NATS_PORT = 4222;
/** V8 and I/O threads grow with the number of cores. Measured: 5 on 2 cores. */
export const PIDS_MAX = 256;
const NATIVE_PIDS_MAX = 4_096;
const NO_NEW_PRIVILEGES = ["no-new-privileges:true"];
/** The console's jobs and replays are racks and processes of its own container. */
export const CONSOLE_PIDS_MAX = 4_096;
export const RETRIES = 5;

const BUS_URL = `nats://nats:${NATS_PORT}`;
/**
 * A parent may start Deno, write to its folder and talk to the bus; it gives the device's process fewer
 * rights (`device_rights.ts`).
 */
export function parentCommand(
  { hosts, directory, readyPort }: {
    /** `host:port` of each server of the bus. */
    readonly hosts: readonly string[];
    readonly directory: string;
    /** On which it says whether its device has power; absent: it does not. */
    readonly readyPort?: number;
  },
): string[] {
  const doors = readyPort === undefined ? [] : [`0.0.0.0:${readyPort}`];
  return [
    ...["deno", "run", "--quiet", "--no-prompt", "--frozen", "--cached-only", "--deny-import"],
    v8Flags(SMALL_HEAP),
    `--allow-net=${[...hosts, ...doors].join(",")}`,
    `--allow-write=${directory}`,
    ...["--allow-read", "--allow-env", "--allow-sys", "--allow-run=deno"],
  ];
}
/** On the console's own network; no host's name has an underscore. */
const CONSOLE_NAME = "console_page";
/** To find and end processes takes all of Deno's rights; the container has few. */
export const CONSOLE = [
  ...["deno", "run", "--quiet", "--no-prompt", "--frozen", "--cached-only"],
  v8Flags(),
  "--allow-all",
];

/** Of {@link CONSOLE}. Browsers reach it by 127.0.0.1; it listens to all of the container's networks, or to one. */
export function consoleArgs(port: string, listen = "0.0.0.0"): string[] {
  return [
    ...["docker/console_main.ts", "console", "--listen", listen, "--insecure"],
    ...["--host", "127.0.0.1", "--port", port],
  ];
}

/** The users of the NATS server (`access.ts`). */
export function busUsers(rack: AccessRack): readonly string[] {
  return [...placesOfUsers(rack).keys()];
}

/** Found once: each container of a large rack is asked for. */
function placesOfUsers(rack: AccessRack): ReadonlyMap<string, number> {
  let places = KNOWN_PLACES.get(rack);
  if (places === undefined) {
    places = new Map([...accessOfContainers(rack).keys()].map((user, i) => [user, i]));
    KNOWN_PLACES.set(rack, places);
  }
  return places;
}

const KNOWN_PLACES = new WeakMap<AccessRack, ReadonlyMap<string, number>>();

/** A user's place among {@link busUsers}. */
export function placeOfUser(rack: AccessRack, user: string): number {
  return placesOfUsers(rack).get(user)!;
}

/** The variable of a user's password, by {@link placeOfUser}. */
export function passwordVariable(place: number): string {
  return `RACKMESH_PASSWORD_${place}`;
}

type Service = Readonly<Record<string, unknown>>;

/** It refers to the passwords of `.env`. */
export function composeFile(options: ComposeOptions): string {
  const { runFile } = options;
  const { plan, partitions } = runFile;
  const states = partitions.filter((partition) => isKept(runFile, partition))
    .map(({ name }) => stateOf(name));
  const document = {
    services: {
      nats: natsService(options),
      timekeeper: timekeeperService(options),
      ...Object.fromEntries(
        partitions.map((partition) => [partition.name, partitionService(options, partition)]),
      ),
      ...(!runFile.stayUp && { report: reportService(options) }),
      console: consoleService(options),
    },
    networks: {
      // No route to or from other networks, as the rack needs none.
      rack: { internal: true },
      // Docker publishes no port of an internal network. Without masquerading, answers from outside do not find back.
      console: { driver_opts: { "com.docker.network.bridge.enable_ip_masquerade": "false" } },
    },
    volumes: Object.fromEntries(
      ["record", "console", ...states].map((name) => [name, {}]),
    ),
  };
  const comment = ` The scenario ${JSON.stringify(plan.scenario)} (${
    JSON.stringify(options.label)
  }), seed ${plan.seed}, as containers.
 Written by \`rack compose\`. In this folder:
${
    runFile.stayUp
      ? "   docker-compose up -d                 brings everything up, the console (a web page) included"
      : `   docker-compose run --rm -T report    brings everything up, waits for the end, prints the report
   docker-compose up -d console         brings everything up, and the console (a web page)`
  }
   docker-compose kill b                power failure of b; docker-compose start b: its return
   docker-compose down -v               takes everything away, SCM included
 \`docker compose\` (v2) works, too; \`docker-compose up\` shows the logs of all services.`;
  return yamlText([document], comment);
}

function process({ image }: ComposeOptions): Service {
  return {
    image: text(image),
    networks: ["rack"],
    read_only: true,
    cap_drop: ["ALL"],
    security_opt: NO_NEW_PRIVILEGES,
    pids_limit: PIDS_MAX,
  };
}

/**
 * Their threads are counted, too; and of those that died with their host's process a number is left, as
 * process 1 knows its own child alone.
 */
const NATIVE_PROCESS: Service = {
  security_opt: [...NO_NEW_PRIVILEGES, `seccomp:./${SECCOMP_FILE}`],
  pids_limit: NATIVE_PIDS_MAX,
};

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
    volumes: [fileMount("./nats.conf", IN_CONTAINER.natsConfig)],
    restart: `on-failure:${RETRIES}`,
  };
}

function timekeeperService(options: ComposeOptions): Service {
  return {
    ...process(options),
    command: ["fabric/clock/timekeeper_main.ts", IN_CONTAINER.runFile],
    environment: environment(options.runFile, USERS.timekeeper),
    volumes: [
      fileMount("./run.json", IN_CONTAINER.runFile),
      ...options.runFile.partitions.flatMap((one) => inputMounts(options.runFile, one)),
      volumeMount("record", IN_CONTAINER.state),
    ],
    depends_on: ["nats"],
    restart: `on-failure:${RETRIES}`,
  };
}

function partitionService(options: ComposeOptions, partition: Partition): Service {
  const { runFile } = options;
  const { name } = partition;
  const isNative = hasNative(runFile, partition);
  return {
    ...process(options),
    ...(isNative && NATIVE_PROCESS),
    entrypoint: parentCommand({ hosts: hostsOfUrls(BUS_URL), directory: IN_CONTAINER.state }),
    command: ["console/rack/containers/parent_main.ts", runFile.run, name],
    environment: environment(runFile, name),
    volumes: [
      ...(isNative ? nativeMounts(runFile) : []),
      ...(isKept(runFile, partition) ? [volumeMount(stateOf(name), IN_CONTAINER.state)] : []),
    ],
    ...(!isKept(runFile, partition) && { tmpfs: [OWN_TMPFS] }),
    depends_on: ["nats"],
    // The process's parent starts it again. A container that ends has failed, or its user has ended it.
    restart: "no",
  };
}

function reportService(options: ComposeOptions): Service {
  const { runFile, label } = options;
  return {
    ...process(options),
    command: ["docker/report_main.ts", runFile.run, text(label)],
    environment: environment(runFile, USERS.report),
    volumes: [],
    tmpfs: ["/tmp"],
    depends_on: allOf(runFile),
    restart: "no",
  };
}

/** Docker's machine publishes the page on loopback, under the same port. */
function consoleService(options: ComposeOptions): Service {
  const { runFile } = options;
  const port = valueOf(CONSOLE_PORT);
  return {
    ...process(options),
    networks: { rack: {}, console: { aliases: [CONSOLE_NAME] } },
    ports: [`127.0.0.1:${port}:${port}`],
    pids_limit: CONSOLE_PIDS_MAX,
    entrypoint: CONSOLE,
    // On a network without devices. A port published on loopback alone needs no TLS.
    command: consoleArgs(port, CONSOLE_NAME),
    environment: {
      ...environment(runFile, USERS.supervisor),
      [RUN_NAME]: runFile.run,
      [VIEWER_PASSWORD]: passwordOf(runFile, USERS.viewer),
      [CONSOLE_KEY]: valueOf(CONSOLE_KEY),
      [CONSOLE_PORT]: port,
      RACKMESH_CACHE: IN_CONTAINER.state,
    },
    volumes: [volumeMount("console", IN_CONTAINER.state)],
    tmpfs: ["/tmp"],
    depends_on: allOf(runFile),
    restart: `on-failure:${RETRIES}`,
  };
}

function allOf({ partitions }: RunFile): string[] {
  return ["nats", "timekeeper", ...partitions.map(({ name }) => name)];
}

function environment(runFile: RunFile, user: string): Service {
  return {
    [BUS_ENVIRONMENT.url]: BUS_URL,
    [BUS_ENVIRONMENT.user]: user,
    [BUS_ENVIRONMENT.patienceMs]: String(DEFAULT_PATIENCE_MS),
    [BUS_ENVIRONMENT.password]: passwordOf(runFile, user),
  };
}

function passwordOf(runFile: RunFile, user: string): string {
  return valueOf(passwordVariable(placeOfUser(runFile, user)));
}

function valueOf(variable: string): string {
  return `\${${variable}}`;
}

/** Compose would expand a single `$`. */
export function text(value: string): string {
  return value.replaceAll("$", "$$$$");
}

function fileMount(from: string, to: string): Service {
  return { type: "bind", source: text(from), target: text(to), read_only: true };
}

function volumeMount(source: string, target: string): Service {
  return { type: "volume", source, target };
}

function hostsOf({ plan }: RunFile, { nodes }: Partition): string[] {
  return plan.nodes.filter(({ kind, name }) => kind === "host" && nodes.includes(name))
    .map(({ name }) => name);
}

/** What would be gone with the container: a host's SCM, steps of operations. */
function isKept(runFile: RunFile, partition: Partition): boolean {
  return runFile.trace || hostsOf(runFile, partition).length > 0;
}

/** The plan, and logs, of the containers' user. */
const OWN_TMPFS = `${IN_CONTAINER.state}:uid=${CONTAINER_USER},gid=${CONTAINER_USER},mode=0700`;

function stateOf(partition: string): string {
  return `state-${partition}`;
}

function inputMounts(runFile: RunFile, partition: Partition): Service[] {
  return hostsOf(runFile, partition).filter((host) => runFile.inputs[host] !== undefined)
    .map((host) => fileMount(`./inputs/${host}`, `${IN_CONTAINER.inputs}/${host}`));
}

function hasNative({ plan }: RunFile, { nodes }: Partition): boolean {
  return nativeIn(plan, nodes).length > 0;
}

/** Each at its own path, the image's C library included: addresses in a program depend on all of them. */
function nativeMounts(runFile: RunFile): Service[] {
  return Object.keys(nativeSetUpOf(runFile)?.files ?? {}).map((path) =>
    fileMount(`./${NATIVE_FILES}${path}`, path)
  );
}

export function natsConfig(runFile: RunFile): string {
  return `# Written by \`rack compose\`. Passwords come from the environment.
host: "0.0.0.0"
port: ${NATS_PORT}
${NATS_LIMITS}
${natsUsers(runFile)}`;
}

/**
 * No container can send as another or listen to a cable that does not end at it.
 * @param passwords absent: the server's environment has them.
 */
export function natsUsers(rack: AccessRack, passwords?: ReadonlyMap<string, string>): string {
  return authorization(passwords ?? fromEnvironment(rack), accessOfContainers(rack));
}

/** {@link natsUsers} as files of at most so many bytes, of which {@link USERS_FILE} includes the others. */
export function natsUsersFiles(
  rack: AccessRack,
  bytesMax: number,
): ReadonlyMap<string, string> | undefined {
  const whole = natsUsers(rack);
  if (new TextEncoder().encode(whole).length <= bytesMax) return new Map([[USERS_FILE, whole]]);
  const name = (part: number) => part === 0 ? USERS_FILE : `users-${part}.conf`;
  const texts = authorizationFiles(fromEnvironment(rack), accessOfContainers(rack), {
    name,
    bytesMax,
  });
  return texts && new Map(texts.map((text, part) => [name(part), text]));
}

export const USERS_FILE = "users.conf";

function fromEnvironment(rack: AccessRack): Map<string, string> {
  return new Map(busUsers(rack).map((user, i) => [user, `$${passwordVariable(i)}`]));
}
