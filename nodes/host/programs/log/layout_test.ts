import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import {
  chooseLog,
  encodeClaim,
  encodeRecord,
  type LogRecord,
  type LogScan,
  type LogShape,
  nextEpoch,
  payloadsOf,
  readQuorum,
  scanLog,
  slotBytes,
} from "./layout.ts";
import { seeded } from "../../../../fabric/base/property_testing.ts";

const SHAPE: LogShape = { name: "log", recordBytes: 20, slots: 8 };

function data(epoch: number, byte: number): LogRecord {
  return { epoch, kind: "data", payload: new Uint8Array(20).fill(byte) };
}

function logOf(records: readonly LogRecord[], epoch = 1, shape = SHAPE): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(shape.slots * slotBytes(shape));
  bytes.set(encodeClaim(shape, epoch));
  for (const i of records.keys()) {
    bytes.set(encodeRecord(shape, records, i), (i + 1) * slotBytes(shape));
  }
  return bytes;
}

const LONGER: LogShape = { name: "log", recordBytes: 20, slots: 10 };
const FILE = Array.from({ length: 4 }, (_, i) => new Uint8Array(20).fill(i + 1));

describe("a log's slots", () => {
  it("are read back as they were written, up to the first that is missing", () => {
    const barrier: LogRecord = { epoch: 3, kind: "barrier", payload: new Uint8Array(0) };
    const short: LogRecord = { epoch: 3, kind: "data", payload: Uint8Array.of(1, 2, 3) };
    const records = [data(1, 7), barrier, short];
    assert.deepEqual(scanLog(SHAPE, logOf(records, 3)), { claimed: 3, records });
    assert.deepEqual(payloadsOf(records).map(({ length }) => length), [20, 3]);
    assert.deepEqual(scanLog(SHAPE, new Uint8Array(SHAPE.slots * slotBytes(SHAPE))), {
      claimed: 0,
      records: [],
    });
  });

  it("P-41 (in part): end at a record that is torn in any of its words", () => {
    const records = [data(1, 1), data(1, 2), data(1, 3)];
    for (let word = 0; word < slotBytes(SHAPE) / 8; word++) {
      const bytes = logOf(records);
      const at = 2 * slotBytes(SHAPE) + 8 * word;
      const before = bytes.slice(at, at + 8);
      bytes.fill(0xee, at, at + 8);
      assert.notDeepEqual(bytes.slice(at, at + 8), before);
      assert.equal(scanLog(SHAPE, bytes).records.length, 1, `word ${word}`);
    }
  });

  it("end where an earlier client's leftovers begin", () => {
    const bytes = logOf([data(2, 1), data(2, 2), data(1, 3)], 2);
    assert.equal(scanLog(SHAPE, bytes).records.length, 2);
  });

  it("are none of another log's, of another name or record size", () => {
    const bytes = logOf([data(1, 1)]);
    assert.equal(scanLog({ ...SHAPE, name: "other" }, bytes).records.length, 0);
    assert.equal(scanLog({ ...SHAPE, recordBytes: 19 }, bytes).records.length, 0);
  });
});

describe("choosing among replicas", () => {
  it("takes the youngest end, then the longest log", () => {
    const scan = (...records: LogRecord[]): LogScan => ({ claimed: 0, records });
    const long = scan(data(1, 1), data(1, 2), data(1, 3));
    const young = scan(data(1, 1), data(2, 9));
    assert.deepEqual(chooseLog([long, young]), young.records);
    assert.deepEqual(chooseLog([scan(data(1, 1)), long]), long.records);
    assert.deepEqual(chooseLog([]), []);
    assert.equal(nextEpoch([{ claimed: 4, records: [] }, young]), 5);
    assert.equal(nextEpoch([{ claimed: 0, records: [] }]), 1);
  });

  it("may prefer a younger end to what a quorum has, so nothing counts before a barrier does", () => {
    const [first, second, third] = [1, 2, 3].map((epoch): LogRecord => {
      return { epoch, kind: "barrier", payload: new Uint8Array(0) };
    });
    const record = data(1, 7);
    // Client 2 had read the last two; client 3 the first two, and brought the record to a quorum.
    const scans = [[first!, record], [first!, record], [first!, second!]].map((records) =>
      scanLog(SHAPE, logOf(records))
    );
    assert.deepEqual(payloadsOf(chooseLog(scans.slice(0, 2))), [record.payload]);
    assert.deepEqual(payloadsOf(chooseLog(scans.slice(1))), [], "lost, had it counted");
    const behind = scanLog(SHAPE, logOf([first!, record, third!]));
    assert.deepEqual(payloadsOf(chooseLog([behind, scans[2]!])), [record.payload]);
  });

  it("P-41: never loses or repeats what was reported durable, in whichever order slots get into memory", () => {
    const replicas = 3, quorum = 2;
    assert.equal(readQuorum(replicas, quorum), 2);
    const anyClient = fc.record({
      reads: fc.shuffledSubarray([0, 1, 2], { minLength: 2, maxLength: 2 }),
      claims: fc.subarray([0, 1, 2]),
      reached: fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 3, maxLength: 3 }),
      early: fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 3, maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.array(anyClient, { minLength: 1, maxLength: 6 }), (clients) => {
        const logs = Array.from(
          { length: replicas },
          () => new Uint8Array(LONGER.slots * slotBytes(LONGER)),
        );
        const size = slotBytes(LONGER);
        let durable: Uint8Array[] = [];
        for (const [number, { reads, claims, reached, early }] of clients.entries()) {
          const scans = reads.map((i) => scanLog(LONGER, logs[i]!));
          const found = chooseLog(scans);
          const payloads = payloadsOf(found);
          assert.deepEqual(payloads, FILE.slice(0, payloads.length), `client ${number}`);
          assert.ok(payloads.length >= durable.length, `lost before client ${number}`);
          const epoch = nextEpoch(scans);
          for (const i of claims) logs[i]!.set(encodeClaim(LONGER, epoch).subarray(0, 8));
          if (claims.length < quorum) continue;
          const barrier: LogRecord = { epoch, kind: "barrier", payload: new Uint8Array(0) };
          const rest = FILE.slice(payloads.length).map((payload): LogRecord => {
            return { epoch, kind: "data", payload };
          });
          const mine = [...found, barrier, ...rest];
          if (mine.length >= LONGER.slots) return;
          for (const i of claims) {
            for (const k of mine.keys()) {
              if (k >= reached[i]! && ((early[i]! >> k) & 1) === 0) continue;
              logs[i]!.set(encodeRecord(LONGER, mine, k), (k + 1) * size);
            }
          }
          const acked = reached.map((slots, i) => claims.includes(i) ? slots : 0)
            .sort((x, y) => y - x)[quorum - 1]!;
          const counted = acked > found.length ? payloadsOf(mine.slice(0, acked)) : [];
          if (counted.length > durable.length) durable = counted;
        }
      }),
      seeded({ numRuns: 3_000, seed: 5 }),
    );
  });
});
