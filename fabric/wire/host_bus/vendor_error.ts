/**
 * Causes of failed work requests, finer than their status: `vendor_err`, byte 54 of a CQE. ConnectX
 * cards are known to report 0x51, 0x81, 0x87 to 0x8a and 0xf9 for the same cause; the others are a
 * choice.
 *
 * A requester knows of a responder's refusal only the NAK's syndrome (`rocev2.md` §1.4): its text
 * has all possible meanings.
 */
import type { WcStatus } from "./cqe.ts";

interface Row {
  readonly code: number;
  readonly status: Exclude<WcStatus, "SUCCESS">;
  readonly text: string;
}

export const VENDOR_ERRORS = {
  "service": {
    code: 0x31,
    status: "LOC_QP_OP_ERR",
    text: "the queue pair's transport has no such operation, or the WQE cannot be decoded",
  },
  "no-rd-atomic": {
    code: 0x32,
    status: "LOC_QP_OP_ERR",
    text: "the operation needs a slot of max_rd_atomic, which is 0 for this queue pair",
  },
  "malformed": {
    code: 0x33,
    status: "LOC_QP_OP_ERR",
    text: "the WQE lacks what its operation needs, or has what it cannot have",
  },
  "no-persistent-write": {
    code: 0x34,
    status: "LOC_QP_OP_ERR",
    text: "no persistent write with this PSN waits for the CPU's acknowledgement",
  },
  "message-length": {
    code: 0x41,
    status: "LOC_LEN_ERR",
    text: "the message is longer than 2^31 B",
  },
  "verify-length": {
    code: 0x42,
    status: "LOC_LEN_ERR",
    text: "the write is longer than its verification level can check",
  },
  "psn-window": {
    code: 0x43,
    status: "LOC_LEN_ERR",
    text: "the message has 2^23 packets or more, which is half of all PSNs",
  },
  "receive-length": {
    code: 0x44,
    status: "LOC_LEN_ERR",
    text:
      "the message, or what it names for the CPU to flush, is longer than the elements of the receive",
  },
  "lkey-unknown": {
    code: 0x51,
    status: "LOC_PROT_ERR",
    text: "an element's lkey is the key of no region",
  },
  "lkey-domain": {
    code: 0x52,
    status: "LOC_PROT_ERR",
    text: "an element's region belongs to another protection domain",
  },
  "lkey-right": {
    code: 0x53,
    status: "LOC_PROT_ERR",
    text: "an element's region has no local write, and data is to be stored there",
  },
  "lkey-range": {
    code: 0x54,
    status: "LOC_PROT_ERR",
    text: "an element reaches beyond its region",
  },
  "region-gone": {
    code: 0x55,
    status: "LOC_PROT_ERR",
    text: "a region was deregistered while its memory was in use",
  },
  "dma-refused": {
    code: 0x56,
    status: "LOC_PROT_ERR",
    text: "the host refused the card's DMA read of an element",
  },
  "bind": {
    code: 0x61,
    status: "MW_BIND_ERR",
    text: "the window cannot be bound so: key, domain, rights or range of its region",
  },
  "invalidate": {
    code: 0x62,
    status: "MW_BIND_ERR",
    text: "the key is that of no type 2 window that this queue pair has bound",
  },
  "peer-invalidate": {
    code: 0x63,
    status: "REM_INV_REQ_ERR",
    text: "the peer's SEND WITH INVALIDATE names no type 2 window that this queue pair has bound",
  },
  "response-kind": {
    code: 0x71,
    status: "BAD_RESP_ERR",
    text: "the response is not of the request's operation",
  },
  "response-length": {
    code: 0x72,
    status: "BAD_RESP_ERR",
    text: "the response has not the length that was asked for",
  },
  "retry-exceeded": {
    code: 0x81,
    status: "RETRY_EXC_ERR",
    text: "no acknowledgement of it came within retry_cnt time-outs",
  },
  "retry-lost-answers": {
    code: 0x82,
    status: "RETRY_EXC_ERR",
    text: "answers of the responder were lost more often than retry_cnt permits",
  },
  "retry-sequence": {
    code: 0x83,
    status: "RETRY_EXC_ERR",
    text: "NAK 0x60 (PSN sequence error) came more often than retry_cnt permits",
  },
  "retry-psns-apart": {
    code: 0x84,
    status: "RETRY_EXC_ERR",
    text:
      "answers came, but of PSNs that were not sent: the peer's rq_psn is not the sq_psn of this queue pair",
  },
  "retry-persistence": {
    code: 0x85,
    status: "RETRY_EXC_ERR",
    text:
      "the peer has received it, and no persistence acknowledgement came within retry_cnt time-outs",
  },
  "rnr-retry-exceeded": {
    code: 0x87,
    status: "RNR_RETRY_EXC_ERR",
    text: "RNR NAKs came more often than rnr_retry permits: the peer had no receive posted, " +
      "or a page of its memory was not there",
  },
  "nak-remote-access": {
    code: 0x88,
    status: "REM_ACCESS_ERR",
    text: "NAK 0x62 (remote access error): key, protection domain, right, range, " +
      "or persistence of memory that has none",
  },
  "nak-remote-operational": {
    code: 0x89,
    status: "REM_OP_ERR",
    text:
      "NAK 0x63 (remote operational error): the responder could not complete it: memory of its receive, " +
      "a region deregistered meanwhile, a lost line, or a DMA read that its host refused",
  },
  "nak-invalid-request": {
    code: 0x8a,
    status: "REM_INV_REQ_ERR",
    text:
      "NAK 0x61 (invalid request): order of packets (rq_psn, path MTU), rights of the queue pair, " +
      "max_dest_rd_atomic, length, alignment or form",
  },
  "nak-invalid-rd-request": {
    code: 0x8b,
    status: "REM_INV_REQ_ERR",
    text: "NAK 0x64 (invalid RD request)",
  },
  "verify": {
    code: 0x91,
    status: "VERIFY_ERR",
    text:
      "the responder answered that the data came damaged, that memory does not hold it, or cannot be read",
  },
  "flushed": {
    code: 0xf9,
    status: "WR_FLUSH_ERR",
    text:
      "an earlier failure (of a request here, or of one of the peer's), a disconnect, or a modify to ERR " +
      "has ended the queue: whether this was carried out is not known",
  },
} as const satisfies Readonly<Record<string, Row>>;

export type VendorError = keyof typeof VENDOR_ERRORS;

const BY_CODE: ReadonlyMap<number, Row> = new Map(
  Object.values(VENDOR_ERRORS).map((row) => [row.code, row]),
);

/** Undefined for 0 and for an unknown number. */
export function vendorErrorText(code: number): string | undefined {
  return BY_CODE.get(code)?.text;
}

export function faultFields(error: VendorError): { status: WcStatus; vendorError: number } {
  const { status, code } = VENDOR_ERRORS[error];
  return { status, vendorError: code };
}
