/**
 * Runs the recoveries and checks of own programs on a run. Its job comes from `protocol_checks.ts`.
 */
import { loadOwnPrograms } from "../../../nodes/load_own_programs.ts";
import {
  type CheckJob,
  endOf,
  judgeProtocols,
  type ProtocolVerdict,
} from "../../reports/protocol_checks.ts";
import { heldFor, survivedView } from "../survived.ts";
import { answerConfined } from "./answer.ts";
import { watchLoops } from "./loop_watch.ts";

async function check({ programs, lives, ...run }: CheckJob): Promise<ProtocolVerdict[]> {
  const { around } = await watchLoops();
  const scm = (host: string) => survivedView(".", host, { held: heldFor(host, run.reports) });
  const own = await loadOwnPrograms({ programs });
  return judgeProtocols(endOf({ ...run, lives: new Map(lives), scm }, own), around);
}

if (import.meta.main) await answerConfined(check);
