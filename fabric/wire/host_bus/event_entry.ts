/**
 * An event in the form of a completion, so that ring, owner bit, pointers and interrupt are a
 * completion queue's.
 */
import type { Cqe } from "./cqe.ts";
import { HINT_JOBS, type RnicEvent } from "./rnic_command.ts";

type EventType = RnicEvent["type"];

/** A number is never used again. */
const EVENT_CODES: Readonly<Record<EventType, number>> = {
  QP_FATAL: 1,
  QP_REQ_ERR: 2,
  QP_ACCESS_ERR: 3,
  COMM_EST: 4,
  SQ_DRAINED: 5,
  QP_LAST_WQE_REACHED: 6,
  SRQ_ERR: 7,
  SRQ_LIMIT_REACHED: 8,
  CQ_ERR: 9,
  PAGE_FAULT: 10,
  HINT_WORK: 11,
  REGION_LOST: 12,
  REGION_FENCED: 13,
  REGION_COUNTS: 14,
  PORT_ERR: 15,
  PORT_ACTIVE: 16,
  DEVICE_FATAL: 17,
};
const EVENT_TYPES = new Map(
  Object.entries(EVENT_CODES).map(([type, code]) => [code, type as EventType]),
);

const NO_FIELDS = {
  vendorError: 0,
  qpn: 0,
  wqeIndex: 0,
  byteCount: 0,
  immediate: 0,
  psn: 0,
  va: 0n,
  sourceQpn: 0,
  verify: 0,
};

/** The event's number takes the place of a completion's WQE opcode. */
export function entryOfEvent(event: RnicEvent): Cqe {
  return {
    ...NO_FIELDS,
    opcode: "event",
    status: "SUCCESS",
    solicited: true,
    wqeOpcode: EVENT_CODES[event.type],
    ...fieldsOf(event),
  };
}

function fieldsOf(event: RnicEvent): Partial<Cqe> {
  switch (event.type) {
    case "PAGE_FAULT": {
      const { key, first, count, ahead, write, hintsOf = 0 } = event;
      return {
        byteCount: hintsOf,
        psn: key,
        va: BigInt(first),
        sourceQpn: count,
        immediate: ahead,
        verify: write ? 1 : 0,
      };
    }
    case "HINT_WORK": {
      const { id, job, elements } = event;
      return { va: BigInt(id), sourceQpn: elements, verify: HINT_JOBS.indexOf(job) };
    }
    case "REGION_LOST":
      return { psn: event.region, va: BigInt(event.first), immediate: event.count };
    case "REGION_FENCED":
      return { psn: event.region, sourceQpn: event.agent };
    case "REGION_COUNTS": {
      const { region, agent, loads, stores } = event;
      return { psn: region, sourceQpn: agent, va: BigInt(loads), immediate: stores };
    }
    case "SRQ_ERR":
    case "SRQ_LIMIT_REACHED":
      return { sourceQpn: event.srqn };
    case "CQ_ERR":
      return { sourceQpn: event.cqn };
    case "PORT_ERR":
    case "PORT_ACTIVE":
      return { sourceQpn: event.portNum };
    case "DEVICE_FATAL":
      return {};
    default:
      return { qpn: event.qpn };
  }
}

/** Undefined where the entry holds no event. */
export function eventOfEntry(entry: Cqe): RnicEvent | undefined {
  const type = entry.opcode === "event" ? EVENT_TYPES.get(entry.wqeOpcode) : undefined;
  switch (type) {
    case undefined:
      return undefined;
    case "PAGE_FAULT": {
      const { psn: key, va, sourceQpn: count, immediate: ahead, verify, byteCount } = entry;
      const event = { type, key, first: Number(va), count, ahead, write: verify === 1 } as const;
      return byteCount === 0 ? event : { ...event, hintsOf: byteCount };
    }
    case "HINT_WORK": {
      const job = HINT_JOBS[entry.verify];
      return job && { type, id: Number(entry.va), job, elements: entry.sourceQpn };
    }
    case "REGION_LOST": {
      const { psn: region, va, immediate: count } = entry;
      return { type, region, first: Number(va), count };
    }
    case "REGION_FENCED":
      return { type, region: entry.psn, agent: entry.sourceQpn };
    case "REGION_COUNTS": {
      const { psn: region, sourceQpn: agent, va, immediate: stores } = entry;
      return { type, region, agent, loads: Number(va), stores };
    }
    case "SRQ_ERR":
    case "SRQ_LIMIT_REACHED":
      return { type, srqn: entry.sourceQpn };
    case "CQ_ERR":
      return { type, cqn: entry.sourceQpn };
    case "PORT_ERR":
    case "PORT_ACTIVE":
      return { type, portNum: entry.sourceQpn };
    case "DEVICE_FATAL":
      return { type };
    default:
      return { type, qpn: entry.qpn };
  }
}
