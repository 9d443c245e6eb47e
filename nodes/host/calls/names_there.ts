/**
 * Names of rdma-core that differ here: constants, and fields whose names are not the same in camel
 * case.
 */

import type { QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import type { RdmaUdParam } from "../cm/rdma_event.ts";
import type { AhOptions } from "../verbs/address_handle.ts";
import type {
  Cq,
  Mr,
  MwBindInfo,
  Qp,
  RecvRequest,
  SendRequest,
  UdDestination,
} from "../verbs/objects.ts";
import type { QpOptions } from "../verbs/queue_pair.ts";

/**
 * libibverbs' and librdmacm's constants of enumerations, with the text or number that replaces each
 * here.
 */
export const VALUES_THERE: Readonly<Record<string, string | number>> = {
  ...Object.fromEntries(
    Object.entries(WQE_OPCODES).flatMap(([name, { there }]) => there ? [[there, name]] : []),
  ),
  IBV_FLUSH_RANGE: "range",
  IBV_FLUSH_MR: "mr",
  IBV_ADVISE_MR_ADVICE_PREFETCH: "prefetch",
  IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE: "prefetchWrite",
  IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: "prefetchNoFault",
  MADV_DONTNEED: "dontneed",
  MADV_PAGEOUT: "pageout",
  IBV_QPT_RC: "rc",
  IBV_QPT_UC: "uc",
  IBV_QPT_UD: "ud",
  IBV_QPS_RESET: "reset",
  IBV_QPS_INIT: "init",
  IBV_QPS_RTR: "rtr",
  IBV_QPS_RTS: "rts",
  IBV_QPS_SQD: "sqd",
  IBV_QPS_SQE: "sqe",
  IBV_QPS_ERR: "err",
  IBV_MW_TYPE_1: 1,
  IBV_MW_TYPE_2: 2,
  IBV_MTU_256: 256,
  IBV_MTU_512: 512,
  IBV_MTU_1024: 1024,
  IBV_MTU_2048: 2048,
  IBV_MTU_4096: 4096,
  RDMA_PS_TCP: "tcp",
  RDMA_PS_UDP: "udp",
};

/** Types with fields that have another name than in rdma-core. */
interface Types {
  readonly AhOptions: AhOptions;
  readonly Cq: Cq;
  readonly Mr: Mr;
  readonly MwBindInfo: MwBindInfo;
  readonly Qp: Qp;
  readonly QpAttributes: QpAttributes;
  readonly QpOptions: QpOptions;
  readonly RdmaUdParam: RdmaUdParam;
  readonly RecvRequest: RecvRequest;
  readonly SendRequest: SendRequest;
  readonly Sge: Sge;
  readonly UdDestination: UdDestination;
}

type Row<Type extends keyof Types> = readonly [
  type: Type,
  field: keyof Types[Type],
  ...there: string[],
];

/** A type, its field here, and rdma-core's name (`ibv_sge.addr`, without the structure). */
export const FIELDS_THERE: readonly { [Type in keyof Types]: Row<Type> }[keyof Types][] = [
  ["Sge", "address", "addr"],
  ["Mr", "address", "addr"],
  ["SendRequest", "sges", "sg_list", "num_sge"],
  ["RecvRequest", "sges", "sg_list", "num_sge"],
  ["SendRequest", "immediate", "imm_data", "invalidate_rkey"],
  ["SendRequest", "remote", "remote_addr", "rkey"],
  ["SendRequest", "atomic", "compare_add", "swap"],
  ["UdDestination", "qpn", "remote_qpn"],
  ["UdDestination", "qKey", "remote_qkey"],
  ["SendRequest", "bind", "bind_mw"],
  ["MwBindInfo", "offset", "addr"],
  ["MwBindInfo", "access", "mw_access_flags"],
  ["Qp", "qpn", "qp_num"],
  ["Cq", "entries", "cqe"],
  ["QpOptions", "type", "qp_type"],
  ["QpAttributes", "state", "qp_state"],
  ["QpAttributes", "curState", "cur_qp_state"],
  ["QpAttributes", "destQpn", "dest_qp_num"],
  ["QpAttributes", "accessFlags", "qp_access_flags"],
  ["QpAttributes", "qKey", "qkey"],
  ["QpAttributes", "destAddress", "ah_attr"],
  ["AhOptions", "address", "grh", "dgid"],
  ["RdmaUdParam", "address", "ah_attr"],
  ["RdmaUdParam", "qKey", "qkey"],
];
