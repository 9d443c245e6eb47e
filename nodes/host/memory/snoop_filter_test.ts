/** H-23: what a card keeps of the host's memory is called back when a core changes it. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { CpuProgram } from "../testing/host_testing.ts";
import { HostRig } from "../testing/host_testing.ts";
import type { Host } from "../host.ts";
import { SnoopFilter } from "./snoop_filter.ts";

/** Boot is over, and the program sleeps. */
const START = 2_000_000, LATER = 10_000_000;
const LINE = 64;
/** Lines that the filter has room for. */
const LINES = 64;

/** What a core's program does to memory whose first two lines the card has read and keeps. */
function told(
  act: (cpu: Parameters<CpuProgram>[0], at: number) => ReturnType<CpuProgram> | void,
): string[] {
  let address = 0;
  const rig = new HostRig({}, {
    programs: {
      *stores(cpu) {
        // Contiguous memory: its physical address is the first one's.
        const buffer = cpu.allocateContiguous(4 * LINE);
        address = (rig.node as Host).map.physical(buffer.address);
        yield* cpu.sleep(LATER - cpu.now);
        const steps = act(cpu, buffer.address);
        if (steps !== undefined) yield* steps;
      },
    },
  });
  rig.run(START);
  for (const line of [0, 1]) {
    const from = address + line * LINE + 8;
    rig.arrive(START, {
      kind: "memory-read",
      tag: line,
      address: from,
      length: 8,
      noSnoop: false,
      tracked: true,
    });
  }
  rig.run();
  return rig.sent.flatMap(({ message }) =>
    message.kind === "snoop-invalidate" ? [`line ${(message.address - address) / LINE}`] : []
  );
}

describe("the snoop filter", () => {
  it("H-23: a store into a line that the card keeps is told once, one beside it is not", () => {
    same(
      told((cpu, at) => {
        cpu.store(at + 2 * LINE, new Uint8Array(LINE));
      }),
      [],
    );
    same(
      told((cpu, at) => {
        cpu.store(at + 63, new Uint8Array(1));
        cpu.store(at, new Uint8Array(8));
      }),
      ["line 0"],
    );
    same(
      told((cpu, at) => {
        cpu.store(at + 63, new Uint8Array(2));
      }),
      ["line 0", "line 1"],
    );
  });

  it("H-23: so are non-temporal stores, single and streamed", () => {
    same(
      told((cpu, at) => {
        cpu.ntstore(at + LINE, new Uint8Array(8));
      }),
      ["line 1"],
    );
    same(
      told(function* (cpu, at) {
        yield* cpu.ntStore(at, new Uint8Array(LINE));
      }),
      ["line 0"],
    );
  });

  it("H-23: loads and flushes are not", () => {
    same(
      told(function* (cpu, at) {
        cpu.load(at, 2 * LINE);
        yield* cpu.flush(at, 2 * LINE);
      }),
      [],
    );
  });

  it("gives up its oldest line where it is full, and says so", () => {
    const lines: number[] = [];
    const filter = new SnoopFilter((line) => void lines.push(line));
    for (let i = 0; i <= LINES; i++) filter.track(i * LINE + 8);
    same(lines, [0]);
    filter.stored(0, LINE);
    same(lines, [0], "it is no more kept");
    filter.clear();
    filter.stored(0, 2 * LINES * LINE);
    same(lines, [0]);
  });

  it("a line that the card has read again is no more the oldest, and gives up no other", () => {
    const lines: number[] = [];
    const filter = new SnoopFilter((line) => void lines.push(line / LINE));
    for (let i = 0; i < LINES; i++) filter.track(i * LINE);
    filter.track(8);
    same(lines, []);
    filter.track(LINES * LINE);
    same(lines, [1]);
  });
});
