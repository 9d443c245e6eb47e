/** Q_Keys of UD queue pairs (`rocev2.md` §1.3). */
import { GSI_QPN } from "../../../fabric/wire/roce/bth.ts";
import { GSI_QKEY } from "../../../fabric/wire/roce/deth.ts";
import type { QueuePair } from "./queue_pair.ts";

/** The Q_Key that datagrams to this queue pair must carry: the GSI's is fixed. */
export function qKeyOf(qp: QueuePair): number {
  return qp.qpn === GSI_QPN ? GSI_QKEY : qp.attributes.qKey >>> 0;
}
