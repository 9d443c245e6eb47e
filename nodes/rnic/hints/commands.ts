/**
 * Commands about hints: of a program with a hint of its own making (H-09), of a core that works for hints ([0114]); and
 * what a new queue pair may have of them.
 */
import { refuseEncoding } from "../../../fabric/rack/plan/hint_plan.ts";
import { refuseWork } from "../../../fabric/rack/plan/hint_work.ts";
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

/** Why the queue pair may not have the part in hints that it asks for. */
export function refuseHints(
  device: Device,
  command: CommandOf<"create-qp">,
): RnicReply | undefined {
  const { type, hints, hintEncoding } = command;
  const way = hints === "carrier" ? "carrier" : hints === "group" ? "multicast" : type;
  const wrong = hintEncoding && refuseEncoding(hintEncoding, way);
  if (wrong !== undefined) {
    return refusal("EINVAL", `Hints by ${way} cannot be ${hintEncoding}: ${wrong}`);
  }
  if (hints === "carrier" && type === "ud") {
    return refusal(
      "EINVAL",
      "Hints of all queue pairs with a peer go by one that is connected with it, of type rc or uc: it is ud",
    );
  }
  const isInPackets = hintEncoding === "header" || hintEncoding === "payload";
  const work = isInPackets ? device.hints?.plan.work : undefined;
  const unmade = work && refuseWork(work, { hasIommu: true, isInPackets });
  if (unmade !== undefined) {
    return refusal("EINVAL", `Hints cannot be ${hintEncoding}: ${unmade.reason}`);
  }
  return hints === "group" ? refuseGroup(device, command) : undefined;
}

/** H-08: why the queue pair may not have the hints for all peers; the card's own group has one trusted owner. */
function refuseGroup(
  { hints, queuePairs }: Device,
  { type, privileged }: CommandOf<"create-qp">,
): RnicReply | undefined {
  if (type !== "ud") {
    return refusal("EINVAL", `Hints go to a group by a queue pair of type ud: it is ${type}`);
  }
  if (hints?.plan.transport !== "trusted") return undefined;
  if (privileged !== true) {
    return refusal(
      "EPERM",
      "The hints of the whole card are those of a privileged program: this one is not",
    );
  }
  for (const { qpn, hints: part } of queuePairs.values()) {
    if (part === "group") return refusal("EBUSY", `QP ${qpn} has the hints of the whole card`);
  }
  return undefined;
}
