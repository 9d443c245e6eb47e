/** Runs in which a responder answers out of order, or says what cannot be. */
import type { FrameSeen } from "../../../fabric/capture/observation.ts";
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { decodePacket, encodePacket, isRefusal } from "../../../fabric/wire/roce/packet.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { OPCODE, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { SeenRun } from "../../support/seen_run.ts";
import type { Mutation, Mutations } from "./runs.ts";

interface Answer {
  readonly place: number;
  readonly seen: FrameSeen;
  readonly packet: RocePacket;
}

function packetOf({ frame }: FrameSeen): RocePacket | undefined {
  const packet = decodePacket(frame);
  return isRefusal(packet) ? undefined : packet;
}

function isAnswer({ bth }: RocePacket): boolean {
  const { direction, service, operation } = opcodeRow(bth.opcode)!;
  return direction === "response" && service === "rc" && operation !== "persistence-acknowledge";
}

function isSentByCard({ plan }: SeenRun, { kind, node }: FrameSeen): boolean {
  return kind === "sent" && plan.nodes[node]!.kind === "rnic";
}

/** What responders send, of each the one before it to the same queue pair, too. */
function* answers(run: SeenRun): Generator<readonly [own: Answer, before: Answer | undefined]> {
  const last = new Map<string, Answer>();
  for (const [place, seen] of run.frames.entries()) {
    if (!isSentByCard(run, seen)) continue;
    const packet = packetOf(seen);
    if (packet === undefined || !isAnswer(packet)) continue;
    const key = `${seen.node} ${packet.destinationAddress} ${packet.bth.destQpn}`;
    const own = { place, seen, packet };
    yield [own, last.get(key)];
    last.set(key, own);
  }
}

/** Every answer that has one before it, changed. */
function eachAnswer(
  of: Mutation["of"],
  change: (frames: readonly FrameSeen[], own: Answer, before: Answer) =>
    | readonly FrameSeen[]
    | undefined,
): Mutation {
  return {
    of,
    least: 8,
    *mutants(run) {
      for (const [own, before] of answers(run)) {
        if (before === undefined) continue;
        const frames = change(run.frames, own, before);
        if (frames !== undefined) yield [`${own.place}`, { ...run, frames }];
      }
    },
  };
}

function withPacket({ seen, packet }: Answer, change: Partial<RocePacket>): FrameSeen {
  return { ...seen, frame: encodePacket({ ...packet, ...change }) };
}

function twoChangePlaces(of: Mutation["of"]): Mutation {
  return eachAnswer(
    of,
    (frames, own, before) =>
      frames.with(own.place, { ...own.seen, frame: before.seen.frame })
        .with(before.place, { ...before.seen, frame: own.seen.frame }),
  );
}

function oneComesTwice(of: Mutation["of"]): Mutation {
  return eachAnswer(of, (frames, { place, seen }) => frames.toSpliced(place, 0, seen));
}

export const ANSWERS: Mutations = {
  "two ACKs change places": twoChangePlaces("calm"),
  "an ACK and a READ response change places": twoChangePlaces("reading"),
  "an ACK and the answer of a FLUSH change places": twoChangePlaces("flushing"),
  "an ACK comes twice": oneComesTwice("calm"),
  "a READ response comes twice": oneComesTwice("reading"),
  "an MSN runs back": eachAnswer("flushing", (frames, own, before) => {
    const { aeth } = own.packet;
    if (aeth === undefined || before.packet.aeth === undefined) return undefined;
    const msn = (before.packet.aeth.msn - 1) & 0xff_ffff;
    return frames.with(own.place, withPacket(own, { aeth: { ...aeth, msn } }));
  }),
  "a NAK asks for what has been confirmed": eachAnswer("calm", (frames, own, before) => {
    const { bth, aeth } = own.packet;
    const nak = {
      bth: { ...bth, psn: before.packet.bth.psn },
      aeth: { ...aeth!, syndrome: NAK_SYNDROMES["psn-sequence-error"] },
    };
    return frames.with(own.place, withPacket(own, nak));
  }),
  "what has not come is answered": eachAnswer("reading", (frames, own) => {
    const { packet: { bth } } = own;
    const psn = (bth.psn + 1000) & 0xff_ffff;
    return frames.with(own.place, withPacket(own, { bth: { ...bth, psn } }));
  }),
  "the request of an answer was not there": {
    of: "flushing",
    least: 8,
    *mutants(run) {
      for (const [{ seen, packet, place }] of answers(run)) {
        if (opcodeRow(packet.bth.opcode)!.operation === "acknowledge") continue;
        const request = run.frames.findLastIndex((each, i) =>
          i < place && each.kind === "received" && each.node === seen.node &&
          packetOf(each)?.bth.psn === packet.bth.psn
        );
        yield [`${place}`, { ...run, frames: run.frames.toSpliced(request, 1) }];
      }
    },
  },
  "P-28: a message's two ACKs change places": {
    of: "append",
    least: 8,
    *mutants(run) {
      const first = new Map<string, Answer>();
      for (const [place, seen] of run.frames.entries()) {
        const packet = isSentByCard(run, seen) ? packetOf(seen) : undefined;
        if (packet === undefined) continue;
        const key =
          `${seen.node} ${packet.destinationAddress} ${packet.bth.destQpn} ${packet.bth.psn}`;
        if (isAnswer(packet)) first.set(key, { place, seen, packet });
        const own = first.get(key);
        const { operation } = opcodeRow(packet.bth.opcode)!;
        if (operation !== "persistence-acknowledge" || own === undefined) continue;
        first.delete(key);
        const frames = run.frames.with(place, { ...seen, frame: own.seen.frame })
          .with(own.place, { ...own.seen, frame: seen.frame });
        yield [`${place}`, { ...run, frames }];
      }
    },
  },
  "a persistence ACK confirms what has not come": {
    of: "append",
    least: 8,
    *mutants(run) {
      for (const [place, seen] of run.frames.entries()) {
        const packet = isSentByCard(run, seen) ? packetOf(seen) : undefined;
        if (packet?.bth.opcode !== OPCODE["VENDOR PERSISTENCE ACKNOWLEDGE"]) continue;
        const bth = { ...packet.bth, psn: (packet.bth.psn + 1000) & 0xff_ffff };
        const changed = withPacket({ place, seen, packet }, { bth });
        yield [`${place}`, { ...run, frames: run.frames.with(place, changed) }];
      }
    },
  },
};
