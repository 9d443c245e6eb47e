import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { checkListen, isLoopback, listen, type ListenOptions } from "./listen.ts";
import { TestConsole } from "./app_testing.ts";

function refusalOf(options: Partial<ListenOptions>): string {
  try {
    checkListen({ address: "127.0.0.1", port: 0, ...options });
    return "";
  } catch (error) {
    assert.ok(error instanceof Refusal);
    return error.message;
  }
}

describe("isLoopback", () => {
  it("knows the addresses that others cannot reach", () => {
    for (const address of ["127.0.0.1", "127.1.2.3", "localhost", "::1"]) {
      assert.ok(isLoopback(address), address);
    }
    for (const address of ["0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example", "128.0.0.1", ""]) {
      assert.ok(!isLoopback(address), address);
    }
  });
});

describe("checkListen", () => {
  it("wants TLS or a word for an address that others can reach", () => {
    const tls = { cert: "c.pem", key: "k.pem" };
    assert.equal(refusalOf({}), "");
    assert.match(refusalOf({ address: "0.0.0.0" }), /^--listen is 0\.0\.0\.0.*--insecure/);
    assert.equal(refusalOf({ address: "0.0.0.0", tls }), "");
    assert.equal(refusalOf({ address: "192.168.1.2", isInsecure: true }), "");
  });

  it("takes only names of machines for Host", () => {
    assert.equal(refusalOf({ names: ["rack.example", "box-1"] }), "");
    for (const name of ["", "a b", "a/b", "*", "a:80"]) {
      assert.match(refusalOf({ names: [name] }), /--host/, name);
    }
  });
});

describe("listen", () => {
  it("answers under its own port's names only, and is gone when it is closed", async () => {
    const console = new TestConsole();
    let first = "";
    const server = await listen({ address: "127.0.0.1", port: 0 }, ({ origins }) => {
      first = origins[0]!;
      return console.app;
    });
    assert.equal(first, `http://127.0.0.1:${server.port}`);
    assert.ok(server.origins.includes(`http://localhost:${server.port}`));
    // This app was made for another port.
    const response = await fetch(`${first}/healthz`);
    assert.equal(response.status, 421);
    await response.body?.cancel();
    await server.close();
    await assert.rejects(fetch(`${first}/healthz`));
  });

  it("says which port is taken", async () => {
    const { app } = new TestConsole();
    const server = await listen({ address: "127.0.0.1", port: 0 }, () => app);
    const again = listen({ address: "127.0.0.1", port: server.port }, () => app);
    await assert.rejects(again, new RegExp(`Cannot listen on 127.0.0.1:${server.port}`));
    await server.close();
  });
});
