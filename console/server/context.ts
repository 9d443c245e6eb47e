/**
 * Data that all parts of the server share. Everything that a test decides (the wall clock, keys, the folder of runs)
 * comes in here; no other part reads it from elsewhere.
 */
import type { AuditLog } from "./doors/audit.ts";
import type { Caller, Keys } from "./doors/keys.ts";
import type { Page } from "./page.ts";
import type { Jobs } from "./jobs/jobs.ts";
import type { Replays } from "./replays.ts";
import type { Watchers } from "./feed/watchers.ts";

export interface Console {
  /** As a browser writes it, `http://127.0.0.1:4280`: the first is the one that is printed. */
  readonly origins: readonly string[];
  readonly keys: Keys;
  readonly audit: AuditLog;
  readonly watchers: Watchers;
  readonly jobs: Jobs;
  readonly replays: Replays;
  readonly page: Page;
  readonly version: string;
  /** The rack that the console was started with. */
  readonly rack: string | null;
  /** Monotonic wall time in ms. */
  readonly wallMs: () => number;
}

export interface Env {
  readonly Variables: {
    /** Undefined where the request has no key that is known. */
    caller: Caller | undefined;
    /** The part of the request that the audit log keeps. */
    detail: unknown;
  };
  readonly Bindings: {
    /** The address of the other end; absent in tests. */
    readonly address?: string;
  };
}
