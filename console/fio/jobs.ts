import { listOf, oneOf, type Problem, Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import {
  type BlockSizes,
  type Direction,
  type EngineName,
  ENGINES,
  type Extent,
  type FioJob,
  IODEPTH_MAX,
  JOBS_MAX,
  RDMA_IODEPTH_MAX,
  type Verb,
} from "../../nodes/host/programs/fio/job.ts";
import { isGlobal, type JobFileWorld, type Section, substituted } from "./job_file.ts";
import { engineHas, type OptionName, USED } from "./options.ts";
import { addSettings, COMMAND, nameOf, type Options, type Said } from "./settings.ts";
import { type Shown, shownOf, type Take } from "./shown.ts";

export interface PlannedJob {
  readonly job: FioJob;
  readonly section: Pick<Section, "name" | "file" | "line">;
  /** fio's `groupid`. */
  readonly groupId: number;
  readonly shown: Shown;
  /**
   * `job options` in JSON: the section's own, and those of `[global]` that another file has
   * otherwise.
   */
  readonly options: Readonly<Record<string, string>>;
  readonly given: Readonly<Pick<Options, "get">>;
  /** The server's, in the file: librpma's `serverip`, rdma's `hostname`. */
  readonly address?: string;
}

export interface Plan {
  readonly jobs: readonly PlannedJob[];
  /** Common to every file's `[global]`, for `global options` in JSON. */
  readonly globals: Readonly<Record<string, string>>;
  readonly notes: readonly string[];
}

const BLOCK: BlockSizes = { least: 4096, most: 4096 };
const WINDOW_PS = 500_000 * PS_PER_US;
const PORT = 7204;
const BLOCK_MAX = 2 ** 30;

/** fio has a process for each file: numbers of a file's servers begin anew, all others go on. */
interface Counts {
  clients: number;
  servers: number;
  serversOfFile: number;
  wave: number;
  groupId: number;
  inGroup: number;
}

/**
 * All threads of some job files, servers and clients, in the order of the files.
 * @param override settings that take the place of the files', each `name=value`.
 * @param only names of sections: others but [global] are left out, as by fio's `--section`.
 * @throws Refusal with all that is wrong.
 */
export function planJobs(
  files: readonly (readonly Section[])[],
  { world, override = [], only = [] }: {
    readonly world: Pick<JobFileWorld, "variable">;
    readonly override?: readonly string[];
    readonly only?: readonly string[];
  },
): Plan {
  const names = [...new Set(files.flat().map(({ name }) => name))].filter((name) =>
    !isGlobal(name)
  );
  for (const name of only) {
    if (names.includes(name)) continue;
    throw refusal("--section", { found: `"${name}"`, expected: oneOf(names, name) });
  }
  const said: Said = { problems: [], notes: new Set() };
  const ofFiles: { readonly globals: Record<string, string>; readonly jobs: PlannedJob[] }[] = [];
  const counts: Counts = {
    clients: 0,
    servers: 0,
    serversOfFile: 0,
    wave: 0,
    groupId: 0,
    inGroup: 0,
  };
  const more = override.map(overridden);
  const replaced = new Set(more.map(({ name }) => nameOf(name)));
  for (const given of files) {
    // A value that is replaced need not make sense: fio's examples have places to fill in.
    const sections = given.filter(({ name }) =>
      only.length === 0 || isGlobal(name) || only.includes(name)
    ).map((section) => ({
      ...section,
      settings: section.settings.filter(({ name }) => !replaced.has(nameOf(name))),
    }));
    let defaults: Options = new Map();
    let isFirst = true;
    const ofFile = { globals: {} as Record<string, string>, jobs: [] as PlannedJob[] };
    ofFiles.push(ofFile);
    counts.serversOfFile = 0;
    for (const section of sections) {
      const options: Options = new Map(defaults);
      addSettings(options, section.settings, { world, said });
      if (isGlobal(section.name)) {
        defaults = options;
        Object.assign(ofFile.globals, written(section, world));
        continue;
      }
      addSettings(options, more, { world, said });
      // fio separates the files of one command by a stonewall.
      const isApart = isFirst && counts.clients > 0;
      isFirst = false;
      if (said.problems.length === 0) {
        const all = { ...section, settings: [...section.settings, ...more] };
        ofFile.jobs.push(...threadsOf(all, options, { counts, said, isApart, world }));
      }
    }
  }
  const globals = commonOf(ofFiles.map((each) => each.globals));
  const jobs = ofFiles.flatMap((file) => {
    const own = Object.entries(file.globals).filter(([name]) => !Object.hasOwn(globals, name));
    return file.jobs.map((each): PlannedJob => {
      return { ...each, options: { ...Object.fromEntries(own), ...each.options } };
    });
  });
  if (jobs.length > JOBS_MAX) {
    const { file, line } = jobs[JOBS_MAX]!.section;
    const expected = `at most ${JOBS_MAX}`;
    said.problems.push({ file, line, path: "numjobs", found: `${jobs.length} threads`, expected });
  }
  if (said.problems.length > 0) throw new Refusal(unique(said.problems));
  return { jobs, globals, notes: [...said.notes] };
}

/** Shared settings: fio's document is of one file, the rack's of all of them. */
function commonOf(records: readonly Readonly<Record<string, string>>[]): Record<string, string> {
  const [first = {}, ...others] = records;
  const alike = ([name, value]: readonly [string, string]) =>
    others.every((each) => each[name] === value);
  return Object.fromEntries(Object.entries(first).filter(alike));
}

/**
 * Where a job has an option: its line, or the section's where the command gives it or nothing does.
 */
export function placeOf(
  { given, section }: Pick<PlannedJob, "given" | "section">,
  option: OptionName,
): { readonly file: string; readonly line: number } {
  const { file, line } = given.get(option)?.setting ?? section;
  return file === COMMAND ? section : { file, line };
}

/**
 * A line of `[global]` counts once, however many jobs it comes to; a setting of the command has no
 * line.
 */
export function unique(problems: readonly Problem[]): Problem[] {
  const told = problems.map((each): Problem => {
    const { path, found, expected } = each;
    return each.file === COMMAND ? { path: `${COMMAND} ${path}`, found, expected } : each;
  });
  return [...new Map(told.map((each) => [JSON.stringify(each), each])).values()];
}

function overridden(text: string) {
  const at = text.indexOf("=");
  const name = at < 0 ? text : text.slice(0, at);
  const value = at < 0 ? {} : { value: text.slice(at + 1) };
  return { name, ...value, file: COMMAND, line: 1, unset: [] };
}

/**
 * As fio lists them: by their first names, with variables replaced, without those that have no
 * value.
 */
function written(
  { settings }: Section,
  world: Pick<JobFileWorld, "variable">,
): Record<string, string> {
  return Object.fromEntries(
    settings.map((setting) => substituted(setting, world))
      .flatMap(({ name, value }) => value === undefined ? [] : [[nameOf(name), value]]),
  );
}

function threadsOf(
  section: Section,
  options: Options,
  { counts, said, isApart, world }: {
    readonly world: Pick<JobFileWorld, "variable">;
    readonly counts: Counts;
    readonly said: Said;
    readonly isApart: boolean;
  },
): PlannedJob[] {
  const { file, line } = section;
  const name = String(options.get("name")?.value ?? section.name);
  const refuse = (path: string, found: string, expected: string) => {
    const place = options.get(path as OptionName)?.setting ?? section;
    said.problems.push({ file: place.file, line: place.line, path, found, expected });
  };
  const take = <T>(option: OptionName, otherwise: T): T => {
    const found = options.get(option)?.value;
    return found === undefined ? otherwise : found as T;
  };
  const engine = take<EngineName | undefined>("ioengine", undefined);
  if (engine === undefined) {
    refuse("ioengine", "none (fio's default is psync)", listOf(ENGINES));
    return [];
  }
  const note = (option: OptionName, text: string) => {
    const { file, line } = options.get(option)?.setting ?? section;
    said.notes.add(`${file === COMMAND ? file : `${file}:${line}`}: ${text}`);
  };
  const job = jobOf(name, engine, { options, take, refuse, note });
  if (said.problems.length > 0) return [];
  const { isServer } = job;
  const isNewWave = !isServer && (take("stonewall", false) || isApart);
  if (isNewWave && counts.clients > 0) counts.wave++;
  if ((isNewWave || take("new_group", false)) && counts.inGroup > 0) {
    counts.groupId++;
    counts.inGroup = 0;
  }
  const address = take<string>(engine === "rdma" ? "hostname" : "serverip", "");
  const threads = take("numjobs", 1);
  const place = { name, file, line };
  const shown = shownOf(options, take);
  return Array.from({ length: Math.min(threads, JOBS_MAX + 1) }, (): PlannedJob => {
    const number = isServer ? ++counts.serversOfFile : ++counts.clients;
    const index = isServer ? counts.servers++ : number - 1;
    if (!isServer) counts.inGroup++;
    // librpma_fio_td_port: each thread has a port of its own; the rdma engine has no such rule.
    const port = job.port + (engine === "rdma" ? 0 : number - 1);
    if (port > 65_535) refuse("port", `${job.port} and ${number} threads`, "ports up to 65535");
    return {
      job: { ...job, port, index, wave: isServer ? 0 : counts.wave },
      section: place,
      groupId: counts.groupId,
      shown,
      options: written(section, world),
      given: options,
      ...(address !== "" && { address }),
    };
  });
}

type Refuse = (path: string, found: string, expected: string) => void;

function jobOf(
  name: string,
  engine: EngineName,
  { options, take, refuse, note }: {
    readonly options: Options;
    readonly take: Take;
    readonly refuse: Refuse;
    readonly note: (option: OptionName, text: string) => void;
  },
): FioJob {
  for (const [option, { setting }] of options) {
    if (engineHas(engine, USED[option])) continue;
    refuse(option, `${setting.name} with ioengine=${engine}`, `an option of ${engine}`);
  }
  const isRdma = engine === "rdma";
  const rw = take<string>("rw", "read");
  const random = rw.startsWith("rand");
  const readPercent = readPercentOf(rw, take);
  const isMixed = !["read", "randread", "write", "randwrite"].includes(rw);
  // fio_rdmaio_init: td_read is the server, td_rw (a mix) is refused.
  const isServer = isRdma ? rw === "read" || rw === "randread" : engine.endsWith("_server");
  if (isRdma && isMixed) {
    const expected = "read or randread (the server), write or randwrite (the client)";
    refuse("rw", `"${rw}"`, `${expected}: the rdma engine takes no mix`);
  }
  if (engine === "librpma_gpspm_client" && rw !== "write" && rw !== "randwrite") {
    refuse("rw", `"${rw}"`, "write or randwrite, as librpma_gpspm_client demands");
  }
  if (isRdma && !options.has("port")) {
    refuse("port", "none", "port=…, which the rdma engine demands");
  }
  if (take<Verb>("verb", "write") === "recv" && !isServer) {
    refuse("verb", `"recv" of a client (rw=${rw})`, "write, read or send");
  }
  const iodepth = take("iodepth", 1);
  const depthMax = isRdma ? RDMA_IODEPTH_MAX : IODEPTH_MAX;
  if (iodepth > depthMax) refuse("iodepth", String(iodepth), `at most ${depthMax}`);
  const blockSizes: Record<Direction, BlockSizes> = {
    ...{ read: BLOCK, write: BLOCK },
    ...take("bs", {}),
    ...take("bsrange", {}),
  };
  for (const { most } of Object.values(blockSizes)) {
    if (most > BLOCK_MAX) refuse("bs", `${most} B`, `at most ${BLOCK_MAX}`);
  }
  // fio's timeout of 0, its default, is no limit.
  const runtimePs = take("runtime", 0) || undefined;
  const timeBased = take("time_based", false) && runtimePs !== undefined;
  if (take("time_based", false) && !timeBased) {
    note("time_based", "time_based requires a runtime: fio ignores it, and the job ends by size");
  }
  const size = take<Extent | undefined>("size", undefined);
  checkSize(size, { engine, isServer, timeBased, refuse });
  const seed = take<number | undefined>("randseed", undefined);
  // Zeros are fio's defaults, and no limits.
  const ios = take("number_ios", 0) || undefined;
  const ioBytes = take("io_size", 0) || undefined;
  const least = Math.min(iodepth, take("iodepth_batch_complete_min", 1));
  const batch = take<number>("iodepth_batch", 1);
  const file = take<string | undefined>("filename", take("filename_format", undefined));
  if (file === undefined && isServer && !isRdma) {
    note("filename", "no filename: the workspace is in DRAM, as with filename=malloc");
  }
  return {
    name,
    engine,
    isServer,
    index: 0,
    wave: 0,
    port: take("port", PORT),
    readPercent,
    random,
    randomMap: !take("norandommap", false),
    blockSizes,
    ...(size !== undefined && { size }),
    offset: take("offset", 0),
    ...(ioBytes !== undefined && { ioBytes }),
    ...(ios !== undefined && { ios }),
    loops: take("loops", 1),
    iodepth,
    iodepthLow: Math.min(iodepth, take("iodepth_low", iodepth)) || iodepth,
    batch: batch === 0 ? iodepth : Math.min(batch, iodepth),
    batchCompleteMin: least,
    batchCompleteMax: Math.max(least, 1, take("iodepth_batch_complete_max", least)),
    sync: take("sync", false),
    timeBased,
    ...(runtimePs !== undefined && { runtimePs }),
    rampPs: take("ramp_time", 0),
    startDelayPs: take("startdelay", 0),
    bwWindowPs: take("bwavgtime", WINDOW_PS) || WINDOW_PS,
    iopsWindowPs: take("iopsavgtime", WINDOW_PS) || WINDOW_PS,
    ...(seed !== undefined && { seed }),
    verb: take<Verb>("verb", "write"),
    directWriteToPmem: take("direct_write_to_pmem", false),
    busyWaitPolling: take("busy_wait_polling", true),
    memory: (file ?? "malloc") === "malloc" ? "dram" : "scm",
  };
}

function readPercentOf(rw: string, take: Take): number {
  if (rw === "read" || rw === "randread") return 100;
  if (rw === "write" || rw === "randwrite") return 0;
  return take("rwmixread", 100 - take("rwmixwrite", 50));
}

/** librpma maps whole pages; a client of it learns the size from its server. */
const PAGE_BYTES = 4096;

function checkSize(
  size: Extent | undefined,
  { engine, isServer, timeBased, refuse }: {
    readonly engine: EngineName;
    readonly isServer: boolean;
    readonly timeBased: boolean;
    readonly refuse: Refuse;
  },
): void {
  const found = size === undefined
    ? "none"
    : "percent" in size
    ? `${size.percent}%`
    : `${size.bytes} B`;
  if (engine === "rdma") {
    if ((size === undefined && !timeBased) || (size !== undefined && "percent" in size)) {
      refuse("size", found, "size=…, a number of bytes (or time_based)");
    }
  } else if (isServer) {
    const isWhole = size !== undefined && "bytes" in size && size.bytes % PAGE_BYTES === 0;
    const unit = "(KiB and MiB are powers of 1024 with kb_base=1000)";
    if (!isWhole) refuse("size", found, `size=…, a multiple of ${PAGE_BYTES} B ${unit}`);
  }
}
