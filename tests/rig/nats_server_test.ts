import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import {
  candidates,
  type NatsServer,
  NatsServerError,
  startNatsServer,
} from "../../console/rack/nats_server.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { eventually } from "../support/eventually.ts";

describe("startNatsServer", () => {
  let dir: string;
  let started: NatsServer[];

  async function start(port?: number): Promise<NatsServer> {
    const server = await startNatsServer({ dir, ...(port === undefined ? {} : { port }) });
    started.push(server);
    return server;
  }

  beforeEach(async () => {
    dir = await Deno.makeTempDir({ prefix: "rackmesh-nats-" });
    started = [];
  });

  afterEach(async () => {
    await Promise.all(started.map((server) => server.stop()));
    await Deno.remove(dir, { recursive: true });
  });

  it("is ready when it returns, on loopback only", async () => {
    const server = await start();
    const { hostname, port } = hostAndPort(server);
    assert.equal(hostname, "127.0.0.1");
    const info = JSON.parse((await greeting(port)).replace(/^INFO /, ""));
    assert.equal(info.host, "127.0.0.1");
    assert.equal(info.auth_required, true);
    assert.equal(info.max_payload, 8 << 20);
    const others = Deno.networkInterfaces().filter(({ family, address }) =>
      family === "IPv4" && address !== "127.0.0.1"
    );
    for (const { address } of others) {
      await assert.rejects(Deno.connect({ hostname: address, port }), address);
    }
  });

  it("ends all the same when it is stopped (SIGSTOP), with its process or without", async () => {
    const server = await start();
    server.signal("SIGSTOP");
    const { pid } = server;
    await server.stop();
    assert.throws(() => Deno.statSync(`/proc/${pid}`), Deno.errors.NotFound);
    server.signal("SIGSTOP");
    await server.restart();
    assert.notEqual(server.pid, pid);
  });

  it("shows its credential to nobody but the owner", async () => {
    const server = await start();
    const password = server.address.password!;
    assert.match(password, /^[0-9a-f]{48}$/);
    const commandLine = await Deno.readTextFile(`/proc/${server.pid}/cmdline`);
    assert.ok(!commandLine.includes(password));
    for (const file of ["nats-server.conf", "nats-server.log"]) {
      assert.equal((await Deno.stat(`${dir}/${file}`)).mode! & 0o777, 0o600, file);
    }
    assert.ok(!(await Deno.readTextFile(server.logFile)).includes(password));
  });

  it("gives every server a port and a credential of its own", async () => {
    const one = await start();
    const other = await start();
    assert.notEqual(one.address.url, other.address.url);
    assert.notEqual(one.address.password, other.address.password);
  });

  it("restart: same port, same credential, another process", async () => {
    const server = await start();
    const { address, pid } = server;
    await server.restart();
    assert.deepEqual(server.address, address);
    assert.notEqual(server.pid, pid);
    assert.match(await greeting(hostAndPort(server).port), /^INFO /);
  });

  it("restart: after a kill -9 by somebody else, which settles exited", async () => {
    const server = await start();
    const { url } = server.address;
    Deno.kill(server.pid, "SIGKILL");
    await server.exited;
    await server.restart();
    assert.equal(server.address.url, url);
    assert.match(await greeting(hostAndPort(server).port), /^INFO /);
  });

  it("keepUp: is there again after a kill -9, as often as it takes, until it is stopped", async () => {
    const server = await startNatsServer({ dir, keepUp: true });
    started.push(server);
    const { port } = hostAndPort(server);
    for (let round = 0; round < 2; round++) {
      const { pid } = server;
      Deno.kill(pid, "SIGKILL");
      await eventually("another process", () => server.pid !== pid);
      await eventually("it answers", () => greeting(port).then(() => true, () => false));
    }
    await server.stop();
    const { pid } = server;
    await sleep(100);
    assert.equal(server.pid, pid);
    await assert.rejects(greeting(port));
  });

  it("ends with the process that started it, however that ends", async () => {
    const module = new URL("../../console/rack/nats_server.ts", import.meta.url).href;
    const code = `const { startNatsServer } = await import("${module}");
      console.log((await startNatsServer({ dir: "${dir}" })).pid);
      await new Promise(() => setInterval(() => {}, 1000));`;
    const starter = new Deno.Command(Deno.execPath(), {
      args: ["eval", "--no-check", "--config", fromFileUrl(projectFile("deno.json")), code],
      stdout: "piped",
    }).spawn();
    const { value } = await starter.stdout.pipeThrough(new TextDecoderStream()).getReader().read();
    assert.match(value!, /^\d+\n$/);
    const path = `/proc/${value!.trim()}`;
    await Deno.stat(path);
    starter.kill("SIGKILL");
    await starter.status;
    await eventually("the server is gone", () => Deno.stat(path).then(() => false, () => true));
  });

  it("stop: leaves no process behind, any number of times", async () => {
    const server = await start();
    await Promise.all([server.stop(), server.stop()]);
    await server.stop();
    await assert.rejects(Deno.stat(`/proc/${server.pid}`), Deno.errors.NotFound);
    await assert.rejects(greeting(hostAndPort(server).port));
  });

  it("says why where the port is taken, in the server's words", async () => {
    const { port } = hostAndPort(await start());
    await fails(start(port), /ended with code 1.*address already in use/s);
  });

  it("says what a program said that ended early", async () => {
    const binary = await script("echo the disk is on fire >&2; exit 3");
    await fails(startNatsServer({ dir, binary }), /code 3.*the disk is on fire/s);
  });

  it("gives up a program that never becomes ready, and ends it", async () => {
    const binary = await script(`echo $$ > ${dir}/pid; exec sleep 60`);
    const starting = startNatsServer({ dir, binary, readyTimeoutMs: 300 });
    await fails(starting, /not ready in time/);
    const pid = (await Deno.readTextFile(`${dir}/pid`)).trim();
    await assert.rejects(Deno.stat(`/proc/${pid}`), Deno.errors.NotFound);
  });

  it("refuses another server that answers on the port", async () => {
    const { port } = hostAndPort(await start());
    const binary = await script(
      `echo "Listening for client connections on 127.0.0.1:${port}" >&2; exec sleep 60`,
    );
    await fails(startNatsServer({ dir, binary }), /Another server answers/);
  });

  it("fails for want of a program, naming the variable and what was tried", async () => {
    const before = Deno.env.get("RACKMESH_NATS_SERVER");
    Deno.env.set("RACKMESH_NATS_SERVER", "/nowhere/nats-server");
    try {
      const wanted = /tried \/nowhere\/nats-server\. .*RACKMESH_NATS_SERVER/;
      await fails(startNatsServer({ dir }), wanted);
    } finally {
      if (before === undefined) Deno.env.delete("RACKMESH_NATS_SERVER");
      else Deno.env.set("RACKMESH_NATS_SERVER", before);
    }
    if (before === undefined) assert.ok(candidates().includes("/usr/sbin/nats-server"));
  });

  async function script(body: string): Promise<string> {
    const path = `${dir}/fake-server`;
    await Deno.writeTextFile(path, `#!/bin/sh\n${body}\n`, { mode: 0o700 });
    return path;
  }
});

function hostAndPort(server: NatsServer): { hostname: string; port: number } {
  const [hostname, port] = server.address.url.replace("nats://", "").split(":");
  return { hostname: hostname!, port: Number(port) };
}

/** The first line that a server says to whoever connects. */
async function greeting(port: number): Promise<string> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const buffer = new Uint8Array(4096);
  const length = await connection.read(buffer);
  connection.close();
  return new TextDecoder().decode(buffer.subarray(0, length ?? 0));
}

async function fails(
  starting: Promise<unknown>,
  message: RegExp,
): Promise<void> {
  await assert.rejects(starting, (error) => {
    assert.ok(error instanceof NatsServerError);
    assert.match(error.message, message);
    return true;
  });
}
