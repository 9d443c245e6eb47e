/// <reference lib="dom" />
/**
 * Attacks on the console from a real browser in which somebody is signed in: by pages of other origins, by a
 * name that is rebound to this machine, by a viewer, by a second use of the address. Each has to meet the door
 * that is meant for it, and must leave nothing: no answer that was read, no change that was done.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, beforeEach, describe } from "@std/testing/bdd";
import type { Browser, Page } from "playwright-core";
import { TestConsole } from "../../console/server/app_testing.ts";
import { listen, type Listening } from "../../console/server/listen.ts";
import { makePage } from "../../console/server/page.ts";
import { linkTo } from "../../console/server/routes/session.ts";
import { browserMissing, launchBrowser } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { itUnless } from "../support/skipping.ts";

const it = itUnless(browserMissing, "Attacks from a browser");

/** A request as it came to the console's socket, and its answer. */
interface Seen {
  /** As the request names it. */
  readonly host: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
}

/** An order that would have an effect: an address by which one more operator can sign in. */
const ORDER = "/api/v1/links";

/** The console on a socket, with all that has come to it, and a server of the attacker's beside it. */
class Target {
  readonly console: TestConsole;
  readonly seen: Seen[];
  readonly server: Listening;
  readonly attacker: Deno.HttpServer<Deno.NetAddr>;

  private constructor(options: Pick<Target, "console" | "seen" | "server" | "attacker">) {
    ({
      console: this.console,
      seen: this.seen,
      server: this.server,
      attacker: this.attacker,
    } = options);
  }

  static async open(): Promise<Target> {
    const page = await makePage(), seen: Seen[] = [];
    let console: TestConsole | undefined;
    const server = await listen({ address: "127.0.0.1", port: 0 }, ({ origins }) => {
      console = new TestConsole({ isReal: true, origins, page });
      const { app } = console;
      return {
        ...app,
        fetch: async (request, env) => {
          const { method, url } = request;
          const response = await app.fetch(request, env);
          const { host, pathname: path } = new URL(url);
          seen.push({ host, method, path, status: response.status });
          return response;
        },
      };
    });
    const html = { headers: { "Content-Type": "text/html" } };
    const attacker = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen: () => {} },
      () => new Response("<!doctype html><title>attacker</title>", html),
    );
    return new Target({ console: console!, seen, server, attacker });
  }

  get origin(): string {
    return this.server.origins[0]!;
  }

  /** The attacker's origins: another port of this host, and another site. */
  get attackers(): string[] {
    const { port } = this.attacker.addr;
    return [`http://127.0.0.1:${port}`, `http://evil.example:${port}`];
  }

  async link(role: "operator" | "viewer"): Promise<string> {
    return linkTo(this.origin, await this.console.keys.newToken(role));
  }

  /**
   * Waits for a request, or so many of it, and demands that each like it was answered so. The owner's page has
   * requests of its own, at any time.
   */
  async answered(
    { method, path, times = 1 }: Pick<Seen, "method" | "path"> & { readonly times?: number },
    status: number,
  ): Promise<void> {
    const alike = () => this.seen.filter((each) => each.method === method && each.path === path);
    await eventually(`${method} ${path} arrives`, () => alike().length >= times);
    assert.deepEqual([...new Set(alike().map((each) => each.status))], [status], path);
  }

  /** That nothing was done: no change in the audit log since, no job, no rack looked at. */
  unchanged(): void {
    const done = this.console.audit.entries().filter((entry) => entry.status < 400);
    assert.deepEqual(
      done.filter(({ target }) => target !== "/api/v1/session"),
      [],
      "no change was done",
    );
    assert.equal(this.console.jobs.list().length, 0);
    assert.equal(this.console.watchers.size, 0);
    assert.deepEqual(this.console.errors, []);
  }

  async close(): Promise<void> {
    await this.attacker.shutdown();
    await this.server.close();
    await this.console.end();
  }
}

describe("The console under attack from a browser", () => {
  let target: Target, browser: Browser, owner: Page;
  /** The owner's key, which an attacker of another origin cannot have: worse than any real attack. */
  let key = "";

  beforeAll(async () => {
    if (browserMissing !== undefined) return;
    target = await Target.open();
    browser = await launchBrowser(["--host-resolver-rules=MAP *.example 127.0.0.1"]);
    owner = await (await browser.newContext()).newPage();
    await owner.goto(await target.link("operator"));
    await eventually("the owner is signed in", async () => {
      key = await keyOf(owner);
      return key !== "";
    });
  });

  beforeEach(() => {
    target?.seen.splice(0);
  });

  afterAll(async () => {
    await browser?.close();
    await target?.close();
  });

  /** In the owner's browser, on each page of an attacker's. */
  async function fromEach(attack: (page: Page) => Promise<void>): Promise<void> {
    for (const origin of target.attackers) {
      target.seen.splice(0);
      const page = await owner.context().newPage();
      await page.goto(origin);
      await attack(page);
      target.unchanged();
      await page.close();
    }
  }

  it("leaves no cookie that another port or another site would send", async () => {
    assert.deepEqual(await owner.context().cookies(), []);
    assert.doesNotMatch(owner.url(), /token/);
  });

  it("refuses a form of another page", async () => {
    await fromEach(async (page) => {
      await page.evaluate((action) => {
        const form = document.createElement("form");
        Object.assign(form, { method: "POST", enctype: "text/plain", action });
        const input = document.createElement("input");
        // As text/plain the form sends `{"role":"operator","x":"="}`.
        Object.assign(input, { name: '{"role":"operator","x":"', value: '"}' });
        form.append(input);
        document.body.append(form);
        form.submit();
      }, `${target.origin}${ORDER}`);
      await target.answered({ method: "POST", path: ORDER }, 403);
    });
  });

  it("refuses fetch without CORS and beacons of another page", async () => {
    await fromEach(async (page) => {
      const result = await page.evaluate(async (url) => {
        const body = '{"role":"operator"}';
        const init = { method: "POST", mode: "no-cors", body, credentials: "include" } as const;
        navigator.sendBeacon(url, body);
        return await fetch(url, init).then(({ type }) => type, (error) => error.name);
      }, `${target.origin}${ORDER}`);
      // Not even an opaque answer: the page's own resource policy.
      assert.equal(result, "TypeError");
      await target.answered({ method: "POST", path: ORDER, times: 2 }, 403);
    });
  });

  it("lets no JSON of another page through, even with the owner's key", async () => {
    await fromEach(async (page) => {
      const result = await page.evaluate(async ({ url, key }) => {
        const headers = {
          Authorization: `Bearer ${key}`,
          "X-Rackmesh": "1",
          "Content-Type": "application/json",
        };
        const body = '{"role":"operator"}';
        return await fetch(url, { method: "POST", headers, body }).then(
          (response) => response.text(),
          (error) => error.name,
        );
      }, { url: `${target.origin}${ORDER}`, key });
      assert.equal(result, "TypeError");
      // The browser asks first, and that is all.
      await target.answered({ method: "OPTIONS", path: ORDER }, 403);
      const methods = target.seen.flatMap(({ method, path }) => path === ORDER ? [method] : []);
      assert.deepEqual(methods, ["OPTIONS"]);
    });
  });

  it("opens no WebSocket and no EventSource of another page", async () => {
    await fromEach(async (page) => {
      const events = await page.evaluate(async (origin) => {
        const first = (source: EventTarget) =>
          new Promise<string>((resolve) => {
            for (const name of ["open", "message", "error"]) {
              source.addEventListener(name, () => resolve(name));
            }
          });
        return await Promise.all([
          first(new WebSocket(`${origin.replace("http", "ws")}/api/v1/feed?run=x`)),
          first(new EventSource(`${origin}/api/v1/feed?run=x`, { withCredentials: true })),
        ]);
      }, target.origin);
      assert.deepEqual(events, ["error", "error"]);
      await target.answered({ method: "GET", path: "/api/v1/feed", times: 2 }, 403);
    });
  });

  it("gives another page nothing as script, picture or style", async () => {
    await fromEach(async (page) => {
      const loaded = await page.evaluate(async (url) => {
        const tags: [string, string][] = [["script", "src"], ["img", "src"], ["link", "href"]];
        return await Promise.all(tags.map(([tag, where]) =>
          new Promise<string>((resolve) => {
            const element = document.createElement(tag);
            element.onload = () => resolve("load");
            element.onerror = () => resolve("error");
            element.setAttribute("rel", "stylesheet");
            element.setAttribute(where, url);
            document.head.append(element);
          })
        ));
      }, `${target.origin}/`);
      assert.deepEqual(loaded, ["error", "error", "error"]);
      await target.answered({ method: "GET", path: "/" }, 403);
    });
  });

  it("is shown in no frame of another page", async () => {
    await fromEach(async (page) => {
      await page.evaluate((src) => {
        const frame = document.createElement("iframe");
        frame.src = src;
        document.body.append(frame);
      }, `${target.origin}/`);
      await target.answered({ method: "GET", path: "/" }, 403);
      // The browser shows its own page instead: not even the refusal is framed.
      await eventually("the frame is blocked", () => {
        const frame = page.frames().find((each) => each !== page.mainFrame());
        return frame?.url().startsWith("chrome-error:") === true;
      });
    });
  });

  it("may be opened by another page, which then holds nothing of it", async () => {
    await fromEach(async (page) => {
      const popup = page.context().waitForEvent("page");
      await page.evaluate((url) => {
        (globalThis as { opened?: unknown }).opened = open(url);
      }, `${target.origin}/`);
      const opened = await popup;
      await opened.waitForLoadState();
      await target.answered({ method: "GET", path: "/" }, 200);
      const held = await page.evaluate(() => {
        const { opened } = globalThis as unknown as { opened: Window };
        try {
          return opened.closed ? "closed" : opened.localStorage.length;
        } catch (error) {
          return (error as Error).name;
        }
      });
      assert.equal(held, "closed");
      assert.equal(await opened.evaluate(() => globalThis.opener), null);
      await opened.close();
    });
  });

  it("answers nothing under a name that is rebound to this machine", async () => {
    const { port } = target.server;
    const page = await owner.context().newPage();
    // For the browser all of this is one origin.
    await page.goto(`http://rebound.example:${port}/`);
    const statuses = await page.evaluate(async ({ paths, key }) => {
      const headers = { Authorization: `Bearer ${key}`, "X-Rackmesh": "1" };
      const found: number[] = [];
      for (const path of paths) found.push((await fetch(path, { headers })).status);
      const json = { ...headers, "Content-Type": "application/json" };
      const order = { method: "POST", headers: json, body: '{"role":"operator"}' };
      found.push((await fetch("/api/v1/links", order)).status);
      return found;
    }, { paths: ["/healthz", "/metrics", "/api/v1/runs", "/api/v1/feed?run=x"], key });
    assert.deepEqual([...new Set(statuses)], [421]);
    // The page that was opened by the test before may be asking still.
    const rebound = target.seen.filter(({ host }) => host.startsWith("rebound.example"));
    assert.ok(rebound.length > statuses.length);
    assert.deepEqual([...new Set(rebound.map(({ status }) => status))], [421]);
    assert.equal(await keyOf(page), "");
    target.unchanged();
    await page.close();
  });

  it("lets a viewer's browser read, and change nothing", async () => {
    const context = await browser.newContext(), page = await context.newPage();
    await page.goto(await target.link("viewer"));
    await eventually("the viewer is signed in", async () => await keyOf(page) !== "");
    const statuses = await ordersOf(page, await keyOf(page));
    assert.deepEqual(statuses, { read: 200, audit: 403, order: 403 });
    target.unchanged();
    await context.close();
  });

  it("signs nobody in by an address that was used", async () => {
    const used = await target.link("operator");
    for (const isFirst of [true, false]) {
      const context = await browser.newContext(), page = await context.newPage();
      await page.goto(used);
      if (isFirst) await eventually("it signs in", async () => await keyOf(page) !== "");
      else await page.getByText("Not signed in").waitFor();
      assert.equal(await keyOf(page) !== "", isFirst);
      await context.close();
    }
    const signIns = target.seen.filter(({ method, path }) =>
      method === "POST" && path === "/api/v1/session"
    );
    assert.deepEqual(signIns.map(({ status }) => status), [200, 401]);
    target.unchanged();
  });

  it("reads no body of 1 GiB, of a stranger's or of the owner's", async () => {
    const file = await Deno.makeTempFile({ prefix: "rackmesh-body-" });
    // A hole: it takes no disk.
    await Deno.truncate(file, 2 ** 30);
    const before = Deno.memoryUsage().rss;
    try {
      const validate = `${target.origin}/api/v1/scenarios/validate`;
      for (const [where, status] of [[target.attackers[0]!, 403], [target.origin, 413]] as const) {
        target.seen.splice(0);
        const page = await owner.context().newPage();
        await page.goto(where);
        await page.evaluate(() => {
          const input = document.createElement("input");
          input.type = "file";
          document.body.append(input);
        });
        await page.locator("input[type=file]").setInputFiles(file);
        await page.evaluate(({ url, key, isOwn }) => {
          const [body] = document.querySelector<HTMLInputElement>("input[type=file]")!.files!;
          const headers = {
            Authorization: `Bearer ${key}`,
            "X-Rackmesh": "1",
            "Content-Type": "application/json",
          };
          const init = isOwn ? { headers } : { mode: "no-cors" as const };
          fetch(url, { method: "POST", body: body!, ...init }).catch(() => {});
        }, { url: validate, key, isOwn: where === target.origin });
        await target.answered({ method: "POST", path: "/api/v1/scenarios/validate" }, status);
        // The answer is there; the rest of the body is not waited for.
        await page.close();
      }
    } finally {
      await Deno.remove(file);
    }
    const grown = Deno.memoryUsage().rss - before;
    assert.ok(grown < 2 ** 28, `memory grew by ${grown} bytes`);
    target.unchanged();
  });

  it("still serves its owner", async () => {
    assert.deepEqual(await ordersOf(owner, key), { read: 200, audit: 200, order: 200 });
  });
});

/** The key that this page's origin keeps; empty where there is none. */
async function keyOf(page: Page): Promise<string> {
  return await page.evaluate(() =>
    Object.values({ ...localStorage }).map(String).find((value) => value.length >= 40) ?? ""
  );
}

/** Statuses of a read, of the audit log and of an order, from the page's own origin. */
async function ordersOf(page: Page, key: string): Promise<Record<string, number>> {
  return await page.evaluate(async (key) => {
    const headers = { Authorization: `Bearer ${key}`, "X-Rackmesh": "1" };
    const json = { ...headers, "Content-Type": "application/json" };
    const order = { method: "POST", headers: json, body: '{"role":"operator"}' };
    const [read, audit, done] = await Promise.all([
      fetch("/api/v1/scenarios", { headers }),
      fetch("/api/v1/audit", { headers }),
      fetch("/api/v1/links", order),
    ]);
    return { read: read.status, audit: audit.status, order: done.status };
  }, key);
}
