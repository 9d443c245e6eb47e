/** The bytes of requests and replies: see `requests.ts` for their words. */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { HEAD, REPLY, REQUEST_NAMES, REQUESTS, SGE } from "./requests.ts";
import type { RequestName, RequestRow } from "./requests.ts";

const WORD_BYTES = 8;
/** NEVER in a message: the largest number that is a time to C, too. */
const WORD_NEVER = 2n ** 63n - 1n;

/** Words whose 64 bits a program chooses: a bigint where a number would lose some. */
const WIDE = [
  "wr_id",
  "compare_add",
  "swap",
  "dgid_high",
  "dgid_low",
  "gid_high",
  "gid_low",
] as const;
type Wide = typeof WIDE[number];
const WIDE_NAMES: ReadonlySet<string> = new Set(WIDE);

type Words<Names extends readonly string[]> = {
  readonly [Name in Names[number]]: Name extends Wide ? number | bigint : number;
};
type NamesOf<Name extends RequestName, Part extends keyof RequestRow> =
  (typeof REQUESTS)[Name] extends { readonly [P in Part]: infer Names extends readonly string[] }
    ? Names
    : readonly [];

export type Args<Name extends RequestName> = Words<NamesOf<Name, "args">>;
export type Sges = readonly Words<typeof SGE>[];
/** A row, with the elements that it counts. */
export type Row<Name extends RequestName> = Words<NamesOf<Name, "rows">> & {
  readonly elements: Sges;
};
export type AnswerWords<Name extends RequestName> = {
  readonly [Word in NamesOf<Name, "answer">[number]]?: number | bigint;
};
export type AnswerRow<Name extends RequestName> = {
  readonly [Word in NamesOf<Name, "answerRows">[number]]?: number | bigint;
};

/** What a handler answers, besides an error. */
export interface Answered<Name extends RequestName> {
  readonly words?: AnswerWords<Name>;
  readonly rows?: readonly AnswerRow<Name>[];
  readonly bytes?: Uint8Array;
}

const HEAD_PLACES = Object.fromEntries(HEAD.map((name, place) => [name, place])) as Readonly<
  Record<typeof HEAD[number], number>
>;

/** A decoded request: a view that is valid until the thread is resumed. */
export class Request {
  readonly #view: DataView<ArrayBuffer>;

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  head(name: typeof HEAD[number]): number {
    return Number(this.#word(HEAD_PLACES[name]));
  }

  /** Undefined for a number that the table does not have. */
  get name(): RequestName | undefined {
    return REQUEST_NAMES[this.head("request")];
  }

  args<Name extends RequestName>(name: Name): Args<Name> {
    return this.#words(HEAD.length, REQUESTS[name].args) as Args<Name>;
  }

  rows<Name extends RequestName>(name: Name): Row<Name>[] {
    const { args, rows: names = [] }: RequestRow = REQUESTS[name];
    const rows: Row<Name>[] = [];
    let at = HEAD.length + args.length;
    while ((at + names.length) * WORD_BYTES <= this.#view.byteLength) {
      const row = this.#words(at, names);
      at += names.length;
      const elements: Words<typeof SGE>[] = [];
      for (let i = 0; i < Number(row["sges"] ?? 0); i++, at += SGE.length) {
        elements.push(this.#words(at, SGE) as Words<typeof SGE>);
      }
      rows.push({ ...row, elements } as unknown as Row<Name>);
    }
    return rows;
  }

  /** The bytes behind the arguments of a request without rows: a copy. */
  bytes(name: RequestName): Uint8Array<ArrayBuffer> {
    const { buffer, byteOffset, byteLength } = this.#view;
    const at = (HEAD.length + REQUESTS[name].args.length) * WORD_BYTES;
    return new Uint8Array(buffer, byteOffset + at, byteLength - at).slice();
  }

  /** Bytes by their offsets: of a request whose `spans` counts them. Copies. */
  *spans(
    name: "scm_store",
  ): Generator<{ readonly offset: number; readonly bytes: Uint8Array<ArrayBuffer> }> {
    const { spans } = this.args(name);
    const first = HEAD.length + REQUESTS[name].args.length;
    let at = (first + 2 * spans) * WORD_BYTES;
    for (let i = 0; i < spans; i++) {
      const offset = Number(this.#word(first + 2 * i)),
        length = Number(this.#word(first + 2 * i + 1));
      const { buffer, byteOffset } = this.#view;
      yield { offset, bytes: new Uint8Array(buffer, byteOffset + at, length).slice() };
      at += length;
    }
  }

  #words(from: number, names: readonly string[]): Record<string, number | bigint> {
    const words: Record<string, number | bigint> = {};
    for (let i = 0; i < names.length; i++) {
      const word = this.#word(from + i);
      words[names[i]!] = WIDE_NAMES.has(names[i]!) ? word : Number(word);
    }
    return words;
  }

  #word(place: number): number | bigint {
    const at = place * WORD_BYTES;
    const high = this.#view.getUint32(at + 4, true);
    if (high >= 2 ** 21) return this.#view.getBigUint64(at, true);
    return high * 2 ** 32 + this.#view.getUint32(at, true);
  }
}

/** The begin of a reply. */
export interface ReplyHead {
  /** An errno; 0: none. */
  readonly error: number;
  readonly nowPs: number;
  /** NEVER: no limit. */
  readonly leasePs: number;
  readonly unwrittenPs: number;
  /** 0 or 1. */
  readonly alone: number;
  readonly ask: number;
}

/** A time that a message has, where {@link WORD_NEVER} stands for NEVER. */
export function timeOf(word: number): Time {
  return word >= Number(WORD_NEVER) ? NEVER : word;
}

export function encodeReply<Name extends RequestName>(
  name: Name,
  head: ReplyHead,
  { words = {}, rows = [], bytes = NO_BYTES }: Answered<Name> = {},
): Uint8Array<ArrayBuffer> {
  const { answer = [], answerRows = [] }: RequestRow = REQUESTS[name];
  const count = REPLY.length + answer.length + rows.length * answerRows.length;
  const reply = new Uint8Array(count * WORD_BYTES + bytes.length);
  const view = new DataView(reply.buffer);
  let at = 0;
  const put = (value: number | bigint) => {
    // A bigint for each word is a third of the time of an answer to a poll.
    if (typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER) {
      view.setUint32(at, value % 2 ** 32, true);
      view.setUint32(at + 4, value / 2 ** 32, true);
    } else {
      const word = value === NEVER ? WORD_NEVER : BigInt(value);
      view.setBigUint64(at, BigInt.asUintN(64, word), true);
    }
    at += WORD_BYTES;
  };
  for (const each of REPLY) put(head[each]);
  for (const each of answer) put((words as Record<string, number | bigint>)[each] ?? 0);
  for (const row of rows) {
    for (const each of answerRows) put((row as Record<string, number | bigint>)[each] ?? 0);
  }
  reply.set(bytes, at);
  return reply;
}

const NO_BYTES = new Uint8Array(0);
