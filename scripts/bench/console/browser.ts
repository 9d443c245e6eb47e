import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { executableInPath } from "../../../console/base/executables.ts";
import { makePage } from "../../../console/server/page.ts";
import { startConsole, type Started } from "../../../console/server/start.ts";
import { RackError } from "../../../console/base/rack_error.ts";

const PROGRAMS = ["chromium-headless-shell", "chromium"];
/** A replay of a million events takes seconds, on a busy machine minutes. */
const REPLAYED_MS = 300_000;
/**
 * The command ends the browser: playwright's own listeners would end the process before its rack is
 * down.
 */
export const SIGNALS = { handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false } as const;
const VIEWPORT = { width: 1440, height: 900 };

export function browserProgram(): string | undefined {
  return PROGRAMS.map(executableInPath).find((path) => path !== undefined);
}

export class ConsolePages {
  readonly console: Started;
  readonly #browser: Browser;
  readonly #context: BrowserContext;

  private constructor(console: Started, browser: Browser, context: BrowserContext) {
    this.console = console;
    this.#browser = browser;
    this.#context = context;
  }

  /** @throws RackError where there is no browser. */
  static async open(): Promise<ConsolePages> {
    const executablePath = browserProgram();
    if (executablePath === undefined) {
      throw new RackError(`There is no ${PROGRAMS.join(", no ")} here`);
    }
    const page = await makePage();
    const console = await startConsole({ address: "127.0.0.1", port: 0, page });
    const browser = await chromium.launch({ executablePath, ...SIGNALS });
    const context = await browser.newContext({ viewport: VIEWPORT });
    const pages = new ConsolePages(console, browser, context);
    try {
      // The key stays in the context's localStorage: its other pages are signed in by it.
      const first = await context.newPage();
      await first.goto(await console.link("operator"));
      await first.getByRole("navigation", { name: "Views" }).waitFor();
      await first.close();
      return pages;
    } catch (error) {
      await pages.close();
      throw error;
    }
  }

  get origin(): string {
    return this.console.origins[0]!;
  }

  async key(): Promise<string> {
    const { origins } = await this.#context.storageState();
    const kept = origins.flatMap(({ localStorage }) => localStorage.map(({ value }) => value));
    return kept.find((value) => value.length >= 40)!;
  }

  async page(run: string, view = "rack"): Promise<Page> {
    const page = await this.#context.newPage();
    await page.goto(`${this.origin}/#/${view}?run=${run}`);
    await page.getByRole("slider", { name: "Instant" }).waitFor();
    return page;
  }

  async replayed(run: string, view: string): Promise<Page> {
    const page = await this.#context.newPage();
    const isTimeline = (url: string) => new URL(url).pathname.endsWith("/timeline");
    const replayed = page.waitForResponse((answer) => isTimeline(answer.url()), {
      timeout: REPLAYED_MS,
    });
    await page.goto(`${this.origin}/#/${view}?run=${run}`);
    await page.getByRole("slider", { name: "Instant" }).waitFor();
    await replayed;
    return page;
  }

  async fresh(): Promise<{ readonly page: Page; readonly close: () => Promise<void> }> {
    const context = await this.#browser.newContext({
      viewport: VIEWPORT,
      storageState: await this.#context.storageState(),
    });
    return { page: await context.newPage(), close: () => context.close() };
  }

  async processorMs(): Promise<number> {
    const protocol = await this.#browser.newBrowserCDPSession();
    const { processInfo } = await protocol.send("SystemInfo.getProcessInfo");
    await protocol.detach();
    return 1_000 * processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
  }

  async close(): Promise<void> {
    await this.#browser.close();
    await this.console.end();
  }
}
