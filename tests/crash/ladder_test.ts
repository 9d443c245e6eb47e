/** A counterexample shows an operation of the host whose power failed, not one of its neighbour's. */
import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE } from "../../nodes/host/verbs/flags.ts";
import { match, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { explore } from "../../console/explore/explore.ts";
import type { Cut } from "../../console/explore/types.ts";
import { rackOf } from "./explored_rack.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

const OPTIONS = { choices: 4096, tear: 8, cuts: 1 } as const;

async function ladderOf(rack: ReturnType<typeof rackOf>, cut: Cut): Promise<string> {
  const { counterexample } = await explore(rack, { ...OPTIONS, claims: true, cut });
  ok(counterexample);
  match(counterexample.ladder, /the power of . fails/);
  const power = counterexample.operation?.rows.find(({ step }) => step === "power");
  equal(power?.time, counterexample.atPs);
  equal(power?.place, "lost");
  return counterexample.ladder.split("\n")[0]!;
}

describe("the ladder of a counterexample", () => {
  it("is about bytes of the host that was cut, where two hosts have the same offsets", async () => {
    const put = (to: string) =>
      `{ on: a, run: put, to: ${to}, bytes: 200, size: 200, depth: 1, method: write-only }`;
    const rack = rackOf(`
name: two-writes
seed: 11
defaults: { ddio: off, scm: { size: 1MiB } }
hosts: { a: {}, b: {}, c: {} }
programs: [${put("b")}, ${put("c")}]
`);
    match(await ladderOf(rack, { host: "b" }), /a +a-rnic +tor +b-rnic +b$/);
    match(await ladderOf(rack, { host: "c" }), /a +a-rnic +tor +c-rnic +c$/);
  });

  it("has one line for the retransmissions to a host without power, the page's all of them", async () => {
    const { counterexample } = await explore(twoWrites("posted"), {
      ...OPTIONS,
      cut: { host: "b" },
    });
    const rows = counterexample!.operation!.rows;
    const power = rows.findIndex(({ step }) => step === "power");
    const sent = rows.slice(power).filter(({ step }) => step === "S203");
    ok(sent.length > 6, `${sent.length} times sent`);
    const last = (sent.at(-1)!.time / 1_000_000).toFixed(6);
    const said = counterexample!.ladder.split("\n").filter((line) => line.includes(" S203 "));
    match(said.at(-1)!, new RegExp(` on the wire … ${sent.length - 1} more, to ${last} us$`));
    equal(said.length, rows.filter(({ step }) => step === "S203").length - sent.length + 1);
  });

  it("has the host that was cut in it, where a protocol's own check is what fails", async () => {
    const { counterexample } = await explore(twoWrites("written"), {
      ...OPTIONS,
      cut: { host: "b" },
    });
    equal(counterexample?.found, "b has nothing");
    match(counterexample.ladder.split("\n")[0]!, /a +a-rnic +tor +b-rnic +b$/);
  });
});

/**
 * {@link writeToBoth}, and a check that takes a byte for lost which b has not: where it was posted before the
 * power failure, or where both are written at the end.
 */
function twoWrites(told: "posted" | "written"): ReturnType<typeof rackOf> {
  const name = "./own.ts";
  return rackOf(
    `
name: own-writes
seed: 3
defaults: { ddio: off, services: none, scm: { size: 64KiB } }
hosts: { a: {}, b: {}, c: {} }
programs:
  - { on: [b, c], program: ${name}, role: server }
  - { on: a, program: ${name}, role: client, at: 100us }
`,
    {
      [name]: {
        program: writeToBoth,
        check: ({ at, cut, hosts, reports }) =>
          reports.some(({ topic, time }) => topic === told && (told === "written" || time < at)) &&
            cut.includes("b") &&
            hosts.b!.scm(0, 1)[0] === 0
            ? "b has nothing"
            : undefined,
      },
    },
  );
}

/** Writes a byte to b, then to c, waits for neither to be persistent, and says that all is written. */
function* writeToBoth({ cpu, device, options }: ProgramContext): Steps<void> {
  const { allocPd, createCq, regMr, listen, waitEvent, accept, connect, refused, must } =
    device.verbs;
  const { postSend, waitCompletion, sge } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, sqSigAll: true };
  if (options.role === "server") {
    const mr = must(
      yield* regMr(pd, cpu.scm, { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE }),
    );
    const place = new DataView(new ArrayBuffer(12));
    place.setBigUint64(0, BigInt(mr.address));
    place.setUint32(8, mr.rkey);
    const listener = must(listen(device, "byte"));
    for (;;) {
      const event = yield* waitEvent(listener);
      if (event?.kind !== "request") continue;
      yield* accept(listener, event.request, { qp, privateData: new Uint8Array(place.buffer) });
    }
  }
  const buffer = cpu.allocate(64);
  cpu.store(buffer.address, Uint8Array.of(1));
  const mr = must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const connections = [];
  for (const to of ["b", "c"]) {
    const connection = yield* connect(device, { to, service: "byte", qp });
    if (refused(connection)) throw new Error(connection.reason);
    connections.push(connection);
  }
  for (const { qp, privateData } of connections) {
    const place = new DataView(privateData.buffer, privateData.byteOffset);
    const remote = { va: Number(place.getBigUint64(0)), rkey: place.getUint32(8) };
    must(yield* postSend(qp, [{ opcode: "write", sges: [sge(mr, 0, 1)], remote }]));
    yield* cpu.sleep(500_000); // The card has begun, and b has not the byte.
    cpu.report("posted", {});
  }
  for (let done = 0; done < 2; done++) {
    const [completion] = yield* waitCompletion(cq, { most: 1 });
    if (completion!.status !== "SUCCESS") return;
  }
  cpu.report("written", {});
}
