/** A device's container as an engine's probe sees it: its parent, the device's process and the timekeeper, over a bus. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { type NatsServer, startNatsServer } from "../../console/rack/nats_server.ts";
import { READY_VARIABLE } from "../../console/rack/containers/compose_file.ts";
import { READY_PATH } from "../../console/rack/containers/readiness.ts";

import { accessOfContainers, bootVerb, killVerb, USERS } from "../../fabric/bus/access.ts";
import { decode, encode } from "../../fabric/bus/codec.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import { busEnvironment, type RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { makePlan, partitionsOf } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { projectFile } from "../../console/base/paths.ts";
import { eventually } from "../support/eventually.ts";

const RUN = "ready-1";

describe("A device's container", () => {
  let folder: string;
  let server: NatsServer;
  let processes: Deno.ChildProcess[];

  beforeEach(async () => {
    folder = await Deno.makeTempDir({ prefix: "rackmesh-ready-" });
    processes = [];
  });

  afterEach(async () => {
    for (const process of processes) {
      process.kill("SIGKILL");
      await process.status;
    }
    await server.stop();
    await Deno.remove(folder, { recursive: true });
  });

  it("is ready as long as its device has power and has joined the rack", async () => {
    const plan = makePlan(variants(parseScenario("name: one\nhosts: { a: {} }\n", "one.yaml"))[0]!);
    const runFile: RunFile = {
      ...{ run: RUN, plan, partitions: partitionsOf(plan, "node"), inputs: {}, programs: {} },
      ...{ directory: `${folder}/timekeeper`, elsewhere: plan.nodes.map(({ name }) => name) },
      ...{ stayUp: true, trace: false, livenessMs: 600_000, delayMsMax: 0 },
    };
    await Deno.mkdir(runFile.directory);
    await Deno.writeTextFile(`${folder}/run.json`, JSON.stringify(runFile));
    const users = accessOfContainers(runFile);
    server = await startNatsServer({ dir: folder, users });
    const port = freePort();
    start("console/rack/containers/parent_main.ts", [RUN, "a", `${folder}/a`], {
      ...busEnvironment(server.addressOf("a")),
      [READY_VARIABLE]: String(port),
    });
    // Its parent waits for the plan.
    assert.notEqual(await probed(port), 200);
    start("fabric/clock/timekeeper_main.ts", [`${folder}/run.json`], {
      ...busEnvironment(server.addressOf(USERS.timekeeper)),
    });
    await eventually("the device joins", async () => await probed(port) === 200);

    const bus = await connectNats({
      ...server.addressOf(USERS.supervisor),
      ...{ run: RUN, name: USERS.supervisor, onError: () => {} },
    });
    const order = async (verb: string, request: object) =>
      decode(
        await bus.request(subjectOf({ kind: "control", run: RUN, verb }), encode(request), {
          by: "a",
          timeoutMs: PATIENCE_MS,
        }),
      );
    await order(killVerb("a"), { token: "t" });
    await eventually("it has no power", async () => await probed(port) === 503);
    await order(bootVerb("a"), {});
    await eventually("the device joins again", async () => await probed(port) === 200);
    await bus.close();
  });

  function start(module: string, args: string[], env: Record<string, string>): void {
    processes.push(
      new Deno.Command(Deno.execPath(), {
        args: ["run", "--quiet", "--no-check", "-A", projectFile(module).pathname, ...args],
        env,
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn(),
    );
  }
});

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** Undefined: nobody listens yet. */
async function probed(port: number): Promise<number | undefined> {
  try {
    const { status, body } = await fetch(`http://127.0.0.1:${port}${READY_PATH}`);
    await body?.cancel();
    return status;
  } catch {
    return undefined;
  }
}
