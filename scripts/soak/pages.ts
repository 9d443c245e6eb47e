import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";
import { ifThere } from "../../console/base/files.ts";
import type { ViewName } from "../../console/ui/state.ts";
import { statOf } from "../../console/base/process_stat.ts";
import { residentBytes } from "../../console/rack/process_table.ts";
import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import { after } from "../../fabric/bus/wall_time.ts";
import { browserProgram, SIGNALS } from "../bench/console/browser.ts";
import { RACK, rackEnv } from "./live_rack.ts";
import type { Samples } from "./samples.ts";

const VIEWS = ["rack", "memory", "operation", "runs", "chaos"] satisfies readonly ViewName[];

interface Watched {
  readonly name: string;
  readonly page: Page;
  readonly protocol: CDPSession;
}

export class SoakPages {
  readonly #child: Deno.ChildProcess;
  readonly #browser: Browser;
  readonly #pages: readonly Watched[];

  private constructor(child: Deno.ChildProcess, browser: Browser, pages: readonly Watched[]) {
    this.#child = child;
    this.#browser = browser;
    this.#pages = pages;
  }

  /**
   * @param failures receives what goes wrong in a page. @throws Error where there is no browser.
   */
  static async open(
    { cache, run, count, failures }: {
      readonly cache: string;
      readonly run: string;
      readonly count: number;
      readonly failures: string[];
    },
  ): Promise<SoakPages> {
    const executablePath = browserProgram();
    if (executablePath === undefined) throw new Error("There is no Chromium for --pages");
    const child = new Deno.Command(RACK, {
      args: ["console", "--json"],
      env: rackEnv(cache),
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const { url, origin } = await firstDocument(child);
    const browser = await chromium.launch({ executablePath, ...SIGNALS });
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const pages: Watched[] = [];
    for (let i = 0; i < count; i++) {
      const page = await context.newPage(), view = VIEWS[i % VIEWS.length]!;
      const name = `page ${i + 1} (${view})`;
      page.on("pageerror", ({ message }) => failures.push(`${name}: ${message}`));
      if (i === 0) {
        await page.goto(url);
        await page.getByRole("navigation", { name: "Views" }).waitFor();
      }
      await page.goto(`${origin}/#/${view}?run=${run}`);
      await page.getByRole("slider", { name: "Instant" }).waitFor();
      pages.push({ name, page, protocol: await context.newCDPSession(page) });
    }
    return new SoakPages(child, browser, pages);
  }

  /** Of server and pages: for a page the rest after a garbage collection. */
  async sample(samples: Samples, transfers: number): Promise<void> {
    const add = (name: string, what: Parameters<Samples["add"]>[0]["what"], value: number) =>
      samples.add({ name, what, transfers, value });
    add("console", "resident MB", residentBytes(this.#child.pid) / 1e6);
    const replays = childrenOf(this.#child.pid).filter(isReplay).map(residentBytes);
    if (replays.length > 0) add("replay", "replay MB", Math.max(...replays) / 1e6);
    for (const { name, protocol } of this.#pages) {
      await protocol.send("HeapProfiler.collectGarbage");
      const { usedSize } = await protocol.send("Runtime.getHeapUsage");
      const { nodes } = await protocol.send("Memory.getDOMCounters");
      add(name, "heap MB", usedSize / 1e6);
      add(name, "DOM nodes", nodes);
    }
  }

  /** @returns the errors of browser and console, a sentence each. */
  async end(): Promise<string[]> {
    const wrong: string[] = [];
    for (const { name, page } of this.#pages) {
      const isStale = await page.locator(".frame.is-stale").count() > 0;
      if (isStale) wrong.push(`${name} has no news of a rack that is up`);
    }
    await this.#browser.close();
    this.#child.kill("SIGINT");
    const cancel = after(PATIENCE_MS, () => this.#child.kill("SIGKILL"));
    const { code } = await this.#child.status;
    cancel();
    if (code !== 130) wrong.push(`rack console ended with code ${code}`);
    return wrong;
  }
}

function childrenOf(pid: number): number[] {
  const all = [...Deno.readDirSync("/proc")].map(({ name }) => Number(name));
  return all.filter((each) => Number.isSafeInteger(each) && Number(statOf(each)?.[1]) === pid);
}

function isReplay(pid: number): boolean {
  const line = ifThere(() => Deno.readTextFileSync(`/proc/${pid}/cmdline`)) ?? "";
  return line.includes("/console/replay/main.ts");
}

async function firstDocument(
  child: Deno.ChildProcess,
): Promise<{ readonly url: string; readonly origin: string }> {
  const cancel = after(PATIENCE_MS, () => child.kill("SIGKILL"));
  let text = "";
  try {
    for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
      text += part;
      if (text.includes("\n")) return JSON.parse(text);
    }
  } finally {
    cancel();
  }
  throw new Error("rack console has ended before it was there");
}
