/** Hints over the whole rack: the shipped scenarios, and promises under power failures. */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { MethodName } from "../../fabric/rack/plan/vocabulary.ts";
import coldPages from "../../scripts/scenarios/hints_cold_pages.ts";
import manyQueues from "../../scripts/scenarios/hints_many_queues.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { hintOf } from "../../fabric/wire/roce/hint.ts";
import { opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/roce/packet.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SHIPPED = new URL("../../scripts/scenarios/", import.meta.url);

interface Row {
  readonly behind: number;
  readonly warm: number;
  readonly stall: number;
  readonly held: number;
}

describe("hints in a rack", () => {
  it("H-30 (in part): hints_cold_pages.yaml: behind other work a cold message stalls no more", async () => {
    const text = await Deno.readTextFile(new URL("hints_cold_pages.yaml", SHIPPED));
    // A sixteenth of the bytes at a sixteenth of the rate.
    const small = text.replaceAll("1048576", "65536").replaceAll("2097152", "131072")
      .replace("25Gbps", "1562Mbps");
    const rack = new SimulatedRack(small, { programs: { "./hints_cold_pages.ts": coldPages } })
      .run();
    const rows = (host: string) => {
      const found = rack.reported("result", host).filter((row) => "behind" in row!);
      equal(found.length, 2, JSON.stringify(rack.reports));
      return found as unknown as [Row, Row];
    };
    const off = rows("off");
    for (const { stall, held } of off) {
      ok(stall > 460, `NSDI'20: 475 us, here ${stall}`);
      equal(held, 0);
    }
    const [alone, behind] = rows("at-once");
    ok(alone.stall > 0.9 * off[0].stall, "a hint right ahead of its request comes too late");
    ok(behind.stall < 0.1 * off[1].stall, `${behind.stall} us of ${off[1].stall} us remain`);
    for (const row of rows("delayed")) {
      ok(row.stall < 1 && row.held === 600, "the wait takes the stall's place");
    }
    // The answer comes when all pages are there, which the message need not wait for.
    for (const [i, { stall, held }] of rows("after-ack").entries()) {
      ok(held >= stall - 1 && stall >= off[i]!.stall - 10, `${stall} us, of which held ${held}`);
    }
    const counted = Object.fromEntries(
      rack.reported("result", "server").map((row) => [row!.client as string, row!]),
    );
    same(Object.keys(counted), ["off", "at-once", "delayed", "after-ack"]);
    equal(counted["off"]!.hintsIn, 0);
    equal(counted["at-once"]!.hintPagesLate, 1, "the first page of the message alone");
    equal(counted["delayed"]!.hintPagesLate, 0);
    for (const { hintPagesWasted } of Object.values(counted)) equal(hintPagesWasted, 0);
  });

  it("H-30 (in part): hints_many_queues.yaml: contexts are read before they are missed", async () => {
    const text = await Deno.readTextFile(new URL("hints_many_queues.yaml", SHIPPED));
    const small = text.replaceAll("queuePairs: 64", "queuePairs: 24").replaceAll("61ms", "31ms")
      .replace("121ms", "61ms").replace("entries: 32", "entries: 16");
    const rack = new SimulatedRack(small, { programs: { "./hints_many_queues.ts": manyQueues } })
      .run();
    const [off, carrier, afterAck, ...others] = rack.reported("result", "server") as unknown as {
      readonly client: string;
      readonly contextMisses: number;
      readonly hintContextsFetched: number;
      readonly hintContextsUseful: number;
    }[];
    same([off!.client, carrier!.client, afterAck!.client, others.length], [
      "off",
      "carrier",
      "after-ack",
      0,
    ]);
    ok(off!.contextMisses > 80 && off!.hintContextsFetched === 0, JSON.stringify(off));
    for (const hinted of [carrier!, afterAck!]) {
      ok(hinted.contextMisses < 0.7 * off!.contextMisses, JSON.stringify(hinted));
      ok(hinted.hintContextsUseful > 0.9 * hinted.hintContextsFetched);
    }
  });

  /** By opcode, by a FLUSH behind it, and not at all. */
  const METHODS: readonly MethodName[] = ["persist-opcode", "write-flush", "write-only"];
  for (const [place, method] of METHODS.entries()) {
    it(`H-24: what ${method} promises is in SCM, with hints, whenever power fails`, () => {
      for (const killUs of [0, 2100 + 211 * place, 2800 + 211 * place]) {
        const hints = ["on", "{ batch: adaptive, send: after-ack }", "{ batch: 2, send: 20us }"][
          (place + killUs) % 3
        ]!;
        const host = `pin: false, scm: { size: 4MiB }, hints: ${hints},
          pressure: { at: 300us, every: 60us, times: 60, pages: 3 }`;
        // Its promises are judged when the rack has run.
        const rack = new SimulatedRack(
          `
name: hinted-put
seed: ${killUs + 1}
hosts: { a: { ${host} }, b: { ${host}, ddio: ${place === 0 ? "off" : "on"} } }
programs:
  - { on: a, run: put, to: b, file: data.bin, method: ${method}, size: 4096, depth: 4 }
faults: ${killUs === 0 ? "[]" : `[{ at: ${killUs}us, kill: b }]`}
`,
          { inputs: { "data.bin": Uint8Array.from({ length: 60_000 }, (_, k) => k % 251 + 1) } },
        ).run();
        const { "a-rnic": card } = rack.simulator.statistics();
        ok(card!.hintsSent! > 0, `${hints}: ${card!.hintsSent} hints`);
        if (killUs === 0) equal(rack.reported("program-ended", "a").length, 1);
      }
    });
  }
});

/** The document's queue pairs of figures 7 and 8 [0164, 0165]: their responders, by its numbers. */
const FIGURES = {
  7: { b: [11, 21], c: [12, 22], carriers: [] },
  8: { b: [11, 21], c: [12, 22], carriers: [101, 102] },
} as const;
const ELEMENTS = 3, BUSY_BYTES = 1 << 18;

/** A run of a figure. */
interface FigureRun {
  readonly number: keyof typeof FIGURES;
  /** The responders' regions. */
  readonly memory: Map<string, { readonly va: number; readonly rkey: number }>;
  /** By the number at the requester: the document's number, and that at the responder. */
  readonly figure: Map<number, { readonly each: number; readonly peerQpn: number }>;
}

function* serveFigure({ memory }: FigureRun, { cpu, device }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const access = ["localWrite", "remoteWrite", "onDemand"] as const;
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(2 * BUSY_BYTES), { access }));
  memory.set(cpu.host, { va: mr.address, rkey: mr.rkey });
  const listener = v.must(v.listen(device, "figure"));
  for (;;) {
    const event = yield* v.waitEvent(listener);
    if (event?.kind !== "request") continue;
    const hints = event.request.privateData[0]! > 100 ? "carrier" : "on";
    const caps = { maxSendWr: 8, maxRecvWr: 8, hints } as const;
    const qp = { pd, sendCq: cq, recvCq: cq, ...caps };
    yield* v.accept(listener, event.request, { qp });
  }
}

function* askByFigure(
  { memory, figure, number }: FigureRun,
  { cpu, device }: ProgramContext,
): Steps<void> {
  const { b, c, carriers } = FIGURES[number];
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 64 }));
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(BUSY_BYTES), { access: ["localWrite"] }));
  const made = [];
  // The last one keeps the line busy, so that the others' work waits for its turn.
  for (const each of [...b, ...c, ...carriers, 99]) {
    const to = (c as readonly number[]).includes(each) || each === 102 ? "c" : "b";
    const hints = each > 100 ? "carrier" : each === 99 ? "off" : "on";
    const caps = { maxSendWr: 8, maxRecvWr: 8, hints } as const;
    const qp = { pd, sendCq: cq, recvCq: cq, ...caps };
    const privateData = Uint8Array.of(each);
    const connection = yield* v.connect(device, { to, service: "figure", qp, privateData });
    if (v.refused(connection)) throw new Error(connection.reason);
    if (cpu.host === "a") {
      figure.set(connection.qp.qpn, { each, peerQpn: connection.peer.qpn });
    }
    made.push({ each, to, qp: connection.qp });
  }
  const write = (to: string, at: number, length: number) => ({
    opcode: "write" as const,
    sges: [{ ...v.sge(mr), length }],
    remote: { ...memory.get(to)!, va: memory.get(to)!.va + at },
  });
  v.must(yield* v.postSend(made.at(-1)!.qp, write("b", BUSY_BYTES, BUSY_BYTES)));
  yield* cpu.sleep(10_000_000);
  for (const { each, to, qp } of made) {
    if (each >= 99) continue;
    for (let i = 0; i < ELEMENTS; i++) v.must(yield* v.postSend(qp, write(to, i * 4096, 64)));
  }
  for (let done = 0; done < 1 + 4 * ELEMENTS;) {
    for (const { status } of yield* v.waitCompletion(cq)) {
      equal(status, "SUCCESS");
      done++;
    }
  }
  cpu.report("figure", "done");
}

/** The rack, what card `a` has sent, and how many announcements that and the other requester's have. */
function runFigure(of: FigureRun) {
  const sent: RocePacket[] = [];
  let announcedByBoth = 0;
  const rack = new SimulatedRack(
    `
name: figure
defaults: { services: none, hints: on, fault: pause }
fabric: { rate: 1Gbps }
hosts: { a: {}, b: {}, c: {}, d: {} }
programs: [{ on: [b, c], run: ./server.ts, service: true }, { on: [a, d], run: ./client.ts, at: 200us }]
`,
    {
      programs: {
        "./server.ts": (context) => serveFigure(of, context),
        "./client.ts": (context) => askByFigure(of, context),
      },
      observer: {
        scope: "wire",
        see(seen) {
          if (seen.kind !== "sent" || seen.frame === undefined) return;
          const packet = decodePacket(seen.frame);
          const { name, kind } = rack.plan.nodes[seen.node]!;
          if (isRefusal(packet) || kind !== "rnic") return;
          if (hintOf(packet)?.type === "announce") announcedByBoth++;
          if (name === "a-rnic") sent.push(packet);
        },
        commit: () => {},
      },
    },
  );
  rack.run();
  return { rack, sent, announcedByBoth };
}

describe("a requester with two responders [0108, 0109, 0164, 0165]", () => {
  for (const number of [7, 8] as const) {
    const { b, c } = FIGURES[number];

    it(`H-05, H-08 (in part), H-31: figure ${number}: all hints of a batch leave before its first element`, () => {
      const memory: FigureRun["memory"] = new Map(), figure: FigureRun["figure"] = new Map();
      const { rack, sent, announcedByBoth } = runFigure({ number, memory, figure });
      same(rack.reported("program-failed"), []);
      same(rack.reported("figure"), ["done", "done"]);
      const hints = sent.flatMap((packet, at) => {
        const message = hintOf(packet);
        if (message?.type !== "announce") return [];
        const { bth: { destQpn } } = packet;
        return message.groups.map((group) => ({
          at,
          destQpn,
          group,
          ...figure.get(group.sourceQpn)!,
        }));
      });
      for (const each of [...b, ...c]) {
        const own = hints.filter((hint) => hint.each === each);
        equal(
          own.reduce((sum, { group }) => sum + group.entries.length, 0),
          ELEMENTS,
          `QP ${each}`,
        );
        // By itself (figure 7), or by the management queue pair of its responder (figure 8).
        const by = number === 7 ? each : (b as readonly number[]).includes(each) ? 101 : 102;
        const { peerQpn } = [...figure.values()].find((one) => one.each === by)!;
        same([...new Set(own.map(({ destQpn }) => destQpn))], [peerQpn], `QP ${each}`);
      }
      // Of the work that waited, none of it begins before the hints of all of it have left.
      const isElement = ({ bth, reth }: RocePacket) =>
        opcodeRow(bth.opcode)!.operation === "write" && reth?.length === 64;
      const firstAt = sent.findIndex(isElement);
      const before = hints.filter(({ at }) => at < firstAt);
      same([...new Set(before.map(({ each }) => each))].sort(), [...b, ...c].sort());
      // A second requester does the same at the same time: its hints are told apart by the sender.
      const cards = Object.values(rack.simulator.statistics());
      const total = (name: string) => cards.reduce((sum, card) => sum + (card[name] ?? 0), 0);
      equal(total("hintsIn"), announcedByBoth);
      equal(total("hintElements"), 2 * 4 * ELEMENTS);
      same(["hintsUnknownQp", "hintsNoAccess", "hintsOverQuota"].map(total), [0, 0, 0]);
    });
  }
});
