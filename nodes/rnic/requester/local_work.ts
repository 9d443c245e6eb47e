/** Work that crosses no wire: it is done when its turn among the sends has come. */
import type { WcStatus } from "../../../fabric/wire/host_bus/cqe.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Device } from "../state/device.ts";
import { invalidateKey } from "../dma/memory_region.ts";
import { bindWindow } from "../dma/memory_window.ts";
import { answerPersistenceAck } from "../persistence/pm_module.ts";
import type { QueuePair } from "../state/queue_pair.ts";

/**
 * Carries out a WQE that no frame is sent for. @returns why it cannot be, undefined where it is done.
 * MW_BIND_ERR is the status of every memory management operation that is refused (ConnectX).
 */
export function performLocal(device: Device, qp: QueuePair, wqe: SendWqe): WcStatus | undefined {
  switch (wqe.opcode) {
    case "persistence-ack":
      return answerPersistenceAck(device, qp, wqe.immediate) ? undefined : "LOC_QP_OP_ERR";
    case "bind-mw":
      return bindWindow(device.regions, qp, wqe.bind!) ? undefined : "MW_BIND_ERR";
    case "local-invalidate":
      return invalidateKey(device, qp, wqe.immediate) ? undefined : "MW_BIND_ERR";
    default:
      return undefined;
  }
}
