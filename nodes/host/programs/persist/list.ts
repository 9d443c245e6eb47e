/** Lists the objects in another host's SCM. */
import type { Steps } from "../../cpu/program.ts";
import type { ProgramContext } from "../../program_context.ts";
import type { ListedObject } from "../common/persist_protocol.ts";
import { textOption } from "../common/options.ts";
import { outcomeOf } from "../common/summary.ts";
import { ask, isFailure, type PersistClient, runClient, waitingOptions } from "./persist_client.ts";

/** The program. Options: `from`; those of waiting as in `put`. Reports `result`. */
export function* list(context: ProgramContext): Steps<void> {
  const from = textOption(context.options, "from");
  const report = { program: "list", from };
  const terms = { method: "read", policy: "persistence", messageBytes: 1, depth: 1 } as const;
  yield* runClient(context, { to: from, terms, ...waitingOptions(context) }, {
    report,
    *prepare(client) {
      return client;
    },
    *run(client) {
      const { error, objects } = yield* objectsOf(client);
      return { ...report, ...outcomeOf(error), objects };
    },
  });
}

function* objectsOf(client: PersistClient) {
  const objects: ListedObject[] = [];
  let next = 0;
  do {
    const answer = yield* ask(client, { type: "list", id: 0, next });
    if (isFailure(answer)) return { error: answer.error, objects };
    if (answer.type !== "names") return { error: "protocol", objects };
    objects.push(...answer.objects);
    next = answer.next;
  } while (next > 0);
  return { error: undefined, objects };
}
