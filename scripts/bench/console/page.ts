import type { Page } from "playwright-core";
import { linkedTo } from "../../../console/rack/live/racks.ts";
import { startDevice } from "../../../console/rack/live/power.ts";
import { readProcesses } from "../../../console/rack/process_table.ts";
import { runScenario } from "../../../console/rack/run_scenario.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { onInterrupt } from "../../commands/interrupt.ts";
import { say } from "../../commands/output.ts";
import { ConsolePages } from "./browser.ts";
import type { Figure, Measured } from "../figure.ts";
import { held, onRack } from "../on_rack.ts";
import { readScenario } from "../../../console/scenarios/scenario_source.ts";

interface Rig extends Measured {
  readonly signal: AbortSignal;
  readonly folder: string;
  readonly pages: ConsolePages;
}

export async function measurePage(options: Measured): Promise<Figure[]> {
  const signal = onInterrupt("ending the bench");
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-bench-page-" });
  Deno.env.set("RACKMESH_CACHE", folder);
  try {
    const pages = await ConsolePages.open();
    const rig = { ...options, signal, folder, pages };
    try {
      return [
        ...await measurePast(rig),
        ...await measureFrames(rig),
        ...await measureDeath(rig),
      ];
    } finally {
      await pages.close();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function scenarioFile({ folder }: Rig, name: string, text: string): Promise<string> {
  const path = `${folder}/${name}.yaml`;
  await Deno.writeTextFile(path, `name: ${name}\n${text}`);
  return path;
}

async function measurePast(rig: Rig): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (
    const [mib, label] of [[8, "10⁵ events"], [
      rig.quick ? 20 : 80,
      rig.quick ? "2.5·10⁵ events" : "10⁶ events",
    ]] as const
  ) {
    say(`a run of ${label}`);
    const text = `hosts: { a: {}, b: { ddio: on, scm: { size: ${2 * mib + 16}MiB } } }\n` +
      `programs: [{ on: a, run: put, to: b, method: write-flush, depth: 16, bytes: ${mib}MiB }]\n`;
    const scenario = await scenarioFile(rig, `past-${mib}`, text);
    const isFirst = figures.length === 0, { signal } = rig;
    figures.push(
      ...await held(
        async ({ run }) => [
          ...isFirst ? await measurePaint(rig, run) : [],
          ...await measureSlider(rig, { run, label }),
        ],
        {
          signal,
          up: async () =>
            await runScenario(await readScenario(scenario), {
              prepare: { packing: "all", seed: rig.seed },
              signal,
            }),
          // A run has taken its rack down; its files go with the folder.
          down: () => Promise.resolve(),
        },
      ),
    );
  }
  return figures;
}

async function measurePaint({ pages, quick }: Rig, run: string): Promise<Figure[]> {
  const paints: number[] = [], devices: number[] = [];
  let bytes = 0;
  for (let i = 0; i < (quick ? 3 : 10); i++) {
    const { page, close } = await pages.fresh();
    await page.goto(`${pages.origin}/#/rack?run=${run}`);
    await page.locator("[data-device]").first().waitFor();
    devices.push(await page.evaluate<number>("performance.now()"));
    paints.push(
      await page.evaluate<number>(
        `performance.getEntriesByName("first-contentful-paint")[0].startTime`,
      ),
    );
    bytes = await page.evaluate<number>(`
      [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
        .filter(({ name }) => !name.includes("/api/"))
        .reduce((sum, { transferSize }) => sum + transferSize, 0)`);
    await close();
  }
  return [
    { group: "o", what: "first paint", unit: "ms", values: paints, target: atMost(300) },
    { group: "o", what: "the rack is drawn", unit: "ms", values: devices },
    {
      group: "o",
      what: "the page over the wire",
      unit: "KiB",
      values: [bytes / 1024],
      target: atMost(250),
    },
  ];
}

const SHARES = [0.5, 0.9, 0.3, 0.31, 0.7, 0.1, 0.62, 0.95, 0.2, 0.45];

async function measureSlider(
  { pages, quick }: Rig,
  { run, label }: { readonly run: string; readonly label: string },
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [view, answer] of [["rack", "snapshot"], ["memory", "memory"]] as const) {
    const beganMs = performance.now();
    const page = await pages.replayed(run, view);
    await pictureAt(page, 0.4, answer);
    const firstMs = performance.now() - beganMs;
    const values: number[] = [];
    for (const share of SHARES.slice(0, quick ? 4 : SHARES.length)) {
      values.push(await pictureAt(page, share, answer));
    }
    await page.close();
    if (view === "rack") {
      figures.push({
        group: "o",
        what: `${label}: page opened, run replayed, first picture`,
        unit: "ms",
        values: [firstMs],
      });
    }
    const what = `${label}: time line to the picture, ${view}`;
    figures.push({ group: "o", what, unit: "ms", values, target: atMost(1_000) });
  }
  return figures;
}

/**
 * @returns ms from a click at this share of the time line until the answer for that instant is
 * drawn.
 */
async function pictureAt(page: Page, share: number, answer: string): Promise<number> {
  const box = (await page.getByRole("slider", { name: "Instant" }).boundingBox())!;
  await page.evaluate(`
    performance.clearResourceTimings();
    addEventListener("pointerdown", () => globalThis.pressedAt = performance.now(), { capture: true, once: true });`);
  await page.mouse.click(box.x + box.width * share, box.y + box.height / 2);
  return await page.evaluate<number>(`new Promise((resolve) => {
    const look = () => {
      const at = new URLSearchParams(location.hash.split("?")[1]).get("at");
      const isThere = performance.getEntriesByType("resource").some(({ name }) => {
        const { pathname, searchParams } = new URL(name);
        return pathname.endsWith("/${answer}") && searchParams.get("at") === at;
      });
      if (!isThere) return requestAnimationFrame(look);
      requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - globalThis.pressedAt)));
    };
    look();
  })`);
}

async function measureFrames(rig: Rig): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (
    const { hosts, leaves, spines } of [
      { hosts: 28, leaves: 6, spines: 2 },
      { hosts: 194, leaves: 8, spines: 4 },
    ]
  ) {
    const devices = 2 * hosts + leaves + spines;
    say(`${devices} devices under traffic`);
    const names = Array.from(
      { length: hosts },
      (_, i) => `  h${i + 1}: { leaf: ${i % leaves + 1} }\n`,
    );
    const text =
      `fabric: { topology: leaf-spine, leaves: ${leaves}, spines: ${spines}, mtu: 4096 }\n` +
      "defaults: { services: none, scm: { size: 4KiB }, dram: 16MiB }\n" +
      `hosts:\n${names.join("")}` +
      "programs:\n  - { on: all, run: sink }\n" +
      "  - { on: all, run: bulk, to: next, size: 16KiB, depth: 4, time: 5s }\n";
    const scenario = await scenarioFile(rig, `frames-${devices}`, text);
    await onRack(scenario, { packing: "all", seed: rig.seed }, async ({ id }) => {
      const page = await rig.pages.page(id);
      // Every host's cable carries something, in both directions.
      await page.locator(".cable.is-moving").nth(hosts - 1).waitFor({ timeout: 60_000 });
      await sleep(1_000);
      const values = await page.evaluate<number[]>(`new Promise((resolve) => {
        const frames = [], from = performance.now();
        let before;
        const frame = (now) => {
          if (before !== undefined) frames.push(now - before);
          before = now;
          if (now - from < ${rig.quick ? 3_000 : 10_000}) requestAnimationFrame(frame);
          else resolve(frames);
        };
        requestAnimationFrame(frame);
      })`);
      await page.close();
      const longest = [Math.max(...values)];
      figures.push(
        { group: "o", what: `${devices} devices: a frame`, unit: "ms", values, target: atMost(17) },
        {
          group: "o",
          what: `${devices} devices: the longest frame`,
          unit: "ms",
          values: longest,
          target: atMost(50),
        },
      );
    });
  }
  return figures;
}

/** A device's process is killed from outside; the page's own clock measures when it is shown. */
async function measureDeath(rig: Rig): Promise<Figure[]> {
  say("a kill from outside");
  const text = "hosts: { a: {}, b: {} }\n" +
    "programs: [{ on: a, run: put, to: b, method: write-flush, bytes: 64KiB }]\n";
  const scenario = await scenarioFile(rig, "death", text);
  const values: number[] = [];
  await onRack(scenario, { packing: "node", seed: rig.seed }, async (rack) => {
    const page = await rig.pages.page(rack.id);
    await sleep(1_000);
    await linkedTo(rack, async (link) => {
      for (let i = 0; i < (rig.quick ? 3 : 10); i++) {
        await page.evaluate(`void (globalThis.shownAt = new Promise((resolve) => {
          const observer = new MutationObserver(() => {
            if (document.querySelector('[data-device="b"].is-off') === null) return;
            observer.disconnect();
            resolve(Date.now());
          });
          observer.observe(document, { subtree: true, childList: true, attributes: true });
        }))`);
        const { pid } = readProcesses(rack.directory).find(({ name }) => name === "b")!;
        const killedAt = Date.now();
        Deno.kill(pid!, "SIGKILL");
        values.push(await page.evaluate<number>("globalThis.shownAt") - killedAt);
        await startDevice(link, "b");
        await page.locator('[data-device="b"]:not(.is-off)').waitFor();
        await sleep(500);
      }
    });
    await page.close();
  });
  return [{
    group: "o",
    what: "a kill -9 until the page shows it",
    unit: "ms",
    values,
    target: atMost(300),
  }];
}

function atMost(value: number) {
  return { is: "at most", value } as const;
}
