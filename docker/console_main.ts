/**
 * The service `console` of a rack in containers: puts the rack of its compose project into the list
 * of runs, then runs `rack` with its arguments.
 */
import { USERS } from "../fabric/bus/access.ts";
import { EXIT } from "../fabric/base/exit.ts";
import { busAddressFrom, type RunFile } from "../fabric/rack/assembly/run_file.ts";
import { attachRack } from "../console/rack/containers/attach.ts";
import {
  BROKER_LOG_FILE,
  IN_CONTAINER,
  VIEWER_PASSWORD,
} from "../console/rack/containers/compose_file.ts";
import { explain } from "../console/rack/failure.ts";
import { say } from "../scripts/commands/output.ts";

try {
  const runFile: RunFile = JSON.parse(await Deno.readTextFile(IN_CONTAINER.runFile));
  await attachRack({
    runFile,
    address: busAddressFrom((variable) => Deno.env.get(variable)),
    viewer: { user: USERS.viewer, password: Deno.env.get(VIEWER_PASSWORD) ?? "" },
    record: IN_CONTAINER.record,
    states: IN_CONTAINER.states,
    brokerLog: BROKER_LOG_FILE,
  });
  say(`${runFile.run} is in the list of runs`);
} catch (error) {
  const { message, code } = explain(error);
  say(message);
  Deno.exit(code ?? EXIT.internal);
}
await import("./rack_main.ts");
