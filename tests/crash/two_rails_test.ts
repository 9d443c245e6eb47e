/** The crash explorer on hosts with two RNICs: what a power failure leaves of both, and promises that mix the two. */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../nodes/host/verbs/flags.ts";
import type { Connection } from "../../nodes/host/cm/connection.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { OpenDevice } from "../../nodes/host/open_device.ts";
import { crashedHostOf, holdJournal } from "../../console/explore/crashed_host.ts";
import { explore } from "../../console/explore/explore.ts";
import { instantsOf } from "../../console/explore/instants.ts";
import { faultsWith, PostCrashRuns, victimOf } from "../../console/explore/post_crash_run.ts";
import { runRack } from "../../console/explore/rerun.ts";
import { leftOf } from "../../console/explore/survivors.ts";
import { rackOf } from "./explored_rack.ts";

const RAILS = (b: string) => `
name: rails
seed: 11
defaults: { nics: 2 }
hosts: { a: {}, b: { scm: { size: 1MiB }, ${b} } }
programs:
  - { on: a, run: put, to: b, name: one, bytes: 400, method: persist-opcode, size: 200, depth: 2 }
  - { on: a, run: put, nic: 2, to: b-rnic2, name: two, bytes: 400, method: write-only, size: 200, depth: 2 }
`;

describe("the crash explorer, of a host with two RNICs", () => {
  for (
    const [name, b] of [
      ["ADR, DDIO off", "ddio: off"],
      ["eADR", "domain: eadr"],
      ["WSP", "domain: wsp"],
    ] as const
  ) {
    it(`P-05: takes for the image what a power failure leaves, and for the survivors' run what they see: ${name}`, () => {
      const rack = rackOf(RAILS(b)), recording = runRack(rack, { histories: true });
      const victim = victimOf(rack.plan, "b"), crashed = crashedHostOf(recording, victim);
      const runs = new PostCrashRuns(rack, { recording, victim }, { histories: false, keep: 0 });
      const { time: from } = recording.notes.find(({ note }) => note.kind === "writes")!;
      const first = instantsOf(recording, { victims: [victim], runs, from });
      const rng = rngFor(5, "instants"), held = new Set<string>();
      for (const rnic of victim.config.rnics) {
        if ((recording.held.get(rnic)?.[0]?.edges(victim.noticePs).next().done ?? true) === false) {
          held.add(rnic);
        }
      }
      let cuts = 0;
      for (const at of first) {
        if (rng.below(first.length) >= 30) continue;
        crashed.cursor.moveTo(at);
        holdJournal(crashed, recording, at);
        const faults = faultsWith(rack.plan.faults, { hosts: ["b"], at });
        const killed = runRack(rack, { faults });
        const [whole, left] = [crashed.state.image, leftOf(killed, "b")!];
        same(left.read(0, 1 << 20), whole.read(0, 1 << 20), `cut at ${at}`);
        const { reports } = runs.at(at);
        const isOthers = ({ node }: { node: string }) =>
          !["b", ...victim.config.rnics].includes(node);
        same(killed.reports.filter(isOthers), reports, `survivors, cut at ${at}`);
        cuts++;
      }
      ok(cuts > 10, `${cuts} cuts`);
      if (name === "WSP") same([...held], ["b-rnic", "b-rnic2"], "both cards have a journal");
    });
  }
});

/** Serves one client by a card: all of SCM is its. */
function* serve(device: OpenDevice): Steps<void> {
  const v = device.verbs, pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const mr = v.must(yield* v.regMr(pd, device.cpu.scm, { access }));
  const listener = v.must(v.listen(device, "rail"));
  const event = yield* v.waitEvent(listener);
  if (event?.kind !== "request") throw new Error("A client was expected");
  const place = new DataView(new ArrayBuffer(16));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8, sqSigAll: true };
  const request = { qp, privateData: new Uint8Array(place.buffer) };
  v.must(yield* v.accept(listener, event.request, request));
}

/** What is written: more than b's SCM takes in by the time that a READ by the other card is back. */
const DATA = new Uint8Array(32_768).fill(7);

/** WRITEs `DATA` into b's SCM by the first card, READs its end by card `reads`, and promises the WRITE then. */
const writer = (reads: 0 | 1) =>
  function* ({ cpu, device }: ProgramContext): Steps<void> {
    const { openDevice, must } = device.verbs;
    const ends: {
      connection: Connection;
      send: (opcode: "write" | "read", length: number) => Steps<void>;
    }[] = [];
    for (const [i, to] of ["b", "b-rnic2"].entries()) {
      const rail = must(openDevice(device, `rackmesh${i}`)), v = rail.verbs, pd = v.allocPd(rail);
      const cq = must(yield* v.createCq(rail, { entries: 16 }));
      const buffer = cpu.allocate(DATA.length);
      const mr = must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
      const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8, sqSigAll: true };
      const connection = yield* v.connect(rail, { to, service: "rail", qp });
      if (v.refused(connection)) throw new Error(connection.reason);
      const place = new DataView(connection.privateData.slice().buffer);
      const va = Number(place.getBigUint64(0)), rkey = place.getUint32(8);
      cpu.store(mr.address, DATA);
      ends.push({
        connection,
        *send(opcode, length) {
          const remote = { va: va + DATA.length - length, rkey };
          must(yield* v.postSend(connection.qp, { opcode, sges: [v.sge(mr, 0, length)], remote }));
          const completions = yield* v.waitCompletion(cq);
          same(completions.map(({ status }) => status), ["SUCCESS"]);
        },
      });
    }
    cpu.note({ kind: "writes", id: 0, on: "b", at: 0, bytes: DATA });
    yield* ends[0]!.send("write", DATA.length);
    yield* ends[reads]!.send("read", 8);
    cpu.note({ kind: "persistent", id: 0, promised: true });
    yield* cpu.sleep(1_000_000);
  };

function crossing(reads: 0 | 1) {
  const scenario = `
name: crossing
seed: 3
defaults: { nics: 2, services: none, ddio: off, scm: { size: 64KiB } }
hosts: { a: {}, b: { timing: { host: { memoryChannels: 1, scmWriteRate: 10Gbps } } } }
programs:
  - { on: b, run: ./b.ts, service: true }
  - { on: a, run: ./a.ts, at: 20us }
`;
  return rackOf(scenario, {
    "./a.ts": { program: writer(reads) },
    "./b.ts": {
      *program({ cpu, device }) {
        const { openDevice, must } = device.verbs;
        for (const name of ["rackmesh0", "rackmesh1"]) {
          cpu.spawn(name, ({ device: its }) => serve(must(openDevice(its, name))));
        }
        yield* cpu.sleep(100_000_000_000);
      },
    },
  });
}

describe("rack explore: a WRITE over one rail and its READ over the other", () => {
  const options = { choices: 4096, tear: 8, cuts: 1, cut: { host: "b" } } as const;

  it("P-03, P-10: is a promise that a power failure breaks", async () => {
    const { verdict, counterexample } = await explore(crossing(1), options);
    equal(verdict, "unsafe");
    match(counterexample!.found, /persist/);
  });

  it("P-03, P-10: is kept where both go over one rail", async () => {
    const { verdict, counterexample } = await explore(crossing(0), options);
    equal(verdict, "safe", counterexample?.found);
  });
});
