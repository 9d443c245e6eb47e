/**
 * Steps of hints (document 001_, figure 6: 602 to 616) and queue information (document 003_, figure
 * 2: 201 to 204). A step with several actions has its number and the place in it: `612.2`. A step
 * outside of the figures keeps its word.
 *
 * A device traces the word; a ladder and a timeline show the number, and a request may use either.
 */
/** The own host, its RNIC, or the peer's RNIC. */
export type Arrow = "host" | "card" | "peer";

export interface MechanismStep {
  /** The figure's; absent: the documents have none. */
  readonly number?: string;
  /** Without its subject, with its paragraph or requirement. */
  readonly text: string;
  readonly arrow?: Arrow;
}

export const MECHANISM_STEPS = {
  "doorbell": {
    number: "202.1",
    text: "notifies its RNIC of the queue (Q-06)",
    arrow: "card",
  },
  "doorbell-taken": { number: "202.2", text: "takes the doorbell (Q-06)" },
  "doorbell-lost": { text: "does not serve a doorbell (Q-06)" },
  "queue-cached": { number: "203.1", text: "has the queue information in its cache (Q-07)" },
  "queue-read": {
    number: "203.2",
    text: "reads the queue information from memory (Q-07)",
    arrow: "host",
  },
  "queue-known": { number: "203.3", text: "has got the queue information, caches it (Q-07)" },
  "address-read": {
    text: "reads the address of the write pointer, the first of two reads (Q-10)",
    arrow: "host",
  },
  "pointer-read": {
    text: "reads the write pointer at that address, the second of two reads (Q-10)",
    arrow: "host",
  },
  "pointer-compared": { number: "203.4", text: "takes the newer of two write pointers (Q-08)" },
  "stale-pointer": { text: "goes on with a stale write pointer (Q-10, Q-11)" },
  "wqe-read": { number: "204.1", text: "reads WQEs of the queue", arrow: "host" },
  "wqe-carried": { number: "204.2", text: "takes the WQE that came with its doorbell" },
  "hint-out": { number: "608", text: "sends the hint message [0158]", arrow: "peer" },
  "hint-in": { number: "610", text: "receives the hint message [0159]" },
  "hint-decision": { number: "612.1", text: "determines pre-emptive actions [0160] (H-20)" },
  "hint-page-request": {
    number: "612.2",
    text: "requests pages ahead of the request [0140] (H-21)",
    arrow: "host",
  },
  "preload": {
    number: "612.3",
    text: "reads an atomic's original data ahead [0140] (H-21)",
    arrow: "host",
  },
  "receive-ahead": { number: "612.4", text: "sets a receive aside for a SEND [0087] (H-21)" },
  "hint-answer": { number: "612.5", text: "answers the hint [0139] (H-22)", arrow: "peer" },
  "hint-answered": { text: "learns what its hint has brought [0120] (H-22)" },
  "page-fault": { text: "meets pages that are not there [0088]" },
  "page-request": { text: "requests pages [0090]", arrow: "host" },
  "pages-in": { text: "brings pages in for the card [0090]", arrow: "card" },
  "pages-mapped": { text: "maps the pages [0090] (H-21)" },
  "pages-refused": { text: "cannot map the pages [0090]" },
  "translation-wait": { text: "waits for translations of pages [0089]" },
  "translation-read": { text: "reads translations of pages [0089]", arrow: "host" },
  "translations-known": { text: "has got the translations of pages [0089]" },
  "context-wait": { text: "waits for the queue pair's context [0089] (Q-07)" },
} as const satisfies Readonly<Record<string, MechanismStep>>;

export type MechanismWord = keyof typeof MECHANISM_STEPS;

const STEPS: Readonly<Record<string, MechanismStep>> = MECHANISM_STEPS;

const WORD_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(STEPS).flatMap(([word, { number }]) =>
    number === undefined ? [] : [[number, word] as const]
  ),
);

export const MECHANISM_NUMBERS: readonly string[] = [...WORD_OF.keys()].sort((x, y) =>
  Number(x) - Number(y)
);

export function mechanismWord(step: string): string {
  return WORD_OF.get(step) ?? step;
}

/** By word or number; undefined for a step of neither mechanism. */
export function mechanismOf(step: string): MechanismStep | undefined {
  const word = mechanismWord(step);
  return Object.hasOwn(STEPS, word) ? STEPS[word] : undefined;
}
