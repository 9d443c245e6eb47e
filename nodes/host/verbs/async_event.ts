/** Asynchronous events: `ibv_get_async_event`. What the driver does about them is in `verbs.ts`. */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device } from "./device.ts";
import type { Steps } from "../cpu/program.ts";

/** The signal by which the host says that the firmware has told of something. */
const EVENT_SIGNAL = "rnic-event";

/** The oldest event that nobody has taken, of whichever program's object; waits for one. */
export function* getAsyncEvent(
  device: Device,
  options: { readonly deadline?: Time } = {},
): Steps<RnicEvent | "timeout"> {
  const { cpu, state } = device;
  for (;;) {
    const event = state.asyncEvents.shift();
    if (event !== undefined) return event;
    const how = yield* cpu.waitSignal(EVENT_SIGNAL, options.deadline ?? NEVER);
    if (how === "timeout" && state.asyncEvents.length === 0) return "timeout";
  }
}
