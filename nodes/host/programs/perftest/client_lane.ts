import { PS_PER_US } from "../../../../fabric/base/time.ts";
import { type Connection, disconnect, refused, RETRY } from "../../cm/connection.ts";
import { connect } from "../../cm/connect.ts";
import { destroyAh } from "../../verbs/address_handle.ts";
import { ProgramError } from "../../verbs/device.ts";
import { destroyQp } from "../../verbs/queue_pair.ts";
import type { Steps } from "../../cpu/program.ts";
import type { Cq, Qp } from "../../verbs/objects.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import { recvPlace, type TestBuffer } from "./buffer.ts";
import type { Job } from "./job.ts";
import { type Lane, openUdQp, postFirstRecvs, udDestination } from "./lane.ts";
import {
  decodeAnswer,
  decodeReason,
  encodePerftestTerms,
  PERFTEST,
  SERVICE,
  type TestTerms,
} from "./terms.ts";

/** Time-out without completions, ps of virtual time. */
export const IDLE_PS = 100_000 * PS_PER_US;
const ATTEMPTS = 10, PAUSE_PS = 200 * PS_PER_US;

export interface ClientLane extends Lane {
  readonly connection: Connection;
  /** The first PSN of the peer's UD queue pair; 0 for another type. */
  readonly udPsn: number;
}

export interface Begun {
  readonly job: Job;
  readonly bytes: number;
  readonly buffer: TestBuffer;
  readonly sendCq: Cq;
  readonly recvCq: Cq;
  readonly lanes: ClientLane[];
}

/** A connection beside UD queue pairs has only its private data read. */
const ASIDE = { maxSendWr: 2, maxRecvWr: 2 } as const;

export function connectionOptions(
  { test, connection, bidirectional, depth, rxDepth, inlineBytes, ...terms }: TestTerms,
) {
  const { timeout, retryCount: retryCnt, outstanding } = terms;
  const common = {
    transport: { timeout, retryCnt },
    initiatorDepth: outstanding,
    responderResources: outstanding,
  };
  if (connection === "UD") return { ...common, qp: { ...ASIDE, type: "rc" } } as const;
  const qp = {
    type: connection === "UC" ? "uc" : "rc",
    maxSendWr: Math.max(2, depth),
    maxRecvWr: rxDepth,
    maxInlineData: inlineBytes,
    // WRITEs and READs take no receive.
    ...(bidirectional && PERFTEST[test].verb !== "send" && { oneSided: true }),
  } as const;
  return { ...common, qp };
}

/** Retries while the host or its server is booting. */
export function* openLane(
  device: CmDevice,
  { job, bytes, buffer, sendCq, recvCq }: Begun,
  index: number,
): Steps<ClientLane> {
  const { pathMtu, connection, trafficClass, hopLimit, bidirectional, test } = job;
  const isUd = connection === "UD";
  const takes = PERFTEST[test].verb === "send" && (PERFTEST[test].pingPong || bidirectional);
  const terms = { ...job, bytes };
  const prepare = (qp: Qp) => postFirstRecvs(qp, { buffer, index, terms });
  const udQp = isUd ? yield* openUdQp(buffer, { terms, sendCq, recvCq }) : undefined;
  if (udQp !== undefined && takes) yield* prepare(udQp.qp);
  const privateData = encodePerftestTerms({
    ...terms,
    index,
    place: recvPlace(buffer, index),
    reportVa: bidirectional ? buffer.reportAddress : 0,
    udQpn: udQp?.qp.qpn ?? 0,
  });
  const { qp, ...common } = connectionOptions(terms);
  const isPlain = trafficClass === 0 && hopLimit === 64;
  for (let attempt = 1;; attempt++) {
    const answer = yield* connect(device, {
      to: job.to,
      service: SERVICE,
      privateData,
      pathMtu,
      retry: RETRY,
      ...common,
      ...(!isPlain && { path: { trafficClass, hopLimit } }),
      qp: { ...qp, pd: buffer.pd, sendCq, recvCq },
      ...(takes && !isUd && { prepare }),
    });
    if (!refused(answer)) {
      const peer = decodeAnswer(answer.privateData);
      if (peer === undefined) throw new ProgramError(`${job.to} has no perftest server`);
      const { place: remote, udPsn } = peer;
      const lane = { connection: answer, qp: answer.qp, remote, index, udPsn };
      if (udQp === undefined) return lane;
      const at = { address: answer.peer.address, qpn: peer.udQpn };
      return { ...lane, qp: udQp.qp, ud: udDestination(buffer, at, job) };
    }
    const mayBeBooting = answer.refused === "timeout" || answer.refused === "no-service";
    if (!mayBeBooting || attempt === ATTEMPTS) {
      const why = decodeReason(answer.privateData) || answer.reason;
      throw new ProgramError(`connect: ${answer.refused}: ${why}`);
    }
    yield* device.cpu.sleep(PAUSE_PS);
  }
}

export function* closeLane(
  { connection, qp, ud }: Pick<ClientLane, "connection" | "qp" | "ud">,
): Steps<void> {
  yield* disconnect(connection);
  if (ud === undefined) return;
  yield* destroyQp(qp);
  destroyAh(ud.ah);
}
