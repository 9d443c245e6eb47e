import type { Command } from "commander";
import { rackEvents } from "../../console/rack/live/events.ts";
import { findUp, linkedTo } from "../../console/rack/live/racks.ts";
import { plainly } from "../../console/reports/json.ts";
import { onInterrupt } from "./interrupt.ts";
import { addRunOption, type LiveFlags } from "./options.ts";
import { OutputClosed, print } from "./output.ts";

export function addEvents(program: Command): void {
  addRunOption(program.command("events"))
    .description("what happens to the rack that is up, a JSON document a line: its state first")
    .option("--json", "taken for the sake of habit: there is no other form")
    .addHelpText(
      "after",
      `
Each line has "event": state (the first), process, power, link, clock, report, and ended (the last).
Times are in ps of the rack's own time. It ends with the rack, or at Ctrl-C.

Example:
  rack events | jq 'select(.event == "power")'`,
    )
    .action(events);
}

const BYTES_MAX = 64;

function shortly(key: string, value: unknown): unknown {
  const isLong = value instanceof Uint8Array && value.length > BYTES_MAX;
  return isLong ? { bytes: value.length } : plainly(key, value);
}

async function events({ run }: LiveFlags): Promise<void> {
  const signal = onInterrupt("no more events");
  try {
    // The rack's end is the last event.
    await linkedTo(await findUp(run), async (link) => {
      for await (const event of rackEvents(link, signal)) print(JSON.stringify(event, shortly));
    });
  } catch (error) {
    // `rack events | head -n 1`: the reader has seen enough.
    if (!(error instanceof OutputClosed)) throw error;
  }
}
