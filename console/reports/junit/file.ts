/** `--junit FILE`: the verdicts of a command for a CI, also of one that fails. */
import { dirname } from "node:path";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { explain } from "../../rack/failure.ts";
import { type JunitSuite, junitXml } from "./xml.ts";

export interface JunitFlags {
  readonly junit?: string;
}

/**
 * Does the work of a command, and writes what came of it; of work that fails, one error.
 * @param command its words. @throws what the work throws; Refusal where the file cannot be written, before
 * the work begins: a file of an earlier command never stands for this one.
 */
export async function withJunit<Result>(
  { junit: file }: JunitFlags,
  command: string,
  { work, suites }: {
    readonly work: () => Promise<Result>;
    readonly suites: (result: Result) => readonly JunitSuite[];
  },
): Promise<Result> {
  if (file === undefined) return await work();
  await write(file, junitXml(command, [failedSuite(command, "it has not ended")]));
  try {
    const result = await work();
    await write(file, junitXml(command, suites(result)));
    return result;
  } catch (error) {
    await write(file, junitXml(command, [failedSuite(command, explain(error).message)]));
    throw error;
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
