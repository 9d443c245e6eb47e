/**
 * A malicious host beside an honest tenant (H-24, `hints_hostile.yaml`). `check` compares the
 * tenants: the same memory, the same completions, and each operation later by no more than one
 * batch of pages.
 */
import {
  type Connection,
  type CrashView,
  type HintEntry,
  type HintGroup,
  type HintMessage,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
  PAGES_PER_BATCH,
  type ProgramContext,
  type Steps,
} from "rackmesh";
import { connectTo, countersOf, microseconds } from "./peer.ts";

const SERVICE = "hostile", PAGE = 4096;
const BEGIN_PS = 5e9;
const KINDS = { prefetch: 1, all: 0xff } as const;
const COUNTERS = [
  "hintsIn",
  "hintsNoAccess",
  "hintsUnknownQp",
  "hintsOverQuota",
  "hintPagesAsked",
  "hintPagesWasted",
] as const;

/** First byte of a request's private data. */
const ROLES = { tenant: 0, attacker: 1, carrier: 2 } as const;

export default function* hostile(context: ProgramContext): Steps<void> {
  const { role } = context.options;
  yield* role === "server" ? serve(context) : role === "tenant" ? work(context) : attack(context);
}

interface Target {
  readonly va: number;
  readonly rkey: number;
  readonly destQpn: number;
  readonly sourceQpn: number;
}

const TARGET_BYTES = 20;

function encodeTarget({ va, rkey, destQpn, sourceQpn }: Target): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(TARGET_BYTES));
  view.setBigUint64(0, BigInt(va));
  for (const [i, value] of [rkey, destQpn, sourceQpn].entries()) view.setUint32(8 + 4 * i, value);
  return new Uint8Array(view.buffer);
}

function decodeTarget({ privateData }: Connection, place: number): Target {
  const { buffer, byteOffset } = privateData;
  const view = new DataView(buffer, byteOffset + place * TARGET_BYTES, TARGET_BYTES);
  const [rkey, destQpn, sourceQpn] = [8, 12, 16].map((at) => view.getUint32(at));
  return {
    va: Number(view.getBigUint64(0)),
    rkey: rkey!,
    destQpn: destQpn!,
    sourceQpn: sourceQpn!,
  };
}

/**
 * Memory and a protection domain for each client. Attackers learn all about the tenant: secrets do
 * not protect it.
 */
function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const cq = v.must(yield* v.createCq(device, { entries: 64 }));
  const listener = v.must(v.listen(device, SERVICE));
  const bytes = Number(options.bytes);
  const clients = new Map<string, { pd: ReturnType<typeof v.allocPd>; target: Target }>();
  const connections: Connection[] = [];
  let tenant: Target | undefined, tenantAddress = 0;
  for (let left = Number(options.connections); left > 0;) {
    const event = yield* v.waitEvent(listener);
    if (event?.kind === "request") {
      const { request } = event;
      const role = request.privateData[0];
      const isTenant = role === ROLES.tenant;
      const known = clients.get(isTenant ? "tenant" : "attacker");
      const pd = known?.pd ?? v.allocPd(device);
      const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
      const buffer = known === undefined ? cpu.allocate(bytes) : undefined;
      const mr = buffer && v.must(yield* v.regMr(pd, buffer, { access }));
      const target = known?.target ??
        { va: mr!.address, rkey: mr!.rkey, destQpn: 0, sourceQpn: 0 };
      if (known === undefined) clients.set(isTenant ? "tenant" : "attacker", { pd, target });
      if (isTenant) tenantAddress = buffer!.address;
      const told = [encodeTarget(target), encodeTarget(tenant ?? target)];
      const accepted = yield* v.accept(listener, request, {
        qp: {
          pd,
          sendCq: cq,
          recvCq: cq,
          maxSendWr: 4,
          maxRecvWr: 4,
          ...(role === ROLES.carrier && { hints: "carrier" as const }),
        },
        privateData: new Uint8Array(told.flatMap((each) => [...each])),
      });
      const connection = v.must(accepted);
      if (v.refused(connection)) throw new Error(`The client has gone: ${connection.reason}`);
      connections.push(connection);
      const { qp: { qpn: destQpn }, peer: { qpn: sourceQpn } } = connection;
      if (isTenant) tenant = { ...target, destQpn, sourceQpn };
    } else if (event?.kind === "closed") {
      const closed = connections.find(({ endpoint }) => endpoint === event.endpoint)!;
      yield* v.disconnect(closed);
      left--;
    }
  }
  const memory = digestOf(cpu.load(tenantAddress, bytes));
  yield* cpu.settle();
  const began = cpu.now;
  const counters = yield* countersOf(cpu);
  // The command that maps pages takes no longer: driver, bus, firmware and bus again.
  const commandPs = cpu.now - began;
  const counts = Object.fromEntries(COUNTERS.map((name) => [name, counters[name] ?? 0]));
  // Work for hints gives way: the driver may be at one batch of it.
  const { minorFaultPs, rangePagePs } = device.state.timing;
  const boundPs = minorFaultPs + (PAGES_PER_BATCH - 1) * rangePagePs + commandPs;
  cpu.report("server", { memory, boundPs, hints: counts.hintsIn });
  const row = { memory, unit: "us", bound: microseconds(boundPs), ...counts };
  cpu.report("result", { program: "hints", host: cpu.host, ...row });
}

function digestOf(bytes: Uint8Array): string {
  let hash = 0x811c_9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x0100_0193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}

/** No page is present yet; each is read back. */
function* work({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(2 * PAGE);
  const mr = v.must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE, pin: true }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
  const to = String(options.to), privateData = Uint8Array.of(ROLES.tenant);
  const connection = yield* connectTo(device, { to, service: SERVICE, qp, privateData });
  const { va, rkey } = decodeTarget(connection, 0);
  yield* cpu.sleep(BEGIN_PS - cpu.now);
  const latencies: Record<"write" | "read", number[]> = { write: [], read: [] };
  const completions: string[] = [];
  for (let page = 0; page < Number(options.pages); page++) {
    const bytes = Uint8Array.from({ length: PAGE }, (_, i) => page * 7 + i * 13 + (i >> 8));
    cpu.store(buffer.address, bytes);
    const remote = { va: va + page * PAGE, rkey };
    for (const opcode of ["write", "read"] as const) {
      const sges = [v.sge(mr, opcode === "write" ? 0 : PAGE, PAGE)];
      const began = cpu.now;
      v.must(
        yield* v.postSend(connection.qp, {
          opcode,
          sendFlags: IBV_SEND_SIGNALED,
          sges,
          remote,
          wrId: completions.length,
        }),
      );
      for (const { wrId, status, opcode } of yield* v.waitCompletion(cq)) {
        completions.push(`${wrId} ${opcode} ${status}`);
      }
      latencies[opcode].push(cpu.now - began);
    }
    const read = cpu.load(buffer.address + PAGE, PAGE);
    if (digestOf(read) !== digestOf(bytes)) {
      completions.push(`page ${page} was not read as written`);
    }
  }
  yield* v.disconnect(connection);
  cpu.report("tenant", { ...latencies, completions });
  const successes = completions.filter((each) => each.endsWith("SUCCESS")).length;
  const row = (["write", "read"] as const).flatMap((name) => {
    const sorted = latencies[name].toSorted((x, y) => x - y);
    return [
      [name, microseconds(sorted[sorted.length >> 1]!)],
      [`${name}Max`, microseconds(sorted.at(-1)!)],
    ];
  });
  const result = { unit: "us", successes, ...Object.fromEntries(row) };
  cpu.report("result", { program: "hints", host: cpu.host, ...result });
}

/** Each attack uses a queue pair of its own: a refusal of one does not prevent the others. */
function* attack({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const to = String(options.to);
  const connections = new Map<Attack, Connection>();
  for (const name of ATTACKS) {
    const isCarrier = name === "others";
    const hints = isCarrier ? { hints: "carrier" as const } : {};
    const connection = yield* connectTo(device, {
      to,
      service: SERVICE,
      qp: { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, ...hints },
      privateData: Uint8Array.of(isCarrier ? ROLES.carrier : ROLES.attacker),
    });
    connections.set(name, connection);
  }
  yield* cpu.sleep(BEGIN_PS - cpu.now);
  const sent = Object.fromEntries(ATTACKS.map((name) => [name, 0])) as Record<Attack, number>;
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [name, connection] of connections) {
      for (const hint of hintsOf(name, { cpu, connection, round, options })) {
        v.must(yield* v.postHint(connection.qp, hint));
        sent[name]++;
      }
    }
  }
  for (const connection of connections.values()) yield* v.disconnect(connection);
  cpu.report("result", { program: "hints", host: cpu.host, ...sent });
}

const ATTACKS = ["keys", "others", "flood", "replays", "lies"] as const;
type Attack = typeof ATTACKS[number];

interface Attacker extends Pick<ProgramContext, "cpu" | "options"> {
  readonly connection: Connection;
  readonly round: number;
}

function hintsOf(name: Attack, { cpu, options, connection, round }: Attacker): HintMessage[] {
  const own = decodeTarget(connection, 0), tenant = decodeTarget(connection, 1);
  const ends = { sourceQpn: connection.qp.qpn, destQpn: connection.peer.qpn };
  const pages = Number(options.bytes) / PAGE;
  const draw = (below: number) => Math.floor(cpu.random() * below);
  switch (name) {
    // Guessed keys, and the tenant's own key, which is of another protection domain.
    case "keys":
      return [
        announce(round, [{ ...ends, entries: [entryOf({ ...tenant, rkey: draw(2 ** 32) })] }]),
        announce(round, [{ ...ends, entries: [entryOf(tenant)] }]),
      ];
    // The tenant's queue pairs, by true numbers, and any.
    case "others":
      return [
        announce(round, [{ ...endsOf(tenant), entries: [entryOf(tenant)] }]),
        announce(round, [{ ...ends, destQpn: draw(2 ** 24), entries: [entryOf(own)] }]),
      ];
    // All of its memory, and pages that do not lie together, so that each is a page request.
    case "flood": {
      const entries = Array.from({ length: 16 }, () => ({
        ...entryOf({ ...own, va: own.va + draw(pages) * PAGE }),
        length: 1,
      }));
      const all = { ...entryOf(own), length: Number(options.bytes) };
      return [
        announce(round, [{ ...ends, entries }]),
        announce(round, [{ ...ends, entries: [all] }]),
      ];
    }
    case "replays":
      return [announce(7, [{ ...ends, entries: [entryOf(own)] }])];
    // Wrong requests, and answers to no question.
    case "lies": {
      const none = { reason: "none", sequence: draw(64), groups: [] } as const;
      return [
        { ...none, type: "wanted", kinds: draw(256), answer: true },
        { ...none, type: "prepared", kinds: KINDS.all, answer: true },
        { ...none, type: "refused", reason: "not-wanted", kinds: 0, answer: false },
      ];
    }
  }
}

function endsOf({ sourceQpn, destQpn }: Target): Pick<HintGroup, "sourceQpn" | "destQpn"> {
  return { sourceQpn, destQpn };
}

function entryOf({ va, rkey }: Pick<Target, "va" | "rkey">): HintEntry {
  const tagged = { rkey, va: BigInt(va), length: PAGE, messages: 1, sequence: 0, objects: [] };
  return { kinds: KINDS.all, operation: "write", ...tagged };
}

function announce(sequence: number, groups: readonly HintGroup[]): HintMessage {
  const kinds = KINDS.prefetch;
  return { type: "announce", kinds, reason: "none", sequence, answer: true, groups };
}

interface Tenant {
  readonly write: readonly number[];
  readonly read: readonly number[];
  readonly completions: readonly string[];
}

/** H-24: state that the malicious host may not change. */
export function check({ reports }: CrashView): string[] {
  const of = <T>(topic: string, node: string) =>
    reports.find((each) => each.topic === topic && each.node === node)?.value as T | undefined;
  const beside = of<Tenant>("tenant", "beside"), alone = of<Tenant>("tenant", "alone");
  const attacked = of<{ memory: string; boundPs: number; hints: number }>("server", "attacked");
  const quiet = of<{ memory: string }>("server", "quiet");
  if (beside === undefined || alone === undefined || !attacked || !quiet) return [];
  const wrong: string[] = [];
  if (attacked.memory !== quiet.memory) {
    wrong.push(`the tenant's memory is ${attacked.memory}, without mallory ${quiet.memory}`);
  }
  const place = beside.completions.findIndex((each, i) => each !== alone.completions[i]);
  if (place >= 0 || beside.completions.length !== alone.completions.length) {
    const [found, expected] = [beside, alone].map(({ completions }) => completions.at(place));
    wrong.push(`completion ${place} of the tenant is "${found}", without mallory "${expected}"`);
  }
  for (const name of ["write", "read"] as const) {
    for (const [i, took] of beside[name].entries()) {
      const late = took - (alone[name][i] ?? took);
      if (late <= attacked.boundPs) continue;
      const [found, most] = [late, attacked.boundPs].map(microseconds);
      wrong.push(
        `${name} ${i} of the tenant is ${found} us later than without: at most ${most} us`,
      );
    }
  }
  return wrong;
}
