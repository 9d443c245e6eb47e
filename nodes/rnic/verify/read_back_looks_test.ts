import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { ReadBack } from "../state/responder_state.ts";
import { resumeLooks } from "./read_back.ts";

it("V-03: looks that wait for pages go on with their queue pair, in order and once; others' wait on", () => {
  const [own, other] = [{}, {}] as [QueuePair, QueuePair];
  const look = (qp: QueuePair, queued = false) => ({ qp, queued }) as ReadBack;
  const looks = [look(other), look(own), look(own), look(other), look(own, true), look(own)];
  const [first, second, third, fourth, fifth, gone] = looks;
  const looking = new Fifo<ReadBack>();
  looking.push(fifth!);
  const verify = {
    cold: [...looks],
    looking,
    readBacks: new Set(looks.filter((each) => each !== gone)),
    requestsOut: 0,
  };
  resumeLooks({ verify } as unknown as Device, own);
  same(verify.cold, [first, fourth]);
  const next = Array.from({ length: looking.length }, () => looking.shift());
  same(next, [fifth, second, third], "the one that is in line already is so once");
  same(looks.map(({ queued }) => queued), [false, true, true, false, true, false]);
});
