/** A console without a socket, for tests: what a browser or a script would send, and what comes back. */
import { type App, createApp } from "./app.ts";
import { AuditLog } from "./doors/audit.ts";
import { OWN_HEADER } from "./doors/guards.ts";
import { Keys } from "./doors/keys.ts";
import { Watchers } from "./feed/watchers.ts";
import { Jobs } from "./jobs/jobs.ts";
import { type Page, pageWithout } from "./page.ts";
import { Locks } from "./locks.ts";
import { Projects } from "./projects.ts";
import { Replays } from "./replays.ts";
import type { Role } from "../api/session.ts";

export const ORIGIN = "http://127.0.0.1:4280";

export interface Sent {
  readonly key?: string;
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly body?: BodyInit;
  readonly headers?: Readonly<Record<string, string>>;
  /** Without the header that every change needs. */
  readonly isBare?: boolean;
  readonly address?: string;
  readonly origin?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // deno-lint-ignore no-explicit-any
  readonly json: any;
}

export interface TestConsoleOptions {
  /** Its wall time is the machine's: for racks and browsers. */
  readonly isReal?: boolean;
  /** A key of the owner's. */
  readonly fixed?: string;
  /** Where it is served; absent: nowhere. */
  readonly origins?: readonly string[];
  readonly page?: Page;
  /** Where uploads are; default: in the cache. */
  readonly projects?: string;
  readonly allowRead?: readonly string[];
}

export class TestConsole {
  /** Wall time in ms; tests move it. */
  nowMs = 1_000_000;
  readonly errors: unknown[] = [];
  readonly audit = new AuditLog();
  readonly keys: Keys;
  readonly watchers: Watchers;
  readonly jobs: Jobs;
  readonly locks: Locks;
  readonly replays: Replays;
  readonly projects: Projects;
  readonly app: App;

  constructor(
    { isReal = false, fixed, origins, page, projects, allowRead = [] }: TestConsoleOptions = {},
  ) {
    const wallMs = isReal ? () => performance.now() : () => this.nowMs;
    this.keys = new Keys({ wallMs, ...(fixed !== undefined && { fixed }) });
    this.watchers = new Watchers({ wallMs, idleMs: 1_000 });
    this.locks = new Locks(this.keys);
    this.jobs = new Jobs({ wallMs, audit: this.audit, locks: this.locks });
    this.replays = new Replays({ wallMs });
    this.projects = new Projects(projects);
    this.app = createApp({
      origins: origins ?? [ORIGIN, "http://localhost:4280"],
      keys: this.keys,
      audit: this.audit,
      watchers: this.watchers,
      jobs: this.jobs,
      locks: this.locks,
      replays: this.replays,
      projects: this.projects,
      allowRead,
      page: page ?? pageWithout("a test"),
      version: "test",
      rack: null,
      wallMs,
      onError: (error) => this.errors.push(error),
    });
  }

  /** A key, by the way that a page takes. */
  async signIn(role: Role, name?: string): Promise<string> {
    const token = await this.keys.newToken(role, name);
    const { json } = await this.send("POST", "/api/v1/session", { json: { token } });
    return json.key;
  }

  async open(method: string, path: string, sent: Sent = {}): Promise<Response> {
    const { key, json, body, headers, isBare, address = "127.0.0.1", origin = ORIGIN } = sent;
    const isChange = method !== "GET" && method !== "HEAD";
    const content = json === undefined ? body : JSON.stringify(json);
    return await this.app.request(`${origin}${path}`, {
      method,
      headers: {
        ...(key !== undefined && { Authorization: `Bearer ${key}` }),
        ...(isChange && !isBare && { [OWN_HEADER]: "1" }),
        ...(json !== undefined && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(content !== undefined && { body: content }),
    }, { address });
  }

  async send(method: string, path: string, sent: Sent = {}): Promise<Answer> {
    const { status, headers, ...response } = await this.#read(await this.open(method, path, sent));
    return { status, headers, ...response };
  }

  async #read(response: Response): Promise<Answer> {
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "");
    const json = isJson ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, text, json };
  }

  async end(): Promise<void> {
    this.app.endFeeds();
    await this.jobs.end();
    await this.watchers.end();
    await this.replays.end();
  }
}
