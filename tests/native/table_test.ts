/**
 * Debian's programs over verbs on a rack: rows of the table of `scripts/scenarios/NATIVE_RUNS.md`, and figures of
 * perftest beside those of the rack's own. All of them: `deno task native-table`, `scripts/native/figures.ts`.
 */
import assert from "node:assert/strict";
import { describe, it as always } from "@std/testing/bdd";
import { executableInPath } from "../../console/base/executables.ts";
import {
  isExplained,
  linesOf,
  nativeLines,
  ownLines,
  PAIRS,
} from "../../scripts/native/figures.ts";
import { ROWS, show, wordsOf } from "../../scripts/native/table.ts";
import { nativeMissing } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const ABSENT = ["ibv_rc_pingpong", "ib_write_lat"].filter((binary) =>
  executableInPath(binary) === undefined
);
const missing = await nativeMissing() ??
  (ABSENT.length === 0 ? undefined : `${ABSENT.join(", ")}: not installed`);
const it = itUnless(missing, "tests/native/table_test.ts");

/** Those that take little time, one of a kind. */
const SHOWN = [
  "ibv_devices",
  "ibv_devinfo -v",
  "ibv_asyncwatch",
  "ibv_ud_pingpong -g 0 -n 200 -e",
  "ib_send_bw -n 60 -e",
  "rping -s -C 20",
  "cmtime -c 5",
  "ucx_info -d",
  "ucx_perftest UCX_TLS=rc_v,self UCX_NET_DEVICES=rackmesh0:1 -t tag_lat -n 20 -w 2",
  "ucx_perftest UCX_TLS=ud_v,self UCX_NET_DEVICES=rackmesh0:1 -t ucp_am_bw -n 20 -w 2",
  "ucx_perftest UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 -t tag_lat -n 20 -w 2",
  "fi_info -p verbs",
  "fi_pingpong -I 20 -S 64 -p verbs -e msg",
];

describe("native programs of Debian", () => {
  for (const command of SHOWN) {
    const [binary] = command.split(" ");
    const absent = executableInPath(binary!) === undefined ? `there is no ${binary}` : undefined;
    const itHere = itUnless(missing ?? absent, "tests/native/table_test.ts");
    itHere(`${command}: ends as the table says, and the same with fewer leases`, async () => {
      const row = ROWS.find((each) => [each.binary, ...wordsOf(each)].join(" ") === command);
      assert.ok(row !== undefined, "the table has no such row");
      const { isGood, cells, wrong } = await show(row, 1);
      assert.ok(isGood, [...cells, ...wrong].join("\n"));
    });
  }

  for (
    const { test, native } of [
      PAIRS[0]!,
      PAIRS.find(({ native }) => native === "-n 600 -s 64")!,
    ]
  ) {
    it(`${test} ${native}: the rack's own figure, but for what the programs differ in`, async () => {
      const pair = PAIRS.find((each) => each.test === test && each.native === native)!;
      const [theirs] = await nativeLines(pair), [ours] = ownLines(pair);
      const more = theirs!.ns - ours!.ns;
      assert.ok(
        isExplained(pair, more),
        `${more} ns: explained are ${pair.explained.join(" to ")}`,
      );
    });
  }
});

describe("linesOf", () => {
  always("reads perftest's lines of both kinds, and none of its head", () => {
    const output = [
      " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]",
      " 65536      100              11624.01            11623.69\t\t   0.200000",
      " 2       200          1.77           1.79         1.78     \t       1.77        \t0.00   \t\t1.77    \t\t1.77   ",
    ];
    assert.deepEqual(linesOf(output), [
      { bytes: 65536, ns: 5000 },
      { bytes: 2, ns: 1780 },
    ]);
  });
});
