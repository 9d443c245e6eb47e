/**
 * A test decides all that is in here: the wall clock, keys, the folder of runs; no other part reads
 * it from elsewhere.
 */
import type { AuditLog } from "./doors/audit.ts";
import type { Caller, Keys } from "./doors/keys.ts";
import type { Page } from "./page.ts";
import type { Jobs } from "./jobs/jobs.ts";
import type { Locks } from "./locks.ts";
import type { Projects } from "./projects.ts";
import type { Replays } from "./replays.ts";
import type { Watchers } from "./feed/watchers.ts";

export interface Console {
  /** As a browser writes them, `http://127.0.0.1:4280`; the first is printed. */
  readonly origins: readonly string[];
  readonly keys: Keys;
  readonly audit: AuditLog;
  readonly watchers: Watchers;
  readonly jobs: Jobs;
  readonly locks: Locks;
  readonly replays: Replays;
  readonly projects: Projects;
  /** Folders besides a project's, below which scenarios may read. */
  readonly allowRead: readonly string[];
  readonly page: Page;
  readonly version: string;
  readonly rack: string | null;
  /** Monotonic. */
  readonly wallMs: () => number;
}

export interface Env {
  readonly Variables: {
    /** Undefined where the request has no known key. */
    caller: Caller | undefined;
    detail: unknown;
    /** A read that the audit log has: what left the console. */
    isAudited: boolean | undefined;
  };
  readonly Bindings: {
    /** Of the other end; absent in tests. */
    readonly address?: string;
  };
}
