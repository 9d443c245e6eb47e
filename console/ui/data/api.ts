/** The API's functions that the page calls. All reject with a `RequestError`. */
import type { z } from "zod";
import type { Time } from "../../../fabric/base/time.ts";
import type { CableHistory } from "../../api/cables.ts";
import type { Job, JobDetail, JobOrderInput } from "../../api/jobs.ts";
import type {
  healed,
  linkDone,
  LinkOrder,
  Objects,
  powerDone,
  PowerOrder,
  putDone,
  timeDone,
  TimeOrder,
} from "../../api/orders.ts";
import type { Device, linkFault, Topology, Why } from "../../api/rack.ts";
import type { projectFiles } from "../../api/projects.ts";
import type { Report } from "../../api/report.ts";
import type { audit, link, LockOrder, newLink, RackLock, users } from "../../api/session.ts";
import type {
  attached,
  attachOrder,
  Checkpoint,
  checkpointOrder,
  Checkpoints,
  down,
  files,
  logs,
  RunDetail,
  Runs,
} from "../../api/runs.ts";
import type { RunScenario, scenarios, scenarioText, Validation } from "../../api/scenarios.ts";
import type {
  Comparison,
  EventRow,
  FindQuery,
  Loss,
  MemoryView,
  Operations,
  OperationsQuery,
  Programs,
  ReplayState,
  Snapshot,
  Timeline,
  Verdicts,
} from "../../api/replay.ts";
import { OPERATIONS } from "../../api/replay_terms.ts";
import { type Request, request } from "./session.ts";

export type LinkOrderInput = Pick<LinkOrder, "target" | "action"> & Partial<LinkOrder>;
export type LinkFault = z.infer<typeof linkFault>;
export type Files = z.infer<typeof files>;
export type LogLine = z.infer<typeof logs>["lines"][number];
type Scenarios = z.infer<typeof scenarios>;
export type Shipped = Scenarios["scenarios"][number];
export type Protocol = Scenarios["protocols"][number];

async function json<T>(path: string, options?: Request): Promise<T> {
  return await (await request(path, options)).json();
}

function post<T>(path: string, body: unknown): Promise<T> {
  return json(path, { method: "POST", body });
}

function part(name: string): string {
  return encodeURIComponent(name);
}

function withQuery(path: string, query: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? path : `${path}?${text}`;
}

interface OnHost {
  readonly host: string;
  readonly name: string;
}

/** Its user sees that time stands, and lets it run. */
const WAITING = { wait: "true" };

function objectsPath(run: string, host: string, name: string): string {
  return `/racks/${part(run)}/objects/${part(host)}/${part(name)}`;
}

export const api = {
  topology: (run: string, variant?: string) =>
    json<Topology>(withQuery(`/runs/${part(run)}/topology`, { variant })),
  power: (run: string, order: PowerOrder) =>
    post<z.infer<typeof powerDone>>(`/racks/${part(run)}/power`, order),
  time: (run: string, order: TimeOrder) =>
    post<z.infer<typeof timeDone>>(`/racks/${part(run)}/time`, order),
  link: (run: string, order: LinkOrderInput) =>
    post<z.infer<typeof linkDone>>(`/racks/${part(run)}/links`, order),
  why: (run: string) => json<Why>(`/racks/${part(run)}/why`),
  device: (run: string, node: string) => json<Device>(`/racks/${part(run)}/devices/${part(node)}`),
  heal: (run: string) => post<z.infer<typeof healed>>(`/racks/${part(run)}/heal`, {}),
  links: (run: string) => json<{ faults: LinkFault[] }>(`/racks/${part(run)}/links`),
  cableHistory: (
    run: string,
    query: { readonly cable: string; readonly variant?: string | undefined },
  ) => json<CableHistory>(withQuery(`/runs/${part(run)}/cable-history`, query)),
  cableCapture: async (run: string, query: {
    readonly cable: string;
    readonly variant?: string | undefined;
    readonly from?: Time;
    readonly to?: Time;
    readonly last?: number;
  }): Promise<{ readonly file: Blob; readonly frames: number }> => {
    const response = await request(withQuery(`/runs/${part(run)}/cable-capture`, query));
    const frames = Number(response.headers.get("X-Frames"));
    return { file: await response.blob(), frames };
  },
  timeline: (run: string, variant?: string) =>
    json<Timeline>(withQuery(`/runs/${part(run)}/timeline`, { variant })),
  replayState: (run: string, variant?: string) =>
    json<ReplayState>(withQuery(`/runs/${part(run)}/replay`, { variant })),
  snapshot: (
    run: string,
    query: {
      readonly at: Time;
      readonly variant?: string | undefined;
      readonly exact?: boolean;
    },
  ) => json<Snapshot>(withQuery(`/runs/${part(run)}/snapshot`, query)),
  programs: (run: string, query: {
    readonly host: string;
    readonly at?: Time | undefined;
    readonly exact?: "true";
    readonly variant?: string | undefined;
  }) => json<Programs>(withQuery(`/runs/${part(run)}/programs`, query)),
  verdicts: (run: string, query: { readonly claims: "true" | "false" }) =>
    json<Verdicts>(withQuery(`/runs/${part(run)}/verdicts`, query)),
  loss: (run: string, query: {
    readonly nodes: string;
    readonly at?: Time;
    readonly variant?: string | undefined;
  }) => json<Loss>(withQuery(`/runs/${part(run)}/loss`, query)),
  memory: (run: string, query: {
    readonly host: string;
    readonly from: number;
    readonly to: number;
    readonly variant?: string | undefined;
  }) => json<MemoryView>(withQuery(`/runs/${part(run)}/memory`, query)),
  /** A replay tells operations by their begin: at most 1,000. */
  operations: (
    run: string,
    query: OperationsQuery & { readonly variant?: string | undefined } = {},
  ) =>
    json<Operations>(
      withQuery(`/runs/${part(run)}/operations`, { most: OPERATIONS.most, ...query }),
    ),
  /** Where `until` would stop, in the past. */
  find: (run: string, query: FindQuery) =>
    json<{ event: EventRow | null }>(withQuery(`/runs/${part(run)}/find`, { ...query })),
  compare: (run: string, query: {
    readonly with: string;
    readonly variant?: string | undefined;
    readonly withVariant?: string | undefined;
  }) => json<Comparison>(withQuery(`/runs/${part(run)}/compare`, query)),
  objects: (run: string, host: string) =>
    post<Objects>(withQuery(objectsPath(run, host, "list"), WAITING), {}),
  putObject: (run: string, { host, name, content, method }: {
    readonly host: string;
    readonly name: string;
    readonly content: Blob;
    readonly method: string;
  }) =>
    json<z.infer<typeof putDone>>(withQuery(objectsPath(run, host, name), { method, ...WAITING }), {
      method: "PUT",
      bytes: content,
    }),
  getObject: async (run: string, { host, name }: OnHost): Promise<Blob> =>
    await (await request(withQuery(`${objectsPath(run, host, name)}/get`, WAITING), {
      method: "POST",
    })).blob(),
  removeObject: (run: string, { host, name }: OnHost) =>
    json<unknown>(withQuery(objectsPath(run, host, name), WAITING), { method: "DELETE" }),
  keep: (run: string, keep: boolean) => post<unknown>(`/runs/${part(run)}/keep`, { keep }),
  note: (run: string, note: string) => post<unknown>(`/runs/${part(run)}/note`, { note }),
  checkpoints: (run: string) => json<Checkpoints>(`/runs/${part(run)}/checkpoints`),
  checkpoint: (run: string, what: z.infer<typeof checkpointOrder>) =>
    post<Checkpoint>(`/runs/${part(run)}/checkpoints`, what),
  removeCheckpoint: (run: string, name: string, variant?: string) =>
    json<unknown>(withQuery(`/runs/${part(run)}/checkpoints/${part(name)}`, { variant }), {
      method: "DELETE",
    }),
  remove: (run: string) => json<unknown>(`/runs/${part(run)}`, { method: "DELETE" }),
  down: (run: string) => post<z.infer<typeof down>>(`/runs/${part(run)}/down`, {}),
  runs: () => json<Runs>("/runs"),
  run: (run: string) => json<RunDetail>(`/runs/${part(run)}`),
  report: (run: string) => json<Report>(`/runs/${part(run)}/report`),
  files: (run: string) => json<Files>(`/runs/${part(run)}/files`),
  file: (run: string, path: string) => request(withQuery(`/runs/${part(run)}/file`, { path })),
  logs: (run: string, query: { readonly node?: string; readonly last?: number }) =>
    json<z.infer<typeof logs>>(withQuery(`/runs/${part(run)}/logs`, query)),
  scenarios: () => json<Scenarios>("/scenarios"),
  scenario: (name: string) => json<z.infer<typeof scenarioText>>(`/scenarios/${part(name)}`),
  scenarioOf: (run: string, variant?: string) =>
    json<RunScenario>(withQuery(`/runs/${part(run)}/scenario`, { variant })),
  scenarioSchema: () => json<Record<string, unknown>>("/scenario-schema"),
  validate: (
    text: string,
    where: { readonly like?: string | undefined; readonly project?: string },
  ) => post<Validation>("/scenarios/validate", { text, ...where }),
  projectFiles: (project: string) =>
    json<z.infer<typeof projectFiles>>(`/projects/${part(project)}/files`),
  projectFile: (project: string, file: string) =>
    request(`/projects/${part(project)}/files/${part(file)}`),
  upload: (project: string, file: File) =>
    json<unknown>(`/projects/${part(project)}/files/${part(file.name)}`, {
      method: "PUT",
      bytes: file,
    }),
  removeProjectFile: (project: string, file: string) =>
    json<unknown>(`/projects/${part(project)}/files/${part(file)}`, { method: "DELETE" }),
  attach: (order: z.infer<typeof attachOrder>) => post<z.infer<typeof attached>>("/racks", order),
  users: () => json<z.infer<typeof users>>("/users"),
  invite: (order: z.infer<typeof newLink>) => post<z.infer<typeof link>>("/links", order),
  audit: () => json<z.infer<typeof audit>>("/audit"),
  lockOf: (run: string) => json<RackLock>(`/racks/${part(run)}/lock`),
  lock: (run: string, order: LockOrder) => post<RackLock>(`/racks/${part(run)}/lock`, order),
  jobs: () => json<{ jobs: Job[] }>("/jobs"),
  job: (id: string) => json<JobDetail>(`/jobs/${part(id)}`),
  start: (order: JobOrderInput) => post<Job>("/jobs", order),
  cancel: (id: string) => json<unknown>(`/jobs/${part(id)}`, { method: "DELETE" }),
};
