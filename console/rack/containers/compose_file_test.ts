/** A rack as containers, as text: what each container is given, and what it may say and hear. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { load } from "js-yaml";
import { parse } from "yaml";
import { USERS } from "../../../fabric/bus/access.ts";
import { matches } from "../../../fabric/bus/memory_bus_testing.ts";
import type { FaultPlan, RackPlan } from "../../../fabric/rack/plan/plan.ts";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { makePlan, partitionsOf } from "../../../fabric/rack/assembly/topology.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import { busUsers, composeFile, type ComposeOptions, natsConfig } from "./compose_file.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";

const SCENARIO = `
name: pair
seed: 7
profile: clx-optane-cx5
hosts:
  a: {}
  b: { ddio: off }
programs:
  - { on: a, run: put, to: b, method: persist-opcode, bytes: 4KiB }
`;
const RUN = "pair-1";

function planOf(faults: readonly FaultPlan[]): RackPlan {
  const [variant] = variants(parseScenario(SCENARIO, "pair.yaml"));
  return { ...makePlan(variant!), faults };
}

function runFileOf(faults: readonly FaultPlan[] = []): RunFile {
  const plan = planOf(faults);
  return {
    run: RUN,
    plan,
    partitions: partitionsOf(plan, "node"),
    directory: "/var/lib/rackmesh",
    inputs: { a: { "data.bin": "/etc/rackmesh/inputs/a/0-data.bin" } },
    programs: {},
    stayUp: false,
    trace: false,
    elsewhere: partitionsOf(plan, "node").map(({ name }) => name),
    livenessMs: 5_000,
    delayMsMax: 0,
  };
}

const NATIVE = {
  ...{ run: "program", at: 0, service: false, options: {} },
  native: { argv: ["program"], file: "/home/me/a $1/program", env: {} },
};

interface Service {
  readonly image: string;
  readonly entrypoint?: readonly string[];
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly volumes: readonly string[];
  readonly restart: string;
  readonly tmpfs?: readonly string[];
  readonly networks: readonly string[] | Readonly<Record<string, unknown>>;
  readonly ports?: readonly string[];
  readonly read_only: boolean;
  readonly cap_drop: readonly string[];
  readonly security_opt: readonly string[];
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: Readonly<
    Record<string, {
      readonly internal?: boolean;
      readonly driver_opts?: Readonly<Record<string, string>>;
    }>
  >;
  readonly volumes: Readonly<Record<string, unknown>>;
}

function composed(runFile: RunFile, options: Partial<ComposeOptions> = {}): Compose {
  const text = composeFile({
    runFile,
    label: "pair",
    image: "rackmesh:local",
    natsImage: "nats:2.14",
    ...options,
  });
  const { services, ...rest } = load(text) as Omit<Compose, "services"> & {
    readonly services: Readonly<
      Record<string, Omit<Service, "volumes"> & { readonly volumes: readonly Mount[] }>
    >;
  };
  // Older compose reads YAML 1.1, in which on, no and 0o7 are no texts.
  assert.deepEqual(parse(text, { version: "1.1" }), load(text));
  const shortened = Object.entries(services).map(([name, service]) => {
    const volumes = service.volumes.map(({ source, target, read_only }) =>
      `${source}:${target}${read_only ? ":ro" : ""}`
    );
    return [name, { ...service, volumes }] as const;
  });
  return { ...rest, services: Object.fromEntries(shortened) };
}

interface Mount {
  readonly source: string;
  readonly target: string;
  readonly read_only?: true;
}

describe("composeFile", () => {
  it("has one container per device with a parent for its process, and four of its own", () => {
    const { services } = composed(runFileOf());
    const devices = ["a", "a-rnic", "b", "b-rnic", "tor"];
    assert.deepEqual(
      Object.keys(services).sort(),
      [...devices, "console", "nats", "report", "timekeeper"].sort(),
    );
    for (const name of devices) {
      assert.deepEqual(
        services[name]!.command,
        ["console/rack/containers/parent_main.ts", RUN, name],
      );
      // Docker starts no process again: a device that has failed comes back by order alone.
      assert.equal(services[name]!.restart, "no");
    }
  });

  it("gives a host's native programs their files and system calls, and no other container those", () => {
    const { plan, ...rest } = runFileOf();
    const nodes = plan.nodes.map((node) =>
      node.name === "b" && node.kind === "host"
        ? { ...node, config: { ...node.config, programs: [NATIVE] } }
        : node
    );
    const files = { "/lib64/ld-linux-x86-64.so.2": "00", "/home/me/a $1/program": "01" };
    const native = { library: "/l.so", binaries: {}, runs: "/var/lib/rackmesh", files };
    const { services } = composed({ ...rest, plan: { ...plan, nodes }, native });
    const { b, ...others } = services;
    assert.ok(b!.volumes.includes(
      "./native/lib64/ld-linux-x86-64.so.2:/lib64/ld-linux-x86-64.so.2:ro",
    ));
    assert.ok(
      b!.volumes.includes("./native/home/me/a $$1/program:/home/me/a $$1/program:ro"),
      String(b!.volumes),
    );
    assert.deepEqual(b!.security_opt, ["no-new-privileges:true", "seccomp:./seccomp.json"]);
    assert.deepEqual([b!.read_only, b!.cap_drop, b!.networks], [true, ["ALL"], ["rack"]]);
    for (const [name, { volumes, security_opt }] of Object.entries(others)) {
      assert.deepEqual(security_opt, ["no-new-privileges:true"], name);
      assert.ok(!volumes.some((volume) => volume.includes("/native/")), name);
    }
  });

  it("has no report of a rack that stays up", () => {
    const { services } = composed({ ...runFileOf(), stayUp: true });
    assert.ok(services["report"] === undefined && services["console"] !== undefined);
  });

  it("publishes the console on loopback alone, under the number that its pages know it by", () => {
    const { services: { console }, networks } = composed(runFileOf());
    const port = "${RACKMESH_CONSOLE_PORT}";
    assert.deepEqual(console!.ports, [`127.0.0.1:${port}:${port}`]);
    assert.deepEqual(console!.command.slice(-2), ["--port", port]);
    assert.equal(console!.environment["RACKMESH_CONSOLE_KEY"], "${RACKMESH_CONSOLE_KEY}");
    // It listens on the network that it shares with no device.
    assert.deepEqual(console!.networks, { rack: {}, console: { aliases: ["console_page"] } });
    assert.equal(console!.command[console!.command.indexOf("--listen") + 1], "console_page");
    const masquerade = "com.docker.network.bridge.enable_ip_masquerade";
    assert.equal(networks["console"]!.driver_opts![masquerade], "false");
    const writable = console!.volumes.filter((volume) => !volume.endsWith(":ro"));
    assert.deepEqual(writable, ["console:/var/lib/rackmesh"]);
  });

  it("gives no container the Docker socket or a capability, and none but the console a way out", () => {
    const { services, networks } = composed(runFileOf());
    for (const [name, service] of Object.entries(services)) {
      assert.ok(!JSON.stringify(service).includes("docker.sock"), name);
      assert.equal(service.read_only, true, name);
      assert.deepEqual(service.cap_drop, ["ALL"], name);
      if (name === "console") continue;
      assert.equal(service.ports, undefined, name);
      assert.deepEqual(service.networks, ["rack"], name);
    }
    assert.equal(networks["rack"]!.internal, true);
  });

  it("P-05 (in part): puts each host's SCM on a volume that no other service mounts", () => {
    const { services, volumes } = composed(runFileOf());
    const stateOf = (name: string) =>
      services[name]!.volumes.filter((volume) => volume.endsWith(":/var/lib/rackmesh"));
    assert.deepEqual(stateOf("a"), ["state-a:/var/lib/rackmesh"]);
    assert.deepEqual(stateOf("b"), ["state-b:/var/lib/rackmesh"]);
    assert.deepEqual(stateOf("timekeeper"), ["record:/var/lib/rackmesh"]);
    for (const name of ["a-rnic", "b-rnic", "tor"]) {
      assert.deepEqual(stateOf(name), []);
      // The plan comes over the bus, into the container's own memory.
      const own = "/var/lib/rackmesh:uid=1993,gid=1993,mode=0700";
      assert.deepEqual(services[name]!.tmpfs, [own]);
    }
    assert.deepEqual(Object.keys(volumes).sort(), [
      "console",
      "record",
      "state-a",
      "state-b",
    ]);
  });

  it("gives plan and inputs to the timekeeper alone, who serves them over the bus", () => {
    const { services } = composed(runFileOf());
    const files = ["./run.json:/etc/rackmesh/run.json:ro", "./inputs/a:/etc/rackmesh/inputs/a:ro"];
    for (const [name, { volumes }] of Object.entries(services)) {
      const mounted = files.filter((file) => volumes.includes(file));
      assert.deepEqual(mounted, name === "timekeeper" ? files : [], name);
    }
  });

  it("has no volume in two containers, so that each may be on a machine of its own", () => {
    const { services } = composed({ ...runFileOf(), trace: true });
    const mounts = Object.values(services).flatMap(({ volumes }) =>
      volumes.filter((each) => !each.startsWith("./")).map((each) => each.split(":")[0])
    );
    assert.ok(mounts.length > 0);
    assert.equal(new Set(mounts).size, mounts.length, mounts.join());
    assert.deepEqual(services["report"]!.volumes, []);
  });

  it("gives a parent its bus, the start of Deno, and its own folder to write", () => {
    const { services } = composed(runFileOf());
    for (const name of ["a", "b-rnic", "tor"]) {
      const rights = services[name]!.entrypoint!.filter((flag) => flag.startsWith("--allow"));
      assert.deepEqual(rights.sort(), [
        "--allow-env",
        "--allow-net=nats:4222",
        "--allow-read",
        "--allow-run=deno",
        "--allow-sys",
        "--allow-write=/var/lib/rackmesh",
      ]);
      assert.ok(services[name]!.entrypoint!.includes("--deny-import"));
    }
    assert.equal(services["timekeeper"]!.entrypoint, undefined);
  });

  it("starts the nats-server of the project's own image, and leaves a public one its way", () => {
    const own = composed(runFileOf(), { natsImage: "rackmesh:local" }).services["nats"]!;
    assert.deepEqual(own.entrypoint, ["nats-server"]);
    const nats = composed(runFileOf()).services["nats"]!;
    assert.equal(nats.image, "nats:2.14");
    assert.equal(nats.entrypoint, undefined);
  });

  it("keeps what compose would replace as it was written", () => {
    const { services } = composed(runFileOf(), { label: 'a "$label"' });
    assert.equal(services["report"]!.command.at(-1), 'a "$$label"');
  });
});

describe("composeFile, with names that mean something else", () => {
  for (const names of [["on", "no"], ["1", "null"], ["true", "0x1F"], ["1e3", "y"]] as const) {
    it(`has a service for each host of ${names.join(" and ")}`, () => {
      const [a, b] = names;
      const scenario = SCENARIO.replaceAll(/\ba\b/g, `"${a}"`).replaceAll(/\bb\b/g, `"${b}"`);
      const plan = makePlan(variants(parseScenario(scenario, "pair.yaml"))[0]!);
      const runFile = { ...runFileOf(), plan, partitions: partitionsOf(plan, "node"), inputs: {} };
      const { services, volumes } = composed(runFile);
      const own = ["nats", "report", "timekeeper", "console"];
      const devices = [a, `${a}-rnic`, b, `${b}-rnic`, "tor", ...own];
      assert.deepEqual(Object.keys(services).sort(), devices.sort());
      assert.deepEqual(
        Object.keys(volumes).sort(),
        ["console", "record", `state-${a}`, `state-${b}`].sort(),
      );
      for (const name of names) {
        assert.equal(services[name]!.command.at(-1), name);
        assert.equal(services[name]!.environment["RACKMESH_NATS_USER"], name);
      }
    });
  }

  it("lets no name of a file or scenario say more than that", () => {
    const plain = composed(runFileOf());
    const ends = ["\n", "\r\n", "\u0085", "\u2028", '"\n', "\\\n", "#"];
    for (const end of ends) {
      const evil = `x${end}    privileged: true${end}x: "\${HOME} $HOME": y`;
      const { plan } = runFileOf();
      const { services, ...rest } = composed(
        { ...runFileOf(), plan: { ...plan, scenario: evil } },
        { label: evil, image: evil },
      );
      const written = evil.replaceAll("$", "$$$$");
      assert.deepEqual(Object.keys(rest), ["networks", "volumes"]);
      for (const [name, service] of Object.entries(services)) {
        assert.deepEqual(Object.keys(service), Object.keys(plain.services[name]!), name);
      }
      assert.equal(services["report"]!.command.at(-1), written);
    }
  });
});

describe("natsConfig", () => {
  /** The users of the configuration and what each may publish and hear. */
  function accessOf(config: string): Map<string, { publish: string[]; subscribe: string[] }> {
    const users = config.matchAll(
      /user: "([^"]+)", .*\n.*\n\s+publish: \{ allow: (\[.*\]) \}\n\s+subscribe: \{ allow: (\[.*\]) \}/g,
    );
    return new Map(
      [...users].map(([, user, publish, subscribe]) => [
        user!,
        { publish: JSON.parse(publish!), subscribe: JSON.parse(subscribe!) },
      ]),
    );
  }

  const access = accessOf(natsConfig(runFileOf()));
  const may = (user: string, verb: "publish" | "subscribe", subject: string) =>
    access.get(user)![verb].some((pattern) => matches(pattern, `rack.${RUN}.${subject}`));

  it("knows every container by a password of its own", () => {
    const users = busUsers(runFileOf());
    assert.deepEqual([...access.keys()], users);
    const passwords = [...natsConfig(runFileOf()).matchAll(/password: (\S+)/g)].map(([, p]) => p);
    assert.equal(new Set(passwords).size, users.length);
  });

  it("lets no user publish for another device, or subscribe to what another receives", () => {
    assert.ok(may("a", "publish", "wire.a.a-rnic"));
    assert.ok(!may("a", "publish", "wire.a.tor"), "there is no such cable");
    assert.ok(!may("a", "publish", "wire.b.b-rnic"));
    assert.ok(!may("a", "publish", "clock.report.b"));
    assert.ok(may("b", "subscribe", "wire.b-rnic.b"));
    assert.ok(!may("a", "subscribe", "wire.b-rnic.b"));
    assert.ok(!may("a", "subscribe", "clock.grant.b"));
  });

  it("lets the timekeeper alone grant time and give orders to devices", () => {
    for (const user of access.keys()) {
      const isClock = user === USERS.timekeeper;
      for (const subject of ["clock.grant.b", "clock.order.b", "clock.ask", "control.finished"]) {
        assert.equal(may(user, "publish", subject), isClock, `${user} ${subject}`);
      }
    }
  });

  it("lets a parent alone end and start its process, and say that it is gone", () => {
    for (const user of access.keys()) {
      assert.equal(may(user, "publish", "control.death-b"), user === "b", user);
      assert.ok(!may(user, "publish", "control.death"), user);
      for (const verb of ["kill-b", "boot-b"]) {
        assert.equal(may(user, "subscribe", `control.${verb}`), user === "b", `${user} ${verb}`);
        const orders = user === USERS.supervisor;
        assert.equal(may(user, "publish", `control.${verb}`), orders, `${user} ${verb}`);
      }
    }
  });

  it("lets the console drive the clock and hear no frames, and a viewer do nothing", () => {
    for (const verb of ["pause", "pace", "link", "fault", "run", "end", "kill-b"]) {
      assert.ok(may(USERS.supervisor, "publish", `control.${verb}`), verb);
      assert.ok(!may(USERS.viewer, "publish", `control.${verb}`), verb);
    }
    assert.ok(!may(USERS.supervisor, "subscribe", "wire.a.a-rnic"));
    assert.ok(!may(USERS.supervisor, "subscribe", "answer.b._viewer.1"));
    assert.ok(may(USERS.viewer, "publish", "control.process-b"));
  });

  it("lets no one out of the run, but to ask which runs there are", () => {
    const census = ["rack._.control.racks", "rack._.control.rack"];
    for (const { publish, subscribe } of access.values()) {
      for (const pattern of [...publish, ...subscribe]) {
        if (census.includes(pattern)) continue;
        assert.ok(pattern.startsWith(`rack.${RUN}.`), pattern);
      }
    }
  });
});
