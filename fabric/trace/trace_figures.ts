/**
 * The numbered steps of `persistence.md` (figures 2, 3: the baselines; 9, 10: the write that
 * persists) and `write-verify.md` (45; 46 with read-back). A plain WRITE or a SEND has the same
 * steps in several figures; the operation determines the figure.
 */

import { type Arrow, MECHANISM_NUMBERS, mechanismOf, mechanismWord } from "./mechanism_steps.ts";

/** By the prefix of their steps: the second document's are 45 and 46. */
export type Figure = 2 | 3 | 9 | 10 | 45 | 46;

type Place = Figure | "answer";

const PARTS: Readonly<Record<string, Readonly<Partial<Record<Place, string>>>>> = {
  "write-start": { 2: "S202", 3: "S302" },
  "write-send": { 2: "S203", 3: "S303" },
  "write-dma": { 2: "S204", 3: "S304" },
  "write-ack": { 2: "S205", 3: "S305" },
  "write-cqe": { 2: "S206", 3: "S306" },
  "persist-start": { 9: "S902", 10: "S1002" },
  "persist-send": { 9: "S903", 10: "S1003" },
  // P-29, completion at persistence only: the one CQE is that of the persistence ACK.
  "persist-cqe": { 9: "S908", 10: "S1018" },
  "send-start": { 3: "S309", answer: "S322" },
  "send-send": { 3: "S310", answer: "S323" },
  "recv-wqe": { 3: "S312", answer: "S318" },
  "recv-cqe": { 3: "S313", answer: "S324" },
  // The document does not number these two of the responder's SEND.
  "send-ack": { 3: "S314" },
  "send-cqe": { 3: "S315" },
};

const PART_OF: ReadonlyMap<string, string> = new Map([
  ...Object.entries(PARTS).flatMap(([part, numbers]) =>
    Object.values(numbers).map((step) => [step, part] as const)
  ),
  ["send-ack", "send-ack"],
  ["send-complete", "send-cqe"],
]);

const POSTS: Readonly<Record<string, Figure>> = {
  S201: 2,
  S301: 3,
  S901: 9,
  S1001: 10,
  4501: 45,
  4601: 46,
};

/** That begins with this step of a program; undefined for other steps. */
export function figureOfPost(step: string): Figure | undefined {
  return POSTS[step];
}

/** Of a plain WRITE without a program's step, by the responder's data flow. */
export function figureOfWrite(steps: readonly string[]): Figure {
  return steps.includes("S304") ? 3 : 2;
}

/**
 * `isOwn`: about a request of the operation's host; `write`: the figure of a WRITE in an operation
 * without one. A SEND outside figure 3 has no number (P-51).
 */
export function stepIn(
  figure: Figure | undefined,
  line: { readonly step: string; readonly isOwn: boolean; readonly write: Figure },
): string {
  const { step, isOwn, write } = line;
  const part = PART_OF.get(step);
  if (part === undefined) return mechanismOf(step)?.number ?? step;
  const numbers = PARTS[part]!;
  const isSend = part.startsWith("send") || part.startsWith("recv");
  if (isSend && figure !== 3) return part;
  if (isSend && !isOwn) return numbers.answer ?? part;
  return numbers[figure ?? write] ?? step;
}

/**
 * A card does not know its plain WRITE's figure: all numbers of a step that figures share mean the
 * same. A SEND's steps are distinct.
 */
export function tracedAs(step: string): readonly string[] {
  if (mechanismOf(step) !== undefined) return [mechanismWord(step)];
  const part = PART_OF.get(step) ?? (Object.hasOwn(PARTS, step) ? step : undefined);
  const isSend = part !== undefined && (part.startsWith("send") || part.startsWith("recv"));
  if (part === undefined || (isSend && DOCUMENT[step] !== undefined)) return [step];
  const names = [...PART_OF].filter(([, of]) => of === part).map(([name]) => name);
  return [...new Set([part, ...names])];
}

const ARROWS: Readonly<Record<Arrow, string>> = {
  card: "S201 S208 S301 S308 S311 S317 S321 S901 S1001 S1005 S1012 S1014 " +
    "4501 4601 wqe post-write post-send post-recv post-answer",
  host:
    "S204 S206 S211 S213 S304 S306 S313 S315 S324 S904 S906 S908 S1004 S1007 S1010 S1017 S1018 " +
    "4503 4505 4603 4604 4608 recv-cqe send-cqe complete error-cqe dma-read",
  peer: "S203 S205 S210 S212 S303 S305 S310 S314 S323 S903 S907 S1003 S1009 S1016 " +
    "4502 4504 4602 4607 send send-send send-ack reception-ack nak rnr-nak",
};

const ARROW_OF: ReadonlyMap<string, Arrow> = new Map(
  (Object.keys(ARROWS) as Arrow[]).flatMap((arrow) =>
    ARROWS[arrow].split(" ").map((step) => [step, arrow] as const)
  ),
);

export function arrowOf(step: string): Arrow | undefined {
  return ARROW_OF.get(step) ?? mechanismOf(step)?.arrow;
}

/** The document's words, without the subject, which is the column's device. */
const DOCUMENT: Readonly<Record<string, string>> = {
  S201: "initiates the first RDMA write request",
  S202: "generates the second RDMA write request from the first",
  S203: "sends the second RDMA write request",
  S204: "writes the data by DMA",
  S205: "sends the ACK",
  S206: "generates the CQE of the first RDMA write request",
  S207: "acquires the CQE of the first RDMA write request",
  S208: "initiates the first RDMA read request",
  S209: "generates the second RDMA read request from the first",
  S210: "sends the second RDMA read request",
  S211: "reads the data by DMA",
  S212: "sends the ACK",
  S213: "generates the CQE of the first RDMA read request",
  S214: "acquires the CQE of the first RDMA read request",
  S301: "initiates the first RDMA write request",
  S302: "generates the second RDMA write request from the first",
  S303: "sends the second RDMA write request",
  S304: "writes the data by DMA",
  S305: "sends the ACK",
  S306: "generates the CQE of the first RDMA write request",
  S307: "acquires the CQE of the first RDMA write request",
  S308: "initiates the first RDMA send request, with the persistence mark",
  S309: "generates the second RDMA send request from the first",
  S310: "sends the second RDMA send request",
  S311: "initiates the first RDMA receive request",
  S312: "generates the WQE of the first RDMA receive request",
  S313: "generates the CQE of the first RDMA receive request",
  S314: "sends the ACK",
  S315: "generates the CQE of the first RDMA send request",
  S316: "acquires the CQE of the first RDMA send request",
  S317: "initiates the second RDMA receive request",
  S318: "generates the WQE of the second RDMA receive request",
  S319: "acquires the CQE of the first RDMA receive request",
  S320: "flushes the data of the address to the ADR of the iMC",
  S321: "initiates the third RDMA send request: flushed",
  S322: "generates the fourth RDMA send request from the third",
  S323: "sends the fourth RDMA send request",
  S324: "generates the CQE of the second RDMA receive request",
  S325: "acquires the CQE of the second RDMA receive request",
  S901: "initiates an RDMA write persistence request",
  S902: "generates the RDMA write request with data and flag",
  S903: "sends the RDMA write request",
  S904: "sends a DMA write request to the processor",
  S905: "adds a DMA LSB read request to the queue",
  S906: "sends the DMA LSB read request to the processor",
  S907: "sends the persistence acknowledgement",
  S908: "generates the CQE of the RDMA write persistence request",
  S909: "acquires the CQE of the RDMA write persistence request",
  S1001: "initiates an RDMA write persistence request",
  S1002: "generates the RDMA write request with data and flag",
  S1003: "sends the RDMA write request",
  S1004: "sends a DMA write request to the processor",
  S1005: "initiates the first RDMA receive request",
  S1006: "generates the WQE of the first RDMA receive request from the data",
  S1007: "clears that WQE, generates its CQE",
  S1008: "acquires that CQE, stores the data in the nonvolatile memory",
  S1009: "sends the reception acknowledgement",
  S1010: "generates the CQE of the RDMA write persistence request",
  S1011: "acquires the CQE of the RDMA write persistence request",
  S1012: "initiates the second RDMA receive request",
  S1013: "generates the WQE of the second RDMA receive request",
  S1014: "initiates the RDMA send request: the data is stored",
  S1015: "generates the WQE of the RDMA send request",
  S1016: "sends the persistence acknowledgement",
  S1017: "clears that WQE, generates its CQE",
  S1018: "generates the CQE of the second RDMA receive request",
  S1019: "acquires the CQE of the second RDMA receive request",
  4501: "generates the write request and hands it to its RNIC",
  4502: "transmits the write request",
  4503: "checks the CRC, writes the data into memory by DMA",
  4504: "sends the response with the request completion status",
  4505: "notifies the application that the write is complete, with the status",
  4601: "generates the write request and hands it to its RNIC",
  4602: "transmits the write request",
  4603: "checks the CRC, writes the data into memory by DMA",
  4604: "reads the data from where it was written by DMA",
  4605: "computes the CRC of the data read",
  4606: "compares that CRC with the one in the write request",
  4607: "sends the response with the request completion status",
  4608: "notifies the application that the write is complete, with the status",
};

export function documentText(step: string): string | undefined {
  return DOCUMENT[step] ?? mechanismOf(step)?.text;
}

export function stepsOf(figure: Figure): string[] {
  const number = (step: string) => Number(step.replace("S", ""));
  return Object.keys(DOCUMENT).filter((step) => Math.floor(number(step) / 100) === figure)
    .sort((x, y) => number(x) - number(y));
}

export function documentSteps(): string[] {
  return [...([2, 3, 9, 10, 45, 46] as const).flatMap(stepsOf), ...MECHANISM_NUMBERS];
}
