/**
 * fio's output for people (`stat.c`: show_thread_status_normal, show_group_stats; `init.c`:
 * add_job).
 */
import { type Direction, DIRECTIONS } from "../../../nodes/host/programs/fio/job.ts";
import type { DirectionStats, Latency, Moments } from "../../../nodes/host/programs/fio/stats.ts";
import type { Shown } from "../shown.ts";
import type { Percentiles } from "../values.ts";
import type { FioThread } from "../run_fio.ts";
import {
  busyOf,
  classesOf,
  deviationOf,
  type GroupDirection,
  groupsOf,
  iopsOf,
  iosOf,
  levelsOf,
  millisecondsOf,
  percentilesOf,
  rateOf,
  type Row,
  rowsOf,
  type Share,
  shareOfGroup,
} from "./group.ts";
import { ctime } from "./ctime.ts";
import { num2str, rateText } from "./num2str.ts";

export interface TextContext {
  readonly version: string;
  readonly now: Date;
}

export function fioText(threads: readonly FioThread[], { version, now }: TextContext): string {
  const rows = rowsOf(threads);
  const groups = groupsOf(rows);
  const count = threads.length;
  return [
    ...threads.flatMap(jobLines(threads)),
    version,
    `Starting ${count} thread${count === 1 ? "" : "s"}`,
    "",
    ...rows.flatMap((row) => {
      const { directions } = groups.find(({ groupId }) => groupId === row.groupId)!;
      return rowLines(row, { now, directions });
    }),
    ...groups.flatMap(({ groupId, directions }) => {
      const { shown } = rows.find((row) => row.groupId === groupId)!;
      return ["", `Run status group ${groupId} (all jobs):`, ...groupLines(directions, shown)];
    }),
  ].join("\n");
}

function jobLines(threads: readonly FioThread[]) {
  return ({ job, groupId, section, shown, given }: FioThread, i: number): string[] => {
    const before = threads[i - 1], next = threads[i + 1];
    if (before?.section === section) return next?.section === section ? [] : ["..."];
    const size = (bytes: number) =>
      num2str(bytes, { figures: shown.figures, binary: shown.kbBase === 1024, unit: "B" });
    const range = (direction: Direction) => {
      const { least, most } = job.blockSizes[direction];
      return `${size(least)}-${size(most)}`;
    };
    return [
      `${job.name}: (g=${groupId}): rw=${rwText(given)}, bs=(R) ${range("read")}, ` +
      `(W) ${range("write")}, (T) ${range("write")}, ioengine=${job.engine}, ` +
      `iodepth=${job.iodepth}`,
    ];
  };
}

function rwText(given: FioThread["given"]): string {
  const text = String(given.get("rw")?.value ?? "read");
  return text === "readwrite" ? "rw" : text;
}

function rowLines(
  row: Row,
  { now, directions }: {
    readonly now: Date;
    readonly directions: ReadonlyMap<Direction, GroupDirection>;
  },
): string[] {
  const { stats, shown, error, name, groupId, threads } = row;
  const code = String(error?.code ?? 0).padStart(2);
  const why = error === undefined ? "" : ` (${error.text})`;
  const lines = [
    `${name}: (groupid=${groupId}, jobs=${threads}): err=${code}${why}: pid=${row.number}: ${
      ctime(now)
    }`,
    ...(shown.description === undefined ? [] : [`  Description  : [${shown.description}]`]),
  ];
  if (iosOf(stats) === 0) return lines;
  for (const direction of DIRECTIONS) {
    const group = directions.get(direction);
    if (group !== undefined && stats[direction].ios > 0) {
      lines.push(...directionLines(direction, stats[direction], { shown, group }));
    }
  }
  const { depths, submits, completes } = levelsOf(row);
  const short = DIRECTIONS.map((direction) => stats[direction].shortIos);
  return [
    ...lines,
    ...classLines(row),
    `  cpu          : usr=${busyOf(row).toFixed(2)}%, sys=0.00%, ctx=0, majf=0, minf=0`,
    `  IO depths    : ${levelText(depths)}`,
    `     submit    : ${levelText(submits)}`,
    `     complete  : ${levelText(completes)}`,
    `     issued rwts: total=${stats.read.ios},${stats.write.ios},0,0 ` +
    `short=${short.join(",")},0,0 dropped=0,0,0,0`,
    `     latency   : target=0, window=0, percentile=100.00%, depth=${row.iodepth}`,
  ];
}

function levelText(shares: readonly Share[]): string {
  return shares.map(([name, percent]) => `${name}=${percent.toFixed(1)}%`).join(", ");
}

function directionLines(
  direction: Direction,
  stats: DirectionStats,
  { shown, group }: { readonly shown: Shown; readonly group: GroupDirection },
): string[] {
  const { figures, unitBase, percentiles } = shown;
  const binary = shown.kbBase === 1024;
  const rate = rateOf(stats);
  const bandwidth = rateText(rate, { figures, unitBase, binary });
  const other = rateText(rate, { figures, unitBase, binary: !binary });
  const bytes = num2str(stats.bytes, { figures, binary, unit: "B" });
  const iops = num2str(iopsOf(stats), { figures });
  const lines = [
    `  ${direction}: IOPS=${iops}, BW=${bandwidth} (${other})` +
    `(${bytes}/${millisecondsOf(stats.runtimePs)}msec)${
      direction === "write" ? "; 0 zone resets" : ""
    }`,
  ];
  const { slat, clat, lat, bw } = stats;
  for (const [name, each] of [["slat", slat], ["clat", clat], [" lat", lat]] as const) {
    if (each.samples > 0) lines.push(latencyLine(name, each));
  }
  const shownOnes = [
    ["slat", slat, shown.slatPercentiles],
    ["clat", clat, shown.clatPercentiles],
    ["lat", lat, shown.latPercentiles],
  ] as const;
  for (const [name, each, isShown] of shownOnes) {
    if (isShown && each.samples > 0) lines.push(...percentileLines(name, each, percentiles));
  }
  if (bw.samples > 0) lines.push(...sampleLines(stats, { shown, group }));
  return lines;
}

function unitOf(
  { min, max, deviation = Infinity }: {
    readonly min: number;
    readonly max: number;
    readonly deviation?: number;
  },
): readonly [unit: string, scale: number] {
  if (min > 2e6 && max > 99_999_999 && deviation > 1e6) return ["msec", 1e6];
  return min > 2000 && max > 99_999 && deviation > 1000 ? ["usec", 1e3] : ["nsec", 1];
}

function latencyLine(name: string, latency: Moments): string {
  const { min, max, mean } = latency;
  const deviation = deviationOf(latency);
  const [unit, scale] = unitOf({ min, max, deviation });
  const short = (value: number) => num2str(Math.floor(value / scale), { figures: 6 });
  const average = (value: number) => (value / scale).toFixed(2).padStart(5);
  return `    ${name} (${unit}): min=${short(min)}, max=${short(max)}, avg=${average(mean)}, ` +
    `stdev=${average(deviation)}`;
}

function percentileLines(
  name: string,
  latency: Latency,
  { list, decimals }: Percentiles,
): string[] {
  const values = percentilesOf(latency, list);
  const most = Math.max(...values);
  const [unit, scale] = unitOf({ min: Math.min(...values), max: most });
  const width = Math.max(5, String(Math.floor(most / scale)).length);
  const perLine = Math.floor((80 - 7) / (decimals + 10 + width));
  const cells = values.map((value, i) => {
    const percentile = list[i]!.toFixed(decimals).padStart(decimals + 3);
    const text = String(Math.ceil(value / scale)).padStart(width);
    return ` ${percentile}th=[${text}]${i === values.length - 1 ? "" : ","}`;
  });
  const lines = [`    ${name} percentiles (${unit}):`];
  for (let i = 0; i < cells.length; i += perLine) {
    lines.push(`     |${cells.slice(i, i + perLine).join("")}`);
  }
  return lines;
}

function sampleLines(
  { bw, iops }: DirectionStats,
  { shown: { kbBase, unitBase }, group }: { readonly shown: Shown; readonly group: GroupDirection },
): string[] {
  const per = shareOfGroup(bw.mean, group.rate);
  const isMega = bw.mean * (unitBase === 1 ? 8 : 1) > kbBase ** 2;
  const scale = (unitBase === 1 ? 8 : 1) / (isMega ? kbBase : 1);
  const unit = isMega
    ? (unitBase === 1 ? "Mibit" : "MiB")
    : `${kbBase === 1024 ? "Ki" : "k"}${unitBase === 1 ? "bit" : "B"}`;
  const whole = (value: number) => String(Math.floor(value)).padStart(5);
  const exact = (value: number) => value.toFixed(2).padStart(5);
  return [
    `   bw (${unit.padStart(5)}/s): min=${whole(bw.min * scale)}, max=${whole(bw.max * scale)}, ` +
    `per=${per.toFixed(2)}%, avg=${exact(bw.mean * scale)}, ` +
    `stdev=${exact(deviationOf(bw) * scale)}, samples=${bw.samples}`,
    `   iops        : min=${whole(iops.min)}, max=${whole(iops.max)}, avg=${exact(iops.mean)}, ` +
    `stdev=${exact(deviationOf(iops))}, samples=${iops.samples}`,
  ];
}

function classLines(row: Row): string[] {
  const lines: string[] = [];
  for (const [unit, shares] of Object.entries(classesOf(row))) {
    const cells = shares.filter(([, percent]) => percent > 0)
      .map(([name, percent]) => `${name}=${percent.toFixed(2)}%`);
    for (let i = 0; i < cells.length; i += 5) {
      lines.push(`  lat (${unit})   : ${cells.slice(i, i + 5).join(", ")}`);
    }
  }
  return lines;
}

function groupLines(
  directions: ReadonlyMap<Direction, GroupDirection>,
  { figures, unitBase, kbBase }: Shown,
): string[] {
  const binary = kbBase === 1024;
  const rate = (value: number, isBinary: boolean) =>
    rateText(value, { figures, unitBase, binary: isBinary });
  const size = (value: number, isBinary: boolean) =>
    num2str(value, { figures, binary: isBinary, unit: "B" });
  return [...directions].map(([direction, group]) => {
    const both = (show: (value: number, isBinary: boolean) => string, value: number) =>
      `${show(value, binary)} (${show(value, !binary)})`;
    const range = (isBinary: boolean) =>
      `${rate(group.leastRate, isBinary)}-${rate(group.mostRate, isBinary)}`;
    return `${direction.toUpperCase().padStart(7)}: bw=${both(rate, group.rate)}, ` +
      `${range(binary)} (${range(!binary)}), io=${both(size, group.bytes)}, ` +
      `run=${millisecondsOf(group.leastPs)}-${millisecondsOf(group.mostPs)}msec`;
  });
}
