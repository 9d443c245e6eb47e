import { formatTime, type Time } from "../../fabric/base/time.ts";
import { persistence } from "../checks/persistence.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import { victimOf } from "../explore/post_crash_run.ts";
import { type HostMemory, type Piece, refOf } from "./host_memory.ts";
import type { DeclaredWrite, MemoryRecord } from "./memory_record.ts";
import { countBefore } from "./log_arrays.ts";
import type { Recording } from "./recording.ts";
import type {
  BrokenPromise,
  Loss,
  LostRange,
  MemoryMap,
  MemoryMapQuery,
  MemoryPart,
  MemoryQuery,
  MemorySpan,
  MemoryView,
  WriteRef,
  WriteStanding,
} from "../api/replay.ts";
import { COPY_PLACES, type CopyPlace, PARTS } from "../api/replay_terms.ts";
import { PAGE_BYTES } from "./spool.ts";

const LINES_MOST = 4_096;
const LOST_MOST = 1_000;

export function memoryView(
  recording: Recording,
  memory: HostMemory,
  { host, from, to, bytes = false, touched }: MemoryQuery & {
    readonly host: string;
    readonly touched: MemoryRecord | undefined;
  },
): MemoryView {
  const { at } = memory;
  const writes: WriteRef[] = [], indexes = new Map<DeclaredWrite, number>();
  const operationOf = operationsOfWrites(recording);
  const indexOf = (write: DeclaredWrite) => {
    let index = indexes.get(write);
    if (index === undefined) {
      const operation = operationOf(write);
      const ref = { ...refOf(write, at), ...(operation !== undefined && { operation }) };
      indexes.set(write, index = writes.push(ref) - 1);
    }
    return index;
  };
  const { lines: offsets, more } = memory.linesIn(from, to, LINES_MOST);
  const left = memory.left();
  const lines = offsets.map((offset) => {
    const { pieces, torn } = memory.line(offset);
    const spans = pieces.map(({ write, lost, ...piece }): MemorySpan => {
      return {
        ...{ ...piece, ...(write && { write: indexOf(write) }) },
        ...(lost && { lost: { at: lost.at, place: lost.place } }),
      };
    });
    const content = bytes && {
      seen: memory.seen(offset).toHex(),
      left: left.read(offset, offset + LINE_BYTES).toHex(),
      ...hexOf("was", memory.beforeCut(offset)),
    };
    return { at: offset, spans, torn, ...content };
  });
  return {
    ...{ at, host, from, to, lines, writes },
    hasPower: memory.life !== undefined,
    ...(memory.cutAt !== undefined && {
      cut: { at: memory.cutAt, lines: memory.lostLines().size },
    }),
    domain: victimOf(recording.job.plan, host).config.domain,
    moreLines: more,
    touched: touchedIn(touched!),
  };
}

/** A program gives its write and the operation that makes it one number. */
function operationsOfWrites(recording: Recording): (write: DeclaredWrite) => number | undefined {
  let of: Map<string, { readonly index: number; readonly startPs: Time }[]> | undefined;
  return ({ node, id, issuedAt }) => {
    of ??= Map.groupBy(
      recording.operations().map(({ node, number, startPs }, index) => {
        return { key: `${node} ${number}`, index, startPs };
      }),
      ({ key }) => key,
    );
    return of.get(`${node} ${id}`)?.find(({ startPs }) => startPs >= issuedAt)?.index;
  };
}

function hexOf<Name extends string>(name: Name, bytes: Uint8Array | undefined) {
  return bytes === undefined ? {} : { [name]: bytes.toHex() } as Record<Name, string>;
}

/** Of one size, a multiple of a line: as many as are asked for, or a few less. */
export function memoryMap(
  memory: HostMemory,
  { host, from, to, parts = PARTS.usual }: MemoryMapQuery & { readonly host: string },
): MemoryMap {
  const open = new Set(memory.openLines()), gone = memory.lostLines();
  const most = Math.max(1, Math.min(PARTS.most, parts));
  const partBytes = LINE_BYTES * Math.max(1, Math.ceil((to - from) / most / LINE_BYTES));
  const first = from - from % LINE_BYTES, found: MemoryPart[] = [];
  let part: MemoryPart & { lines: number; lost: number; gone: number; torn: number } | undefined;
  for (const { page, lines } of memory.pagesIn(from, to)) {
    for (const [i, durableAt] of lines.entries()) {
      if (durableAt < 0) continue;
      const line = page + LINE_BYTES * i;
      if (part === undefined || line >= part.to) {
        const begin = line - (line - first) % partBytes;
        const byPlace = Object.fromEntries(COPY_PLACES.map((place) => [place, 0]));
        const none = {
          lines: 0,
          lost: 0,
          gone: 0,
          torn: 0,
          byPlace: byPlace as Record<CopyPlace, number>,
        };
        found.push(part = { from: begin, to: begin + partBytes, ...none });
      }
      part.lines++;
      const byPlace = part.byPlace as Record<CopyPlace, number>;
      const taken = gone.get(line);
      if (taken !== undefined) part.gone++;
      if (taken?.some(({ torn }) => torn)) part.torn++;
      if (!open.has(line)) {
        byPlace[memory.resting(line, durableAt).place]++;
        continue;
      }
      const { pieces, torn } = memory.line(line);
      byPlace[COPY_PLACES.find((place) => pieces.some((piece) => piece.place === place))!]++;
      if (torn) part.torn++;
      if (pieces.some(({ survives }) => !survives)) part.lost++;
    }
  }
  return { at: memory.at, host, from, to, partBytes, parts: found };
}

function touchedIn({ lines }: MemoryRecord): [from: number, to: number][] {
  const ranges: [number, number][] = [];
  for (const page of lines.pages()) {
    const last = ranges.at(-1);
    if (last?.[1] === page) last[1] += PAGE_BYTES;
    else ranges.push([page, page + PAGE_BYTES]);
  }
  return ranges;
}

interface Cut {
  readonly nodes: ReadonlySet<string>;
  readonly host: string;
}

function takes({ nodes, host }: Cut, { place, write, card }: Piece, cards: Cards): boolean {
  if (nodes.has(host)) return true;
  if (place === "card" && card !== undefined) return nodes.has(card);
  if (place !== "in-flight") return false;
  // Which of several cards has the write is not known.
  const isCut = (machine: string) =>
    nodes.has(machine) || (cards.get(machine) ?? []).some((name) => nodes.has(name));
  return isCut(host) || (write !== undefined && isCut(write.node));
}

type Cards = ReadonlyMap<string, readonly string[]>;

/**
 * What a power cut of devices at `at` loses.
 * @param happened the cut is one of the run.
 * @param memoryOf a host's memory at the instant of the cut.
 */
export function lossOf(
  recording: Recording,
  { at, nodes, happened = false }: {
    readonly at: Time;
    readonly nodes: readonly string[];
    readonly happened?: boolean;
  },
  memoryOf: (host: string) => HostMemory,
): Loss {
  const { plan } = recording.job;
  const cards = new Map(
    plan.nodes.flatMap((node) =>
      node.kind === "host" ? [[node.name, node.config.rnics] as const] : []
    ),
  );
  const byPlace = Object.fromEntries(COPY_PLACES.map((place) => [place, 0])) as Record<
    CopyPlace,
    number
  >;
  const byStanding = { posted: 0, visible: 0, claimed: 0, promised: 0, undeclared: 0 };
  const ranges: LostRange[] = [], broken: BrokenPromise[] = [], looked: string[] = [];
  let lostBytes = 0, keptPromisedBytes = 0;
  const cutNodes = new Set(nodes);
  for (const { name: host, kind } of plan.nodes) {
    if (kind !== "host") continue;
    const memory = memoryOf(host);
    if (memory.life === undefined) continue;
    const cut: Cut = { nodes: cutNodes, host };
    if (cutNodes.has(host)) looked.push(host);
    const lines = memory.openLines();
    for (const line of lines) {
      for (const piece of memory.line(line).pieces) {
        if (piece.survives || !takes(cut, piece, cards)) continue;
        const bytes = piece.to - piece.from;
        lostBytes += bytes;
        byPlace[piece.place] += bytes;
        byStanding[piece.write ? refOf(piece.write, at).standing : "undeclared"] += bytes;
        addRange(ranges, { host, piece, at });
      }
    }
    if (!cutNodes.has(host)) continue;
    const found = brokenPromises(recording, { at, host, memory, lines });
    broken.push(...found);
    keptPromisedBytes += promisedBytes(recording.memory.get(host)!, at) -
      found.reduce((sum, { from, to }) => sum + to - from, 0);
  }
  const loss = {
    ...{ at, nodes, happened, hosts: looked, lostBytes, byPlace, byStanding, broken },
    keptPromisedBytes,
    lost: ranges.slice(0, LOST_MOST),
    moreLost: Math.max(0, ranges.length - LOST_MOST),
  };
  return { ...loss, text: textOf(loss) };
}

function addRange(
  ranges: LostRange[],
  { host, piece, at }: { readonly host: string; readonly piece: Piece; readonly at: Time },
): void {
  const { from, to, place, write } = piece;
  const last = ranges.at(-1) as { -readonly [K in keyof LostRange]: LostRange[K] } | undefined;
  const follows = last?.host === host && last.to === from && last.place === place &&
    last.write?.by === write?.by && last.write?.id === write?.id;
  if (follows) last.to = to;
  else ranges.push({ host, from, to, place, ...(write && { write: refOf(write, at) }) });
}

function promisedBytes({ writes }: MemoryRecord, at: Time): number {
  return writes.reduce((sum, { promisedAt, landing }) => {
    return promisedAt < at ? sum + landing.length : sum;
  }, 0);
}

/**
 * As the checker of runs finds them: of writes that touch lines whose newest copy is not in memory.
 * All others are there, or under later ones.
 */
function brokenPromises(
  recording: Recording,
  { at, host, memory, lines }: {
    readonly at: Time;
    readonly host: string;
    readonly memory: HostMemory;
    readonly lines: readonly number[];
  },
): BrokenPromise[] {
  const touched = new Set<string>();
  for (const line of lines) {
    for (const { by, id } of memory.writesIn(line, line + LINE_BYTES)) touched.add(`${by} ${id}`);
  }
  if (touched.size === 0) return [];
  const { notes: all, job: { plan }, lives } = recording;
  const notes = all.slice(0, countBefore(all, at)).filter(({ by, note }: TimedRecord) => {
    if (note.kind === "freed") return true;
    const isOfWrite = note.kind === "writes" || note.kind === "visible" ||
      note.kind === "persistent";
    return isOfWrite && touched.has(`${by} ${note.id}`);
  });
  const image = memory.left();
  const scm = (name: string) => name === host ? image : undefined;
  return persistence.check({ plan, lives, reports: [], notes, scm }).flatMap(({ text, scm }) => {
    return scm === undefined ? [] : [{ host, text, from: scm.from, to: scm.to }];
  });
}

const PLACE_TEXTS: Readonly<Record<CopyPlace, string>> = {
  "in-flight": "on their way between the cards",
  card: "in the card",
  bus: "on the bus",
  iio: "in the IIO",
  llc: "in the cache",
  "write-queue": "in the write queue",
  medium: "on the medium",
};

function textOf(loss: Omit<Loss, "text">): string {
  const { nodes, at, happened, lostBytes, byPlace, byStanding, broken } = loss;
  const verbs = happened ? ["broke", "lost"] : ["breaks", "loses"];
  const cut = `${happened ? "The" : "A"} power cut of ${nodes.join(", ")} at ${formatTime(at)}`;
  if (broken.length > 0) return `${cut} ${verbs[0]} a promise: ${broken[0]!.text}`;
  if (lostBytes === 0) return `${cut} ${verbs[1]} no byte of SCM`;
  const parts = COPY_PLACES.flatMap((place) => {
    return byPlace[place] === 0 ? [] : [`${byPlace[place]} B ${PLACE_TEXTS[place]}`];
  });
  const standings: readonly WriteStanding[] = ["claimed", "visible"];
  const known = standings.flatMap((standing) => {
    return byStanding[standing] === 0 ? [] : [`${byStanding[standing]} B were ${standing}`];
  });
  const end = ["nothing of it was promised", ...known].join("; ");
  return `${cut} ${verbs[1]} ${lostBytes} B: ${parts.join(", ")}; ${end}`;
}
