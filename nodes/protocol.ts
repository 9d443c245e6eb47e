/**
 * The door for a protocol of one's own: all that its file imports, as `rackmesh`. What is not here may
 * change at any time. The verbs themselves come with the program's context, as `device.verbs`.
 *
 *     import { IBV_ACCESS_LOCAL_WRITE, must, type ProgramContext, type Steps } from "rackmesh";
 *
 *     export default function* protocol({ cpu, device }: ProgramContext): Steps<void> {
 *       const { allocPd, regMr } = device.verbs;
 *       const buffer = cpu.allocate(4096), access = IBV_ACCESS_LOCAL_WRITE;
 *       const mr = must(yield* regMr(allocPd(device), buffer, { access }));
 *     }
 */
// deno-lint-ignore-file rackmesh/no-barrel -- the one door of the project (`imports` in deno.json)

// A program, its core, and memory.
export type { Program, ProgramContext, ProgramCpu, ThreadContext } from "./host/program_context.ts";
export type {
  Cpu,
  Measurement,
  Region,
  Source,
  Steps,
  Threads,
  Wait,
  Wake,
} from "./host/cpu/program.ts";
export type { Buffer } from "./host/memory/address_map.ts";
export { PAGES_PER_BATCH } from "./host/paging/serve_pages.ts";
export { sizeOption, timeOption } from "./host/own_options.ts";
export {
  formatTime,
  NEVER,
  PS_PER_MS,
  PS_PER_NS,
  PS_PER_S,
  PS_PER_US,
  type Time,
} from "../fabric/base/time.ts";
export type {
  AuditRecord,
  OperationEndRecord,
  OperationRecord,
  TimedRecord,
} from "../fabric/audit.ts";
export type { TraceStep } from "../fabric/node.ts";
export type { AccessModule, Spent } from "../fabric/trace/access_modules.ts";
export { type LatencySummary, summarize } from "./host/programs/common/summary.ts";

// A rule of one's own for where copies of shared regions are kept (C-04).
export type {
  JudgedWindow,
  Judgement,
  JudgeRule,
  WindowCounts,
} from "../fabric/coherence/judge_placement.ts";
export type { JudgeRules } from "../fabric/rack/plan/shared_region.ts";
export type { Placement } from "../fabric/wire/roce/coherence_messages.ts";

// Recovery after a power failure, and what must hold then.
export type {
  Check,
  CrashedHost,
  CrashView,
  Recover,
  RecoveryContext,
  RecoveryCpu,
  Reported,
} from "./host/recovery/protocol.ts";

// Verbs: errors, flags, objects, and the arguments of calls.
export { failed, must, ProgramError } from "./host/verbs/errors.ts";
export { vendorErrorText } from "../fabric/wire/host_bus/vendor_error.ts";
export * from "./host/verbs/flags.ts";
export type { OpenDevice, Verbs } from "./host/open_device.ts";
export type {
  Ah,
  CompChannel,
  Cq,
  Errno,
  FlushRequest,
  InlineRule,
  Mr,
  Mw,
  MwBind,
  MwBindInfo,
  Pd,
  PostError,
  Qp,
  QpCaps,
  ReceiveOpcode,
  RecvRequest,
  SendRequest,
  Srq,
  SrqOptions,
  UdDestination,
  VerbError,
  VerifyRequest,
  WorkCompletion,
  WrId,
} from "./host/verbs/objects.ts";
export type { WaitOptions } from "./host/verbs/completion_queue.ts";
export type { CqOptions } from "./host/verbs/create_cq.ts";
export type {
  Advice,
  MemoryAdvice,
  RegionObject,
  RegionOptions,
  Reregistration,
} from "./host/verbs/memory_region.ts";
export type { QpInfo, QpOptions, QpSize } from "./host/verbs/queue_pair.ts";
export type { AhOptions } from "./host/verbs/address_handle.ts";
export type { BindOptions } from "./host/verbs/post.ts";
export type { WorkBatch } from "./host/verbs/work_batch.ts";
export type { DirtyRange } from "./host/verbs/persist_ranges.ts";
export type {
  DeviceAttributes,
  DeviceAttributesEx,
  DeviceEntry,
  VendorAttributes,
} from "./host/verbs/query/query_device.ts";
export type { GidEntry, PortAttributes } from "./host/verbs/query/query_port.ts";
export type { QueueFill } from "./host/verbs/queue_fill.ts";
export type { ObjectPart, Sge } from "../fabric/wire/host_bus/wqe.ts";
export type { WqeOpcode } from "../fabric/wire/host_bus/wqe_opcode.ts";
export type { CqeOpcode, WcStatus } from "../fabric/wire/host_bus/cqe.ts";
export type {
  VerifyCheck,
  VerifyLevel,
  VerifyStatus,
  VerifyVerdict,
} from "../fabric/wire/roce/verify_eth.ts";
export type { BlueFlame } from "../fabric/rack/plan/plan.ts";
export type {
  HintPart,
  QpAttributes,
  QpState,
  QpType,
  RnicEvent,
  WindowType,
} from "../fabric/wire/host_bus/rnic_command.ts";

// Connections.
export type {
  Connection,
  ConnectionPath,
  ConnectionQp,
  PeerDepths,
  RdAtomicDepths,
  Refusal,
  Transport,
} from "./host/cm/connection.ts";
export type { ConnectOptions, PathMtu } from "./host/cm/connect.ts";
export type { AcceptOptions, ConnectRequest, Listener, ListenerEvent } from "./host/cm/listen.ts";
export type {
  RdmaConnParam,
  RdmaEventChannel,
  RdmaId,
  RdmaIdOptions,
  RdmaIdState,
  RdmaQpOptions,
  ResolveAddrOptions,
} from "./host/cm/rdma_id.ts";
export type { RdmaCmEvent, RdmaUdParam } from "./host/cm/rdma_event.ts";
export type { CmRetry, RdmaCmEventType } from "./host/cm/cm_state.ts";
export type { PortSpace } from "./host/cm/ip_header.ts";

// Hints.
export type { HintEntry, HintGroup, HintMessage } from "../fabric/wire/roce/hint.ts";
export {
  HINT_KINDS,
  type HintEncoding,
  type HintOperands,
  type HintOperation,
  type HintPart as HintEntryPart,
  type HintReason,
  type HintType,
} from "../fabric/wire/roce/hint_eth.ts";

// Rows of the coherent cards' protocol, for a file that a scenario's `coherence` or `rack explore --protocol` names.
export type { CoherenceProtocol, OwnRows } from "../fabric/coherence/own_rows.ts";
export type { Agent, Data, WireKind } from "../fabric/wire/roce/coherence_messages.ts";
export type { BusKind } from "../fabric/wire/host_bus/region_messages.ts";
export {
  FAR_TABLE,
  type FarEvent,
  type FarRow,
  type FarState,
  type FarTable,
} from "../fabric/coherence/far_card_table.ts";
export {
  type Demand,
  HOME_TABLE,
  type HomeEvent,
  type HomeInput,
  type HomeLine,
  type HomeMove,
  type HomePhase,
  type HomeRow,
  type HomeSend,
  type HomeState,
  type HomeTable,
} from "../fabric/coherence/home_card_table.ts";
export {
  HOST_TABLE,
  type HostEvent,
  type HostLine,
  type HostMove,
  type HostPhase,
  type HostRow,
  type HostTable,
} from "../fabric/coherence/host_agent_table.ts";
