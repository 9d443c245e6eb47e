/**
 * The service `console` of a rack in containers: puts the rack of the name in `RACKMESH_RUN` into the
 * list of runs, then runs `rack` with its arguments.
 */
import { USERS } from "../fabric/bus/access.ts";
import { EXIT } from "../fabric/base/exit.ts";
import { readVariableFiles } from "../fabric/process.ts";
import { busAddressFrom } from "../fabric/rack/assembly/run_file.ts";
import { RUN_NAME, VIEWER_PASSWORD } from "../console/rack/containers/compose_file.ts";
import { explain } from "../console/rack/failure.ts";
import { attachRack } from "../console/rack/remote/attach.ts";
import { say } from "../scripts/commands/output.ts";

try {
  readVariableFiles();
  const run = Deno.env.get(RUN_NAME) ?? "";
  await attachRack({
    run,
    address: busAddressFrom((variable) => Deno.env.get(variable)),
    viewer: { user: USERS.viewer, password: Deno.env.get(VIEWER_PASSWORD) ?? "" },
    goneMs: Infinity,
    onWaiting: say,
  });
  say(`${run} is in the list of runs`);
} catch (error) {
  const { message, code } = explain(error);
  say(message);
  Deno.exit(code ?? EXIT.internal);
}
await import("./rack_main.ts");
