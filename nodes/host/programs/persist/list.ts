/** Lists the objects in another host's SCM. */
import type { Steps } from "../../cpu/program.ts";
import { countOption, microsecondsOption, textOption } from "../common/options.ts";
import { ask, closeClient, isFailure, openClient } from "./persist_client.ts";
import type { ProgramContext } from "../../program_context.ts";

/** The program. Option: `from`; `attempts`, `pauseUs`, `idleUs` as in `put`. Reports `result`. */
export function* list({ cpu, device, options }: ProgramContext): Steps<void> {
  const from = textOption(options, "from");
  const report = { program: "list", from };
  const client = yield* openClient(device, {
    to: from,
    terms: { method: "read", policy: "persistence", messageBytes: 1, depth: 1 },
    mode: device.state.completion,
    attempts: countOption(options, "attempts", { least: 1, otherwise: 10 }),
    pausePs: microsecondsOption(options, "pauseUs", 200),
    idlePs: microsecondsOption(options, "idleUs", 50_000),
  });
  if (isFailure(client)) {
    cpu.report("result", { ...report, status: "failed", error: client.error });
    return;
  }
  const objects: { name: string; length: number }[] = [];
  let next = 0;
  let error: string | undefined;
  do {
    const answer = yield* ask(client, { type: "list", id: 0, next });
    if (isFailure(answer)) error = answer.error;
    else if (answer.type !== "names") error = "protocol";
    else objects.push(...answer.objects);
    next = !isFailure(answer) && answer.type === "names" ? answer.next : 0;
  } while (next > 0);
  const status = error === undefined ? "done" : "failed";
  cpu.report("result", { ...report, status, ...(error !== undefined && { error }), objects });
  yield* closeClient(client);
}
