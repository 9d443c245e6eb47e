/**
 * `deno task native-table`: runs programs of Debian on an emulated rack, each of them three times (those that take
 * minutes once) and once more with a smaller lease, and compares output, ends and digests. `--write` puts the table into
 * `scripts/scenarios/NATIVE_RUNS.md`, `--only WORDS` runs rows that have them (the page keeps the others as they
 * are), `--runs 1` runs each once with a lease. Exit code 1 where a row differs from itself, or ends otherwise than it should.
 */
import { executableInPath } from "../../console/base/executables.ts";
import { projectFile } from "../../console/base/paths.ts";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import { ABSENT } from "../../nodes/host/calls/absent.ts";
import {
  clientOf,
  differenceOf,
  type Lease,
  type NativeJob,
  runNative,
  scenarioOf,
  versionOf,
} from "./runs.ts";

export interface TableRow extends NativeJob {
  /** Takes minutes: it runs once with all leases. */
  readonly isLong?: true;
  /** Its polls would be millions of requests, also with a seed: half an hour or more. */
  readonly hasLeaseAlone?: true;
  /** Why its exit codes are not 0, and which they are; null for a thread that has not ended. */
  readonly ends?: { readonly codes: readonly (number | null)[]; readonly why: string };
}

const words = (text: string): string[] => text === "" ? [] : text.split(" ");

function perftest(binary: string, options: string, more: Partial<TableRow> = {}): TableRow {
  return { binary, packaged: "perftest", options: words(options), client: ["b"], ...more };
}

function utility(binary: string, options = "", more: Partial<TableRow> = {}): TableRow {
  return { binary, packaged: "ibverbs-utils", options: words(options), ...more };
}

/** UCX over one transport of its own. */
function ucx(
  transport: string,
  test: string,
  options = "",
  more: Partial<TableRow> = {},
): TableRow {
  return {
    binary: "ucx_perftest",
    packaged: "ucx-utils",
    options: words(`-t ${test} -n 20 -w 2 ${options}`.trim()),
    client: ["b"],
    env: { UCX_TLS: `${transport},self`, UCX_NET_DEVICES: "rackmesh0:1" },
    ...more,
  };
}

function fabric(options: string, more: Partial<TableRow> = {}): TableRow {
  return {
    binary: "fi_pingpong",
    packaged: "libfabric-bin",
    options: words(`-I 20 -S 64 ${options}`),
    client: ["b"],
    ...more,
  };
}

/** Programs over librdmacm; those of rsockets run inside it. */
function manager(
  command: string,
  client: string,
  more: Partial<TableRow> = {},
): TableRow {
  const [binary = "", ...options] = words(command);
  return { binary, packaged: "rdmacm-utils", options, clientCommand: words(client), ...more };
}

/** A card that raises no event for completions that are there when a queue is armed. */
const ARM_NEXT = { rack: "defaults: { queues: { arm: next } }" } as const;
/** A test by time lasts a second at least: 33 million polls, of which few are requests. */
const SLOW = { rack: "fabric: { rate: 200Mbps }", hasLeaseAlone: true } as const;
const LONG = { isLong: true } as const;
const BOTH = { client: ["b"] } as const, ONE = { client: ["b"], isOneHost: true } as const;

const UCX_TESTS = [
  "tag_lat",
  "tag_bw",
  "ucp_put_lat",
  "ucp_put_bw",
  "ucp_get",
  "ucp_fadd",
  "stream_lat",
  "stream_bw",
  "ucp_am_lat",
  "ucp_am_bw",
] as const;
/** UCX's transport layer by itself takes all that it is asked for. */
const UCT = { env: {} } as const;
const RC_OF_UCT = "-d rackmesh0:1 -x rc_verbs", UD_OF_UCT = "-d rackmesh0:1 -x ud_verbs";
/** rxm looks for connections each 10 ms, in thousands of polls. */
const RXM = { env: { FI_OFI_RXM_CM_PROGRESS_INTERVAL: "20" } } as const;

/**
 * Jobs of fio's engine `rdma`: each is a process of its own, or a thread. The engine takes a job that reads for a
 * server, so the client's writes, whatever its verb.
 */
function fio(verb: string, depth: number, more = ""): TableRow {
  const common = `--name=job --ioengine=rdma --port=7204 --bs=4k --size=256k --iodepth=${depth}`;
  const client = `--hostname=b --verb=${verb} --rw=write`;
  return {
    binary: "fio",
    packaged: "fio",
    options: words(`${common}${more} --rw=read`),
    client: words(client),
    isLong: true,
  };
}

/**
 * The rows of the table: all `ibv_*` utilities, all of perftest's tests of libibverbs, the programs of
 * rdmacm-utils, fio's engine of verbs, UCX and libfabric.
 */
export const ROWS: readonly TableRow[] = [
  utility("ibv_devices"),
  utility("ibv_devinfo", "-v"),
  utility("ibv_asyncwatch", "", {
    ends: { codes: [], why: "waits for events of the device without end" },
  }),
  ...["rc", "uc", "ud", "srq"].map((type) => utility(`ibv_${type}_pingpong`, "-g 0 -n 200", BOTH)),
  ...["rc", "uc", "ud", "srq"].map((type) =>
    utility(`ibv_${type}_pingpong`, "-g 0 -n 200 -e", BOTH)
  ),
  utility("ibv_rc_pingpong", "-g 0 -n 200 -c", BOTH),
  utility("ibv_rc_pingpong", "-g 0 -n 200 -t", BOTH),
  utility("ibv_rc_pingpong", "-g 0 -n 200 -N", BOTH),
  utility("ibv_rc_pingpong", "-g 0 -s 1048576 -n 20 -m 4096", BOTH),
  utility("ibv_rc_pingpong", "-g 0 -n 200", ONE),
  utility("ibv_xsrq_pingpong", "-g 0", {
    client: ["-c", "1", "b"],
    ends: { codes: [1, 1], why: `${ABSENT.xrc.what}, which the emulated card has not` },
  }),
  ...["write", "read", "send", "atomic"].map((verb) => perftest(`ib_${verb}_lat`, "-n 200")),
  perftest("ib_write_lat", "-n 200 -c UC"),
  perftest("ib_send_lat", "-n 200 -c UC"),
  perftest("ib_send_lat", "-n 200 -c UD"),
  perftest("ib_write_lat", "-n 200 -I 64 -s 64"),
  perftest("ib_send_lat", "-n 200 -I 0 -s 64"),
  ...["read", "atomic"].map((verb) => perftest(`ib_${verb}_lat`, "-n 200 -e")),
  perftest("ib_send_lat", "-n 200 -e", {
    ends: { codes: [17, 17], why: "one channel for both queues: see below" },
  }),
  ...["send", "read"].map((verb) => perftest(`ib_${verb}_lat`, "-n 200 -e", ARM_NEXT)),
  perftest("ib_atomic_lat", "-n 200 -A CMP_AND_SWAP"),
  perftest("ib_write_lat", "-n 200", ONE),
  ...["write", "read", "send"].map((verb) => perftest(`ib_${verb}_bw`, "-n 60")),
  perftest("ib_atomic_bw", "-n 300"),
  perftest("ib_write_bw", "-n 60 -c UC"),
  perftest("ib_send_bw", "-n 60 -c UC"),
  perftest("ib_send_bw", "-n 300 -c UD"),
  ...["write", "read", "send"].map((verb) => perftest(`ib_${verb}_bw`, "-n 40 -b")),
  perftest("ib_atomic_bw", "-n 300 -b"),
  perftest("ib_send_bw", "-n 300 -c UD -b"),
  ...["write", "read", "send"].map((verb) => perftest(`ib_${verb}_bw`, "-n 20 -q 4")),
  perftest("ib_atomic_bw", "-n 100 -q 4"),
  perftest("ib_write_bw", "-n 300 -s 64 -I 64"),
  perftest("ib_write_bw", "-n 304 -s 64 -l 8"),
  perftest("ib_write_bw", "-n 300 -s 64 -Q 1"),
  ...["read", "send"].map((verb) => perftest(`ib_${verb}_bw`, "-n 60 -e")),
  perftest("ib_write_bw", "-n 60 -e", {
    ends: { codes: [1, 1], why: "perftest has no events for WRITE" },
  }),
  perftest("ib_write_bw", "-D 1 -f 0 -s 4096", SLOW),
  perftest("ib_send_bw", "-n 60 --use-srq -q 2"),
  perftest("ib_write_bw", "-n 60", ONE),
  perftest("ib_write_lat", "-n 5 -a", LONG),
  ...["read", "send"].map((verb) =>
    perftest(`ib_${verb}_lat`, "-n 5 -a", { ...LONG, hasLeaseAlone: true })
  ),
  ...["write", "read", "send"].map((verb) => perftest(`ib_${verb}_bw`, "-n 5 -a", LONG)),
  perftest("ib_write_lat", "-n 200 -R"),
  perftest("ib_send_bw", "-n 60 -R"),
  manager("rping -s -C 20", "rping -c -a b -C 20"),
  manager("rping -s -C 20 -S 5000 -V", "rping -c -a b -C 20 -S 5000 -V"),
  ...["ucmatose -c 3 -C 20 -S 3000", "udaddy -c 2"].map((command) =>
    manager(command, `${command} -s b`)
  ),
  manager("cmtime -c 5", "cmtime -c 5 -s b", {
    ends: { codes: [0, null, null], why: "the server waits for connections without end" },
  }),
  manager("mckey -m 239.1.2.3", "mckey -m 239.1.2.3 -s"),
  manager("rdma_server", "rdma_client -s b"),
  manager("rdma_xserver -c r", "rdma_xclient -c r -s b"),
  ...["rstream -S 4096 -C 20", "riostream -S 4096 -C 20"].map((command) =>
    manager(command, `${command} -s b`)
  ),
  manager("rstream -T a -S 4096 -C 20", "rstream -T a -S 4096 -C 20 -s b", {
    ends: { codes: [16, 0], why: "POLLHUP: the server ends before its last bytes are read" },
  }),
  manager("rcopy", "rcopy /usr/share/common-licenses/BSD b:copy", {
    ends: { codes: [0, null], why: "the server waits for files without end" },
  }),
  { binary: "ucx_info", packaged: "ucx-utils", options: ["-d"] },
  ...UCX_TESTS.map((test) => ucx("rc_v", test)),
  ...["tag_lat", "tag_bw", "stream_bw", "ucp_am_bw"].map((test) => ucx("ud_v", test)),
  ucx("rc_v", "tag_bw", "-s 1048576"),
  ...["put_lat", "am_lat", "am_bw"].map((test) => ucx("all", test, RC_OF_UCT, UCT)),
  ...["am_lat", "am_bw"].map((test) => ucx("all", test, UD_OF_UCT, UCT)),
  ucx("tcp", "tag_lat", "", {
    env: { UCX_TLS: "tcp,self", UCX_NET_DEVICES: "eth0" },
  }),
  { binary: "fi_info", packaged: "libfabric-bin", options: ["-p", "verbs"] },
  fabric("-p verbs -e msg"),
  fabric("-p verbs -e rdm", RXM),
  fabric("-p verbs -e dgram"),
  ...["tcp", "sockets"].flatMap((provider) =>
    ["msg", "rdm"].map((type) => fabric(`-p ${provider} -e ${type}`))
  ),
  ...["write", "read", "send"].flatMap((verb) => [fio(verb, 1), fio(verb, 16)]),
  fio("write", 1, " --thread"),
];

/** Its environment and its options. */
export function wordsOf({ env = {}, options }: TableRow): string[] {
  return [...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...options];
}

/** What a row has shown. */
interface Shown {
  readonly row: TableRow;
  readonly cells: readonly string[];
  /** What differs, and how it has ended where it should not. */
  readonly wrong: readonly string[];
  readonly isGood: boolean;
}

const RUNS = 3;
const SEED = "34";
/** One that ends by no means itself is looked at so long, in virtual time. */
const ENDLESS_MS = 50;

/**
 * perftest measures its time stamp counter for 219 ms, once or twice, by 20 ns, and fio for 130 ms: as requests,
 * these clock reads would take an hour. So a seed leaves them some of their leases.
 */
function smallerLease({ packaged }: TableRow): Lease {
  return packaged === "perftest" || packaged === "fio" ? SEED : "off";
}

/** With those that the client alone has, but for the server's name. */
function shownOptions(row: TableRow): string {
  const { client = [], clientCommand } = row;
  const own = clientCommand ?? client.filter((word) => word.startsWith("--"));
  const given = wordsOf(row).join(" ");
  return own.length === 0 ? given : [given, `client: ${own.join(" ")}`].filter(Boolean).join("; ");
}

/** Runs a row. @param runs how often, with all leases. */
export async function show(row: TableRow, runs = row.isLong ? 1 : RUNS): Promise<Shown> {
  const { binary, ends, packaged } = row;
  const command = [binary, ...wordsOf(row)].join(" "), version = versionOf(packaged) ?? "";
  const [, given, on] = keyOf(row);
  if (executableInPath(binary) === undefined) {
    return { row, cells: [binary, version, given, on, "not installed"], wrong: [], isGood: false };
  }
  const text = scenarioOf(row);
  const endless = ends?.codes.length === 0 ? { untilPs: ENDLESS_MS * PS_PER_MS } : {};
  const first = await runNative(text, endless);
  const differences: string[] = [];
  for (let i = 1; i < runs; i++) {
    const found = differenceOf(first.transcript, (await runNative(text, endless)).transcript);
    if (found !== undefined) differences.push(`run ${i + 1}, ${found}`);
  }
  const lease = smallerLease(row);
  const less = row.hasLeaseAlone ? undefined : await runNative(text, { ...endless, lease });
  const found = less && differenceOf(first.transcript, less.transcript);
  if (found !== undefined) differences.push(`lease ${lease}, ${found}`);
  const wanted: readonly (number | null)[] = ends?.codes ??
    (clientOf(row) === undefined ? [0] : [0, 0]);
  const isExpected = wanted.length === 0 || String(first.codes) === String(wanted);
  const codes = first.codes.map((code) => code ?? "runs").join(", ");
  const cells = [
    binary,
    version,
    given,
    on,
    ends ? `${codes}: ${ends.why}` : codes,
    (first.endPs / PS_PER_MS).toFixed(3),
    String(first.requestCount),
    less === undefined ? "" : `${lease === "off" ? lease : `seed ${lease}`}: ${less.requestCount}`,
    (first.wallMs / 1000).toFixed(1),
    `${runs} ${differences.length === 0 ? "equal" : "differ"}`,
  ];
  const wrong = differences.map((each) => `${command}: ${each}`);
  if (!isExpected) {
    wrong.push(`${command}: ends with ${codes}, expected ${wanted}`);
    for (const [host, lines] of Object.entries(first.lines)) {
      wrong.push(...lines.slice(-4).map((line) => `  ${host}: ${line}`));
    }
  }
  return { row, cells, wrong, isGood: isExpected && differences.length === 0 };
}

/** The cells that name a row: program, options, hosts. */
function keyOf(row: TableRow) {
  const { binary, rack, isOneHost } = row;
  const given = shownOptions(row) + (rack === undefined ? "" : `; ${rack}`);
  return [binary, given, clientOf(row) === undefined || isOneHost ? "one" : "two"] as const;
}

const HEAD = [
  "program",
  "version",
  "options",
  "hosts",
  "exit",
  "virtual ms",
  "requests",
  "smaller lease",
  "wall s",
  "runs",
];

const PAGE = "scripts/scenarios/NATIVE_RUNS.md";
const BEGIN = "<!-- native programs: made by deno task native-table -->\n";
const END = "\n<!-- end of native programs -->";

/** As `deno fmt` has it: columns of one width. */
function tableOf(rows: readonly (readonly string[])[]): string {
  const all = [HEAD, ...rows];
  const widths = HEAD.map((_, i) => Math.max(...all.map((row) => (row[i] ?? "").length)));
  const lineOf = (cells: readonly string[]) =>
    `| ${HEAD.map((_, i) => (cells[i] ?? "").padEnd(widths[i]!)).join(" | ")} |`;
  const [head, ...others] = all.map(lineOf);
  return [head, lineOf(widths.map((width) => "-".repeat(width))), ...others].join("\n");
}

/** Puts rows into the page's table, which keeps the cells of all others. */
function write(shown: readonly Shown[]): void {
  const page = projectFile(PAGE), text = Deno.readTextFileSync(page);
  const [before, rest] = text.split(BEGIN), [old, after] = rest?.split(END) ?? [];
  if (old === undefined || after === undefined) {
    throw new Error(`Cannot find the table's place in ${PAGE}`);
  }
  const known = new Map(
    old.trim().split("\n").slice(2).map((line) => {
      const cells = line.split("|").slice(1, -1).map((cell) => cell.trim());
      return [`${[cells[0], cells[2], cells[3]]}`, cells];
    }),
  );
  for (const { row, cells } of shown) known.set(`${keyOf(row)}`, [...cells]);
  const rows = ROWS.flatMap((row) => {
    const cells = known.get(`${keyOf(row)}`);
    return cells === undefined ? [] : [cells];
  });
  Deno.writeTextFileSync(page, `${before}${BEGIN}\n${tableOf(rows)}\n${END}${after}`);
}

if (import.meta.main) {
  const option = (name: string) => Deno.args[Deno.args.indexOf(name) + 1] ?? "";
  const only = Deno.args.includes("--only") ? option("--only") : "";
  const runs = Deno.args.includes("--runs") ? Number(option("--runs")) : undefined;
  const rows = ROWS.filter((row) =>
    [row.binary, ...wordsOf(row), ...clientOf(row) ?? []].join(" ").includes(only)
  );
  const shown: Shown[] = [];
  for (const row of rows) {
    const each = await show(row, runs);
    for (const line of each.wrong) console.error(line);
    console.error(`${each.isGood ? "ok  " : "FAIL"} ${each.cells.join(" | ")}`);
    shown.push(each);
    if (Deno.args.includes("--write")) write([each]);
  }
  console.log(tableOf(shown.map(({ cells }) => cells)));
  if (shown.some(({ isGood }) => !isGood)) Deno.exit(1);
}
