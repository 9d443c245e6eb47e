/** Words for steps without a number, and for the most frequent ones. */
import { MECHANISM_STEPS } from "./mechanism_steps.ts";

/** `@` stands for the device; `steps` if their name differs from the word. */
interface Meaning {
  readonly text: string;
  readonly steps?: readonly string[];
}

export const STEP_WORDS: Readonly<Record<string, Meaning>> = {
  "persistence-ack": { text: "@ sends a persistence ACK", steps: ["S907", "S1016"] },
  "qp-err": { text: "a queue pair of @ enters ERR" },
  "imc": { text: "the iMC of @ accepts bytes, which are durable now" },
  "nak": { text: "@ sends a NAK" },
  "error-cqe": { text: "@ generates the CQE of a work request that has failed" },
  "rnr-nak": { text: "@ sends an RNR NAK" },
  "qp-sqe": { text: "a queue pair of @ enters SQE" },
  "llc": { text: "bytes of a DMA write are in the LLC of @" },
  "iio-read": { text: "a DMA read arrives at the IIO of @" },
  "dma-read": { text: "@ reads memory by DMA" },
  "reception-ack": { text: "@ sends a reception ACK" },
  "wqe": { text: "@ writes a WQE" },
  "start": { text: "@ begins a work request" },
  "send": { text: "@ sends the first packet of a work request" },
  "complete": { text: "@ generates the CQE of a work request" },
  "verify-start": { text: "@ begins a verified write" },
  "atomic": { text: "@ carries out an atomic operation" },
  "flush": { text: "@ answers a FLUSH" },
  "write-start": { text: "@ begins a WRITE" },
  "write-send": { text: "@ sends a WRITE" },
  "write-dma": { text: "@ writes the data of a WRITE by DMA" },
  "write-ack": { text: "@ sends the ACK of a WRITE" },
  "write-cqe": { text: "@ generates the CQE of a WRITE" },
  "persist-start": { text: "@ begins a write that persists" },
  "persist-send": { text: "@ sends a write that persists" },
  "persist-cqe": { text: "@ generates the CQE of a write that persists" },
  "send-start": { text: "@ begins a SEND" },
  "send-send": { text: "@ sends a SEND" },
  "send-ack": { text: "@ sends the ACK of a SEND" },
  "send-cqe": { text: "@ generates the CQE of a SEND" },
  "send-complete": { text: "@ generates the CQE of a SEND" },
  "recv-wqe": { text: "@ takes a receive WQE" },
  "recv-cqe": { text: "@ generates the CQE of a receive" },
  "cm-send": { text: "@ sends a message of the connection manager" },
  "cm-receive": { text: "@ receives a message of the connection manager" },
  "post-write": { text: "@ posts a WRITE" },
  "post-send": { text: "@ posts a SEND" },
  "post-recv": { text: "@ posts a receive" },
  "post-read": { text: "@ posts a READ" },
  "post-flush": { text: "@ posts a FLUSH" },
  "post-deposit": { text: "@ posts a SEND into a receive buffer that survives" },
  "post-answer": { text: "@ posts an answer" },
  "post-round": { text: "@ posts a request of an append" },
  "written": { text: "@ learns that a message is written" },
  "sent": { text: "@ learns that a message is sent" },
  "answered": { text: "@ learns that the other CPU has taken a message" },
  "read-back": { text: "@ takes the CQE of the READ behind a WRITE" },
  "flushed": { text: "@ learns that a message is flushed" },
  "compared": { text: "@ compares what it has read back" },
  "read-answered": { text: "@ takes the CQE of the READ behind a SEND" },
  "flush-answered": { text: "@ takes the CQE of a FLUSH" },
  "round-told": { text: "@ takes the last CQE of an append" },
  "publish": { text: "@ publishes an object" },
  "remove": { text: "@ removes an object" },
  "copy-flush": { text: "@ copies a message to its place and makes it persistent" },
  "commit-first": { text: "@ makes the record of an append persistent" },
  "commit-then": { text: "@ stores the word of an append and makes it persistent" },
  // Of shared regions. Messages by their names: `/sends GetM`.
  "core-load": { text: "a core of @ asks its card for a load from a shared region" },
  "core-store": { text: "a core of @ asks its card for a store to a shared region" },
  "core-flush": { text: "a core of @ asks its card for a flush of a shared region" },
  "home-load": { text: "a core of @ loads from a shared region of its own" },
  "home-store": { text: "a core of @ stores to a shared region of its own" },
  "home-flush": { text: "a core of @ flushes a shared region of its own" },
  "core-answer": { text: "@ answers its core's access to a shared region" },
  "core-end": { text: "an access of a core of @ to a shared region has ended" },
  "judge": { text: "the judge of @ has judged where the copies of a shared region are to be" },
  "judge-moved": { text: "the card of @ has moved the copies of a shared region, or refused to" },
  "state": { text: "@ changes the state of a line of a shared region" },
  "store-deposit": { text: "@ stores a message out of a receive buffer that survives" },
  "native-refused": { text: "a call of a native program of @ is refused" },
  "native-exit": { text: "a native program of @ ends" },
  ...mechanismWords(),
};

function mechanismWords(): Record<string, Meaning> {
  const steps = Object.entries(MECHANISM_STEPS);
  return Object.fromEntries(steps.map(([word, { text }]) => [word, { text: `@ ${text}` }]));
}
