import type { Role } from "../api/session.ts";
import { cacheFolder } from "../base/paths.ts";
import { versionText } from "../base/version.ts";
import { takeRacksDown } from "../rack/live/take_down.ts";
import { listRuns } from "../rack/run_directory.ts";
import { createApp } from "./app.ts";
import { AuditLog } from "./doors/audit.ts";
import { FIXED_KEY_LETTERS, Keys } from "./doors/keys.ts";
import { Watchers } from "./feed/watchers.ts";
import { Jobs } from "./jobs/jobs.ts";
import { KeptExplorations } from "./jobs/kept_explorations.ts";
import { Locks } from "./locks.ts";
import { openLinkDoor } from "./link_door.ts";
import { listen, type ListenOptions, type Place } from "./listen.ts";
import { Projects } from "./projects.ts";
import { Replays } from "./replays.ts";
import type { Page } from "./page.ts";
import { linkTo } from "./routes/session.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";

export interface StartOptions extends ListenOptions {
  readonly page: Page;
  /** It takes this one down at its end. */
  readonly rack?: string;
  /** The page begins with this one; default: with `rack`. */
  readonly shown?: string;
  /** An operator's, besides the keys that the console gives out. */
  readonly fixedKey?: string;
  /** Folders below which scenarios may read, besides their project's; absolute, without links. */
  readonly allowRead?: readonly string[];
  /** Jobs may run native programs. */
  readonly allowNative?: boolean;
  /** Receives errors that are bugs of ours. */
  readonly onError?: (error: unknown) => void;
}

export interface Started extends Place {
  readonly link: (role: Role) => Promise<string>;
  readonly auditFile: string;
  /**
   * Ends the server, its jobs, and the racks that it has brought up; returns those that it has
   * taken down, and those that are up still.
   */
  readonly end: () => Promise<
    { readonly down: readonly string[]; readonly left: readonly string[] }
  >;
}

/** @throws Refusal where the options leave a door open, or the address is taken. */
export async function startConsole(options: StartOptions): Promise<Started> {
  const {
    page,
    rack,
    shown = rack,
    fixedKey,
    allowNative = false,
    allowRead = [],
    onError,
  } = options;
  if (fixedKey !== undefined && fixedKey.length < FIXED_KEY_LETTERS) {
    const found = `a key of ${fixedKey.length} letters`;
    throw refusal("RACKMESH_CONSOLE_KEY", {
      found,
      expected: `at least ${FIXED_KEY_LETTERS}, drawn at random`,
    });
  }
  const wallMs = () => performance.now();
  const keys = new Keys({ wallMs, ...(fixedKey !== undefined && { fixed: fixedKey }) });
  const folder = cacheFolder("console");
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const auditFile = `${folder}/audit.jsonl`;
  const audit = new AuditLog(auditFile);
  const watchers = new Watchers({ wallMs }), locks = new Locks(keys);
  const explorations = new KeptExplorations(`${folder}/explorations`);
  const jobs = new Jobs({ wallMs, allowNative, audit, locks, explorations });
  const replays = new Replays({ wallMs }), projects = new Projects(`${folder}/projects`);
  projects.removeHalves();
  if (rack !== undefined) jobs.addOwn(rack);
  const version = versionText();
  const server = await listen(options, ({ origins }) =>
    createApp({
      origins,
      keys,
      audit,
      watchers,
      jobs,
      locks,
      replays,
      projects,
      allowRead,
      page,
      version,
      rack: shown ?? null,
      wallMs,
      ...(onError !== undefined && { onError }),
    }));
  jobs.goOn();
  const { port, origins } = server;
  const link = async (role: Role) => linkTo(origins[0]!, await keys.newToken(role));
  const door = await openLinkDoor({ origin: origins[0]!, link });
  return {
    port,
    origins,
    auditFile,
    link,
    end: async () => {
      await door.close();
      // First what requests may be waiting for: the server ends when they have their answers.
      await Promise.all([jobs.end(), replays.end()]);
      await server.close();
      await watchers.end();
      return await takeOwnDown(jobs.own);
    },
  };
}

async function takeOwnDown(own: ReadonlySet<string>) {
  const up = (await listRuns()).filter(({ processes, isForeign }) => processes > 0 && !isForeign);
  const down: string[] = [];
  for (const { id } of up) {
    if (!own.has(id)) continue;
    await takeRacksDown({ run: id, overrideLock: true });
    down.push(id);
  }
  return { down, left: up.map(({ id }) => id).filter((id) => !down.includes(id)) };
}
