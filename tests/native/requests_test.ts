/** Requests of a native program on a rack, asked by a script in the place of its process. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { pattern } from "../../nodes/host/testing/host_testing.ts";
import {
  type Answer,
  MEMORY_BASE,
  type Script,
  type ScriptedMain,
  scriptedPort,
  type ScriptedProcess,
} from "../../nodes/host/testing/native_testing.ts";
import { ATTR, ERRNO, QP_STATES, QP_TYPES } from "../../nodes/host/native/numbers.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SCM_BYTES = 65_536;
const ALL_ACCESS = 1 | 2 | 4;
const [SEND, WRITE] = [2, 0];
const [SIGNALED, INLINE] = [2, 8];

interface RunOptions {
  readonly domain?: "adr" | "eadr";
  /** When the power of `a` fails, in ps. */
  readonly cutAt?: Time;
}

/** Runs programs, each on the host of its name. What one throws is thrown. */
function run(scripts: Readonly<Record<string, ScriptedMain>>, options: RunOptions = {}) {
  const { domain = "adr", cutAt } = options;
  const fault = cutAt === undefined ? "" : `{ at: ${cutAt}ps, kill: a }`;
  const scenario = `
name: requests
defaults: { services: none, domain: ${domain}, scm: { size: ${SCM_BYTES}B } }
hosts: { ${Object.keys(scripts).map((host) => `${host}: {}`).join(", ")} }
programs: [${Object.keys(scripts).map((host) => `{ on: ${host}, native: [${host}] }`).join(", ")}]
faults: [${fault}]
`;
  const wrong: unknown[] = [];
  const told = Object.entries(scripts).map(([host, main]): [string, ScriptedMain] => [
    host,
    function* (process) {
      try {
        return yield* main(process);
      } catch (error) {
        wrong.push(error);
      }
    },
  ]);
  const port = scriptedPort(Object.fromEntries(told));
  const rack = new SimulatedRack(scenario, { native: () => port, change: withFiles });
  rack.run();
  if (wrong.length > 0) throw wrong[0];
  assert.deepEqual(rack.reported("program-failed"), []);
  return rack;
}

function withFiles(plan: RackPlan): RackPlan {
  const nodes = plan.nodes.map((node) => {
    if (node.kind !== "host") return node;
    const programs = node.config.programs.map((program) => ({
      ...program,
      native: { ...program.native!, env: {}, file: program.native!.argv[0]! },
    }));
    return { ...node, config: { ...node.config, programs } };
  });
  return { ...plan, nodes };
}

/** The name of an errno. */
function errnoOf({ error }: Answer): string | undefined {
  return Object.entries(ERRNO).find(([, number]) => number === error)?.[0];
}

function* domainOf(me: ScriptedProcess) {
  const { handle: device } = yield* me.must("open_device");
  const { handle: pd } = yield* me.must("alloc_pd", { args: { device: device! } });
  return { device: device!, pd: pd! };
}

interface Connected {
  readonly device: number;
  readonly pd: number;
  readonly cq: number;
  readonly qp: number;
}

/** A queue pair of RC that is connected to itself. */
function* loop(me: ScriptedProcess): Script<Connected> {
  const { device, pd } = yield* domainOf(me);
  const { handle: cq } = yield* me.must("create_cq", { args: { device, cqe: 16 } });
  const caps = {
    max_send_wr: 8,
    max_recv_wr: 8,
    max_send_sge: 2,
    max_recv_sge: 2,
    max_inline_data: 64,
  };
  const { handle: qp, qp_num } = yield* me.must("create_qp", {
    args: { pd, send_cq: cq!, recv_cq: cq!, qp_type: QP_TYPES.rc, ...caps },
  });
  const gid = (yield* me.ask("query_gid", { args: { device, port: 1, index: 0 } })).words;
  const steps = [
    [
      ATTR.state | ATTR.pkeyIndex | ATTR.port | ATTR.accessFlags,
      { qp_state: QP_STATES.init, attr_port_num: 1, qp_access_flags: ALL_ACCESS },
    ],
    [
      ATTR.state | ATTR.av | ATTR.pathMtu | ATTR.destQpn | ATTR.rqPsn | ATTR.maxDestRdAtomic |
      ATTR.minRnrTimer,
      {
        qp_state: QP_STATES.rtr,
        path_mtu: 3,
        dest_qp_num: qp_num!,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 12,
        is_global: 1,
        dgid_high: gid["gid_high"]!,
        dgid_low: gid["gid_low"]!,
        sgid_index: 0,
        port_num: 1,
      },
    ],
    [
      ATTR.state | ATTR.timeout | ATTR.retryCnt | ATTR.rnrRetry | ATTR.sqPsn | ATTR.maxRdAtomic,
      { qp_state: QP_STATES.rts, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 1 },
    ],
  ] as const;
  for (const [attr_mask, args] of steps) {
    yield* me.must("modify_qp", { args: { qp: qp!, attr_mask, ...args } });
  }
  return { device, pd, cq: cq!, qp: qp! };
}

function* region(me: ScriptedProcess, pd: number, bytes: Uint8Array) {
  const addr = me.put(bytes);
  const args = { pd, addr, length: bytes.length, iova: addr, access: ALL_ACCESS };
  const { handle, lkey, rkey } = yield* me.must("reg_mr", { args });
  return { addr, mr: handle!, lkey: lkey!, rkey: rkey! };
}

/** Polls, and sleeps in between, until so many have completed. */
function* completions(me: ScriptedProcess, cq: number, count: number) {
  const rows: Answer["rows"][number][] = [];
  while (rows.length < count) {
    const { error, rows: found } = yield* me.ask("poll_cq", { args: { cq, most: 1 } });
    assert.equal(error, 0);
    rows.push(...found);
    if (found.length === 0) yield* me.must("sleep", { args: { ps: 1_000_000 } });
  }
  return rows;
}

describe("requests of the control path", () => {
  it("are refused by the errno of libibverbs, and nothing of them stays", () => {
    const seen: (string | undefined)[] = [];
    run({
      *a(me) {
        const { device, pd } = yield* domainOf(me);
        const addr = MEMORY_BASE;
        const reg = { pd, addr, length: 4096, iova: addr, access: ALL_ACCESS };
        for (
          const [name, args] of [
            ["open_device", { place: 9 }],
            ["alloc_pd", { device: 99 }],
            ["create_cq", { device, cqe: 16, vector: 1_000 }],
            ["create_cq", { device, cqe: 0 }],
            ["reg_mr", { ...reg, length: 0 }],
            // Writable by peers, but not by the card itself.
            ["reg_mr", { ...reg, access: 2 }],
            // Neither its first byte nor its last one may be missing.
            ["reg_mr", { ...reg, addr: addr - 4096, length: 8192 }],
            ["reg_mr", { ...reg, addr: addr + (1 << 18) - 4096, length: 8192 }],
            ["create_qp", { pd, send_cq: 77, recv_cq: 77, qp_type: QP_TYPES.rc }],
            ["create_ah", { pd, port_num: 1 }],
            ["create_ah", { pd, port_num: 2, is_global: 1 }],
            ["get_async_event", { device, wait: 0 }],
            ["rereg_mr", { mr: 1_234, flags: 4 }],
          ] as const
        ) seen.push(errnoOf(yield* me.ask(name, { args })));
        yield* me.must("dealloc_pd", { args: { pd } });
      },
    });
    assert.deepEqual(seen, [
      "ENODEV",
      "ENODEV",
      "EINVAL",
      "EINVAL",
      "EINVAL",
      "EINVAL",
      "EFAULT",
      "EFAULT",
      "EINVAL",
      "EINVAL",
      "EINVAL",
      "EAGAIN",
      "EINVAL",
    ]);
  });

  it("know no handle that is gone, and a parent that is in use", () => {
    const seen: (string | undefined)[] = [];
    run({
      *a(me) {
        const { pd, cq, qp } = yield* loop(me);
        const { mr } = yield* region(me, pd, pattern(100));
        const ask = function* (name: Parameters<typeof me.ask>[0], args: Record<string, number>) {
          seen.push(errnoOf(yield* me.ask(name, { args })));
        };
        yield* ask("dealloc_pd", { pd });
        yield* ask("destroy_cq", { cq });
        for (let i = 0; i < 2; i++) yield* ask("dereg_mr", { mr });
        for (let i = 0; i < 2; i++) yield* ask("destroy_qp", { qp });
        yield* ask("post_send", { qp });
        for (let i = 0; i < 2; i++) yield* ask("destroy_cq", { cq });
        yield* ask("poll_cq", { cq, most: 1 });
        for (let i = 0; i < 2; i++) yield* ask("dealloc_pd", { pd });
      },
    });
    const [busy, done, gone] = ["EBUSY", undefined, "EINVAL"];
    assert.deepEqual(seen, [
      busy,
      busy,
      done,
      gone,
      done,
      gone,
      gone,
      done,
      gone,
      gone,
      done,
      gone,
    ]);
  });
});

describe("requests of the data path", () => {
  it("move bytes between places of the process's memory, and complete in order of the posts", () => {
    run({
      *a(me) {
        const { pd, cq, qp } = yield* loop(me);
        const bytes = pattern(5_000);
        const from = yield* region(me, pd, bytes),
          to = yield* region(me, pd, new Uint8Array(5_000));
        const element = { addr: from.addr, length: 5_000, lkey: from.lkey };
        const ids = [2n ** 64n - 1n, 7n, 2n ** 40n];
        const rows = ids.map((wr_id) => ({
          wr_id,
          opcode: WRITE,
          send_flags: SIGNALED,
          remote_addr: to.addr,
          rkey: to.rkey,
          elements: [element],
        }));
        yield* me.must("post_send", { args: { qp }, rows });
        // The card reads the memory as it is when it reads it: not before this turn ends.
        const found = yield* completions(me, cq, 3);
        assert.deepEqual(found.map((row) => row["wr_id"]), ids);
        assert.deepEqual(found.map((row) => row["status"]), [0n, 0n, 0n]);
        assert.deepEqual(me.at(to.addr, 5_000), bytes);
      },
    });
  });

  it("inline data is taken at the post: its buffer may be used again, and needs no region", () => {
    run({
      *a(me) {
        const { pd, cq, qp } = yield* loop(me);
        const to = yield* region(me, pd, new Uint8Array(64));
        const addr = me.put(pattern(40, 3));
        const recv = { wr_id: 5, elements: [{ addr: to.addr, length: 64, lkey: to.lkey }] };
        yield* me.must("post_recv", { args: { qp }, rows: [recv] });
        const send = { wr_id: 6, opcode: SEND, send_flags: INLINE | SIGNALED };
        const elements = [{ addr, length: 30 }, { addr: addr + 30, length: 10 }];
        yield* me.must("post_send", { args: { qp }, rows: [{ ...send, elements }] });
        me.at(addr, 40).fill(0);
        const found = yield* completions(me, cq, 2);
        assert.deepEqual(found.map((row) => row["status"]), [0n, 0n]);
        assert.deepEqual(me.at(to.addr, 40), pattern(40, 3));
        const gone = { ...send, elements: [{ addr: 4096, length: 8 }] };
        const refused = yield* me.ask("post_send", { args: { qp }, rows: [gone] });
        assert.equal(errnoOf(refused), "EFAULT");
      },
    });
  });

  it("a list is posted up to the request that is refused, whose number is answered", () => {
    run({
      *a(me) {
        const { pd, cq, qp } = yield* loop(me);
        const to = yield* region(me, pd, pattern(64));
        const write = {
          opcode: WRITE,
          send_flags: SIGNALED,
          remote_addr: to.addr,
          rkey: to.rkey,
          elements: [{ addr: to.addr, length: 8, lkey: to.lkey }],
        };
        const rows = [
          { ...write, wr_id: 1 },
          { ...write, wr_id: 2 },
          { wr_id: 3, opcode: 99 },
          write,
        ];
        const refused = yield* me.ask("post_send", { args: { qp }, rows });
        assert.deepEqual([errnoOf(refused), refused.words["bad"]], ["EINVAL", 2n]);
        const found = yield* completions(me, cq, 2);
        assert.deepEqual(found.map((row) => row["wr_id"]), [1n, 2n]);
        yield* me.must("sleep", { args: { ps: 50_000_000 } });
        const { rows: none } = yield* me.ask("poll_cq", { args: { cq, most: 9 } });
        assert.equal(none.length, 0);
      },
    });
  });
});

/** Opens the whole SCM and maps it at the begin of the process's memory. */
function* mapped(me: ScriptedProcess, addr = MEMORY_BASE) {
  const { offset, length } = yield* me.must("scm_open");
  yield* me.must("scm_map", { args: { offset: offset!, length: length!, addr } });
}

const BYTES = pattern(300, 5);
/** Ways to bring bytes to SCM, and in which domains a power failure behind each leaves them. */
const WAYS: Readonly<
  Record<string, readonly [way: (me: ScriptedProcess) => Script<void>, adr: boolean, eadr: boolean]>
> = {
  "a store": [
    function* (me) {
      yield* me.must("scm_store", { spans: [{ offset: 128, bytes: BYTES }] });
    },
    false,
    true,
  ],
  "a store, a flush and a drain": [
    function* (me) {
      yield* me.must("scm_store", { spans: [{ offset: 128, bytes: BYTES }] });
      yield* me.must("scm_flush", { args: { offset: 128, length: BYTES.length } });
      yield* me.must("scm_drain");
    },
    true,
    true,
  ],
  "a store, and a flush that drains": [
    function* (me) {
      yield* me.must("scm_store", { spans: [{ offset: 128, bytes: BYTES }] });
      yield* me.must("scm_flush", { args: { offset: 128, length: BYTES.length, drain: 1 } });
    },
    true,
    true,
  ],
  "a store, and a flush of another place": [
    function* (me) {
      yield* me.must("scm_store", { spans: [{ offset: 128, bytes: BYTES }] });
      yield* me.must("scm_flush", { args: { offset: 8192, length: BYTES.length, drain: 1 } });
    },
    false,
    true,
  ],
  "a stream and a drain": [
    function* (me) {
      yield* me.must("scm_stream", { args: { offset: 128 }, bytes: BYTES });
      yield* me.must("scm_drain");
    },
    true,
    true,
  ],
};

describe("requests of persistent memory", () => {
  for (const [name, [way, ...survives]] of Object.entries(WAYS)) {
    for (const [i, domain] of (["adr", "eadr"] as const).entries()) {
      it(`${name}: a power failure behind it ${survives[i] ? "leaves" : "takes"} it under ${domain}`, () => {
        const cutAt = 400_000_000;
        let doneAt = NEVER;
        const rack = run({
          *a(me) {
            yield* mapped(me);
            yield* way(me);
            doneAt = (yield* me.ask("clock")).nowPs;
            yield* me.must("sleep", { args: { ps: 10 * cutAt } });
          },
        }, { domain, cutAt });
        assert.ok(doneAt < cutAt, `${doneAt}`);
        const left = rack.scm.get("a")!.slice(128, 128 + BYTES.length);
        assert.deepEqual(left, survives[i] ? BYTES : new Uint8Array(BYTES.length));
      });
    }
  }

  it("are refused outside of SCM, and where a mapping begins within a page", () => {
    const seen: (string | undefined)[] = [];
    run({
      *a(me) {
        const offset = SCM_BYTES - 8, addr = MEMORY_BASE;
        seen.push(errnoOf(yield* me.ask("scm_load", { args: { offset, length: 9 } })));
        seen.push(errnoOf(yield* me.ask("scm_flush", { args: { offset, length: 9 } })));
        const bytes = pattern(9);
        seen.push(errnoOf(yield* me.ask("scm_store", { spans: [{ offset, bytes }] })));
        seen.push(errnoOf(yield* me.ask("scm_stream", { args: { offset }, bytes })));
        seen.push(errnoOf(yield* me.ask("scm_map", { args: { offset: 8, length: 8, addr } })));
        seen.push(errnoOf(yield* me.ask("scm_map", { args: { offset, length: 4096, addr } })));
      },
    });
    assert.deepEqual(seen, Array(6).fill("EINVAL"));
  });

  it("a load sees stores that are not flushed", () => {
    run({
      *a(me) {
        yield* me.must("scm_store", { spans: [{ offset: 70, bytes: BYTES }] });
        const { bytes } = yield* me.ask("scm_load", { args: { offset: 70, length: 300 } });
        assert.deepEqual(bytes, BYTES);
      },
    });
  });

  const second = MEMORY_BASE + 2 * SCM_BYTES;
  for (const verb of ["reg_mr", "rereg_mr"] as const) {
    it(`a card's write into a region of it (${verb}) is in SCM, and in each mapping of the process`, () => {
      const rack = run({
        *a(me) {
          const { pd, cq, qp } = yield* loop(me);
          yield* mapped(me);
          yield* mapped(me, second);
          yield* mapped(me, second + SCM_BYTES);
          yield* me.must("scm_unmap", { args: { addr: second + SCM_BYTES } });
          const addr = MEMORY_BASE + 8192;
          const args = { pd, addr, length: 4096, iova: addr, access: ALL_ACCESS };
          const at = verb === "reg_mr" ? addr : MEMORY_BASE + 3 * SCM_BYTES;
          const mr = yield* me.must("reg_mr", { args: { ...args, addr: at, iova: at } });
          const move = { mr: mr["handle"]!, flags: 1, addr, length: 4096 };
          if (verb === "rereg_mr") yield* me.must("rereg_mr", { args: move });
          me.memory.set(pattern(40, 3), SCM_BYTES);
          const write = {
            opcode: WRITE,
            send_flags: INLINE | SIGNALED,
            remote_addr: addr + 16,
            rkey: mr["rkey"]!,
            elements: [{ addr: MEMORY_BASE + SCM_BYTES, length: 40 }],
          };
          yield* me.must("post_send", { args: { qp }, rows: [write] });
          const [row] = yield* completions(me, cq, 1);
          assert.equal(row!["status"], 0n);
          assert.deepEqual(me.at(addr + 16, 40), pattern(40, 3));
          assert.deepEqual(me.at(second + 8192 + 16, 40), pattern(40, 3));
          assert.deepEqual(
            me.at(second + SCM_BYTES + 8208, 40),
            new Uint8Array(40),
            "it has ended",
          );
          const args2 = { offset: 8192 + 16, length: 40 };
          assert.deepEqual((yield* me.ask("scm_load", { args: args2 })).bytes, pattern(40, 3));
          yield* me.must("scm_flush", { args: { ...args2, drain: 1 } });
        },
      });
      assert.deepEqual(rack.scm.get("a")!.slice(8208, 8248), pattern(40, 3));
    });
  }

  it("a region that is in a mapping in part is refused: a part of it would never be in SCM", () => {
    const seen: (string | undefined)[] = [];
    run({
      *a(me) {
        const { pd } = yield* domainOf(me);
        yield* mapped(me);
        const access = ALL_ACCESS, length = 8192, iova = 0;
        const addr = MEMORY_BASE + SCM_BYTES - 4096;
        seen.push(errnoOf(yield* me.ask("reg_mr", { args: { pd, addr, length, iova, access } })));
        yield* me.must("scm_unmap", { args: { addr: MEMORY_BASE } });
        seen.push(errnoOf(yield* me.ask("reg_mr", { args: { pd, addr, length, iova, access } })));
      },
    });
    assert.deepEqual(seen, ["EINVAL", undefined]);
  });
});

describe("a native program", () => {
  it("shows its lines at the request that follows them, and none at a look", () => {
    let lookedAt = NEVER;
    const rack = run({
      *a(me) {
        me.printed = "one\n";
        lookedAt = (yield* me.ask("clock")).nowPs;
        yield* me.must("sleep", { args: { ps: 5_000_000 }, head: { usedPs: 2_000 } });
        me.printed += "two\nthr";
        yield* me.must("sleep", { args: { ps: 7_000_000 } });
      },
    });
    const lines = rack.reports.filter(({ topic }) => topic === "log");
    assert.deepEqual(lines.map(({ value }) => value["text"]), ["one", "two", "thr"]);
    const times = lines.map(({ time }) => time - lookedAt);
    assert.deepEqual(times, [2_000, 5_002_000, 12_002_000]);
  });

  it("pays what its library has answered itself, before the request", () => {
    const run2 = (usedPs: number) => {
      const times: number[] = [];
      run({
        *a(me) {
          times.push((yield* me.ask("clock")).nowPs);
          times.push((yield* me.ask("clock", { head: { usedPs } })).nowPs);
        },
      });
      return times[1]! - times[0]!;
    };
    assert.equal(run2(123_000) - run2(0), 123_000);
  });
});
