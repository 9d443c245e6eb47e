/** What a handle asks of its host for ranges of lines, and what it says of them when they fail. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AccessRecord, AuditRecord } from "../../../fabric/audit.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { FarResult } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { Cpu } from "../cpu/program.ts";
import type { LineRequest, RegionAccess } from "./line_access.ts";
import { RegionHandle } from "./region_handle.ts";

/** A handle of a region of 8 KiB, whose accesses end at once, and so. */
function handleOf(isHome: boolean, resultOf: (request: LineRequest) => FarResult = () => "done") {
  const requests: LineRequest[] = [], notes: AuditRecord[] = [];
  const its = {
    flushCosts: { issuePs: 1, fencePs: 1 },
    buffer: () => undefined,
    isReady: () => true,
    nextId: () => notes.length,
    flushRoomAt: () => 0,
    stored: () => {},
    begin: (_: SharedRegion, request: LineRequest) => requests.push(request) - 1,
    outcome: (ticket: number) => ({
      result: resultOf(requests[ticket]!),
      data: new Uint8Array(64),
      cost: {},
    }),
    paid: () => {},
  } as unknown as RegionAccess;
  const cpu = {
    now: 0,
    owedPs: 0,
    auditing: true,
    note: (note: AuditRecord) => void notes.push(note),
    charge: () => {},
    *settle() {},
  } as unknown as Cpu;
  const region = { name: "s", bytes: 8192 } as SharedRegion;
  const noted = () =>
    notes.filter((note): note is AccessRecord => note.kind === "access")
      .map(({ offset, length }) => [offset, length]);
  return { handle: new RegionHandle(its, { region, isHome, cpu }), requests, noted };
}

function rangesOf(steps: Generator): unknown {
  try {
    assert.equal(steps.next().done, true);
    return undefined;
  } catch (error) {
    return (error as { ranges?: unknown }).ranges ?? error;
  }
}

describe("RegionHandle", () => {
  it("decision 8: a far host's flush of several lines is one request, noted with all its bytes", () => {
    const { handle, requests, noted } = handleOf(false);
    rangesOf(handle.flush(100, 130));
    assert.deepEqual(requests.map(({ line, lines }) => [line, lines]), [[1, 3]]);
    assert.deepEqual(noted(), [[100, 130]]);
  });

  it("C-06: takes ranges within the region, of whole numbers, and asks its host for nothing else", () => {
    const { handle, requests } = handleOf(false);
    const wrong = [
      ...[[-1, 8], [8185, 8], [8192, 1], [0, 8193], [0, -1], [1.5, 8], [0, 1.5], [0.5, 0.5]],
      ...[[NaN, 8], [0, NaN], [Infinity, 1], [0, Infinity], [2 ** 53, 0]],
    ] as [number, number][];
    for (const [offset, length] of wrong) {
      for (const steps of [handle.load(offset, length), handle.flush(offset, length)]) {
        const error = rangesOf(steps);
        assert.ok(error instanceof RangeError, `${length} B at ${offset}`);
        assert.match(error.message, /within its 8192 B/);
      }
    }
    assert.deepEqual(requests, []);
    assert.equal(rangesOf(handle.load(8184, 8)), undefined);
    assert.equal(requests.length, 1);
  });

  it("C-06: an atomic is of all 64 bits of its operands, at its place in the line", () => {
    const { handle, requests } = handleOf(false);
    rangesOf(handle.compareSwap(72, -1n, 2n ** 63n));
    rangesOf(handle.fetchAdd(8, -2n));
    rangesOf(handle.compareSwap(0, 2n ** 64n + 5n, 2n ** 64n - 1n));
    assert.deepEqual(requests.map(({ line, change }) => [line, change]), [
      [1, { kind: "compare-swap", offset: 8, compare: 2n ** 64n - 1n, swap: 2n ** 63n }],
      [0, { kind: "add", offset: 8, operand: 2n ** 64n - 2n }],
      [0, { kind: "compare-swap", offset: 0, compare: 5n, swap: 2n ** 64n - 1n }],
    ]);
    for (const offset of [4, 8188, 8192, -8]) {
      assert.ok(rangesOf(handle.fetchAdd(offset, 1n)) instanceof RangeError, `${offset}`);
    }
  });

  it("decision 12: home's flush is one of each line, each noted with its own bytes", () => {
    const { handle, requests, noted } = handleOf(true);
    rangesOf(handle.flush(100, 130));
    assert.deepEqual(requests.map(({ line, lines }) => [line, lines]), [
      [1, undefined],
      [2, undefined],
      [3, undefined],
    ]);
    assert.deepEqual(noted(), [[100, 28], [128, 64], [192, 38]]);
  });

  it("C-10: what a flush finds lost is all that its request was about", () => {
    const lost = (isHome: boolean) =>
      rangesOf(handleOf(isHome, ({ line }) => line === 1 ? "lost" : "done").handle.flush(100, 130));
    assert.deepEqual(lost(false), [{ offset: 100, length: 130 }]);
    assert.deepEqual(lost(true), [{ offset: 100, length: 28 }]);
  });

  it("C-10: a load tells of all its lost bytes, neighbours as one range, and of no others", () => {
    const { handle } = handleOf(false, ({ line }) => [1, 2, 4].includes(line) ? "lost" : "done");
    assert.deepEqual(rangesOf(handle.load(60, 220)), [
      { offset: 64, length: 128 },
      { offset: 256, length: 24 },
    ]);
    assert.deepEqual(rangesOf(handle.load(120, 8)), [{ offset: 120, length: 8 }]);
    assert.equal(rangesOf(handle.load(0, 64)), undefined);
  });
});
