/** Which host of the scenario a job's threads run on, and which server each client meets. */
import { type Problem, Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import type { HostPlan, Memory } from "../../fabric/rack/plan/plan.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import { formatAddress } from "../../fabric/trace/describe.ts";
import type { EngineName, FioJob } from "../../nodes/host/programs/fio/job.ts";
import { DIRECTORY_BYTES } from "../../nodes/host/programs/common/scm_directory.ts";
import { placeOf, type PlannedJob, unique } from "./jobs.ts";

export interface PlaceOptions {
  /** IPv4, by host, in the scenario's order. */
  readonly addresses: Readonly<Record<string, number>>;
  readonly memories: Readonly<Record<string, Memories>>;
  /** The clients' host, and the servers' where a job file names none of the rack. */
  readonly from?: string;
  readonly to?: string;
  /** For the workspace of a server that no job file describes. */
  readonly memory: Memory;
}

export type Memories = Pick<HostPlan, "dramBytes" | "scmBytes">;

export interface PlacedJob extends PlannedJob {
  readonly host: string;
}

export interface Placed {
  readonly jobs: readonly PlacedJob[];
  /** Servers that no job file describes, for clients without one. */
  readonly assumed: readonly PlacedJob[];
  readonly notes: readonly string[];
}

const SERVERS: Readonly<Record<EngineName, EngineName>> = {
  librpma_apm_client: "librpma_apm_server",
  librpma_apm_server: "librpma_apm_server",
  librpma_gpspm_client: "librpma_gpspm_server",
  librpma_gpspm_server: "librpma_gpspm_server",
  rdma: "rdma",
};

/** librpma's workspace as in fio's examples, at most, and rdma's receive depth. */
const WORKSPACE_BYTES = 100 * 2 ** 20, DEPTH = 16;
const PAGE = 4096;

const ANY: readonly string[] = ["0.0.0.0", "localhost", "127.0.0.1"];

/** @throws Refusal where hosts are missing, or a client and its server do not meet. */
export function placeJobs(jobs: readonly PlannedJob[], options: PlaceOptions): Placed {
  const notes = new Set<string>();
  const problems: Problem[] = [];
  const clients = jobs.filter(({ job }) => !job.isServer);
  if (clients.length === 0) throw noClient(jobs);
  const hosts = Object.keys(options.addresses);
  for (const [option, name] of [["--from", options.from], ["--to", options.to]] as const) {
    if (name === undefined || hosts.includes(name)) continue;
    throw refusal(option, { found: `"${name}"`, expected: `one of ${hosts.join(", ")}` });
  }
  const find = (each: PlannedJob) => hostOf(each, { options, notes, problems });
  const targets = clients.map((each) => find(each) ?? options.to);
  const otherwise = targets.find((host) => host !== undefined) ??
    hosts.find((host, i) => i > 0 && host !== options.from) ?? hosts[0]!;
  const servers = jobs.filter(({ job }) => job.isServer)
    .map((each): PlacedJob => ({ ...each, host: find(each) ?? options.to ?? otherwise }));
  const used = new Set([...servers.map(({ host }) => host), ...targets]);
  const from = options.from ?? hosts.find((host) => !used.has(host) && host !== otherwise);
  if (from === undefined) problems.push(noHost(hosts));
  const placed = clients.map((each, i): PlacedJob => {
    const to = targets[i] ?? otherwise;
    return { ...each, host: from ?? "", job: { ...each.job, to } };
  });
  const assumed = meet(placed, servers, { options, problems, notes });
  if (problems.length > 0) throw new Refusal(unique(problems));
  return { jobs: [...servers, ...placed], assumed, notes: [...notes] };
}

function noClient(jobs: readonly PlannedJob[]): Refusal {
  const turned = jobs.flatMap((each) => turnedRound(each) ?? []);
  if (turned.length > 0) return new Refusal(unique(turned));
  const { name, file, line } = jobs[0]!.section;
  const found = `only servers, such as [${name}]`;
  const expected = "a client's job, too: rack fio SCENARIO SERVER.fio CLIENT.fio";
  return new Refusal([{ file, line, path: "", found, expected }]);
}

/**
 * A job that reads as a client's, but `rw` says which side it is: in the rdma engine `rw=read`
 * listens, whatever its verb (fio's HOWTO, engines/rdma.c: `td_read`). axboe/fio#2080.
 */
function turnedRound(planned: PlannedJob): Problem | undefined {
  const { job, given, section: { name } } = planned;
  if (!job.isServer || job.engine !== "rdma") return undefined;
  const textOf = (option: "rw" | "verb" | "hostname") => given.get(option)?.setting.value;
  const shown = (["hostname", "verb"] as const).flatMap((sign) => {
    const text = textOf(sign);
    return text === undefined ? [] : [`${sign}=${text}`];
  });
  if (shown.length === 0) return undefined;
  const { rw = "read", verb = "write" } = { rw: textOf("rw"), verb: textOf("verb") };
  return {
    ...placeOf(planned, "rw"),
    path: "rw",
    found: `"${rw}", which makes [${name}] a server, with ${shown.join(" and ")} of a client`,
    expected: `rw=${
      rw.replace("read", "write")
    } for a client, whose requests are its verb, ${verb}`,
  };
}

function noHost(hosts: readonly string[]): Problem {
  const found = `no host is left for the clients: the scenario has ${hosts.join(", ")}`;
  return { path: "", found, expected: "one beside the servers', or --from" };
}

function hostOf(
  planned: PlannedJob,
  { options: { addresses, to }, notes, problems }: {
    readonly options: PlaceOptions;
    readonly notes: Set<string>;
    readonly problems: Problem[];
  },
): string | undefined {
  const { address, job } = planned;
  const path = job.engine === "rdma" ? "hostname" : "serverip";
  const { file, line } = placeOf(planned, path);
  const known = Object.entries(addresses).map(([name, ip]) => `${name} (${formatAddress(ip)})`);
  const expected = `a host of the scenario, ${known.join(", ")}, or --to HOST`;
  if (address === undefined) {
    // A server of rdma listens on all addresses; librpma's needs one, as every client does.
    if (to === undefined && !(job.engine === "rdma" && job.isServer)) {
      problems.push({ file, line, path, found: noAddress(planned, path), expected });
    }
    return undefined;
  }
  if (job.isServer && ANY.includes(address)) return undefined;
  const host = Object.keys(addresses).find((name) =>
    name === address || formatAddress(addresses[name]!) === address
  );
  if (host !== undefined) return host;
  if (to !== undefined) {
    notes.add(`${file}:${line}: ${path}=${address} is no host of the rack: --to ${to} is meant`);
    return to;
  }
  problems.push({ file, line, path, found: `"${address}"`, expected });
  return undefined;
}

function noAddress({ given }: PlannedJob, path: "hostname" | "serverip"): string {
  const setting = given.get(path)?.setting;
  if (setting === undefined) return "none";
  const [variable] = setting.unset;
  return variable === undefined ? '""' : `"", as the variable ${variable} is not set`;
}

function meet(
  clients: readonly PlacedJob[],
  servers: readonly PlacedJob[],
  { options, problems, notes }: {
    readonly options: PlaceOptions;
    readonly problems: Problem[];
    readonly notes: Set<string>;
  },
): PlacedJob[] {
  const doors = new Map<string, PlacedJob>();
  for (const each of servers) {
    const door = doorOf(each.host, each.job);
    if (doors.has(door)) problems.push(taken(each));
    doors.set(door, each);
  }
  const free = new Map(doors);
  const assumed: PlacedJob[] = [];
  for (const each of clients) {
    const { job } = each;
    const door = doorOf(job.to!, job);
    if (free.delete(door)) continue;
    if (doors.size > 0 || doors.has(door)) {
      problems.push(alone(each, servers));
      continue;
    }
    const others = clients.filter(({ job: { to } }) => to === job.to).length;
    const server = assumedFor(each, { ...options, room: roomOf(job.to!, options) / others });
    if (assumed.some(({ job: { port } }) => port === job.port)) problems.push(taken(each));
    assumed.push(server);
    notes.add(assumedText(server));
  }
  for (const { section: { file, line }, job } of free.values()) {
    const found = `port ${job.port} of [${job.name}], to which no client connects`;
    problems.push({
      file,
      line,
      path: "",
      found,
      expected: "as many clients as servers (numjobs)",
    });
  }
  return assumed;
}

function doorOf(host: string, { engine, port }: FioJob): string {
  return `${host} ${SERVERS[engine]} ${port}`;
}

function taken({ section: { file, line }, job }: PlacedJob): Problem {
  const found = `port ${job.port} a second time`;
  return { file, line, path: "port", found, expected: "a port for each thread" };
}

function alone(
  { section: { file, line }, job }: PlacedJob,
  servers: readonly PlacedJob[],
): Problem {
  const found = `a client of ${SERVERS[job.engine]} on port ${job.port} of ${job.to}`;
  const there = servers.map(({ host, job: { engine, port } }) => `${engine} on ${port} of ${host}`);
  return { file, line, path: "", found, expected: `one client for each of: ${there.join(", ")}` };
}

function roomOf(host: string, { memories, memory }: PlaceOptions): number {
  const { dramBytes, scmBytes } = memories[host]!;
  return memory === "scm" ? scmBytes - DIRECTORY_BYTES : dramBytes / 2;
}

/** As in fio's example jobs, or as large as the client needs; at most its host's room. */
function assumedFor(
  client: PlacedJob,
  { memory, room }: PlaceOptions & { readonly room: number },
): PlacedJob {
  const { job } = client;
  const { size, offset } = job;
  const usual = Math.max(PAGE, Math.min(WORKSPACE_BYTES, Math.floor(room / PAGE) * PAGE));
  const wanted = size !== undefined && "bytes" in size ? offset + size.bytes : usual;
  const bytes = Math.ceil(wanted / PAGE) * PAGE;
  const isRdma = job.engine === "rdma";
  return {
    ...client,
    section: { ...client.section, name: "server" },
    given: new Map(),
    host: job.to!,
    job: {
      ...job,
      name: "server",
      engine: SERVERS[job.engine],
      isServer: true,
      wave: 0,
      startDelayPs: 0,
      readPercent: 100,
      size: { bytes: isRdma ? wanted : bytes },
      iodepth: isRdma ? Math.max(DEPTH, job.iodepth) : job.iodepth,
      batch: 1,
      batchCompleteMin: 1,
      batchCompleteMax: 1,
      memory,
      directWriteToPmem: memory === "scm" && job.engine === "librpma_apm_client",
    },
  };
}

function assumedText(
  { host, job: { engine, port, size, memory, directWriteToPmem, iodepth } }: PlacedJob,
) {
  const bytes = size !== undefined && "bytes" in size ? formatSize(size.bytes) : "";
  const isApm = engine === "librpma_apm_server";
  const details = engine === "rdma" ? [`rw=read`, `iodepth=${iodepth}`] : [
    `size=${bytes}`,
    `filename=${memory === "dram" ? "malloc (DRAM)" : "SCM"}`,
    ...(isApm ? [`direct_write_to_pmem=${directWriteToPmem ? 1 : 0}`] : [`iodepth=${iodepth}`]),
  ];
  return `no job file has the server: ${engine} on port ${port} of ${host} is assumed, ` +
    details.join(", ");
}
