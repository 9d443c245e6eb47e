/**
 * The document of the API as others read it: a public validator, a generator of clients; and errors as
 * RFC 9457 has them.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import openapiTS, { astToString } from "openapi-typescript";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { type Answer, type Sent, TestConsole } from "../../console/server/app_testing.ts";

const API = "/api/v1";

let console: TestConsole, key: string, folder: string;
// deno-lint-ignore no-explicit-any
let document: any;

beforeAll(async () => {
  folder = await Deno.makeTempDir({ prefix: "rackmesh-openapi-" });
  console = new TestConsole();
  key = await console.signIn("operator");
  document = (await console.send("GET", `${API}/openapi.json`, { key })).json;
});

afterAll(async () => {
  await console.end();
  await Deno.remove(folder, { recursive: true });
});

describe("the document of the API", () => {
  it("is valid for a public validator", async () => {
    const config = await createConfig({
      extends: ["recommended"],
      rules: {
        "operation-4xx-response": "error",
        "operation-operationId": "error",
        "info-license": "error",
      },
    });
    const lint = async (document: unknown) => {
      const found = await lintFromString({ source: JSON.stringify(document), config });
      return found.map(({ ruleId, message, location }) =>
        `${ruleId}: ${message} ${location[0]?.pointer}`
      );
    };
    assert.deepEqual(await lint(document), []);
    // It finds what was wrong before.
    const { securitySchemes: _, ...components } = document.components;
    assert.match((await lint({ ...document, components })).join(), /security-defined/);
  });

  it("names each operation once, and the header that changes need", () => {
    const names: string[] = [];
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(operations as object)) {
        names.push(operation.operationId);
        const references = (operation.parameters ?? []).map(({ $ref }: { $ref?: string }) => $ref);
        const hasHeader = references.includes("#/components/parameters/OwnHeader");
        assert.equal(hasHeader, method !== "get", `${method} ${path}`);
      }
    }
    assert.ok(
      names.length > 50 && names.every((name) => /^[a-z][A-Za-z]+$/.test(name)),
      `${names}`,
    );
    assert.equal(new Set(names).size, names.length);
    assert.ok(names.includes("postRacksByRunPower"), `${names}`);
  });

  it("makes a client that can change something, and does not compile without the header", async () => {
    const types = astToString(await openapiTS(structuredClone(document)));
    await Deno.writeTextFile(`${folder}/api.d.ts`, types);
    const client = (header: string) =>
      `import createClient from "openapi-fetch";
import type { paths } from "./api.d.ts";
export async function use(fetch: (request: Request) => Promise<Response>, key: string) {
  const client = createClient<paths>({
    baseUrl: "http://127.0.0.1:4280${API}",
    fetch,
    headers: { Authorization: "Bearer " + key },
  });
  const { data, error } = await client.POST("/links", {
    params: { header: { ${header} } },
    body: { role: "viewer" },
  });
  if (error !== undefined) throw new Error(error.detail);
  const answer = await client.GET("/runs/{run}", { params: { path: { run: "none" } } });
  return { role: data.role, url: data.url, kind: answer.error?.kind };
}
`;
    await Deno.writeTextFile(`${folder}/good.ts`, client(`"X-Rackmesh": "1"`));
    await Deno.writeTextFile(`${folder}/bad.ts`, client(""));
    const check = async (file: string) => {
      const { success, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["check", "--quiet", "--config", fromFileUrl(projectFile("deno.json")), file],
        env: { NO_COLOR: "1" },
      }).output();
      return { success, said: new TextDecoder().decode(stderr) };
    };
    const good = await check(`${folder}/good.ts`);
    assert.ok(good.success, good.said);
    assert.match((await check(`${folder}/bad.ts`)).said, /"?X-Rackmesh"?/);
    const { use } = await import(`file://${folder}/good.ts`);
    const used = await use(async (request: Request) => await console.app.fetch(request), key);
    assert.deepEqual([used.role, used.kind], ["viewer", "not-found"]);
    const token = used.url.split("#token=")[1];
    const signedIn = await console.send("POST", `${API}/session`, { json: { token } });
    assert.equal(signedIn.json.role, "viewer");
  });
});

describe("an error", () => {
  const cases: [number, string, string, Sent?][] = [
    [400, "POST", `${API}/links`, { json: { role: "king" } }],
    [400, "POST", `${API}/links`, { body: "{", headers: { "Content-Type": "application/json" } }],
    [403, "POST", `${API}/links`, { json: { role: "viewer" }, isBare: true }],
    [404, "GET", `${API}/runs/none`],
    [404, "GET", `${API}/nothing`],
    [404, "GET", "/nothing"],
    [413, "POST", `${API}/scenarios/validate`, {
      headers: { "Content-Length": `${2 ** 30}` },
      json: {},
    }],
    [421, "GET", `${API}/runs`, { headers: { Host: "evil.example" } }],
  ];

  function assertProblem(answer: Answer, status: number, what: string): void {
    assert.equal(answer.status, status, `${what}: ${answer.text}`);
    assert.equal(answer.headers.get("content-type"), "application/problem+json", what);
    const { type, title, detail, status: said } = answer.json;
    assert.match(type, /^urn:rackmesh:[a-z-]+$/);
    assert.equal(said, status);
    assert.ok(title.length > 3 && detail.length > 3, answer.text);
  }

  it("is a problem document, whichever door it meets", async () => {
    for (const [status, method, path, sent] of cases) {
      assertProblem(
        await console.send(method, path, { key, ...sent }),
        status,
        `${method} ${path}`,
      );
    }
    assertProblem(await console.send("GET", `${API}/runs`), 401, "without a key");
    const viewer = await console.signIn("viewer");
    const change = { key: viewer, json: { role: "viewer" } };
    assertProblem(await console.send("POST", `${API}/links`, change), 403, "a viewer");
    let last: Answer;
    do last = await console.send("GET", `${API}/projects`, { key: viewer }); while (
      last.status === 200
    );
    assertProblem(last, 429, "too many");
    assert.match(last.headers.get("retry-after")!, /^\d+$/);
  });

  it("is one where the input is refused, and where there is a bug", async () => {
    const broken = new TestConsole();
    const key = await broken.signIn("operator");
    const { Refusal } = await import("../../fabric/rack/plan/problem.ts");
    const found = { path: "seed", found: "1.5", expected: "a whole number" };
    for (
      const [status, error] of [[422, new Refusal([found])], [500, new TypeError("odd")]] as const
    ) {
      broken.projects.list = () => {
        throw error;
      };
      const answer = await broken.send("GET", `${API}/projects`, { key });
      assertProblem(answer, status, `${error}`);
      assert.deepEqual(answer.json.problems, status === 422 ? [found] : []);
      assert.ok(!answer.text.includes("openapi_test.ts"), "no stack");
    }
    assert.equal(broken.errors.length, 1);
    await broken.end();
  });
});
