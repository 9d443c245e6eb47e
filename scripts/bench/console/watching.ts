/** (n) What pages that look at a rack of processes cost it. */
import { linkedTo, type RackLink, type RackUp } from "../../../console/rack/live/racks.ts";
import { processorMs } from "../../../console/base/process_stat.ts";
import { readProcesses } from "../../../console/rack/process_table.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { say } from "../../commands/output.ts";
import { ConsolePages } from "./browser.ts";
import type { Figure, Measured } from "../figure.ts";
import { onRack } from "../on_rack.ts";

/** The hosts write to one another for longer than any measure takes. */
const RACK = `name: watched
fabric: { topology: star, rate: 100Gbps, mtu: 4096 }
defaults: { services: none, scm: { size: 4KiB }, dram: 64MiB }
hosts: { a: {}, b: {} }
programs:
  - { on: [a, b], run: sink }
  - { on: [a, b], run: bulk, to: next, size: 16KiB, depth: 4, time: 5s }
`;

/**
 * A reader of the feed that draws nothing; pages. Each watched span stands between two unwatched
 * ones.
 */
const WATCHED = ["feed", 1, 3] as const;
type Watch = 0 | typeof WATCHED[number];
const SETTLE_MS = 2_000;

interface Span {
  /** In a wall second; `cpuUs`: the rack's processor time for each. */
  readonly eventsPerS: number;
  readonly cpuUs: number;
  readonly browser: number;
  readonly console: number;
}

export async function measureWatching({ quick, seed }: Measured): Promise<Figure[]> {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-bench-watch-" });
  Deno.env.set("RACKMESH_CACHE", folder);
  const scenario = `${folder}/watched.yaml`;
  await Deno.writeTextFile(scenario, RACK);
  try {
    const pages = await ConsolePages.open();
    try {
      const measure = (rack: RackUp) =>
        linkedTo(rack, (link) => measureRack(link, pages, quick), { as: "viewer" });
      return await onRack(scenario, { packing: "node", seed }, measure);
    } finally {
      await pages.close();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function measureRack(link: RackLink, pages: ConsolePages, quick: boolean): Promise<Figure[]> {
  const ms = quick ? 4_000 : 10_000, rounds = quick ? 2 : 8;
  const found = new Map<
    Watch,
    { readonly now: Span; readonly before: Span; readonly after: Span }[]
  >();
  await sleep(SETTLE_MS);
  let before = await span(link, pages, ms);
  for (let round = 0; round < rounds; round++) {
    for (const watch of WATCHED) {
      say(`watched by ${nameOf(watch)}, round ${round + 1}`);
      const end = await watched(watch, link, pages);
      await sleep(SETTLE_MS);
      const now = await span(link, pages, ms);
      await end();
      await sleep(SETTLE_MS);
      const after = await span(link, pages, ms);
      found.set(watch, [...found.get(watch) ?? [], { now, before, after }]);
      before = after;
    }
  }
  const all = [...found.values()].flat();
  return [
    {
      group: "n",
      what: "events/s, nobody looks",
      unit: "/s",
      values: all.map(({ after }) => after.eventsPerS),
    },
    ...WATCHED.flatMap((watch) => figures(watch, found.get(watch)!)),
  ];
}

function figures(
  watch: Watch,
  rows: readonly { readonly now: Span; readonly before: Span; readonly after: Span }[],
): Figure[] {
  const less = (of: (span: Span) => number) =>
    rows.map(({ now, before, after }) => 100 * (1 - of(now) / ((of(before) + of(after)) / 2)));
  const target = { is: "at most", value: 3 } as const;
  return [
    {
      group: "n",
      what: `fewer events/s, ${nameOf(watch)}`,
      unit: "%",
      values: less(({ eventsPerS }) => eventsPerS),
      ...(watch === 1 && { target }),
    },
    {
      group: "n",
      what: `more processor time of the rack for an event, ${nameOf(watch)}`,
      unit: "%",
      values: less(({ cpuUs }) => cpuUs).map((percent) => -percent),
    },
    ...(["browser", "console"] as const).map((who) => ({
      group: "n" as const,
      what: `of a core: the ${who}, ${nameOf(watch)}`,
      unit: "%",
      values: rows.map(({ now }) => now[who]),
    })),
  ];
}

function nameOf(watch: Watch): string {
  if (watch === "feed") return "a reader of the feed";
  return watch === 1 ? "one page" : `${watch} pages`;
}

/** @returns a function that ends the watching. */
async function watched(
  watch: Watch,
  { rack: { id } }: RackLink,
  pages: ConsolePages,
): Promise<() => Promise<void>> {
  if (watch === "feed") {
    const { body } = await fetch(`${pages.origin}/api/v1/feed?run=${id}`, {
      headers: { Authorization: `Bearer ${await pages.key()}` },
    });
    const reader = body!.getReader();
    const read = (async () => {
      while (!(await reader.read()).done);
    })();
    // Told to the measure, unless that was interrupted and the console has ended.
    read.catch(() => {});
    return async () => {
      await reader.cancel();
      await read;
    };
  }
  const open = await Promise.all(Array.from({ length: watch }, () => pages.page(id)));
  return async () => {
    for (const page of open) await page.close();
  };
}

async function span(
  { rack: { directory }, control }: RackLink,
  pages: ConsolePages,
  ms: number,
): Promise<Span> {
  const cpuMs = () =>
    readProcesses(directory).reduce(
      (sum, { pid }) => sum + (pid === null ? 0 : processorMs(pid) ?? 0),
      0,
    );
  const from = await control.status(), fromMs = performance.now(), fromCpu = cpuMs();
  const fromBrowser = await pages.processorMs(), fromConsole = processorMs(Deno.pid)!;
  await sleep(ms);
  const to = await control.status(), toMs = performance.now(), events = to.events - from.events;
  const share = (cpu: number) => 100 * cpu / (toMs - fromMs);
  return {
    eventsPerS: 1_000 * events / (toMs - fromMs),
    cpuUs: 1_000 * (cpuMs() - fromCpu) / events,
    browser: share(await pages.processorMs() - fromBrowser),
    console: share(processorMs(Deno.pid)! - fromConsole),
  };
}
