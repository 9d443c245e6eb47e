/** Hosts with two RNICs: each is a device of its own over one memory, and one that fails leaves the other's work alone. */
import {
  type AccessFlags,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_MW_BIND,
  IBV_ACCESS_ON_DEMAND,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../nodes/host/verbs/flags.ts";
import { deepEqual as same, equal, match, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Connection } from "../../nodes/host/cm/connection.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import type { OpenDevice } from "../../nodes/host/open_device.ts";
import type { Buffer } from "../../nodes/host/memory/address_map.ts";
import type { Mr } from "../../nodes/host/verbs/objects.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const US = 1_000_000, MS = 1_000 * US;

function scenario(
  more: { readonly hosts?: string; readonly lines?: readonly string[] } = {},
): string {
  const { hosts = "{ a: { nics: 2 }, b: { nics: 2 } }", lines = [] } = more;
  return ["name: rails", `hosts: ${hosts}`, ...lines].join("\n");
}

function run(text: string, programs: Record<string, Program>, until = 100 * MS): SimulatedRack {
  const rack = new SimulatedRack(text, { programs }).run(until);
  same(rack.reported("program-failed"), []);
  return rack;
}

const ON_A = "programs: [{ on: a, run: ./a.ts }]";
const BOTH = "programs: [{ on: b, run: ./b.ts }, { on: a, run: ./a.ts, at: 20us }]";

/** Serves one client on a card: its buffer is what the client writes to. */
function* serve(device: OpenDevice, access: number, given?: Buffer) {
  const v = device.verbs, pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const buffer = given ?? device.cpu.allocate(4096);
  const mr = v.must(yield* v.regMr(pd, buffer, { access }));
  const listener = v.must(v.listen(device, "rail"));
  const event = yield* v.waitEvent(listener);
  if (event?.kind !== "request") throw new Error("A client was expected");
  const place = new DataView(new ArrayBuffer(16));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8, sqSigAll: true };
  const privateData = new Uint8Array(place.buffer);
  v.must(yield* v.accept(listener, event.request, { qp, privateData }));
  return mr;
}

interface Rail {
  readonly connection: Connection;
  readonly mr: Mr;
  readonly write: (byte: number) => Steps<string>;
}

/** A client over a card, to a card of `b`. */
function* join(device: OpenDevice, to: string, timeout = 5): Steps<Rail> {
  const v = device.verbs, { cpu } = device, pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(4096), { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8, sqSigAll: true };
  const transport = { timeout, retryCnt: 2 };
  const connection = yield* v.connect(device, { to, service: "rail", qp, transport });
  if (v.refused(connection)) throw new Error(connection.reason);
  const place = new DataView(connection.privateData.slice().buffer);
  const remote = { va: Number(place.getBigUint64(0)), rkey: place.getUint32(8) };
  function* write(byte: number): Steps<string> {
    cpu.store(mr.address, new Uint8Array(64).fill(byte));
    v.must(
      yield* v.postSend((connection as Connection).qp, {
        opcode: "write",
        sges: [v.sge(mr, 0, 64)],
        remote,
      }),
    );
    const [completion] = yield* v.waitCompletion(cq);
    return completion!.status;
  }
  return { connection: connection as Connection, mr, write };
}

/** Both cards of `b` serve. */
const server = (
  access: number,
  onReady?: (context: ProgramContext, mrs: Mr[]) => Steps<void>,
): Program =>
  function* (context) {
    const { cpu, device } = context, { openDevice, must } = device.verbs;
    const mrs: Mr[] = [];
    for (const [i, name] of ["rackmesh0", "b-rnic2"].entries()) {
      cpu.spawn(`rail${i}`, function* () {
        mrs[i] = yield* serve(must(openDevice(device, name)), access);
      });
    }
    while (mrs.filter(Boolean).length < 2) yield* cpu.sleep(US);
    yield* onReady?.(context, mrs) ?? cpu.sleep(0);
    // What it has made goes with it.
    yield* cpu.sleep(2 * MS);
  };

const ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

describe("hosts with two RNICs", () => {
  it("list both, and open each by its name", () => {
    run(scenario({ lines: [ON_A] }), {
      *"./a.ts"({ device }) {
        const v = device.verbs;
        const list = v.getDeviceList(device);
        same(list.map(({ name, rnic }) => [name, rnic]), [
          ["rackmesh0", "a-rnic"],
          ["rackmesh1", "a-rnic2"],
        ]);
        const second = v.must(v.openDevice(device, "rackmesh1"));
        equal(v.must(v.openDevice(second, "a-rnic")).state, device.state, "from either to either");
        const guids = [device, second].map(({ state }) => BigInt(state.mac));
        same(list.map(({ nodeGuid }) => nodeGuid), guids);
        const attributes = v.must(yield* v.queryDevice(second));
        equal(attributes.nodeGuid, guids[1]);
        const wrong = v.openDevice(device, "mlx5_0");
        ok(v.failed(wrong));
        equal(wrong.errno, "ENODEV");
        match(wrong.reason, /expected one of rackmesh0, rackmesh1$/);
        const pd = v.allocPd(device), cq = v.must(yield* v.createCq(second, { entries: 4 }));
        const mixed = yield* v.createQp(pd, {
          ...{ type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1 },
        });
        ok(v.failed(mixed));
        equal(mixed.errno, "EINVAL");
        match(mixed.reason, /of another card/);
      },
    });
  });

  it("refuse what is the other RNIC's by a number that both have", () => {
    run(scenario({ lines: [ON_A] }), {
      *"./a.ts"({ cpu, device }) {
        const v = device.verbs, { must } = v;
        const make = function* (on: OpenDevice) {
          const pd = v.allocPd(on), cq = must(yield* v.createCq(on, { entries: 4 }));
          const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
          const mr = must(yield* v.regMr(pd, cpu.allocate(4096), { access }));
          const ah = must(v.createAh(pd, { address: cpu.addresses.b! }));
          const mw = must(yield* v.allocMw(pd, 1));
          const queues = { sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 1 } as const;
          const rc = must(yield* v.createQp(pd, { type: "rc", ...queues }));
          const ud = must(yield* v.createQp(pd, { type: "ud", ...queues }));
          const path = { pathMtu: 1024, destAddress: cpu.addresses.b!, destQpn: 2 } as const;
          const limits = { rqPsn: 0, maxDestRdAtomic: 1, minRnrTimer: 12 };
          const timers = { timeout: 14, retryCnt: 7, rnrRetry: 7, maxRdAtomic: 1 };
          must(yield* v.modifyQp(rc, { state: "init", accessFlags: 0 }));
          must(yield* v.modifyQp(rc, { state: "rtr", ...path, ...limits }));
          must(yield* v.modifyQp(rc, { state: "rts", sqPsn: 0, ...timers }));
          must(yield* v.modifyQp(ud, { state: "init", qKey: 1 }));
          must(yield* v.modifyQp(ud, { state: "rtr" }));
          must(yield* v.modifyQp(ud, { state: "rts", sqPsn: 0 }));
          return { pd, mr, ah, mw, rc, ud };
        };
        const one = yield* make(device), two = yield* make(must(v.openDevice(device, "a-rnic2")));
        equal(one.pd.handle, two.pd.handle, "else a mistake would be seen without the rule");
        const channel = v.createCompChannel(two.pd.device);
        const send = { opcode: "send", sges: [], ud: { ah: two.ah, qpn: 2, qKey: 1 } } as const;
        const bind = { mr: one.mr, access: 0 as AccessFlags };
        for (
          const [answer, expected] of [
            [yield* v.createCq(device, { entries: 4, channel }), /channel is of another card/],
            [yield* v.reregMr(one.mr, { pd: two.pd }), /domain is of another card/],
            [yield* v.postSend(one.ud, send), /another protection domain/],
            [yield* v.bindMw(one.rc, two.mw, bind), /of another card/],
            [yield* v.bindMw(two.rc, two.mw, bind), /of another card/],
          ] as const
        ) {
          ok(v.failed(answer), String(expected));
          equal(answer.errno, "EINVAL");
          match(answer.reason, expected);
        }
      },
    });
  });

  it("have connections over both at a time, with numbers of queue pairs of each card's own", () => {
    const rack = run(scenario({ lines: [BOTH] }), {
      "./b.ts": server(ACCESS, function* ({ cpu }, mrs) {
        for (const [i, mr] of mrs.entries()) {
          while (cpu.load(mr.address, 1)[0] !== 3 + i) yield* cpu.sleep(US);
        }
      }),
      *"./a.ts"({ device }) {
        const second = device.verbs.must(device.verbs.openDevice(device, "rackmesh1"));
        const one = yield* join(device, "b"), two = yield* join(second, "b-rnic2");
        equal(one.connection.qp.qpn, two.connection.qp.qpn);
        same([yield* one.write(3), yield* two.write(4)], ["SUCCESS", "SUCCESS"]);
      },
    });
    const packets = (rnic: string) => rack.simulator.statistics()[rnic]!.framesOut!;
    ok(packets("a-rnic") > 0 && packets("a-rnic2") > 0);
  });

  it("lose the connections of the RNIC that fails, and no other, and open it again when it is back", () => {
    const faults = "faults: [{ at: 600us, kill: b-rnic2 }, { at: 900us, start: b-rnic2 }]";
    const list: number[] = [];
    run(scenario({ lines: [BOTH, faults] }), {
      "./b.ts": server(ACCESS, function* ({ cpu, device }) {
        const { getDeviceList } = device.verbs;
        for (const at of [590, 650, 1400]) {
          yield* cpu.sleep(at * US - cpu.now);
          list.push(getDeviceList(device).length);
        }
      }),
      *"./a.ts"({ cpu, device }) {
        const second = device.verbs.must(device.verbs.openDevice(device, "rackmesh1"));
        const one = yield* join(device, "b"), two = yield* join(second, "b-rnic2");
        same([yield* one.write(1), yield* two.write(1)], ["SUCCESS", "SUCCESS"]);
        yield* cpu.sleep(610 * US - cpu.now);
        same([yield* two.write(2), yield* one.write(2)], ["RETRY_EXC_ERR", "SUCCESS"]);
        yield* cpu.sleep(1_500 * US - cpu.now);
        equal(yield* one.write(3), "SUCCESS");
      },
    });
    same(list, [2, 1, 2]);
  });

  it("reset both RNICs with their host, and start both with it", () => {
    const faults = "faults: [{ at: 600us, kill: b }, { at: 900us, start: b }]";
    const programs = "programs: [{ on: b, run: ./b.ts, restart: true }]";
    const lists: string[][] = [];
    const rack = run(scenario({ lines: [programs, faults] }), {
      *"./b.ts"({ device }) {
        lists.push(device.verbs.getDeviceList(device).map(({ rnic }) => rnic));
        yield* device.cpu.sleep(1);
      },
    });
    same(lists, [["b-rnic", "b-rnic2"], ["b-rnic", "b-rnic2"]]);
    const { "b-rnic2": second, "b-rnic": first } = rack.simulator.statistics();
    equal(second!.commands, first!.commands, "both were opened anew");
  });

  it("start programs without an RNIC that has no power, of which they hear when it comes", () => {
    const faults = "faults: [{ at: 1us, kill: a-rnic2 }, { at: 2ms, start: a-rnic2 }]";
    const hosts = "{ a: { nics: 2, timing: { host: { boot: 10us } } }, b: {} }";
    run(scenario({ hosts, lines: [ON_A, faults] }), {
      *"./a.ts"({ cpu, device }) {
        const { openDevice, failed } = device.verbs;
        ok(cpu.now < MS);
        ok(failed(openDevice(device, "rackmesh1")));
        while (failed(openDevice(device, "rackmesh1"))) yield* cpu.sleep(100 * US);
        ok(cpu.now > 2 * MS);
      },
    });
  });

  it("give back the memory of programs that have not used the RNIC that has failed", () => {
    const faults = "faults: [{ at: 1ms, kill: a-rnic2 }]";
    const times = [2, 4, 6].map((at) => `{ on: a, run: ./a.ts, at: ${at}ms }`);
    const hosts = "{ a: { nics: 2, dram: 16MiB }, b: {} }";
    run(scenario({ hosts, lines: [`programs: [${times.join(", ")}]`, faults] }), {
      *"./a.ts"({ cpu, device }) {
        const { allocPd, must, regMr } = device.verbs;
        // More than half of all.
        const buffer = cpu.allocate(7 * 2 ** 20);
        must(yield* regMr(allocPd(device), buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
      },
    });
  });

  it("give a program the RNIC that the scenario names, and threads of it the same", () => {
    const programs = "programs: [{ on: a, run: ./a.ts, nic: 2 }]";
    const rnics: string[] = [];
    run(scenario({ lines: [programs] }), {
      *"./a.ts"({ cpu, device }) {
        const nameOf = ({ state, verbs }: OpenDevice) =>
          verbs.getDeviceList(device).find(({ nodeGuid }) => nodeGuid === BigInt(state.mac))!.rnic;
        rnics.push(nameOf(device));
        cpu.spawn("thread", function* ({ device: its }) {
          rnics.push(nameOf(its));
          yield* its.cpu.sleep(1);
        });
        yield* cpu.sleep(10 * US);
      },
    });
    same(rnics, ["a-rnic2", "a-rnic2"]);
  });

  it("bring in pages for each RNIC that asks, and take one back from both", () => {
    const hosts = "{ a: { nics: 2 }, b: { nics: 2, pin: false, iommu: on } }";
    const rack = run(scenario({ hosts, lines: [BOTH] }), {
      *"./b.ts"(context) {
        const { cpu, device } = context, { openDevice, must, madvise } = device.verbs;
        // One buffer, registered with both cards.
        const buffer = cpu.allocate(4096), seen: number[] = [];
        const mrs: Mr[] = [];
        for (const [i, name] of ["rackmesh0", "rackmesh1"].entries()) {
          cpu.spawn(`rail${i}`, function* () {
            const rail = must(openDevice(device, name));
            mrs[i] = yield* serve(rail, ACCESS | IBV_ACCESS_ON_DEMAND, buffer);
          });
        }
        while (seen.length < 2) {
          const [byte] = cpu.load(buffer.address, 1);
          if (byte !== 0 && !seen.includes(byte!)) {
            seen.push(byte!);
            must(
              yield* madvise(device, { buffer, advice: "dontneed" }),
            );
          }
          yield* cpu.sleep(US);
        }
        same(seen, [3, 4]);
        yield* cpu.sleep(2 * MS);
      },
      *"./a.ts"({ cpu, device }) {
        const second = device.verbs.must(device.verbs.openDevice(device, "rackmesh1"));
        // Longer than a page takes to come.
        const one = yield* join(device, "b", 12), two = yield* join(second, "b-rnic2", 12);
        equal(yield* one.write(3), "SUCCESS");
        yield* cpu.sleep(200 * US);
        equal(yield* two.write(4), "SUCCESS");
      },
    });
    const { cardPageFaults, pageInvalidations } = rack.simulator.statistics()["b"]!;
    ok(cardPageFaults! >= 2 && pageInvalidations! >= 2, `${cardPageFaults} ${pageInvalidations}`);
  });

  it("have ids of librdmacm on either, by the address that they are bound to", () => {
    run(scenario({ lines: [BOTH] }), {
      *"./b.ts"({ device }) {
        const v = device.verbs, channel = v.rdmaCreateEventChannel(device);
        const listener = v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
        const wrong = v.rdmaBindAddr(listener, { port: 7, address: "a" });
        equal(wrong?.errno, "EADDRNOTAVAIL");
        v.must(v.rdmaBindAddr(listener, { port: 7, address: "b-rnic2" }));
        const other = v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
        v.must(v.rdmaBindAddr(other, { port: 7, address: "b" }));
        v.must(v.rdmaListen(listener));
        const event = v.must(yield* v.rdmaGetCmEvent(channel));
        equal(event.event, "CONNECT_REQUEST");
        equal(event.id.device.state.mac, listener.device.state.mac);
        ok(event.id.device.state.mac !== device.state.mac);
        const own = v.allocPd(device);
        const cq = v.must(yield* v.createCq(device, { entries: 4 }));
        const sizes = { sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1 };
        const foreign = yield* v.rdmaCreateQp(event.id, own, sizes);
        ok(v.failed(foreign) && foreign.errno === "EINVAL");
        v.must(v.rdmaAckCmEvent(event));
        v.must(yield* v.rdmaReject(event.id));
      },
      *"./a.ts"({ cpu, device }) {
        const v = device.verbs, channel = v.rdmaCreateEventChannel(device);
        const id = v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
        v.must(v.rdmaBindAddr(id, { port: 0, address: cpu.addresses["a-rnic2"]! }));
        v.must(v.rdmaResolveAddr(id, { to: "b-rnic2", port: 7 }));
        v.must(v.rdmaAckCmEvent(v.must(yield* v.rdmaGetCmEvent(channel))));
        v.must(v.rdmaResolveRoute(id));
        v.must(v.rdmaAckCmEvent(v.must(yield* v.rdmaGetCmEvent(channel))));
        const second = v.must(v.openDevice(device, "rackmesh1")), pd = v.allocPd(second);
        const cq = v.must(yield* v.createCq(second, { entries: 4 }));
        const sizes = { sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1 };
        v.must(yield* v.rdmaCreateQp(id, pd, sizes));
        v.must(yield* v.rdmaConnect(id));
        equal(v.must(yield* v.rdmaGetCmEvent(channel)).event, "REJECTED");
      },
    });
  });
});
