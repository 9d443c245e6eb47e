/** Removes an object: persistent when the program ends. */
import { machineOf } from "../../../../fabric/rack/plan/names.ts";
import type { Steps } from "../../cpu/program.ts";
import type { ProgramContext } from "../../program_context.ts";
import { textOption } from "../common/options.ts";
import { outcomeOf } from "../common/summary.ts";
import { ask, isFailure, type PersistClient, runClient, waitingOptions } from "./persist_client.ts";

/**
 * The program. Options: `from`, `name` of the object; those of waiting as in `put`. Reports
 * `result`.
 */
export function* remove(context: ProgramContext): Steps<void> {
  const { cpu, options } = context;
  const from = textOption(options, "from"), name = textOption(options, "name");
  const report = { program: "remove", from, name };
  const terms = { method: "read", policy: "persistence", messageBytes: 1, depth: 1 } as const;
  const audit = (state: "removing" | "removed") => {
    if (cpu.auditing) {
      cpu.note({ kind: "object", state, name, on: machineOf(from), at: 0, length: 0 });
    }
  };
  yield* runClient(context, { to: from, terms, ...waitingOptions(context) }, {
    report,
    *prepare(client) {
      return client;
    },
    *run(client) {
      audit("removing");
      const { error } = yield* removeObject(client, name);
      if (error === undefined) audit("removed");
      return { ...report, ...outcomeOf(error) };
    },
  });
}

function* removeObject(
  client: PersistClient,
  name: string,
): Steps<{ readonly error: string | undefined }> {
  const answer = yield* ask(client, { type: "remove", id: 0, name });
  if (isFailure(answer)) return answer;
  return { error: answer.type === "remove" ? undefined : "protocol" };
}
