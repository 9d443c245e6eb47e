/** Whether answers with PSNs that were never sent show the peer's other rq_psn, or are late ones. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  changed,
  EVERY_ACCESS,
  go,
  inject,
  packets,
  type Pair,
  pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";

const SQ_PSN = 5000, RETRIES = 2;

function connected(rqPsn: number, retryCnt = RETRIES): Pair {
  return pair({}, {
    attributes: { accessFlags: EVERY_ACCESS, retryCnt, timeout: 6, sqPsn: SQ_PSN, rqPsn },
  });
}

/** What the peer of an earlier connection of a queue pair with the same number has sent. */
function lateAck(): RocePacket {
  const p = pair();
  post(p, "write", { length: 8 });
  go(p);
  return changed(packets(p, "b")[0]!, { bth: { psn: SQ_PSN + 300 } });
}

const LATE = lateAck();
const LATE_NAK = changed(LATE, {
  bth: { psn: SQ_PSN - 9 },
  aeth: { syndrome: NAK_SYNDROMES["psn-sequence-error"], msn: 1 },
});

function notes(p: Pair): string[] {
  return p.rig.warnings().map((message) => message.replace(/^.*? sends/, "sends"));
}

function note(expected: number, what: RegExp): RegExp {
  return RegExp(`^sends from PSN ${SQ_PSN} .* expects PSN ${expected} .*${what.source}`);
}

/** `a` writes `count` times; `late` comes after the first frame. */
function write(p: Pair, { count = 1, late }: { count?: number; late?: RocePacket } = {}): void {
  for (let i = 0; i < count; i++) post(p, "write", { length: 8 });
  p.rig.ring(p.rig.a, p.a.sq);
  p.rig.run(() => packets(p, "a").length > 0);
  if (late !== undefined) inject(p, "a", late);
  p.rig.run();
}

describe("PSNs apart", () => {
  for (const [what, late] of [["ACK", LATE], ["NAK", LATE_NAK]] as const) {
    it(`are not shown by a late ${what} of an earlier connection, before a request or behind it`, () => {
      const p = connected(SQ_PSN);
      for (let i = 0; i < 2; i++) inject(p, "a", late);
      p.rig.run();
      write(p, { late });
      assert.deepEqual(statuses(p), ["SUCCESS"]);
      assert.deepEqual(notes(p), []);
    });
  }

  it("are not shown by a late ACK where the peer does not answer at all", () => {
    const p = connected(SQ_PSN);
    p.rig.fate = () => "drop";
    write(p, { late: LATE });
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
    assert.deepEqual(notes(p), []);
  });

  it("are shown by the ACK of what was sent again, or by two", () => {
    for (const [retryCnt, count] of [[RETRIES, 1], [0, 2]] as const) {
      const p = connected(SQ_PSN + 100, retryCnt);
      write(p, { count });
      const [note1, ...more] = notes(p);
      assert.match(note1 ?? "", note(SQ_PSN + 100, /duplicates/));
      assert.deepEqual(more, []);
    }
  });

  it("are shown by the one NAK of a peer that accepts nothing until the retries are over", () => {
    const p = connected(SQ_PSN - 9);
    write(p);
    assert.deepEqual(notes(p).length, 1);
    assert.match(notes(p)[0]!, note(SQ_PSN - 9, /refused as ahead/));
  });
});
