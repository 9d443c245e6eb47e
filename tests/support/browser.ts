/** The console in a browser, on a rack of processes: what a person does, and what the page shows. */
import assert from "node:assert/strict";
import { AxeBuilder } from "@axe-core/playwright";
import { type Browser, chromium, type Locator, type Page } from "playwright-core";
import { executableInPath } from "../../console/base/executables.ts";
import { statOf } from "../../console/base/process_stat.ts";
import { CommandRig, type RunningCommand } from "./command.ts";
import { eventually } from "./eventually.ts";

const PROGRAMS = ["chromium-headless-shell", "chromium"];

/** The path of the first that runs. */
function programThere(): string | undefined {
  const there = PROGRAMS.map(executableInPath).filter((path) => path !== undefined);
  return there.find((path) => new Deno.Command(path, { args: ["--version"] }).outputSync().success);
}

const PROGRAM = programThere();

/** Why there is no browser here; undefined where there is one. */
export const browserMissing = PROGRAM === undefined
  ? `there is no ${PROGRAMS.join(", and no ")} here`
  : undefined;

/** A browser without a window. @param args switches of its own command line. */
export async function launchBrowser(args: readonly string[] = []): Promise<Browser> {
  return await chromium.launch({ executablePath: PROGRAM!, args: [...args] });
}

/** What `rack console --viewer --json` prints. */
interface Printed {
  readonly url: string;
  readonly viewerUrl: string;
  readonly origin: string;
  readonly rack?: string;
}

/** The sizes in which each view has to be good. */
export const SIZES = [
  { width: 1440, height: 900 },
  { width: 1024, height: 768 },
  { width: 768, height: 1024 },
] as const;

/** Where pictures of the views go; without it none are made. */
const PICTURES = Deno.env.get("RACKMESH_TEST_PICTURES");

/** For the page to show something: far longer than it takes, also on a busy machine. */
const SHOWN_MS = 5 * 60_000;

async function printedBy(command: RunningCommand): Promise<Printed> {
  let isOver = false;
  command.ended.finally(() => isOver = true).catch(() => {});
  await eventually("the console prints its address", () => {
    assert.ok(!isOver, `rack console has ended: ${command.stderr}`);
    return command.stdout.includes("}\n");
  });
  return JSON.parse(command.stdout);
}

export class BrowserRig {
  readonly commands: CommandRig;
  readonly printed: Printed;
  /** Of the operator, in one tab. */
  readonly page: Page;
  /** What went wrong in any page: exceptions, and what the content security policy has refused. */
  readonly errors: string[] = [];
  readonly #browser: Browser;
  #command: RunningCommand;
  #isEnded = false;

  private constructor(
    { commands, printed, browser, command, page }: {
      readonly commands: CommandRig;
      readonly printed: Printed;
      readonly browser: Browser;
      readonly command: RunningCommand;
      readonly page: Page;
    },
  ) {
    this.commands = commands;
    this.printed = printed;
    this.#browser = browser;
    this.#command = command;
    this.page = page;
    this.#watch(page);
  }

  /** Starts `rack console` with these arguments, and opens its address. */
  static async open(args: readonly string[]): Promise<BrowserRig> {
    const commands = await CommandRig.open();
    const command = commands.start(["console", "--json", "--viewer", ...args]);
    try {
      const printed = await printedBy(command);
      const browser = await launchBrowser();
      const context = await browser.newContext({ viewport: SIZES[0], colorScheme: "dark" });
      context.setDefaultTimeout(SHOWN_MS);
      const page = await context.newPage();
      const rig = new BrowserRig({ commands, printed, browser, command, page });
      await page.goto(printed.url);
      return rig;
    } catch (error) {
      command.kill("SIGINT");
      await command.ended;
      await commands.closeDown();
      throw error;
    }
  }

  #watch(page: Page): void {
    page.on("pageerror", ({ message }) => this.errors.push(message));
    page.on("console", (message) => {
      // What the server refuses, the page says itself.
      const isAnswer = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isAnswer) this.errors.push(message.text());
    });
  }

  /** A page of a browser that nobody has signed in. */
  async stranger(url: string): Promise<Page> {
    const context = await this.#browser.newContext({ viewport: SIZES[0] });
    context.setDefaultTimeout(SHOWN_MS);
    const page = await context.newPage();
    this.#watch(page);
    await page.goto(url);
    return page;
  }

  /** Goes to a view by the rail. */
  async view(title: string): Promise<void> {
    await this.page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: title })
      .click();
  }

  /** A device in the picture of the rack. */
  device(name: string): Locator {
    return this.page.locator(`[data-device="${name}"]`);
  }

  /** No finding of axe in the page as it is now, and no text that is cut without a sign of it. */
  async accessible(what: string): Promise<void> {
    const { violations } = await new AxeBuilder({ page: this.page }).analyze();
    const found = violations.map(({ id, help, nodes }) =>
      `${id}: ${help}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join("; ")}`
    );
    assert.deepEqual([...found, ...await this.page.evaluate(textsCut)], [], what);
  }

  /** Pictures of the page as it is now, in all sizes and both themes, where they are wanted. */
  async pictures(name: string): Promise<void> {
    if (PICTURES === undefined) return;
    await Deno.mkdir(PICTURES, { recursive: true });
    for (const colorScheme of ["dark", "light"] as const) {
      await this.page.emulateMedia({ colorScheme });
      for (const size of SIZES) {
        await this.page.setViewportSize(size);
        // The picture of the rack follows the size of the window.
        await this.page.waitForTimeout(150);
        await this.page.screenshot({
          path: `${PICTURES}/${name}-${size.width}-${colorScheme}.png`,
        });
      }
    }
    await this.page.setViewportSize(SIZES[0]);
    await this.page.emulateMedia({ colorScheme: "dark" });
  }

  /** `kill -9` of the console: its rack stays up. */
  async killConsole(): Promise<void> {
    this.#command.kill("SIGKILL");
    await this.#command.ended;
  }

  /** Its process stands: its sockets are open, and nobody answers. */
  async stopConsole(): Promise<void> {
    this.#command.kill("SIGSTOP");
    const { pid } = this.#command;
    await eventually("the console stands", () => statOf(pid)?.[0] === "T");
  }

  goOnConsole(): void {
    this.#command.kill("SIGCONT");
  }

  /** A console again, at the same address. @returns what signs in to it. */
  async consoleAgain(): Promise<string> {
    const { port } = new URL(this.printed.origin);
    this.#command = this.commands.start(["console", "--json", "--port", port]);
    return (await printedBy(this.#command)).url;
  }

  /** Ctrl-C: the console ends, with its rack. */
  async endConsole(): Promise<void> {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#command.kill("SIGINT");
    await this.#command.ended;
  }

  /** Ends browser, console and rack, and sees that nothing is left. */
  async close(): Promise<void> {
    await this.#browser.close();
    await this.endConsole();
    await this.commands.closeDown();
  }
}

/** Runs in the page: texts that a box without a scroll bar cuts, and that no ellipsis ends. */
function textsCut(): string[] {
  // deno-lint-ignore no-explicit-any -- the page's, whose types are not here
  const { document, getComputedStyle } = globalThis as any;
  const found: string[] = [];
  for (const element of document.querySelectorAll("body *")) {
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = element;
    if (clientWidth < 2 || clientHeight < 2 || element.closest("svg, canvas, select")) continue;
    const { overflowX, overflowY, textOverflow, webkitLineClamp } = getComputedStyle(element);
    // Ends with an ellipsis by itself.
    if (webkitLineClamp !== "none") continue;
    const hasText = [...element.childNodes].some((node) =>
      node.nodeType === 3 && node.textContent.trim() !== ""
    );
    const isCut = (overflow: string, size: number, room: number) =>
      (overflow === "hidden" || overflow === "clip") && size > room + 2;
    const isWide = isCut(overflowX, scrollWidth, clientWidth) && textOverflow !== "ellipsis";
    if (hasText && (isWide || isCut(overflowY, scrollHeight, clientHeight))) {
      found.push(`cut without an ellipsis: ${element.outerHTML.slice(0, 160)}`);
    }
  }
  return found;
}
