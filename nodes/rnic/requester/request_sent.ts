/** What follows when a request frame has left, or could not be built. */
import type { Device } from "../state/device.ts";
import type { FrameJob } from "../state/tx_frame.ts";
import { rights } from "../state/life_cycle.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { completeWork } from "./completer.ts";
import { fail } from "./requester.ts";
import { noteSend } from "../trace/requester_trace.ts";
import type { SendWork } from "../state/outstanding_wqe.ts";
import { setTimer, timerRuns } from "../state/timers.ts";

/** The frame is on the wire: the time-out runs, and an unreliable message is done. */
export function requestSent(device: Device, qp: QueuePair, job: FrameJob): void {
  const work = job.work!;
  if (device.out.tracing && job.psn === work.firstPsn) noteSend(device, qp, work);
  if (qp.type !== "rc") {
    if (!job.last) return;
    work.acked = true;
    completeWork(device, qp);
  } else if (!timerRuns(device, qp, "requester")) {
    startTimer(device, qp);
  }
}

/** Starts the local ACK time-out anew; attribute value 0 means never. */
export function startTimer(device: Device, qp: QueuePair): void {
  if (qp.timeoutPs === 0 || !rights(qp.state).sends) return;
  setTimer(device, qp, { timer: "requester", time: device.now + qp.timeoutPs });
}

/** The message's memory could not be read: the host refused the DMA. */
export function requestFailed(device: Device, qp: QueuePair, work: SendWork): void {
  fail(device, qp, { work, status: "LOC_PROT_ERR" });
}
