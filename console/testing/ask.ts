/** The test's end of the process that runs a rack; `main.ts` is the other. */
import { deserialize } from "node:v8";
import { fromFileUrl, projectFile } from "../base/paths.ts";
import { rackProcessArgs } from "../base/v8_flags.ts";
import { RackFailure } from "./failure.ts";
import type { Answer, Question } from "./types.ts";

/** From the signal to the end of a process that does not take its rack down by itself. */
const END_MS = 5_000;
const UNCLEAR = 2;

/**
 * Asks a new process, which has the rights of the `rack` command, and waits for its end.
 * @throws RackFailure where it refuses or fails; the reason of `signal`.
 */
export async function ask<Kind extends Question["kind"]>(
  question: Question & { readonly kind: Kind },
  signal: AbortSignal | undefined,
): Promise<Extract<Answer, { readonly kind: Kind }>> {
  signal?.throwIfAborted();
  const line = new TextEncoder().encode(`${textOf(question)}\n`);
  const child = new Deno.Command(Deno.execPath(), {
    args: rackProcessArgs("console/testing/main.ts"),
    stdin: "piped",
    stdout: "piped",
    // Programs' output, as `rack run` shows it.
    stderr: "inherit",
  }).spawn();
  const input = child.stdin.getWriter();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    // The end of its input tells the process to take its rack down.
    void input.close().catch(() => {});
    timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
  };
  signal?.addEventListener("abort", end);
  try {
    // A process that has ended does not read: its end is what is reported.
    void input.write(line).catch(() => {});
    const [bytes, { code, signal: by }] = await Promise.all([
      new Response(child.stdout).bytes(),
      child.status,
    ]);
    signal?.throwIfAborted();
    if (bytes.length === 0) {
      const how = by ?? `exit code ${code}`;
      const command = fromFileUrl(projectFile("scripts/rack"));
      const expected = "expected an answer; stderr may say why";
      throw new RackFailure(
        `Found that the process of the rack ended by itself (${how}): ${expected}, and \`${command} --version\` sets up what is missing`,
        UNCLEAR,
      );
    }
    const answer: Answer = deserialize(bytes);
    if (answer.kind === "failed") throw new RackFailure(answer.message, answer.code);
    return answer as Extract<Answer, { readonly kind: Kind }>;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
    await input.close().catch(() => {});
  }
}

/** JSON has no bigint, no bytes and no infinity: options with them would become others. */
function textOf(question: Question): string {
  return JSON.stringify(question, (key, value) => {
    const isNone = typeof value === "bigint" || typeof value === "function" ||
      (typeof value === "number" && !Number.isFinite(value)) || ArrayBuffer.isView(value);
    if (!isNone) return value;
    const found = `${key} is ${typeof value === "object" ? "bytes" : String(value)}`;
    throw new RackFailure(`${found}: expected what a scenario can say`, 64);
  });
}
