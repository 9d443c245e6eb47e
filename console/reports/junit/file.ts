/** `--junit FILE`: the verdicts of a command for a CI, also of one that fails. */
import { dirname } from "node:path";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { explain } from "../../rack/failure.ts";
import { type JunitSuite, junitXml } from "./xml.ts";

export interface JunitFlags {
  readonly junit?: string;
}

/** Writes nothing where the command was not asked for verdicts. */
export class JunitFile {
  readonly #file: string | undefined;
  readonly #command: string;

  private constructor(file: string | undefined, command: string) {
    this.#file = file;
    this.#command = command;
  }

  /**
   * Until there are verdicts the file says that the command has not ended: an earlier command's
   * verdicts never stand for this one.
   * @param command its words.
   * @throws Refusal where the file cannot be written.
   */
  static async open({ junit }: JunitFlags, command: string): Promise<JunitFile> {
    const file = new JunitFile(junit, command);
    await file.#fail("it has not ended");
    return file;
  }

  /** Where this part of the command fails, so does the one case of the file. */
  async of<Result>(work: Promise<Result>): Promise<Result> {
    try {
      return await work;
    } catch (error) {
      await this.#fail(explain(error).message);
      throw error;
    }
  }

  /** At the command's end. @throws Refusal */
  async write(suites: readonly JunitSuite[]): Promise<void> {
    if (this.#file !== undefined) await write(this.#file, junitXml(this.#command, suites));
  }

  async #fail(text: string): Promise<void> {
    await this.write([failedSuite(this.#command, text)]);
  }
}

function failedSuite(command: string, text: string): JunitSuite {
  const message = text.split("\n")[0]!;
  const problem = { kind: "error", type: "command", message, text } as const;
  return { name: command, classname: command, cases: [{ name: "command", problem }] };
}

async function write(file: string, text: string): Promise<void> {
  try {
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeTextFile(file, text);
  } catch (cause) {
    const found = `Cannot write --junit ${file}: ${(cause as Error).message}`;
    throw refusal("", { found, expected: "a file", cause });
  }
}
