/**
 * Responder of verified writes (V-01 to V-05, V-09): data waits in the card until its CRC fits (V-02), goes to memory,
 * is read back where the level or the sender's history demands it, is persisted on request, and gets one answer.
 * A faulty request gets a NAK, as any other. Faulty data gets an answer: it must not cost the connection.
 *
 * Circle of three modules: data is staged, placed piece by piece and read back meanwhile; each part's end begins
 * the next, and the last one's end the answer here. See `staged_data.ts`, `read_back.ts`.
 */
import { ACK_SYNDROME, NAK_SYNDROMES, rnrSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  algorithmOf,
  checksOf,
  isVerifiable,
  readsBack,
  VERIFY_CHECKS,
  VERIFY_LEVELS,
  VERIFY_STATUS,
  VERIFY_VERSION,
  type VerifyEth,
  type VerifyLevel,
} from "../../../fabric/wire/roce/verify_eth.ts";
import type { Device } from "../state/device.ts";
import { acceptPacket, rememberResource } from "../state/responder_changes.ts";
import { flipped } from "../state/flips.ts";
import { findRegion, namedRegion } from "../dma/memory_region.ts";
import { duplicateOfService, persistMessage, wantsPersistence } from "../persistence/pm_module.ts";
import { noteWritten } from "../persistence/pm_ranges.ts";
import { isFirst, isLast, psnAdd, psnDistance } from "../state/psn.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";
import { awaitReadBack, createReadBack } from "./read_back.ts";
import { placeStaged } from "./staged_data.ts";
import {
  acknowledgePacket,
  answer,
  answerAgain,
  answerSingle,
  passAnswers,
} from "../answers/answers.ts";
import {
  createService,
  isVerdict,
  type OpenMessage,
  type ReadBack,
  type RequestIn,
  type SingleService,
  type Verdict,
  type VerifiedWrite,
} from "../state/responder_state.ts";
import { isLive } from "../dma/translation.ts";
import { countOutcome, maySkip } from "./verify_history.ts";
import { releaseStaging, reserveStaging, stagedBytesOf } from "../state/verify_state.ts";
import { traceLookedAt, traceVerdict, traceVerifiedArrival } from "../trace/verify_trace.ts";
import { countEffect } from "../state/operation.ts";
import { placePayload } from "../dma/place_payload.ts";

const INVALID = NAK_SYNDROMES["invalid-request"];
const NO_ACCESS = NAK_SYNDROMES["remote-access-error"];

type VerifiedMessage = OpenMessage & Required<Pick<OpenMessage, "verify">>;

export function executeWriteVerify(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): Verdict | undefined {
  const { row, packet } = input;
  const opened = isFirst(row) ? openVerified(device, qp, input) : qp.responder.open;
  if (opened === "no room") return refuseStaging(device, qp, packet);
  if (typeof opened !== "object") return opened;
  const message = opened as VerifiedMessage;
  if (!isLive(message.segments)) return NO_ACCESS;
  const readyAt = takeData(device, qp, { message, packet });
  qp.lastWrite = "in";
  const ends = acceptPacket(qp, message, input);
  if (ends) beginToAnswer(device, qp, { message, packet, placedAt: readyAt });
  else acknowledgePacket(device, qp, { input, readyAt });
  return undefined;
}

function openVerified(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): VerifiedMessage | Verdict | "no room" {
  const { packet, row, operation } = input;
  const { va, rkey, length } = packet.reth!;
  const verifyEth = packet.verifyEth!;
  const level = levelOf(verifyEth);
  if (level === undefined || !isVerifiable(level, length)) return INVALID;
  if (verifyEth.persist && !permits(qp, ACCESS.remoteWritePersistence)) return INVALID;
  const granted = namedRegion(device, qp, input);
  if (isVerdict(granted)) return granted;
  // V-09, P-21: a promise that cannot be kept is a right that the region lacks.
  if (verifyEth.persist && granted?.persistent === false) return NO_ACCESS;
  // Only the region decides without data (P-22).
  const region = granted ?? findRegion(device.regions, rkey);
  if (!reserveStaging(device, qp, stagedBytesOf(level, length))) return "no room";
  const start = length > 0 ? Number(va) : 0;
  return {
    operation,
    vendor: row.vendor,
    firstPsn: packet.bth.psn,
    va: start,
    region,
    segments: granted === undefined ? [] : [{ region: granted, va: start, length }],
    length,
    recv: undefined,
    persist: verifyEth.persist || wantsPersistence(row, region),
    received: 0,
    verify: { level, staged: undefined },
  };
}

/** V-04; undefined: version, level or its algorithm are unknown. */
function levelOf({ version, algorithm, level }: VerifyEth): VerifyLevel | undefined {
  if (version !== VERIFY_VERSION) return undefined;
  const name = VERIFY_LEVELS[level];
  return name !== undefined && algorithm === algorithmOf(name) ? name : undefined;
}

/** The PSN is not consumed, so later packets come again, as without a receive WQE. */
function refuseStaging(device: Device, qp: QueuePair, { bth }: RocePacket): undefined {
  qp.responder.gapNaked = true;
  const syndrome = rnrSyndrome(qp.attributes.minRnrTimer);
  answer(device, qp, { psn: bth.psn, syndrome, readyAt: device.stageAt });
}

/**
 * V-02: the data waits for its CRC; without one it goes to memory. @returns when the bus has it.
 */
function takeData(
  device: Device,
  qp: QueuePair,
  { message, packet }: { readonly message: VerifiedMessage; readonly packet: RocePacket },
): number {
  const { verify, length, received, segments } = message;
  const payload = flipped(device, "buffer", packet.payload);
  if (verify.level === "none") {
    if (!message.persist) noteWritten(device, qp, { opened: message, length: payload.length });
    const data = flipped(device, "checked", payload);
    const of = { qp, psn: packet.bth.psn, inbound: true };
    return placePayload(device, data, { segments, offset: received, isWrite: true, of });
  }
  // A frame's bytes do not change.
  if (payload.length === length) verify.staged = payload;
  else {
    verify.staged ??= new Uint8Array(length);
    verify.staged.set(payload, received);
  }
  return device.stageAt;
}

function beginToAnswer(
  device: Device,
  qp: QueuePair,
  last: {
    readonly message: VerifiedMessage;
    readonly packet: RocePacket;
    readonly placedAt: number;
  },
): void {
  const { message: opened, packet, placedAt } = last;
  const { level } = opened.verify;
  const verified: VerifiedWrite = {
    opened,
    level,
    digest: packet.digestEth!.crc,
    placedAt,
    settledAt: device.now,
    checks: 0,
    crc: 0,
    readBack: undefined,
  };
  const service = createService({ operation: opened.operation, packet }, {
    msn: qp.responder.msn,
    verified,
    state: "running",
    readyAt: device.stageAt,
  });
  rememberResource(qp, service);
  answerSingle(device, qp, service);
  if (level === "none") return settle(device, qp, service);
  const { staged } = opened.verify;
  checkData(device, qp, { service, data: staged ?? packet.payload });
}

/** V-02: data that fails is not written, where the level has it checked before. */
function checkData(
  device: Device,
  qp: QueuePair,
  { service, data }: { readonly service: SingleService; readonly data: Uint8Array<ArrayBuffer> },
): void {
  const verified = service.verified!;
  const { opened: { firstPsn, segments }, level } = verified;
  const { before, readBack: way } = checksOf(level);
  if (before) {
    verified.checks = VERIFY_CHECKS["crc-before"];
    verified.crc = crc32(data);
    if (verified.crc !== verified.digest) {
      return conclude(device, qp, { service, status: VERIFY_STATUS["crc-mismatch"] });
    }
  }
  const isShort = data.length <= qp.attributes.pathMtu;
  const expected = isShort ? flipped(device, "checked", data) : data;
  if (looksBack(device, qp, level)) {
    const look = { qp, service, firstPsn, segments, expected, byCrc: way === "crc" };
    verified.readBack = createReadBack(device, look);
  } else if (readsBack(level)) {
    verified.checks |= VERIFY_CHECKS.skipped;
    device.counters.verifySkipped++;
  }
  placeStaged(device, { qp, service, data: expected });
}

export function dataPlaced(device: Device, qp: QueuePair, service: SingleService): void {
  const { segments, length, persist } = service.verified!.opened;
  if (!persist) noteWritten(device, qp, { opened: { segments, received: 0 }, length });
  settle(device, qp, service);
}

/** The level (V-03) or the sender's history decides (V-05). */
function looksBack(device: Device, qp: QueuePair, level: VerifyLevel): boolean {
  if (!readsBack(level)) return false;
  const plan = device.plan.verifyHistory;
  const history = device.verify.history.get(qp.path.address);
  if (plan === undefined || history === undefined) return true;
  return !maySkip(history, plan, device.verify.rng);
}

/** V-09, flow 2: the read-back then sees the data in its final place. */
export function flushesFirst({ persistence }: Device, { opened }: VerifiedWrite): boolean {
  return opened.persist && persistence.flush === "cpu";
}

/**
 * Flow 1: the read-back is the flush (V-09), else an LSB read is. Flow 2: the CPU flushes first.
 */
function settle(device: Device, qp: QueuePair, service: SingleService): void {
  const { opened, readBack, level } = service.verified!;
  const { persist, firstPsn, va, length, region } = opened;
  service.verified!.settledAt = Math.max(device.now, service.verified!.placedAt);
  if (level === "none" && device.out.tracing) traceVerifiedArrival(device, qp, service.verified!);
  const isFlushedByIt = device.persistence.flush === "read" && readBack !== undefined && length > 0;
  if (!persist || isFlushedByIt) return look(device, qp, service);
  persistMessage(device, qp, { firstPsn, lastPsn: service.psn, va, length, region, service });
}

function look(device: Device, qp: QueuePair, service: SingleService): void {
  const { readBack } = service.verified!;
  if (readBack !== undefined) return awaitReadBack(device, readBack);
  conclude(device, qp, { service, status: VERIFY_STATUS.written });
}

/** V-09; persistent from `at` on. */
export function verifiedPersisted(
  device: Device,
  qp: QueuePair,
  { service, at }: { readonly service: SingleService; readonly at: number },
): void {
  const { verified } = service;
  if (verified === undefined) return;
  verified.checks |= VERIFY_CHECKS.persisted;
  verified.placedAt = Math.max(verified.placedAt, at);
  look(device, qp, service);
}

export function verifiedUnproven(device: Device, qp: QueuePair, service: SingleService): void {
  if (service.verified === undefined) return;
  conclude(device, qp, { service, status: VERIFY_STATUS["read-failed"] });
}

/** V-03. */
export function readBackDone(device: Device, readBack: ReadBack): void {
  const { qp, service, failed, data } = readBack;
  const verified = service.verified!;
  if (failed) return conclude(device, qp, { service, status: VERIFY_STATUS["read-failed"] });
  const crc = data === undefined ? undefined : crc32(data);
  if (device.out.tracing) traceLookedAt(device, qp, { verified, crc });
  if (crc === undefined) verified.checks |= VERIFY_CHECKS.compared;
  else {
    verified.checks |= VERIFY_CHECKS["crc-after"];
    verified.crc = crc;
  }
  if (readBack.differs || (crc ?? verified.digest) !== verified.digest) {
    return conclude(device, qp, { service, status: VERIFY_STATUS["read-back-differs"] });
  }
  // These reads have put all earlier writes into the persistence domain.
  if (verified.opened.persist) verified.checks |= VERIFY_CHECKS.persisted;
  conclude(device, qp, { service, status: VERIFY_STATUS.written });
}

/** V-01: the answer leaves in its turn. */
function conclude(
  device: Device,
  qp: QueuePair,
  { service, status }: { readonly service: SingleService; readonly status: number },
): void {
  const verified = service.verified!;
  const { opened, level, checks, crc, placedAt, readBack } = verified;
  const isGood = status === VERIFY_STATUS.written;
  if (readBack !== undefined) device.verify.readBacks.delete(readBack);
  releaseStaging(device, qp, stagedBytesOf(level, opened.length));
  service.verified = undefined;
  service.result = {
    version: VERIFY_VERSION,
    status,
    // Wrong data in memory is not persistent as sent.
    checks: isGood ? checks : checks & ~VERIFY_CHECKS.persisted,
    reserved: 0,
    crc,
  };
  countEffect(device, service.operation);
  countOutcome(device, qp, { verified, status });
  if (device.out.tracing) traceVerdict(device, qp, { service, verified });
  service.readyAt = Math.max(device.stageAt, placedAt);
  service.state = "done";
  passAnswers(device, qp);
}

/**
 * A duplicate (§3.5): nothing is written or read back again. The last packet's is answered with the known result, so
 * that a lost answer is no failure (V-08); an unknown one is to come.
 * @returns false where the write is unknown: it is dropped.
 */
export function repeatVerified(
  device: Device,
  qp: QueuePair,
  { packet, row, operation }: RequestIn,
): boolean {
  const { psn } = packet.bth;
  const { open, resources, expectedPsn } = qp.responder;
  if (!isLast(row)) {
    const isOpen = open !== undefined && psnDistance(open.firstPsn, psn) >= 0;
    // Only the answer acknowledges that a message is complete.
    if (isOpen) {
      const received = psnAdd(expectedPsn, -1);
      answer(device, qp, { psn: received, syndrome: ACK_SYNDROME, readyAt: device.stageAt });
    }
    return true;
  }
  const saved = resources.find((resource) => resource.psn === psn);
  if (saved?.kind !== "single" || saved.operation !== operation) return false;
  if (saved.state !== "done") {
    duplicateOfService(device, qp, psn);
    return true;
  }
  device.counters.verifyRepeats++;
  answerAgain(device, qp, saved);
  return true;
}
