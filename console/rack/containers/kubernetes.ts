/**
 * A rack as a folder for `kubectl apply -k`: pure objects and texts from a run file. What comes back after
 * its pod has ended is a StatefulSet; what the scenario leaves dead is a Pod that nothing starts again.
 * `docker/CLUSTER.md` says what a user does with the folder.
 */
import type { StatefulSet } from "kubernetes-types/apps/v1";
import type { Job } from "kubernetes-types/batch/v1";
import type {
  Affinity,
  Container,
  EnvVar,
  Namespace,
  PersistentVolumeClaim,
  Pod,
  PodSpec,
  PodTemplateSpec,
  Probe,
  Service,
  TopologySpreadConstraint,
  Volume,
  VolumeMount,
} from "kubernetes-types/core/v1";
import type { NetworkPolicy, NetworkPolicyPort } from "kubernetes-types/networking/v1";
import type { PodDisruptionBudget } from "kubernetes-types/policy/v1";
import { assert } from "../../../fabric/base/assert.ts";
import { USERS } from "../../../fabric/bus/access.ts";
import { hostsOf } from "../../../fabric/bus/nats_bus.ts";
import {
  BUS_ENVIRONMENT,
  DEFAULT_PATIENCE_MS,
  type RunFile,
} from "../../../fabric/rack/assembly/run_file.ts";
import {
  CONSOLE,
  CONSOLE_KEY,
  CONSOLE_PORT,
  consoleArgs,
  CONTAINER_USER,
  IN_CONTAINER,
  NATS_LIMITS,
  NATS_PORT,
  natsUsersFiles,
  parentCommand,
  passwordVariable,
  placeOfUser,
  READY_VARIABLE,
  RUN_NAME,
  USERS_FILE,
  VIEWER_PASSWORD,
} from "./compose_file.ts";
import { type EngineOptions, needsOf, type Place, placesOf } from "./placement.ts";
import { READY_PATH } from "./readiness.ts";
import { yamlText } from "./yaml_text.ts";

export type Manifest =
  | Job
  | Namespace
  | NetworkPolicy
  | PersistentVolumeClaim
  | Pod
  | PodDisruptionBudget
  | Service
  | StatefulSet;

/** Of a ConfigMap's content: the API server's limit. */
export const CONFIG_MAP_BYTES_MAX = 1 << 20;
/** A pod's label with its StatefulSet's name and a hash has 63 characters. */
const NAME_LENGTH_MAX = 52;

const SERVERS = 3;
/** As NATS' own chart calls them, which may take the place of the servers here. */
const NATS = "nats", NATS_HEADLESS = "nats-headless";
const ROUTE_PORT = 6222, MONITOR_PORT = 8222, READY_PORT = 8080;
const ROUTE_USER = "route", ROUTE_PASSWORD = "RACKMESH_ROUTE_PASSWORD";
const SECRET = "credentials", USERS_MAP = "nats-users", SERVER_MAP = "nats-server";
const VALUES_FILE = "nats-values.yaml";
/** Of the folder: what {@link kubernetesFolder} does not write, as it is the user's alone. */
export const SECRETS_FILE = "secrets.env";
const MIB = 1 << 20;

const RUN_LABEL = "rackmesh.io/run", ROLE = "rackmesh.io/role", KIND = "rackmesh.io/kind";
const DEVICE = "rackmesh.io/device", LEAF = "rackmesh.io/leaf", MACHINE = "rackmesh.io/machine";
/** On a namespace: its pods, an ingress controller's say, may reach the console. */
const MAY_REACH_CONSOLE = "rackmesh.io/reaches-console";
const NATS_LABELS = { "app.kubernetes.io/name": NATS };
const NODE = "kubernetes.io/hostname";

type Labels = Readonly<Record<string, string>>;

/** With the files of NATS' users, each in a ConfigMap of its own, {@link USERS_FILE} first. */
type Options = EngineOptions & { readonly userFiles: readonly string[] };

/**
 * Texts of the folder by path, but for the files of {@link EngineOptions.files} and the secrets.
 * Each user of NATS has room in a ConfigMap.
 */
export function kubernetesFolder(given: EngineOptions): Map<string, string> {
  const { runFile } = given, users = natsUsersFiles(runFile, CONFIG_MAP_BYTES_MAX);
  assert(users !== undefined, "no user of nats-server is larger than a ConfigMap");
  const options: Options = { ...given, userFiles: [...users.keys()] };
  const parts: ReadonlyArray<readonly [file: string, manifests: readonly Manifest[], why: string]> =
    [
      ["namespace.yaml", [namespace(options)], "All of the rack is in it, and goes away with it."],
      ["network.yaml", networkPolicies(options), "Pods speak to the bus, and to nothing else."],
      ["nats.yaml", natsServers(options), `Three servers, or NATS' own chart: ${VALUES_FILE}.`],
      ["services.yaml", ownServices(options), "What a rack has besides its devices."],
      [
        "devices.yaml",
        devices(options),
        "To delete a device's pod is a power failure of the device.",
      ],
    ];
  return new Map([
    [
      "kustomization.yaml",
      yamlText([kustomization(options, parts.map(([file]) => file))], guide(options)),
    ],
    ...parts.map(([file, manifests, why]) => [file, yamlText(manifests, ` ${why}`)] as const),
    ["nats.conf", serverConfig(runFile)],
    ...users,
    [VALUES_FILE, yamlText([chartValues(options)], VALUES_COMMENT)],
  ]);
}

/** Variables of `secrets.env` beside those of {@link passwordVariable}, from a random password. */
export function routeSecrets(password: string): Record<string, string> {
  return {
    [ROUTE_PASSWORD]: password,
    ...Object.fromEntries(
      serverHosts(ROUTE_PORT).map((host, i) => [
        routeVariable(i),
        `nats://${ROUTE_USER}:${password}@${host}`,
      ]),
    ),
  };
}

function routeVariable(server: number): string {
  return `RACKMESH_ROUTE_${server}`;
}

function serverHosts(port: number): string[] {
  return Array.from({ length: SERVERS }, (_, i) => `${NATS}-${i}.${NATS_HEADLESS}:${port}`);
}

function guide(options: EngineOptions): string {
  const { runFile, label, layerImage, consolePort } = options;
  const { run, plan, stayUp } = runFile;
  const password = passwordVariable(placeOfUser(runFile, USERS.supervisor));
  const before = layerImage === undefined ? "" : `
   docker build -t ${layerImage} DIR/layer && docker push ${layerImage}
        (what is too large for a ConfigMap)`;
  const wait = stayUp
    ? `kubectl wait -n ${run} pod --all --for=condition=Ready --timeout=10m`
    : `kubectl logs -n ${run} -f job/report --pod-running-timeout=10m
   kubectl wait -n ${run} job/report --for=condition=Complete --timeout=1m`;
  return ` The scenario ${JSON.stringify(plan.scenario)} (${
    JSON.stringify(label)
  }), seed ${plan.seed}, on Kubernetes.
 Written by \`rack compose --format kubernetes\`. DIR is this folder:${before}
   kubectl apply --server-side -k DIR
        (a ConfigMap here may be larger than the 256 KiB that apply takes otherwise)
   ${wait}
   kubectl port-forward -n ${run} service/${NATS} ${NATS_PORT} &
   rack attach "nats://${USERS.supervisor}:$(sed -n 's/^${password}=//p' DIR/${SECRETS_FILE})@127.0.0.1:${NATS_PORT}"
   kubectl port-forward -n ${run} service/console ${consolePort}
        (a web page; its key is ${CONSOLE_KEY} in ${SECRETS_FILE})
   kubectl delete namespace ${run}
        (everything, SCM included)
 Deleted, evicted or drained, a device's pod is a power failure of the device.`;
}

function kustomization({ runFile, files, userFiles }: Options, resources: readonly string[]) {
  return {
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    namespace: runFile.run,
    resources,
    // A pod that runs is not started again because a text has changed.
    generatorOptions: { disableNameSuffixHash: true, labels: commonLabels(runFile) },
    configMapGenerator: [
      { name: SERVER_MAP, files: ["nats.conf"] },
      ...userFiles.map((file, i) => ({ name: userMap(i), files: [file] })),
      ...Object.values(files).map((file, i) => ({ name: fileMap(i), files: [`file=${file}`] })),
    ],
    secretGenerator: [{ name: SECRET, envs: [SECRETS_FILE] }],
  };
}

function userMap(place: number): string {
  return place === 0 ? USERS_MAP : `${USERS_MAP}-${place}`;
}

function userSources({ userFiles }: Options) {
  return userFiles.map((_, i) => ({ configMap: { name: userMap(i) } }));
}

function fileMap(place: number): string {
  return `file-${place}`;
}

function commonLabels({ run }: RunFile): Labels {
  return { "app.kubernetes.io/part-of": "rackmesh", [RUN_LABEL]: run };
}

function namespace({ runFile }: EngineOptions): Namespace {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: {
      name: runFile.run,
      labels: { ...commonLabels(runFile), "pod-security.kubernetes.io/enforce": "restricted" },
    },
  };
}

// ── what all pods have ───────────────────────────────────────────────────────────────────────────

/** The rules "restricted" of the Pod Security Standards. */
const UNPRIVILEGED: NonNullable<Container["securityContext"]> = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};
const ANYBODY: NonNullable<PodSpec["securityContext"]> = {
  runAsNonRoot: true,
  runAsUser: CONTAINER_USER,
  runAsGroup: CONTAINER_USER,
  // A claim is root's until the kubelet hands it over.
  fsGroup: CONTAINER_USER,
  fsGroupChangePolicy: "OnRootMismatch",
  seccompProfile: { type: "RuntimeDefault" },
};

type Role = Parameters<typeof needsOf>[0];

interface Work extends Pick<PodSpec, "affinity" | "topologySpreadConstraints" | "restartPolicy"> {
  readonly role: Role;
  readonly labels?: Labels;
  readonly container: Pick<Container, "image" | "command" | "args" | "env"> & Partial<Container>;
  readonly mounts: readonly VolumeMount[];
  readonly volumes?: readonly Volume[];
}

function template(runFile: RunFile, work: Work): PodTemplateSpec {
  const { role, labels, container, mounts, volumes = [], ...more } = work;
  const { memoryMiB, milliCores } = needsOf(role, runFile.partitions.length);
  return {
    metadata: { labels: { ...labelsOf(runFile, role), ...labels } },
    spec: {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      // Processes end at the first signal; a device's end is to be an instant.
      terminationGracePeriodSeconds: 1,
      securityContext: ANYBODY,
      ...more,
      containers: [{
        name: role,
        ...container,
        // No limits: the kernel's kill would be a power failure, and so may be a lack of time.
        resources: { requests: { cpu: `${milliCores}m`, memory: `${memoryMiB}Mi` } },
        securityContext: UNPRIVILEGED,
        volumeMounts: [...mounts],
      }],
      ...(volumes.length > 0 && { volumes: [...volumes] }),
    },
  };
}

function labelsOf(runFile: RunFile, role: Role): Labels {
  return { ...commonLabels(runFile), [ROLE]: role };
}

interface Kept {
  readonly name: string;
  readonly labels: Labels;
  /** The claim `state`; absent: it keeps nothing. */
  readonly stateMiB?: number;
  readonly service: string;
}

/** One pod, which comes back wherever there is room, with its claim. */
function statefulSet(
  { name, labels, stateMiB, service }: Kept,
  pod: PodTemplateSpec,
): StatefulSet {
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name, labels: { ...pod.metadata!.labels } },
    spec: {
      replicas: 1,
      serviceName: service,
      selector: { matchLabels: labels },
      // A changed text is no power failure.
      updateStrategy: { type: "OnDelete" },
      template: pod,
      ...(stateMiB !== undefined && { volumeClaimTemplates: [claim(STATE, stateMiB)] }),
    },
  };
}

const STATE = "state";
const STATE_MOUNT: VolumeMount = { name: STATE, mountPath: IN_CONTAINER.state };

function claim(name: string, mib: number): PersistentVolumeClaim {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: `${mib}Mi` } },
    },
  };
}

function fromSecret(name: string, key = name): EnvVar {
  return { name, valueFrom: { secretKeyRef: { name: SECRET, key } } };
}

/** @param first its server, as long as that is there. */
function busVariables({ runFile }: EngineOptions, user: string, first = 0): EnvVar[] {
  return [
    { name: BUS_ENVIRONMENT.url, value: busUrls(first) },
    { name: BUS_ENVIRONMENT.user, value: user },
    { name: BUS_ENVIRONMENT.patienceMs, value: String(DEFAULT_PATIENCE_MS) },
    fromSecret(BUS_ENVIRONMENT.password, passwordVariable(placeOfUser(runFile, user))),
  ];
}

function busUrls(first: number): string {
  const hosts = serverHosts(NATS_PORT);
  return hosts.map((_, i) => `nats://${hosts[(first + i) % SERVERS]}`).join(",");
}

// ── devices ──────────────────────────────────────────────────────────────────────────────────────

const DEVICES = "devices";

function devices(options: EngineOptions): Manifest[] {
  const places = placesOf(options.runFile, { nameLength: NAME_LENGTH_MAX });
  const leaves = [...new Set(places.map(({ leaf }) => leaf))];
  return [
    // A StatefulSet has to name one; no device listens.
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: DEVICES, labels: commonLabels(options.runFile) },
      spec: { clusterIP: "None" },
    },
    ...places.flatMap((place) => device(options, place, leaves.indexOf(place.leaf) % SERVERS)),
  ];
}

/** A leaf's devices have one server of NATS, as most of their frames stay at the leaf. */
function device(options: EngineOptions, place: Place, server: number): Manifest[] {
  const { runFile, image } = options;
  const { partition, name, kind, leaf, machine, keptBytes, staysDead } = place;
  const stateMiB = keptBytes === undefined ? undefined : claimMiB(keptBytes);
  const claimName = `${STATE}-${name}-0`;
  const own = { [DEVICE]: name };
  const isClaimed = stateMiB !== undefined;
  const pod = template(runFile, {
    role: "device",
    labels: { ...own, [KIND]: kind, [LEAF]: valueOf(leaf), [MACHINE]: valueOf(machine) },
    affinity: besideItsMachine(machine),
    ...(kind === "host" && { topologySpreadConstraints: [spreadOf(LEAF, leaf)] }),
    ...(staysDead && { restartPolicy: "Never" }),
    container: {
      image,
      command: parentCommand({
        hosts: hostsOf(busUrls(server)),
        directory: IN_CONTAINER.state,
        readyPort: READY_PORT,
      }),
      args: ["console/rack/containers/parent_main.ts", runFile.run, partition],
      env: [
        ...busVariables(options, partition, server),
        { name: READY_VARIABLE, value: String(READY_PORT) },
      ],
      readinessProbe: probe(READY_PATH, READY_PORT),
    },
    mounts: [STATE_MOUNT],
    ...(!isClaimed ? { volumes: [{ name: STATE, emptyDir: {} }] } : staysDead && {
      volumes: [{ name: STATE, persistentVolumeClaim: { claimName } }],
    }),
  });
  if (!staysDead) {
    const kept = { name, labels: { [ROLE]: "device", ...own }, service: DEVICES };
    return [statefulSet({ ...kept, ...(isClaimed && { stateMiB }) }, pod)];
  }
  // The same names as a StatefulSet's.
  const metadata = { ...pod.metadata, name: `${name}-0` };
  return [
    ...(isClaimed ? [claim(claimName, stateMiB)] : []),
    { apiVersion: "v1", kind: "Pod", metadata, spec: pod.spec! },
  ];
}

/** SCM, its log, and what the run leaves. */
function claimMiB(keptBytes: number): number {
  return 2 * Math.ceil(keptBytes / MIB) + 256;
}

/** The value of a label; a scenario's names may end in `-`. */
function valueOf(name: string): string {
  return name.replace(/-+$/, "");
}

function besideItsMachine(machine: string): Affinity {
  const podAffinityTerm = {
    labelSelector: { matchLabels: { [MACHINE]: valueOf(machine) } },
    topologyKey: NODE,
  };
  return {
    podAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm }],
    },
  };
}

/** A lost node is to take few hosts of a leaf. */
function spreadOf(label: string, value: string): TopologySpreadConstraint {
  return {
    maxSkew: 1,
    topologyKey: NODE,
    whenUnsatisfiable: "ScheduleAnyway",
    labelSelector: {
      matchLabels: label === LEAF ? { [LEAF]: valueOf(value), [KIND]: "host" } : { [label]: value },
    },
  };
}

function probe(path: string, port: number, host?: string): Probe {
  return {
    httpGet: { path, port, ...(host && { httpHeaders: [{ name: "Host", value: host }] }) },
    periodSeconds: 5,
    timeoutSeconds: 5,
  };
}

// ── timekeeper, report, console ──────────────────────────────────────────────────────────────────

/** What it writes grows with kills and orders, and with what the page asks to be replayed. */
const RECORD_MIB = 1_024, CONSOLE_MIB = 4_096;

function ownServices(options: EngineOptions): Manifest[] {
  const { runFile } = options;
  return [
    timekeeper(options),
    ...(runFile.stayUp ? [] : [report(options)]),
    ...consoleParts(options),
  ];
}

function timekeeper(options: EngineOptions): StatefulSet {
  const { runFile, image, layerImage = image, runFilePath, files } = options;
  const folder = IN_CONTAINER.config;
  const sources = Object.keys(files).map((path, i) => ({
    configMap: { name: fileMap(i), items: [{ key: "file", path: path.slice(folder.length + 1) }] },
  }));
  const role = "timekeeper";
  return statefulSet(
    { name: role, labels: { [ROLE]: role }, stateMiB: RECORD_MIB, service: DEVICES },
    template(runFile, {
      role,
      container: {
        image: layerImage,
        args: ["fabric/clock/timekeeper_main.ts", runFilePath],
        env: busVariables(options, USERS.timekeeper),
      },
      mounts: [STATE_MOUNT, { name: "files", mountPath: folder, readOnly: true }],
      volumes: [{ name: "files", projected: { sources } }],
    }),
  );
}

function report(options: EngineOptions): Job {
  const { runFile, label, image } = options;
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "report", labels: labelsOf(runFile, "report") },
    spec: {
      // A run ends once.
      backoffLimit: 0,
      template: template(runFile, {
        role: "report",
        restartPolicy: "Never",
        container: {
          image,
          args: ["docker/report_main.ts", runFile.run, label],
          env: busVariables(options, USERS.report),
        },
        mounts: [{ name: "scratch", mountPath: "/tmp" }],
        volumes: [{ name: "scratch", emptyDir: {} }],
      }),
    },
  };
}

function consoleParts(options: EngineOptions): Manifest[] {
  const { runFile, image, consolePort } = options;
  const role = "console", port = String(consolePort);
  return [
    statefulSet(
      { name: role, labels: { [ROLE]: role }, stateMiB: CONSOLE_MIB, service: DEVICES },
      template(runFile, {
        role,
        container: {
          image,
          command: [...CONSOLE],
          // The network policies are its door; a browser comes by 127.0.0.1, through `kubectl port-forward`.
          args: consoleArgs(port),
          env: [
            ...busVariables(options, USERS.supervisor),
            fromSecret(
              VIEWER_PASSWORD,
              passwordVariable(placeOfUser(runFile, USERS.viewer)),
            ),
            fromSecret(CONSOLE_KEY),
            { name: CONSOLE_PORT, value: port },
            { name: RUN_NAME, value: runFile.run },
            { name: "RACKMESH_CACHE", value: IN_CONTAINER.state },
          ],
          ports: [{ name: "http", containerPort: consolePort, protocol: "TCP" }],
          readinessProbe: probe("/healthz", consolePort, `127.0.0.1:${port}`),
        },
        mounts: [STATE_MOUNT, { name: "scratch", mountPath: "/tmp" }],
        volumes: [{ name: "scratch", emptyDir: {} }],
      }),
    ),
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: role, labels: labelsOf(runFile, role) },
      spec: {
        selector: { [ROLE]: role },
        ports: [{ name: "http", port: consolePort, targetPort: "http", protocol: "TCP" }],
      },
    },
  ];
}

// ── the bus ──────────────────────────────────────────────────────────────────────────────────────

function natsServers(options: Options): Manifest[] {
  const { runFile, image, natsImage } = options;
  const labels = { ...labelsOf(runFile, "nats"), ...NATS_LABELS };
  const ports = { nats: NATS_PORT, cluster: ROUTE_PORT, monitor: MONITOR_PORT };
  const pod = template(runFile, {
    role: "nats",
    labels: NATS_LABELS,
    topologySpreadConstraints: [spreadOf("app.kubernetes.io/name", NATS)],
    container: {
      image: natsImage,
      ...(natsImage === image && { command: ["nats-server"] }),
      args: ["-c", IN_CONTAINER.natsConfig],
      env: [{ name: "POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }],
      envFrom: [{ secretRef: { name: SECRET } }],
      ports: Object.entries(ports).map(([name, containerPort]) => ({
        name,
        containerPort,
        protocol: "TCP",
      })),
      readinessProbe: probe("/healthz", MONITOR_PORT),
    },
    mounts: [{ name: "config", mountPath: IN_CONTAINER.config, readOnly: true }],
    volumes: [{
      name: "config",
      projected: {
        sources: [{ configMap: { name: SERVER_MAP } }, ...userSources(options)],
      },
    }],
  });
  const set = statefulSet({ name: NATS, labels: NATS_LABELS, service: NATS_HEADLESS }, pod);
  const service = (name: string, ports: readonly string[], more: Service["spec"]): Service => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, labels },
    spec: {
      ...more,
      selector: NATS_LABELS,
      ports: ports.map((name) => ({
        name,
        port: name === "cluster" ? ROUTE_PORT : NATS_PORT,
        targetPort: name,
        protocol: "TCP",
      })),
    },
  });
  return [
    { ...set, spec: { ...set.spec!, replicas: SERVERS, podManagementPolicy: "Parallel" } },
    service(NATS, ["nats"], {}),
    // A server finds the others before it is ready, and a client says itself which one it wants.
    service(NATS_HEADLESS, ["nats", "cluster"], {
      clusterIP: "None",
      publishNotReadyAddresses: true,
    }),
    {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name: NATS, labels },
      spec: { maxUnavailable: 1, selector: { matchLabels: NATS_LABELS } },
    },
  ];
}

/** It finds passwords and routes in its environment. */
function serverConfig({ run }: RunFile): string {
  return `# Written by \`rack compose\`. Passwords come from the environment.
host: "0.0.0.0"
port: ${NATS_PORT}
server_name: $POD_NAME
# For the kubelet; no other pod may reach it.
http: "0.0.0.0:${MONITOR_PORT}"
${NATS_LIMITS}
cluster {
  name: "${run}"
  listen: "0.0.0.0:${ROUTE_PORT}"
  # A pod's address ends with the pod: clients know the servers by name.
  no_advertise: true
  authorization { user: "${ROUTE_USER}", password: $${ROUTE_PASSWORD}, timeout: 60 }
  routes: [${Array.from({ length: SERVERS }, (_, i) => `$${routeVariable(i)}`).join(", ")}]
}
include "${USERS_FILE}"
`;
}

const VALUES_COMMENT =
  ` For NATS' own Helm chart, in the place of nats.yaml, which then goes out of kustomization.yaml:
   helm repo add nats https://nats-io.github.io/k8s/helm/charts/
   helm install nats nats/nats -n NAMESPACE -f ${VALUES_FILE}, after kubectl apply
 Users, names of servers and network policies are those of this folder.`;

/** {@link NATS_LIMITS} in the chart's words. */
const CHART_LIMITS = Object.fromEntries(
  NATS_LIMITS.split("\n").map((line) => {
    const [, name, value] = /^(\w+): (.*)$/.exec(line)!;
    const isPlain = /^("|\d+$)/.test(value!);
    return [name!, isPlain ? JSON.parse(value!) : `<< ${value} >>`];
  }),
);

function chartValues(options: Options) {
  const { runFile, natsImage, image } = options;
  const { memoryMiB, milliCores } = needsOf("nats", runFile.partitions.length);
  const restricted = { securityContext: UNPRIVILEGED };
  const [repository, tag] = splitImage(natsImage);
  return {
    fullnameOverride: NATS,
    config: {
      cluster: { enabled: true, replicas: SERVERS, noAdvertise: true },
      merge: { $include: `../rackmesh/${USERS_FILE}`, ...CHART_LIMITS },
    },
    container: {
      // The project's own image has no entry point for the chart.
      ...(natsImage !== image && { image: { repository, ...(tag && { tag }) } }),
      merge: {
        envFrom: [{ secretRef: { name: SECRET } }],
        resources: { requests: { cpu: `${milliCores}m`, memory: `${memoryMiB}Mi` } },
        ...restricted,
      },
      patch: [{
        op: "add",
        path: "/volumeMounts/-",
        value: { name: "users", mountPath: IN_CONTAINER.config, readOnly: true },
      }],
    },
    reloader: { merge: restricted },
    podTemplate: {
      topologySpreadConstraints: {
        [NODE]: { maxSkew: 1, whenUnsatisfiable: "ScheduleAnyway" },
      },
      merge: { spec: { securityContext: ANYBODY, automountServiceAccountToken: false } },
      patch: [{
        op: "add",
        path: "/spec/volumes/-",
        value: { name: "users", projected: { sources: userSources(options) } },
      }],
    },
    natsBox: { enabled: false },
  };
}

function splitImage(image: string): [repository: string, tag: string | undefined] {
  const at = image.indexOf(":", image.lastIndexOf("/") + 1);
  return at < 0 ? [image, undefined] : [image.slice(0, at), image.slice(at + 1)];
}

// ── who may speak to whom ────────────────────────────────────────────────────────────────────────

function networkPolicies({ runFile, consolePort }: EngineOptions): NetworkPolicy[] {
  const policy = (name: string, spec: NetworkPolicy["spec"]): NetworkPolicy => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, labels: commonLabels(runFile) },
    spec: spec!,
  });
  const tcp = (port: number): NetworkPolicyPort => ({ protocol: "TCP", port });
  const nats = { podSelector: { matchLabels: NATS_LABELS } };
  const clients = { matchExpressions: [{ key: ROLE, operator: "In", values: CLIENTS }] };
  return [
    policy("nothing-else", { podSelector: {}, policyTypes: ["Ingress", "Egress"] }),
    policy("names", {
      podSelector: {},
      policyTypes: ["Egress"],
      egress: [{
        to: [{
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
        }],
        ports: [{ protocol: "UDP", port: 53 }, tcp(53)],
      }],
    }),
    policy("to-the-bus", {
      podSelector: clients,
      policyTypes: ["Egress"],
      egress: [{ to: [nats], ports: [tcp(NATS_PORT)] }],
    }),
    policy("the-bus", {
      ...nats,
      policyTypes: ["Ingress", "Egress"],
      ingress: [
        { from: [{ podSelector: clients }], ports: [tcp(NATS_PORT)] },
        { from: [nats], ports: [tcp(ROUTE_PORT)] },
      ],
      egress: [{ to: [nats], ports: [tcp(ROUTE_PORT)] }],
    }),
    policy("to-the-console", {
      podSelector: { matchLabels: { [ROLE]: "console" } },
      policyTypes: ["Ingress"],
      ingress: [{
        from: [{ namespaceSelector: { matchLabels: { [MAY_REACH_CONSOLE]: "true" } } }],
        ports: [tcp(consolePort)],
      }],
    }),
  ];
}

const CLIENTS = ["device", "timekeeper", "report", "console"] satisfies Role[];
