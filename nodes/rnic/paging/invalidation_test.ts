/** A page that is taken back is let go of when no access to it is under way, wherever that is and of whatever bytes. */
import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { Message } from "../../../fabric/node.ts";
import { createDevice } from "../device.ts";
import type { Device } from "../state/device.ts";
import type { ReadRequest } from "../state/dma_state.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { answerInvalidations } from "./invalidation.ts";

const PAGE = 4096, FRAME = 3 * PAGE;

/** Begins an access to these bytes. @returns what ends it. */
type Begin = (device: Device, address: number, length: number) => () => void;

const waiting = (engine: "gather" | "responder"): Begin => ({ dma }, address, length) => {
  dma[engine].waiting.push({ address, length } as ReadRequest);
  return () => void dma[engine].waiting.shift();
};

const PLACES: Readonly<Record<string, Begin>> = {
  "a read under way": ({ dma }, address, length) => {
    dma.outstanding[1] = { address, length } as ReadRequest;
    return () => dma.outstanding[1] = undefined;
  },
  "a read that waits to gather": waiting("gather"),
  "a read that waits to answer": waiting("responder"),
  "an atomic": ({ atomicWords }, address) => {
    atomicWords.set(address, new Fifo());
    return () => atomicWords.delete(address);
  },
};

for (const [place, begin] of Object.entries(PLACES)) {
  it(`a page is let go of behind ${place}`, () => {
    const ranges: [from: number, length: number, isIn: boolean][] = [
      ...[[0, 8, true], [8, 8, true], [PAGE - 8, 8, true], [-8, 8, false], [PAGE, 8, false]],
      ...place === "an atomic"
        ? []
        : [[-PAGE, 3 * PAGE, true], [-8, 9, true], [-PAGE, PAGE, false]],
    ] as [number, number, boolean][];
    for (const [from, length, isIn] of ranges) {
      const sent: Message[] = [];
      const card = createDevice("a", rnicPlan("a"), { seed: 1 });
      const out = {
        tracing: false,
        send: (_: number, message: Message) => (sent.push(message), 0),
      };
      const device = { ...card, out } as unknown as Device;
      const end = begin(device, FRAME + from, length);
      device.paging.invalidations.push({ id: 5, frames: new Set([FRAME]), pageBytes: PAGE });
      // Behind it all others wait, so that replies are in the order of their commands.
      device.paging.invalidations.push({ id: 6, frames: new Set(), pageBytes: PAGE });
      const left = () => {
        answerInvalidations(device);
        return device.paging.invalidations.map(({ id }) => id);
      };
      same(left(), isIn ? [5, 6] : [], `${length} B at ${from}`);
      end();
      same(left(), []);
      same(sent.map((each) => "id" in each && each.id), [5, 6]);
    }
  });
}
