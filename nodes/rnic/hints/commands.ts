/** Commands about hints: of a program with a hint of its own making (H-09), of a core that works for hints ([0114]). */
import type { CommandOf, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { decodeHint } from "../../../fabric/wire/roce/hint.ts";
import { HINT_ETH_BYTES } from "../../../fabric/wire/roce/hint_eth.ts";
import { endOf } from "./agree.ts";
import { endHostWork } from "./do_work.ts";
import { sendHint } from "./send_hint.ts";
import type { Device } from "../state/device.ts";
import { rights } from "../state/life_cycle.ts";
import { traceHintOut } from "./trace.ts";
import { DONE, noSuch, refusal } from "../state/reply.ts";

/**
 * Sends the message unchanged, whatever it says and whatever its number. EINVAL where it is no hint or longer than
 * a packet, or where the queue pair has none: UD, no part in hints, not in RTS, or a peer that has said nothing.
 */
export function sendOwnHint(
  device: Device,
  { qpn, message: bytes }: CommandOf<"send-hint">,
): RnicReply {
  const { hints, queuePairs } = device;
  const qp = queuePairs.get(qpn);
  if (qp === undefined) return noSuch("queue pair", qpn);
  const end = hints && endOf(hints, qp);
  if (hints === undefined || end === undefined || !rights(qp.state).sends) {
    return refusal(
      "EINVAL",
      `QP ${qpn} sends no hints: expected an RC or UC queue pair in RTS with them`,
    );
  }
  if (end.agreed === undefined) {
    return refusal("EINVAL", `The peer of QP ${qpn} has not said which hints it wants`);
  }
  const message = decodeHint(bytes);
  const most = HINT_ETH_BYTES + qp.attributes.pathMtu;
  if (message === undefined || bytes.length > most) {
    return refusal("EINVAL", `${bytes.length} B are no hint of at most ${most} B`);
  }
  hints.counters.hintsSent++;
  if (device.out.tracing) traceHintOut(device, message, `of a program, by QP ${qpn}`);
  sendHint(device, { hints, qp, end }, message);
  return DONE;
}

/** A core has done the work that an event told it of. ENOENT: the card waits for none of that number. */
export function takeHostWork(device: Device, { id }: CommandOf<"hint-work">): RnicReply {
  if (endHostWork(device, id)) return DONE;
  return refusal("ENOENT", `No work ${id} of hints is waited for`);
}
