/** The doors, tried from outside: what an attacker's page, a viewer, a thief of a token would send. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { BODY_BYTES_MAX } from "./doors/guards.ts";
import { ORIGIN, type Sent, TestConsole } from "./app_testing.ts";

const CHANGE = ["POST", "/api/v1/runs/x/down"] as const;
const READ = ["GET", "/api/v1/scenarios"] as const;

async function kindOf(
  console: TestConsole,
  [method, path]: readonly [string, string],
  sent: Sent,
): Promise<string> {
  const { status, json } = await console.send(method, path, sent);
  return `${status} ${json?.kind ?? ""}`.trim();
}

describe("hostGuard", () => {
  it("answers only under the console's own names, so that a rebound name gets nothing", async () => {
    const console = new TestConsole();
    const key = await console.signIn("operator");
    for (const path of ["/", "/healthz", "/metrics", "/api/v1/scenarios"]) {
      const headers = { Host: "evil.example:4280" };
      assert.equal(await kindOf(console, ["GET", path], { key, headers }), "421 wrong-host", path);
      const other = { Host: "127.0.0.1:4281" };
      assert.equal(await kindOf(console, ["GET", path], { key, headers: other }), "421 wrong-host");
    }
    const own = { Host: "localhost:4280" };
    assert.equal(await kindOf(console, READ, { key, headers: own }), "200");
  });
});

describe("originGuard", () => {
  it("refuses what another page sends, with the operator's key or without", async () => {
    const console = new TestConsole();
    const key = await console.signIn("operator");
    const foreign: Record<string, string>[] = [
      // A page on another port of the same host, with and without fetch metadata.
      { Origin: "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-site" },
      { Origin: "http://127.0.0.1:8000" },
      { "Sec-Fetch-Site": "cross-site" },
      { "Sec-Fetch-Site": "same-site" },
      // A sandboxed frame.
      { Origin: "null", "Sec-Fetch-Site": "cross-site" },
      { Origin: `${ORIGIN}.evil.example` },
    ];
    for (const headers of foreign) {
      for (const request of [CHANGE, READ, ["GET", "/metrics"], ["GET", "/api/v1/feed"]] as const) {
        const found = await kindOf(console, request, { key, headers });
        assert.equal(found, "403 not-allowed", `${request} ${JSON.stringify(headers)}`);
      }
    }
    const own = { Origin: ORIGIN, "Sec-Fetch-Site": "same-origin" };
    assert.equal(await kindOf(console, READ, { key, headers: own }), "200");
    assert.equal(await kindOf(console, CHANGE, { key, headers: own }), "404 not-found");
  });

  it("lets a link from elsewhere open the page, and nothing of the API", async () => {
    const console = new TestConsole();
    const visit = {
      "Sec-Fetch-Site": "cross-site",
      "Sec-Fetch-Mode": "navigate",
      "Sec-Fetch-Dest": "document",
    };
    assert.equal((await console.send("GET", "/", { headers: visit })).status, 200);
    const frame = { ...visit, "Sec-Fetch-Dest": "iframe" };
    assert.equal((await console.send("GET", "/", { headers: frame })).status, 403);
    const key = await console.signIn("operator");
    assert.equal(await kindOf(console, READ, { key, headers: visit }), "403 not-allowed");
  });

  it("refuses changes without the header that no form can set", async () => {
    const console = new TestConsole();
    const key = await console.signIn("operator");
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json"]) {
      const sent = { key, isBare: true, headers: { "Content-Type": type }, body: "{}" };
      assert.equal(await kindOf(console, CHANGE, sent), "403 not-allowed", type);
    }
  });

  it("allows no other origin anything by CORS", async () => {
    const console = new TestConsole();
    const headers = {
      Origin: "http://127.0.0.1:8000",
      "Access-Control-Request-Method": "POST",
      "Access-Control-Request-Headers": "x-rackmesh",
    };
    const answer = await console.send("OPTIONS", CHANGE[1], { headers, isBare: true });
    assert.equal(answer.status, 403);
    const names = [...answer.headers.keys()].filter((name) => name.startsWith("access-control"));
    assert.deepEqual(names, []);
  });

  it("upgrades no connection", async () => {
    const console = new TestConsole();
    const key = await console.signIn("operator");
    const headers = { Upgrade: "websocket", Connection: "Upgrade" };
    assert.equal(
      await kindOf(console, ["GET", "/api/v1/feed"], { key, headers }),
      "403 not-allowed",
    );
  });
});

describe("ownHeaders", () => {
  it("let the page load nothing from elsewhere, be framed by nobody, and run no text as code", async () => {
    const console = new TestConsole();
    const { headers } = await console.send("GET", "/");
    const policy = headers.get("content-security-policy")!;
    const expected = [
      "default-src 'none'",
      "script-src 'self'",
      "connect-src 'self'",
      "frame-ancestors 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ];
    for (const part of expected) assert.ok(policy.includes(part), `${part} in ${policy}`);
    assert.doesNotMatch(policy, /unsafe|\*/);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("x-frame-options"), "DENY");
    assert.equal(headers.get("strict-transport-security"), null);
    const api = await console.send(...READ, { key: await console.signIn("viewer") });
    assert.equal(api.headers.get("cache-control"), "no-store");
    assert.equal(api.headers.get("set-cookie"), null);
  });
});

describe("keys", () => {
  it("takes a token once, and gives each browser a key of its own", async () => {
    const console = new TestConsole();
    const token = await console.keys.newToken("operator");
    const [first, again] = [
      await console.send("POST", "/api/v1/session", { json: { token } }),
      await console.send("POST", "/api/v1/session", { json: { token } }),
    ];
    assert.equal(first.status, 200);
    assert.equal(again.status, 401);
    assert.equal(again.json.kind, "not-signed-in");
    assert.equal((await console.send(...READ, { key: first.json.key })).status, 200);
    // The token is no key, and the key no token.
    assert.equal((await console.send(...READ, { key: token })).status, 401);
    const turned = { json: { token: first.json.key } };
    assert.equal((await console.send("POST", "/api/v1/session", turned)).status, 401);
  });

  it("ends tokens and keys with time, and a key when its owner signs out", async () => {
    const console = new TestConsole();
    const token = await console.keys.newToken("operator");
    const [key, other] = [await console.signIn("operator"), await console.signIn("viewer")];
    assert.equal((await console.send("DELETE", "/api/v1/session", { key: other })).status, 200);
    assert.equal((await console.send(...READ, { key: other })).status, 401);
    console.nowMs += 11 * 3_600_000;
    assert.equal((await console.send(...READ, { key })).status, 200);
    console.nowMs += 13 * 3_600_000;
    assert.equal((await console.send(...READ, { key })).status, 401);
    const late = await console.send("POST", "/api/v1/session", { json: { token } });
    assert.equal(late.status, 401);
  });

  it("take a key of the owner's again and again, where there is one", async () => {
    const fixed = "k".repeat(40);
    const console = new TestConsole({ fixed });
    assert.equal((await console.send(...READ, { key: fixed })).status, 200);
    for (let i = 0; i < 2; i++) {
      const signedIn = await console.send("POST", "/api/v1/session", { json: { token: fixed } });
      assert.equal(signedIn.json.role, "operator");
    }
    assert.equal((await console.send(...READ, { key: `${fixed}k` })).status, 401);
  });
});

describe("roleGuard", () => {
  it("shows nothing without a key but the page and that the server is there", async () => {
    const console = new TestConsole();
    for (const path of ["/", "/healthz"]) {
      assert.equal((await console.send("GET", path)).status, 200);
    }
    for (const path of ["/metrics", ...await readPaths(console)]) {
      assert.equal((await console.send("GET", path)).status, 401, path);
    }
  });

  it("lets a viewer read all but the audit log, and change nothing, on every route there is", async () => {
    const console = new TestConsole();
    const key = await console.signIn("viewer");
    let changes = 0;
    for (const [method, path] of await routesOf(console)) {
      console.nowMs += 10_000;
      if (path === "/session") continue;
      const sent = { key, ...(method !== "GET" && { json: {} }) };
      const { status, body } = await console.open(method, `/api/v1${filled(path)}`, sent);
      // The feed does not end by itself.
      await body?.cancel();
      if (method === "GET" && path !== "/audit") assert.notEqual(status, 403, path);
      else assert.equal(status, 403, `${method} ${path}`);
      if (method !== "GET") changes++;
    }
    assert.ok(changes >= 15, `${changes} changes`);
    assert.equal((await console.send("GET", "/api/v1/session", { key })).json.role, "viewer");
  });
});

describe("limits", () => {
  it("answer an address that is no percent-encoding as one of which there is nothing", async () => {
    const console = new TestConsole();
    const key = await console.signIn("operator");
    for (const [method, path] of [["DELETE", "runs/%zz"], ["POST", "racks/%zz/heal"]] as const) {
      const found = await kindOf(console, [method, `/api/v1/${path}`], { key });
      assert.equal(found, "404 not-found", path);
    }
  });

  it("refuse a body that is too large, whether its length is said or not", async () => {
    const console = new TestConsole();
    const key = await console.signIn("operator");
    const said = { key, headers: { "Content-Length": `${2 ** 30}` }, json: { text: "" } };
    const validate = ["POST", "/api/v1/scenarios/validate"] as const;
    assert.equal(await kindOf(console, validate, said), "413 too-large");
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 65_536;
        controller.enqueue(new Uint8Array(65_536).fill(0x20));
      },
    });
    const response = await console.open(...validate, {
      key,
      body: endless,
      headers: { "Content-Type": "application/json", "Transfer-Encoding": "chunked" },
    });
    assert.equal(response.status, 413);
    assert.ok(pulled < 2 * BODY_BYTES_MAX, `${pulled} bytes were read`);
  });

  it("count wrong tokens by what was tried, and never keep a right one out", async () => {
    const console = new TestConsole();
    const token = await console.keys.newToken("operator");
    const attempt = (token: string) => console.send("POST", "/api/v1/session", { json: { token } });
    // From the owner's own address, as everybody on his machine is.
    const others: number[] = [], same: number[] = [];
    for (let i = 0; i < 400; i++) others.push((await attempt(`guess ${i}`)).status);
    assert.deepEqual(new Set(others), new Set([401]));
    for (let i = 0; i < 30; i++) same.push((await attempt("guess")).status);
    assert.equal(same.filter((status) => status === 401).length, 10);
    const late = await attempt("guess");
    assert.equal(late.status, 429);
    assert.match(late.headers.get("retry-after")!, /^\d+$/);
    // Others requests without a key are slowed down, and that keeps nobody out either.
    for (let i = 0; i < 300; i++) await console.send(...READ, { key: `wrong-${i}` });
    const { status, json } = await attempt(token);
    assert.equal(status, 200);
    assert.equal((await console.send(...READ, { key: json.key })).status, 200);
    // What strangers do does not push out of the log what was done.
    const { entries } = (await console.send("GET", "/api/v1/audit", { key: json.key })).json;
    assert.ok(entries.length < 40, `${entries.length} entries`);
    assert.equal(entries[0].status, 200);
    assert.equal(entries[0].refusedBefore, 400 + 31 - 20);
  });

  it("take no large body of one who is not signed in", async () => {
    const console = new TestConsole();
    const sent = { json: { token: "x".repeat(100_000) } };
    assert.equal(await kindOf(console, ["POST", "/api/v1/session"], sent), "413 too-large");
  });

  it("slow down requests without end, and nobody else", async () => {
    const console = new TestConsole();
    const key = await console.signIn("viewer");
    console.nowMs += 60_000;
    const after = await Promise.all(
      Array.from({ length: 300 }, () => console.send(...READ, { key })),
    );
    assert.equal(after.filter(({ status }) => status === 429).length, 100);
    const other = await console.signIn("viewer");
    assert.equal((await console.send(...READ, { key: other })).status, 200);
  });
});

describe("audit", () => {
  it("has who did what to what and with which result, also what was refused, and no secret", async () => {
    const console = new TestConsole();
    const [operator, viewer] = [await console.signIn("operator"), await console.signIn("viewer")];
    await console.send("POST", "/api/v1/runs/none/down", { key: viewer });
    await console.send("POST", "/api/v1/runs/none/keep", { key: operator, json: { keep: true } });
    const { json, text } = await console.send("GET", "/api/v1/audit", { key: operator });
    const rows = json.entries.map((
      { session, action, target, status, result }: Record<string, unknown>,
    ) => [session, action, target, status, result]);
    const [kept, refused] = rows;
    const path = "/api/v1/runs/none";
    const none = "There is no run none";
    assert.deepEqual(kept, ["operator-1", "POST /api/v1/runs/…/keep", `${path}/keep`, 404, none]);
    const told = "A viewer may look, and change nothing";
    assert.deepEqual(refused, ["viewer-2", "POST /api/v1/runs/…/down", `${path}/down`, 403, told]);
    for (const secret of [operator, viewer]) assert.ok(!text.includes(secret));
  });
});

/** Every route of the OpenAPI document. */
async function routesOf(console: TestConsole): Promise<[string, string][]> {
  const key = await console.signIn("viewer");
  const { json } = await console.send("GET", "/api/v1/openapi.json", { key });
  const paths: Record<string, Record<string, unknown>> = json.paths;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method): [string, string] => [method.toUpperCase(), path])
  );
}

async function readPaths(console: TestConsole): Promise<string[]> {
  const routes = await routesOf(console);
  return routes.filter(([method]) => method === "GET").map(([, path]) => `/api/v1${filled(path)}`);
}

function filled(path: string): string {
  return path.replaceAll(/\{\w+\}/g, "x");
}
