/**
 * A rack as a stack of Docker Swarm (`docker stack deploy`), a compose file of version 3.9: pure text from a
 * run file. Only what Swarm heeds is in it: it passes over `security_opt`, `tmpfs`, `restart` and
 * `depends_on` without a word.
 */
import { USERS } from "../../../fabric/bus/access.ts";
import { hostsOf } from "../../../fabric/bus/nats_bus.ts";
import {
  BUS_ENVIRONMENT,
  DEFAULT_PATIENCE_MS,
  type RunFile,
} from "../../../fabric/rack/assembly/run_file.ts";
import { FILE_SUFFIX } from "../../../fabric/process.ts";
import {
  busUsers,
  CONSOLE,
  CONSOLE_KEY,
  CONSOLE_PIDS_MAX,
  CONSOLE_PORT,
  consoleArgs,
  IN_CONTAINER,
  NATS_LIMITS,
  NATS_PORT,
  parentCommand,
  PIDS_MAX,
  placeOfUser,
  RETRIES,
  RUN_NAME,
  text,
  VIEWER_PASSWORD,
} from "./compose_file.ts";
import { type EngineOptions, needsOf, type Place, placesOf } from "./placement.ts";
import { yamlText } from "./yaml_text.ts";

/** Of a config, or a secret: of Docker 20.10, later ones take more. */
export const CONFIG_BYTES_MAX = 500 * 1_024;
/** Of a task's service, the stack's name before it included. */
const SERVICE_NAME_MAX = 63;

/** Files of the folder with a user's password each, and those of the server and of the console. */
export const SECRETS_FOLDER = "secrets", USERS_SECRET = "nats-users", KEY_SECRET = "console-key";

const BUS_URL = `nats://nats:${NATS_PORT}`;

/** Swarm gives a temporary folder to root, but for the one that everybody may write to in the image, too. */
const TEMPORARY = "/tmp", IN_TEMPORARY = `${TEMPORARY}/rackmesh`;

type Service = Readonly<Record<string, unknown>>;

/** The file of a user's password in {@link SECRETS_FOLDER}: a user's name may be too long for a secret. */
export function passwordSecret(runFile: RunFile, user: string): string {
  return `password-${placeOfUser(runFile, user)}`;
}

/** The server's other settings. */
function stackNatsConfig(): string {
  return `# Written by \`rack compose\`. The users are a secret.
host: "0.0.0.0"
port: ${NATS_PORT}
${NATS_LIMITS}
# A path from this file's folder.
include "../../run/secrets/${USERS_SECRET}"
`;
}

/** `stack.yaml` and `reach.yaml`. */
export function stackFiles(options: EngineOptions): Map<string, string> {
  return new Map([
    ["stack.yaml", yamlText([stack(options)], guide(options))],
    ["reach.yaml", yamlText([reach(options)], REACH)],
    ["nats.conf", stackNatsConfig()],
  ]);
}

function guide({ runFile: { run, plan, stayUp }, label, layerImage }: EngineOptions): string {
  const before = layerImage === undefined ? "" : `
   docker build -t ${layerImage} layer && docker push ${layerImage}     what is too large for a config`;
  const end = stayUp
    ? `docker exec -it $(docker ps -qf name=${run}_console) rack ps     the command, where the console's container is`
    : `docker service logs --raw -f ${run}_report        until the report is there`;
  return ` The scenario ${JSON.stringify(plan.scenario)} (${
    JSON.stringify(label)
  }), seed ${plan.seed}, on Docker Swarm.
 Written by \`rack compose --format stack\`. In this folder:${before}
   docker stack deploy -c stack.yaml ${run}
   ${end}
   docker stack deploy -c stack.yaml -c reach.yaml ${run}     the same, and \`rack attach\` and the console from outside
   docker kill CONTAINER                             power failure of a device, for good
   docker service update --force ${run}_b     power cycle of b
   docker stack rm ${run}                            everything away but the volumes; these, on each node:
   docker volume rm $(docker volume ls -qf label=com.docker.stack.namespace=${run})
 A leaf's devices go where a variable says: RACKMESH_PLACE_TOR='node.hostname == server-3' docker stack deploy …
 A volume stays on its node: where devices move between nodes, give the volumes a driver that all nodes share.`;
}

const REACH =
  ` Opens two ports of the nodes to everybody who reaches the nodes: the bus for \`rack attach\`, and the console
 without TLS. Passwords and the key are in secrets/; a firewall is yours.`;

function reach({ consolePort }: EngineOptions) {
  const open = (port: number) => ({
    networks: ["rack", "outside"],
    ports: [{ target: port, published: port, protocol: "tcp", mode: "host" }],
  });
  return {
    version: "3.9",
    services: { nats: open(NATS_PORT), console: open(consolePort) },
    networks: { outside: { driver: "overlay" } },
  };
}

function stack(options: EngineOptions) {
  const { runFile, files } = options;
  const { run, stayUp } = runFile;
  const places = placesOf(runFile, { nameLength: SERVICE_NAME_MAX - run.length - 1 });
  const states = places.filter(({ keptBytes }) => keptBytes !== undefined);
  const users = busUsers(runFile).map((user) => passwordSecret(runFile, user));
  return {
    version: "3.9",
    services: {
      nats: natsService(options),
      timekeeper: timekeeperService(options),
      ...Object.fromEntries(places.map((place) => [place.name, deviceService(options, place)])),
      ...(!stayUp && { report: reportService(options) }),
      console: consoleService(options),
    },
    // Without a way out; on addresses of its tasks, as a virtual one would take the kernel's IPVS.
    networks: { rack: { driver: "overlay", internal: true } },
    volumes: Object.fromEntries(
      ["record", "console", ...states.map(stateOf)].map((name) => [name, {}]),
    ),
    configs: {
      "nats-conf": { file: "./nats.conf" },
      ...Object.fromEntries(
        Object.values(files).map((file, i) => [configOf(i), { file: `./${file}` }]),
      ),
    },
    secrets: Object.fromEntries(
      [...users, USERS_SECRET, KEY_SECRET].map((name) => [
        name,
        { file: `./${SECRETS_FOLDER}/${name}` },
      ]),
    ),
  };
}

function configOf(place: number): string {
  return `file-${place}`;
}

function stateOf({ name }: Pick<Place, "name">): string {
  return `state-${name}`;
}

interface Work extends Service {
  readonly role: Parameters<typeof needsOf>[0];
  readonly pids?: number;
  /** How often Swarm starts it again by itself. */
  readonly retries?: number;
  readonly constraints?: readonly string[];
}

function service({ runFile, image }: EngineOptions, work: Work): Service {
  const { role, pids = PIDS_MAX, retries = 0, constraints, ...more } = work;
  const { memoryMiB, milliCores } = needsOf(role, runFile.partitions.length);
  return {
    image: text(image),
    networks: ["rack"],
    read_only: true,
    cap_drop: ["ALL"],
    ...more,
    deploy: {
      endpoint_mode: "dnsrr",
      restart_policy: retries === 0
        ? { condition: "none" }
        : { condition: "on-failure", max_attempts: retries },
      resources: {
        limits: { pids },
        reservations: { cpus: String(milliCores / 1_000), memory: `${memoryMiB}M` },
      },
      ...(constraints && { placement: { constraints } }),
    },
  };
}

function natsService(options: EngineOptions): Service {
  const { image, natsImage } = options;
  return service(options, {
    role: "nats",
    retries: RETRIES,
    image: text(natsImage),
    ...(natsImage === image && { entrypoint: ["nats-server"] }),
    command: ["-c", IN_CONTAINER.natsConfig],
    configs: [{ source: "nats-conf", target: IN_CONTAINER.natsConfig }],
    secrets: [secret(USERS_SECRET)],
  });
}

function timekeeperService(options: EngineOptions): Service {
  const { files, runFilePath, image, layerImage = image } = options;
  return service(options, {
    role: "timekeeper",
    retries: RETRIES,
    image: text(layerImage),
    command: ["fabric/clock/timekeeper_main.ts", runFilePath],
    ...bus(options, USERS.timekeeper),
    configs: Object.keys(files).map((target, i) => ({ source: configOf(i), target: text(target) })),
    volumes: [volumeMount("record", IN_CONTAINER.state)],
  });
}

function deviceService(options: EngineOptions, place: Place): Service {
  const { runFile } = options;
  const { partition, leaf, keptBytes } = place;
  const isKept = keptBytes !== undefined;
  const directory = isKept ? IN_CONTAINER.state : IN_TEMPORARY;
  return service(options, {
    role: "device",
    entrypoint: parentCommand({ hosts: hostsOf(BUS_URL), directory }),
    command: ["console/rack/containers/parent_main.ts", runFile.run, partition, directory],
    ...bus(options, partition),
    volumes: [isKept ? volumeMount(stateOf(place), directory) : temporary(TEMPORARY)],
    // True everywhere, unless the user says where.
    constraints: [`\${${placeVariable(leaf)}:-node.platform.os==linux}`],
  });
}

/** Of the shell that deploys: a constraint for a leaf's devices. */
function placeVariable(leaf: string): string {
  return `RACKMESH_PLACE_${leaf.toUpperCase().replaceAll("-", "_")}`;
}

function reportService(options: EngineOptions): Service {
  const { runFile, label } = options;
  return service(options, {
    role: "report",
    command: ["docker/report_main.ts", runFile.run, text(label)],
    ...bus(options, USERS.report),
    volumes: [temporary(TEMPORARY)],
  });
}

/** Other containers of the rack reach it, too: what it asks of them is its key. */
function consoleService(options: EngineOptions): Service {
  const { runFile, consolePort } = options;
  const { environment, secrets } = bus(options, USERS.supervisor);
  const port = String(consolePort), viewer = passwordSecret(runFile, USERS.viewer);
  return service(options, {
    role: "console",
    pids: CONSOLE_PIDS_MAX,
    retries: RETRIES,
    entrypoint: [...CONSOLE],
    command: consoleArgs(port),
    environment: {
      ...environment,
      [VIEWER_PASSWORD + FILE_SUFFIX]: inSecret(viewer),
      [CONSOLE_KEY + FILE_SUFFIX]: inSecret(KEY_SECRET),
      [CONSOLE_PORT]: port,
      [RUN_NAME]: runFile.run,
      RACKMESH_CACHE: IN_CONTAINER.state,
    },
    secrets: [...secrets, secret(viewer), secret(KEY_SECRET)],
    volumes: [volumeMount("console", IN_CONTAINER.state), temporary(TEMPORARY)],
  });
}

function bus({ runFile }: EngineOptions, user: string) {
  const password = passwordSecret(runFile, user);
  return {
    environment: {
      [BUS_ENVIRONMENT.url]: BUS_URL,
      [BUS_ENVIRONMENT.user]: user,
      [BUS_ENVIRONMENT.patienceMs]: String(DEFAULT_PATIENCE_MS),
      [BUS_ENVIRONMENT.password + FILE_SUFFIX]: inSecret(password),
    },
    secrets: [secret(password)],
  };
}

/** Whatever user a container has must be able to read it: nobody else is in there. */
function secret(source: string): Service {
  return { source, target: source, mode: 0o444 };
}

function inSecret(name: string): string {
  return `/run/secrets/${name}`;
}

function volumeMount(source: string, target: string): Service {
  return { type: "volume", source, target };
}

function temporary(target: string): Service {
  return { type: "tmpfs", target };
}
