import { deepStrictEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import { decodeReply, encodeRequest, type Named } from "../testing/native_testing.ts";
import { REQUEST_NAMES, type RequestName, type RequestRow, REQUESTS, SGE } from "./requests.ts";
import { type Answered, encodeReply, Request, timeOf } from "./words.ts";

/** A word of 64 bits, often of those at a border: 32 bits, and what a number holds exactly. */
const word = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.nat().map(BigInt),
  fc.constantFrom(2n ** 32n - 1n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n),
);
/** A number's word: what C has for lengths, handles, flags, times. */
const small = fc.oneof(fc.nat(), fc.maxSafeInteger().map(Math.abs));
const WIDE = ["wr_id", "compare_add", "swap", "dgid_high", "dgid_low", "gid_high", "gid_low"];

function named(names: readonly string[]): fc.Arbitrary<Named> {
  const each = names.map((name) => [name, WIDE.includes(name) ? word : small] as const);
  return fc.record(Object.fromEntries(each.filter(([name]) => name !== "sges")));
}

const anyName = fc.constantFrom(...REQUEST_NAMES);
const bytes = fc.uint8Array({ maxLength: 40 });

function requestOf(name: RequestName) {
  const { args, rows }: RequestRow = REQUESTS[name];
  const hasElements = rows?.includes("sges") === true;
  const row = fc.record({
    own: named(rows ?? []),
    elements: fc.array(named(SGE), { maxLength: hasElements ? 4 : 0 }),
  });
  return fc.record({
    args: named(args),
    rows: fc.array(row, { maxLength: rows === undefined ? 0 : 5 }),
    bytes: rows === undefined ? bytes : fc.constant(new Uint8Array(0)),
  });
}

/** Equal as numbers: a word that a number holds may be one. */
function equalWords(found: Readonly<Record<string, unknown>>, wanted: Named): void {
  for (const [name, value] of Object.entries(wanted)) {
    equal(BigInt(found[name] as number | bigint), BigInt(value), name);
  }
}

/** As the pipe gives a request: behind bytes that are another's. */
function received(message: Uint8Array<ArrayBuffer>): Request {
  const pipe = new Uint8Array(message.length + 24).fill(0xaa);
  pipe.set(message, 8);
  return new Request(pipe.subarray(8, 8 + message.length));
}

describe("Request", () => {
  it("reads every request as the library writes it: words, rows with their elements, bytes", () => {
    const any = anyName.chain((name) => requestOf(name).map((parts) => ({ name, ...parts })));
    fc.assert(
      fc.property(any, small, ({ name, args, rows, bytes }, usedPs) => {
        const sent = rows.map(({ own, elements }) => ({ ...own, elements }));
        const message = encodeRequest(name, { head: { usedPs }, args, rows: sent, bytes });
        const request = received(message);
        equal(request.name, name);
        same([request.head("bytes"), request.head("usedPs")], [message.length, usedPs]);
        equalWords(request.args(name), args);
        if ((REQUESTS[name] as RequestRow).rows === undefined) {
          same([...request.bytes(name)], [...bytes]);
          return;
        }
        const found = request.rows(name);
        equal(found.length, rows.length);
        rows.forEach(({ own, elements }, i) => {
          equalWords(found[i]! as never, own);
          equal(found[i]!.elements.length, elements.length);
          elements.forEach((element, j) => equalWords(found[i]!.elements[j] as never, element));
        });
      }),
      seeded(),
    );
  });

  it("has a word that a program chooses in all its bits, and others as numbers", () => {
    const wide = 0xfedc_ba98_7654_3211n;
    const sent = { wr_id: wide, compare_add: wide, swap: wide, remote_addr: 2 ** 47 + 1 };
    const [row] = received(encodeRequest("post_send", { rows: [sent] })).rows("post_send");
    same([row!.wr_id, row!.compare_add, row!.swap], [wide, wide, wide]);
    same([row!.remote_addr, row!.ah], [2 ** 47 + 1, 0]);
    const gid = { dgid_high: wide, dgid_low: wide };
    const ah = received(encodeRequest("create_ah", { args: gid })).args("create_ah");
    same([ah.dgid_high, ah.dgid_low], [wide, wide]);
    const group = { gid_high: wide, gid_low: wide };
    const mcast = received(encodeRequest("attach_mcast", { args: group })).args("attach_mcast");
    same([mcast.gid_high, mcast.gid_low], [wide, wide]);
    const length = received(encodeRequest("reg_mr", { args: { length: wide } })).args("reg_mr");
    equal(typeof length.length, "number");
  });

  it("has no name for a number that is not in the table", () => {
    for (const request of [REQUEST_NAMES.length, 2 ** 40]) {
      equal(received(encodeRequest("clock", { head: { request } })).name, undefined);
    }
  });

  it("gives the bytes of each span by its offset, of which some may be empty", () => {
    const span = fc.record({ offset: small, bytes });
    fc.assert(
      fc.property(fc.array(span, { minLength: 1, maxLength: 6 }), (spans) => {
        const request = received(encodeRequest("scm_store", { spans }));
        const found = [...request.spans("scm_store")];
        const plain = (each: typeof spans) => each.map((it) => [it.offset, [...it.bytes]]);
        same(plain(found), plain(spans));
      }),
      seeded(),
    );
  });

  it("gives copies of bytes: the message's place is used again", () => {
    const message = encodeRequest("scm_stream", { bytes: Uint8Array.of(1, 2, 3) });
    const taken = new Request(message).bytes("scm_stream");
    const store = encodeRequest("scm_store", { spans: [{ offset: 1, bytes: Uint8Array.of(4) }] });
    const [span] = [...new Request(store).spans("scm_store")];
    message.fill(0);
    store.fill(0);
    same([[...taken], [...span!.bytes]], [[1, 2, 3], [4]]);
  });
});

describe("encodeReply", () => {
  it("is read by the library as it was said, with 0 for each word that was not", () => {
    const any = anyName.chain((name) => {
      const { answer = [], answerRows = [] }: RequestRow = REQUESTS[name];
      const some = (names: readonly string[]) =>
        fc.record(Object.fromEntries(names.map((each) => [each, word])), { requiredKeys: [] });
      const rows = fc.array(some(answerRows), { maxLength: answerRows.length === 0 ? 0 : 5 });
      return fc.record({ name: fc.constant(name), words: some(answer), rows, bytes });
    });
    const head = fc.record({
      error: fc.nat(200),
      nowPs: small,
      leasePs: small,
      unwrittenPs: small,
      alone: fc.nat(1),
      ask: fc.nat(2 ** 17),
    });
    fc.assert(
      fc.property(any, head, ({ name, words, rows, bytes }, head) => {
        const { answer = [], answerRows = [] }: RequestRow = REQUESTS[name];
        const answered = { words, rows, bytes } as unknown as Answered<RequestName>;
        const reply = decodeReply(name, encodeReply(name, head, answered), rows.length);
        same(
          [
            reply.error,
            reply.nowPs,
            Number(reply.leasePs),
            reply.unwrittenPs,
            reply.alone,
            reply.ask,
          ],
          Object.values(head),
        );
        const whole = (names: readonly string[], said: Named) =>
          Object.fromEntries(names.map((each) => [each, said[each] ?? 0n]));
        same(reply.words, whole(answer, words as Named));
        same(reply.rows, rows.map((row) => whole(answerRows, row as Named)));
        same([...reply.bytes], [...bytes]);
      }),
      seeded(),
    );
  });

  it("says NEVER by the largest time of C, and reads it", () => {
    const head = { error: 0, nowPs: 5, leasePs: NEVER, unwrittenPs: NEVER, alone: 1, ask: 0 };
    const { leasePs } = decodeReply("clock", encodeReply("clock", head));
    equal(leasePs, 2n ** 63n - 1n);
    equal(timeOf(Number(leasePs)), NEVER);
    // A sum of the library may be a little less, and is that to a number, too.
    equal(timeOf(Number(2n ** 63n - 2n)), NEVER);
    equal(timeOf(12), 12);
    ok(timeOf(2 ** 62) < NEVER);
  });

  it("says a negative word as C's two's complement", () => {
    const answered = { words: { handle: -1 } };
    const reply = encodeReply(
      "alloc_pd",
      { error: 0, nowPs: 0, leasePs: 0, unwrittenPs: 0, alone: 1, ask: 0 },
      answered,
    );
    equal(decodeReply("alloc_pd", reply).words["handle"], 2n ** 64n - 1n);
  });
});
