/** For tests only: the vendor's headers and messages, to try things on. */
import type { Extensions } from "./extension_headers.ts";
import {
  COHERENCE_COMMANDS,
  COHERENCE_STATES,
  COHERENCE_VERSION,
  type CoherenceEth,
} from "./coherence_eth.ts";
import { type HintEntry, type HintMessage, hintParts } from "./hint.ts";
import { HINT_KINDS } from "./hint_eth.ts";
import { makeVerifyEth } from "./verify_eth.ts";

const PREFETCHED = {
  kinds: HINT_KINDS.prefetch,
  messages: 1,
  objects: [],
} as const satisfies Partial<HintEntry>;
const READ = { ...PREFETCHED, operation: "read", rkey: 30 } as const;

/** H-31: the document's table 1, as its table 2 groups it. Numbers of responders' ends are ours. */
export const DOCUMENT_HINT: HintMessage = {
  type: "announce",
  kinds: HINT_KINDS.prefetch | HINT_KINDS.atomic,
  reason: "none",
  sequence: 5,
  answer: true,
  groups: [
    {
      destQpn: 0x114,
      sourceQpn: 14,
      entries: [
        { ...READ, sequence: 100, va: 0x1000n, length: 0x8000 },
        { ...READ, sequence: 132, va: 0x50000n, length: 0x1000 },
      ],
    },
    {
      destQpn: 0x117,
      sourceQpn: 17,
      entries: [{
        ...PREFETCHED,
        operation: "write",
        sequence: 200,
        rkey: 40,
        va: 0x100000n,
        length: 0x3000,
      }],
    },
    {
      destQpn: 0x123,
      sourceQpn: 23,
      entries: [{
        ...PREFETCHED,
        kinds: HINT_KINDS.atomic,
        operation: "fetch-add",
        sequence: 300,
        rkey: 50,
        va: 0x60000n,
        length: 8,
      }],
    },
  ],
};

/** C-07: the far CPU is to write, so its card asks for the line alone. */
export const OWN_LINE: CoherenceEth = {
  version: COHERENCE_VERSION,
  command: COHERENCE_COMMANDS["coherence-request"].indexOf("GetM"),
  state: COHERENCE_STATES.indexOf("exclusive"),
  placed: true,
  remote: true,
  change: 0,
  stamped: false,
  status: 0,
  region: 0x55aa,
  transaction: 9,
  life: 2,
  homeLife: 1,
  placementVersion: 3,
  agent: 1,
  offset: 0,
  lines: 1,
  address: 0x7f00_0000_0040n,
  stamp: 0n,
};

/** One of each header that a vendor's packet can have, but the one of the persistent writes. */
export const VENDOR_EXTENSIONS = {
  verifyEth: makeVerifyEth({ level: "verify-crc", persist: true }),
  digestEth: { crc: 0xcbf4_3926 },
  hintEth: hintParts(DOCUMENT_HINT).hintEth,
  coherenceEth: OWN_LINE,
} as const satisfies Extensions;
