import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { decodeReport, encodeReport } from "../../fabric/wire/roce/igmp.ts";
import { allocate } from "../../fabric/base/slab.ts";
import {
  createGroupTable,
  forgetPort,
  groupPorts,
  type GroupTable,
  introduce,
  type OwnFrame,
  takeReport,
} from "./snooping.ts";

const GROUP = 0xef01_0203, OTHER = 0xef01_0204;
const HOST = { mac: 0x0200_0000_0001, address: 0x0a00_0001 };

/** `trunks` lead to other switches, of these `blocked` are not of the tree. */
function planOf(ports: number, trunks: readonly number[] = [], blocked: readonly number[] = []) {
  const flood = Array.from({ length: ports }, (_, port) => port)
    .filter((port) => !blocked.includes(port));
  return {
    ports,
    mode: "cut-through",
    latencyPs: 1,
    queueBytes: 1,
    forwarding: [],
    ...(trunks.length > 0 && { flood, multipath: [[[], trunks] as const] }),
  } satisfies SwitchPlan;
}

/** Any frame to an IPv4 group. */
function frameTo(group: number): Uint8Array<ArrayBuffer> {
  const bytes = allocate(60);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  bytes.set([0x01, 0x00, 0x5e], 0);
  view.setUint16(12, 0x0800);
  view.setUint8(14, 0x45);
  view.setUint8(23, 17);
  view.setUint32(30, group);
  return bytes;
}

function change(group: number, member: boolean): Uint8Array<ArrayBuffer> {
  return encodeReport(HOST, [{ group, member }]);
}

function said(frames: readonly OwnFrame[] | undefined): string[] {
  return (frames ?? []).flatMap(({ port, bytes }) =>
    decodeReport(bytes)!.map(({ group, member }) =>
      `${port}:${member ? "+" : "-"}${(group & 0xf).toString(16)}`
    )
  );
}

describe("a switch on its own", () => {
  it("floods a group without reports, and sends a reported one to its members only", () => {
    const table = createGroupTable(planOf(4));
    assert.deepEqual(groupPorts(table, 0, frameTo(GROUP)), [1, 2, 3]);
    assert.deepEqual(takeReport(table, 1, change(GROUP, true)), []);
    assert.deepEqual(groupPorts(table, 0, frameTo(GROUP)), [1]);
    assert.deepEqual(groupPorts(table, 1, frameTo(GROUP)), []);
    assert.deepEqual(groupPorts(table, 0, frameTo(OTHER)), [1, 2, 3]);
    takeReport(table, 3, change(GROUP, true));
    takeReport(table, 1, change(GROUP, false));
    assert.deepEqual(groupPorts(table, 0, frameTo(GROUP)), [3]);
    takeReport(table, 3, change(GROUP, false));
    assert.equal(table.members.size, 0);
  });

  it("floods 224.0.0.x and what is not IPv4, whatever is reported", () => {
    const table = createGroupTable(planOf(3));
    takeReport(table, 1, change(0xe000_0005, true));
    assert.deepEqual(groupPorts(table, 0, frameTo(0xe000_0005)), [1, 2]);
    const broadcast = allocate(60);
    broadcast.fill(0xff, 0, 6);
    assert.deepEqual(groupPorts(table, 0, broadcast), [1, 2]);
    assert.deepEqual(groupPorts(table, 0, allocate(14)), [1, 2]);
  });

  it("a damaged report changes nothing and is forwarded", () => {
    const table = createGroupTable(planOf(3));
    const bytes = change(GROUP, true);
    bytes[50] = bytes[50]! ^ 1;
    assert.equal(takeReport(table, 1, bytes), undefined);
    assert.equal(table.members.size, 0);
  });

  it("drops the members behind a port whose link is down", () => {
    const table = createGroupTable(planOf(3));
    takeReport(table, 1, change(GROUP, true));
    takeReport(table, 2, change(GROUP, true));
    forgetPort(table, 1);
    assert.deepEqual(groupPorts(table, 0, frameTo(GROUP)), [2]);
  });
});

describe("groups that are never learned", () => {
  const LAST_LOCAL = 0xe000_00ff;

  it("are those of the local network, to the last: flooded, and reported to no other switch", () => {
    const table = createGroupTable(planOf(4, [3], []));
    for (const group of [0xe000_0001, LAST_LOCAL]) {
      assert.deepEqual(said(takeReport(table, 0, change(group, true))), []);
      assert.equal(table.members.size, 0);
      assert.deepEqual(groupPorts(table, 1, frameTo(group)), [0, 2, 3]);
    }
    assert.deepEqual(said(takeReport(table, 0, change(LAST_LOCAL + 1, true))), ["3:+0", "3:+0"]);
    assert.deepEqual(
      groupPorts(table, 1, frameTo(LAST_LOCAL + 1)),
      [0],
      "the first that is learned",
    );
  });

  it("are those beyond the table's 4096: flooded, until another group has gone", () => {
    const table = createGroupTable(planOf(4, [3], []));
    for (let i = 0; i < 4096; i++) takeReport(table, 0, change(OTHER + i, true));
    assert.deepEqual(said(takeReport(table, 0, change(GROUP, true))), []);
    assert.equal(table.members.size, 4096);
    assert.deepEqual(groupPorts(table, 1, frameTo(GROUP)), [0, 2, 3]);
    takeReport(table, 2, change(OTHER, true));
    assert.deepEqual(groupPorts(table, 1, frameTo(OTHER)), [0, 2], "a known one takes members");
    for (const port of [0, 2]) takeReport(table, port, change(OTHER, false));
    takeReport(table, 0, change(GROUP, true));
    assert.deepEqual(groupPorts(table, 1, frameTo(GROUP)), [0]);
  });
});

describe("a switch among others", () => {
  it("reports the first member behind it and the last to the others, twice each", () => {
    const table = createGroupTable(planOf(4, [3], []));
    assert.deepEqual(said(takeReport(table, 0, change(GROUP, true))), ["3:+3", "3:+3"]);
    assert.deepEqual(said(takeReport(table, 1, change(GROUP, true))), []);
    assert.deepEqual(said(takeReport(table, 0, change(GROUP, false))), []);
    assert.deepEqual(said(takeReport(table, 1, change(GROUP, false))), ["3:-3", "3:-3"]);
  });

  it("forwards between trunks, but sends a trunk none of its own reports", () => {
    const table = createGroupTable(planOf(3, [0, 1, 2], []));
    assert.deepEqual(said(takeReport(table, 0, change(GROUP, true))), [
      "1:+3",
      "1:+3",
      "2:+3",
      "2:+3",
    ]);
    assert.deepEqual(said(takeReport(table, 1, change(GROUP, true))), ["0:+3", "0:+3"]);
    assert.deepEqual(said(forgetPort(table, 0)), ["1:-3", "1:-3"]);
    assert.deepEqual(said(introduce(table, 0)), ["0:+3", "0:+3"], "when it is back");
    assert.deepEqual(said(introduce(table, 1)), []);
  });

  it("takes and sends nothing over a cable that is not of the tree", () => {
    const table = createGroupTable(planOf(4, [2, 3], [3]));
    assert.deepEqual(groupPorts(table, 3, frameTo(GROUP)), []);
    assert.deepEqual(groupPorts(table, 0, frameTo(GROUP)), [1, 2]);
    assert.deepEqual(said(takeReport(table, 3, change(GROUP, true))), []);
    assert.equal(table.members.size, 0);
  });
});

/** Three leaves with two hosts each (ports 0, 1), two spines; only the first spine is of the tree. */
class LeafSpine {
  readonly leaves = [0, 1, 2].map(() => createGroupTable(planOf(4, [2, 3], [3])));
  readonly spines = [0, 1].map((spine) =>
    createGroupTable(planOf(3, [0, 1, 2], spine === 0 ? [] : [0, 1, 2]))
  );

  /** The other end of a port: a host's number, or a switch and its port. */
  #other(table: GroupTable, port: number): number | { table: GroupTable; port: number } {
    const leaf = this.leaves.indexOf(table);
    if (leaf >= 0) {
      return port < 2 ? 2 * leaf + port : { table: this.spines[port - 2]!, port: leaf };
    }
    return { table: this.leaves[port]!, port: 2 + this.spines.indexOf(table) };
  }

  /** Hosts that get a frame of `host`, each as often as it does; bounded, as a loop is endless. */
  deliver(host: number, bytes: Uint8Array<ArrayBuffer>): number[] {
    const hosts: number[] = [];
    const way = [{ table: this.leaves[host >> 1]!, port: host & 1, bytes }];
    for (let hops = 0; way.length > 0; hops++) {
      assert.ok(hops < 1000, "the frame goes round in circles");
      const at = way.shift()!;
      const own = takeReport(at.table, at.port, at.bytes);
      const out = own ??
        groupPorts(at.table, at.port, at.bytes).map((port) => ({ port, bytes: at.bytes }));
      for (const frame of out) {
        const other = this.#other(at.table, frame.port);
        if (typeof other === "number") hosts.push(other);
        else way.push({ ...other, bytes: frame.bytes });
      }
    }
    return hosts.sort();
  }
}

describe("leaf and spine", () => {
  it("an unknown group reaches every other host once", () => {
    const net = new LeafSpine();
    for (let host = 0; host < 6; host++) {
      assert.deepEqual(
        net.deliver(host, frameTo(GROUP)),
        [0, 1, 2, 3, 4, 5].filter((h) => h !== host),
      );
    }
  });

  it("a group reaches its members once, wherever they and the sender are, as they come and go", () => {
    const net = new LeafSpine();
    const members = new Set<number>();
    for (const step of [1, 4, 5, 2, -1, 0, -4, -5, 3, -2]) {
      const host = Math.abs(step);
      const joins = !(step < 0);
      assert.deepEqual(net.deliver(host, change(GROUP, joins)), [], "reports are not forwarded");
      if (joins) members.add(host);
      else members.delete(host);
      for (let from = 0; from < 6; from++) {
        const expected = [...members].filter((member) => member !== from).sort();
        assert.deepEqual(net.deliver(from, frameTo(GROUP)), expected, `from ${from} at ${step}`);
      }
    }
  });
});
