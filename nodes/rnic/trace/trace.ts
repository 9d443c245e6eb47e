/**
 * The RNIC's lines of a ladder, with the documents' step numbers. Callers ask `out.tracing` first:
 * no text is made without a reader.
 */
import type { TraceStep } from "../../../fabric/node.ts";
import { formatAddress } from "../../../fabric/trace/describe.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";

/** The lower address comes first: `10.0.0.1:17-10.0.0.2:18`. UD has no peer. */
function connectionOf(device: Device, qp: QueuePair): Pick<TraceStep, "connection"> {
  if (qp.type === "ud") return {};
  const here = device.plan.address >>> 0, there = qp.attributes.destAddress >>> 0;
  const near = `${formatAddress(here)}:${qp.qpn}`;
  const far = `${formatAddress(there)}:${qp.attributes.destQpn}`;
  const nearFirst = here < there || (here === there && qp.qpn <= qp.attributes.destQpn);
  return { connection: nearFirst ? `${near}-${far}` : `${far}-${near}` };
}

/** `psn` is of the message's first packet. */
export function trace(device: Device, qp: QueuePair, line: Omit<TraceStep, "qpn">): void {
  device.out.trace({ ...line, qpn: qp.qpn, ...connectionOf(device, qp) });
}

export interface MessageOf {
  readonly qp: QueuePair;
  readonly psn: number;
  readonly inbound: boolean;
}

/** An observer learns which message the physical bytes are of. */
export function tellPlaced(
  device: Device,
  { qp, psn, inbound }: MessageOf,
  { address, length }: { readonly address: number; readonly length: number },
): void {
  if (device.out.placed === undefined) return;
  device.out.placed({
    psn,
    ...(inbound && { inbound }),
    ...connectionOf(device, qp),
    from: address,
    to: address + length,
  });
}

/** `qp-err`, or `qp-sqe` where only sends have failed (`rocev2.md` §4.1). */
export function traceFailure(device: Device, qp: QueuePair): void {
  if (!device.out.tracing) return;
  const { qpn, state } = qp;
  trace(device, qp, {
    step: `qp-${state}`,
    text: `queue pair ${qpn} enters ${state.toUpperCase()}`,
  });
}
