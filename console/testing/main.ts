/**
 * The process in which a test's rack runs: one question on stdin, one answer on stdout. It ends when its
 * stdin does, and takes its rack down before.
 */
import { serialize } from "node:v8";
import { explain } from "../rack/failure.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { TEST_NAMES } from "../../fabric/rack/plan/option_rows.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { exploreFor, runFor } from "./answers.ts";
import { readQuestion } from "./question.ts";
import type { Answer } from "./types.ts";

async function answerTo(line: string, signal: AbortSignal): Promise<Answer> {
  try {
    const question = readQuestion(JSON.parse(line));
    return question.kind === "run"
      ? await runFor(question, { signal, onLog: (text) => console.error(text) })
      : await exploreFor(question, signal);
  } catch (error) {
    const said = error instanceof Refusal ? error.inNames(TEST_NAMES) : error;
    return { kind: "failed", ...explain(said) };
  }
}

async function main(): Promise<void> {
  // The test's process ends this one in order; a terminal sends SIGINT to both.
  Deno.addSignalListener("SIGINT", () => {});
  const ended = new AbortController();
  const { promise: asked, resolve } = Promise.withResolvers<string>();
  void (async () => {
    let text = "";
    for await (const part of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
      text += part;
      const end = text.indexOf("\n");
      if (end >= 0) resolve(text.slice(0, end));
    }
    ended.abort();
    resolve("");
  })();
  const line = await asked;
  if (line === "") Deno.exit(EXIT.usage);
  const bytes = serialize(await answerTo(line, ended.signal));
  try {
    for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
  } catch (error) {
    // The test's process has ended, and reads no answer.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
  Deno.exit(EXIT.done);
}

if (import.meta.main) await main();
