import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { formatProblem } from "../../../../fabric/rack/plan/problem.ts";
import { problemOf, typeErrorsIn } from "./type_errors.ts";

/** What `deno check` of Deno 2.9 writes, shortened. */
const SAID =
  `TS2345 [ERROR]: Argument of type 'Steps<VerbError | Cq>' is not assignable to parameter of type '…'.
  Type 'Generator<Wait, VerbError | Cq, Wake>' is not assignable to type '"write yield*"'.
  const cq = must(createCq(device, { entries: 16 }));
                  ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    at file:///p/my%20log.ts:7:19

TS2322 [ERROR]: Type 'number' is not assignable to type 'string'.
  const c = yield* connect(device, { to: "b", service: 5, qp });
                                              ~~~~~~~
    at file:///p/a.ts:10:47

    The expected type comes from property 'service' which is declared here on type 'ConnectOptions'
      readonly service: string;
               ~~~~~~~
        at file:///clone/nodes/host/cm/connect.ts:49:12

TS2353 [ERROR]: Object literal may only specify known properties, and 'sgse' does not exist in type 'SendRequest'.
  must(yield* postSend(c.qp, [{ opcode: "write", sgse: [sge(mr, 0, 64)] }]));
                                                 ~~~~
    at file:///p/a.ts:11:50

TS2339 [ERROR]: Property 'qp' does not exist on type 'Connection | Refusal'.
  Property 'qp' does not exist on type 'Refusal'.
  must(yield* postSend(c.qp, []));
                         ~~
    at file:///p/a.ts:12:26

TS2304 [ERROR]: Cannot find name 'IBV_SEND_FENCE'.
  const f = IBV_SEND_FENCE;
            ~~~~~~~~~~~~~~
    at file:///p/a.ts:13:11

TS2305 [ERROR]: Module '"rackmesh"' has no exported member 'IBV_SEND_SIGNALLED'.
import { IBV_SEND_SIGNALLED } from "rackmesh";
         ~~~~~~~~~~~~~~~~~~
    at file:///p/a.ts:1:10

TS2322 [ERROR]: Type '{ pd: Pd; }' is not assignable to type 'Qp'.
  Types of property 'pd' are incompatible.
    Type 'Pd' is not assignable to type 'string'.
  const x: Qp = { pd };
        ^
    at file:///p/a.ts:14:9

Found 7 errors.

error: Type checking failed.
`;

function told(text: string): string[] {
  return typeErrorsIn(text).map((error) => formatProblem(problemOf(error, (file) => file)));
}

describe("problemOf", () => {
  it("says each error with its place, and those that are common in words of a protocol", () => {
    const [steps, field, unknown, refusal, name, member, other, ...rest] = told(SAID);
    assert.equal(
      steps,
      "/p/my log.ts:7: found a call without yield*, whose steps (Steps<VerbError | Cq>) nothing " +
        "has done (TS2345), expected yield* in front of the call",
    );
    const number = "Type 'number' is not assignable to type 'string'";
    assert.equal(field, `/p/a.ts:10: service: found ${number} (TS2322)`);
    assert.match(
      unknown!,
      /^\/p\/a\.ts:11: found sgse, which SendRequest has not \(TS2353\), expected sges \(one of opcode, /,
    );
    assert.match(refusal!, /a\.ts:12: found qp of .*Connection \| Refusal.*expected refused\(…\)/);
    assert.match(name!, /IBV_SEND_FENCE, which is not imported .*expected it from "rackmesh"/);
    assert.match(member!, /a\.ts:1: found IBV_SEND_SIGNALLED.*, expected IBV_SEND_SIGNALED$/);
    assert.match(other!, /a\.ts:14: found Type .* to type 'Qp'; Type 'Pd' is not assignable to/);
    assert.deepEqual(rest, []);
  });

  it("says an error once that the compiler says for each member of a workspace", () => {
    const twice = SAID.replace("error: Type checking failed.\n", "") + SAID;
    assert.deepEqual(told(twice), told(SAID));
  });

  it("says what a call of device.verbs is called, and how", () => {
    const verbs = "{ readonly allocPd: (device: Device) => Pd; readonly deallocPd: (pd: Pd) => " +
      "VerbError | undefined; ... 106 more ...; readonly must: <T>(answer: T) => T; }";
    const place = `    at file:///p/a.ts:3:17\n\n`;
    const words = told(
      ["rdma_disconnect", "ibv_post_send", "ibvPostSend", "allocPD", "frobnicate"].map((name) =>
        `TS2339 [ERROR]: Property '${name}' does not exist on type '${verbs}'.\n${place}`
      ).join("") + `TS2551 [ERROR]: Property 'pollcqs' does not exist on type '${verbs}'. ` +
        `Did you mean 'pollCq'?\n${place}`,
    );
    const has = (name: string, code: string, expected: string) =>
      `/p/a.ts:3: found ${name}, which device.verbs has not (${code}), expected ${expected}`;
    assert.deepEqual(words, [
      has("rdma_disconnect", "TS2339", "rdmaDisconnect"),
      has("ibv_post_send", "TS2339", "postSend"),
      has("ibvPostSend", "TS2339", "postSend"),
      has("allocPD", "TS2339", "allocPd"),
      has("frobnicate", "TS2339", "a call of scripts/scenarios/FROM_LIBIBVERBS.md"),
      has("pollcqs", "TS2551", "pollCq"),
    ]);
    const count = told(`TS2554 [ERROR]: Expected 1 arguments, but got 2.
  v.allocPd(device, 1);
                    ^
    at file:///p/a.ts:9:21

TS2554 [ERROR]: Expected 2-3 arguments, but got 1.
  must(yield* v.regMr(pd));
                ~~~~~
    at file:///p/a.ts:10:17

TS2554 [ERROR]: Expected 2-3 arguments, but got 1.
  queryQpDataInOrder(qp);
  ~~~~~~~~~~~~~~~~~~
    at file:///p/a.ts:12:3

TS2554 [ERROR]: Expected 2 arguments, but got 0.
  own();
  ~~~
    at file:///p/a.ts:11:3
`);
    assert.deepEqual(count, [
      "/p/a.ts:9: found 2 arguments of allocPd (TS2554), expected allocPd(device)",
      "/p/a.ts:10: found 1 argument of regMr (TS2554), expected regMr(pd, buffer, options)",
      "/p/a.ts:12: found 1 argument of queryQpDataInOrder (TS2554), " +
      "expected queryQpDataInOrder(qp, op, flags?)",
      "/p/a.ts:11: found 0 arguments of own (TS2554), expected 2",
    ]);
  });

  it("says what a port from C or of a program in real time means", () => {
    const place = "    at file:///p/a.ts:3:17\n\n";
    const module = `typeof import("file:///clone/nodes/protocol.ts", { with: {} })`;
    const said = told(
      `TS1308 [ERROR]: 'await' expressions are only allowed within async functions.\n${place}` +
        `TS1356 [ERROR]:     Did you mean to mark this function as 'async'?\n    ${place}` +
        `TS2304 [ERROR]: Cannot find name 'ibv_post_send'.\n${place}` +
        `TS2339 [ERROR]: Property 'IBV_QPT_RC' does not exist on type '${module}'.\n${place}` +
        `TS2367 [ERROR]: This comparison appears to be unintentional because the types ` +
        `'WcStatus' and '"IBV_WC_RNR_RETRY_EXC_ERR"' have no overlap.\n${place}` +
        `TS2554 [ERROR]: Expected 2 arguments, but got 1.
  yield* cpu.waitSignal("x");
             ~~~~~~~~~~
    at file:///p/a.ts:3:14

    An argument for 'deadline' was not provided.
      waitSignal(name: string, deadline: Time): Steps<"signaled" | "timeout">;
                               ~~~~~~~~~~~~~~
        at ${new URL("../../../../nodes/host/cpu/program.ts", import.meta.url)}:127:28
`,
    );
    assert.deepEqual(said.map((each) => each.replace("/p/a.ts:3: found ", "")), [
      "await, which waits in real time (TS1308), expected yield* in its place",
      "ibv_post_send, which is no name of the file (TS2304), expected device.verbs.postSend",
      'IBV_QPT_RC, which rackmesh does not export (TS2339), expected the text "rc"',
      '"IBV_WC_RNR_RETRY_EXC_ERR" (TS2367), expected "RNR_RETRY_EXC_ERR"',
      "1 argument of waitSignal (TS2554), expected waitSignal(name, deadline)",
    ]);
  });

  it("says what libibverbs' constants are here, by which names they may be wrong", () => {
    assert.deepEqual(
      told(`TS2322 [ERROR]: Type '"range"' is not assignable to type '"read" | "send" | undefined'.
  const r: SendRequest = { opcode: "range" };
                           ~~~~~~
    at file:///p/a.ts:3:28

TS2304 [ERROR]: Cannot find name 'IBV_WR_RDMA_WRITE'.
  f(IBV_WR_RDMA_WRITE);
    ~~~~~~~~~~~~~~~~~
    at file:///p/a.ts:4:5

TS2305 [ERROR]: Module '"rackmesh"' has no exported member 'IBV_FLUSH_RANGE'.
import { IBV_FLUSH_RANGE } from "rackmesh";
         ~~~~~~~~~~~~~~~
    at file:///p/a.ts:1:10

TS2305 [ERROR]: Module '"file:///clone/nodes/protocol.ts"' has no exported member 'IBV_QPT_RC'.
import { IBV_QPT_RC } from "rackmesh";
         ~~~~~~~~~~
    at file:///p/a.ts:2:10

TS2353 [ERROR]: Object literal may only specify known properties, and 'sg_list' does not exist in type 'SendRequest'.
  must(yield* v.postSend(qp, { opcode: "send", sg_list: [] }));
                                               ~~~~~~~
    at file:///p/a.ts:9:48

TS2561 [ERROR]: Object literal may only specify known properties, but 'qpState' does not exist in type 'QpAttributes'. Did you mean to write 'state'?
  must(yield* v.modifyQp(qp, { qpState: "rtr" }));
                               ~~~~~~~
    at file:///p/a.ts:10:32

TS2322 [ERROR]: Type 'string' is not assignable to type 'number'.
    at file:///p/a.ts:8:86

    The expected type comes from property 'destAddress' which is declared here on type 'QpAttributes'
      readonly destAddress?: number;
               ~~~~~~~~~~~
        at file:///clone/fabric/wire/host_bus/rnic_command.ts:10:12

TS2322 [ERROR]: Type '3' is not assignable to type '256 | 512 | undefined'.
  must(yield* v.modifyQp(qp, { pathMtu: 3 }));
                               ~~~~~~~
    at file:///p/a.ts:7:32

    The expected type comes from property 'pathMtu' which is declared here on type 'QpAttributes'
      readonly pathMtu?: 256 | 512;
               ~~~~~~~
        at file:///clone/fabric/wire/host_bus/rnic_command.ts:9:12

TS2345 [ERROR]: Argument of type 'SendFlags' is not assignable to parameter of type 'AccessFlags'.
  f(IBV_SEND_INLINE);
    ~~~~~~~~~~~~~~~
    at file:///p/a.ts:6:5
`),
      [
        '/p/a.ts:3: opcode: found "range" (TS2322), expected one of read, send',
        '/p/a.ts:4: found IBV_WR_RDMA_WRITE, which is a text here (TS2304), expected "write"',
        "/p/a.ts:1: found IBV_FLUSH_RANGE, which rackmesh does not export (TS2305), " +
        'expected the text "range"',
        "/p/a.ts:2: found IBV_QPT_RC, which rackmesh does not export (TS2305), " +
        'expected the text "rc"',
        "/p/a.ts:9: found sg_list, which SendRequest has not (TS2353), expected sges",
        "/p/a.ts:10: found qpState, which QpAttributes has not (TS2561), expected state",
        "/p/a.ts:8: destAddress: found Type 'string' is not assignable to type 'number' (TS2322)",
        "/p/a.ts:7: pathMtu: found 3 (TS2322), expected one of 256, 512",
        "/p/a.ts:6: found IBV_SEND_… flags (TS2345), expected IBV_ACCESS_… flags",
      ],
    );
  });

  it("says what is wrong with the files themselves", () => {
    assert.deepEqual(
      told(`error: The module's source code could not be parsed: Expected ',' at file:///p/a.ts:3:9

    f(1
       ~
`),
      ["/p/a.ts:3: found The module's source code could not be parsed: Expected ','"],
    );
    assert.deepEqual(
      told(`error: SyntaxError: Expected ',', got ';'
  |
2 | const x = { a: 1; b: 2 };
  |                 ~
    at file:///p/a.ts:2:17

Stack backtrace:
   0: <unknown>
`),
      ["/p/a.ts:2: found SyntaxError: Expected ',', got ';'"],
    );
    const [missing] = told(
      `error: Module not found "file:///p/none.ts".\n    at file:///p/a.ts:2:8\n`,
    );
    assert.equal(missing, `/p/a.ts:2: found Module not found "file:///p/none.ts"`);
  });

  it("says which calls take no time", () => {
    assert.deepEqual(
      told(
        `TS2488 [ERROR]: Type 'VerbError | undefined' must have a '[Symbol.iterator]()' method that returns an iterator.
  must(yield* v.deallocPd(pd));
              ~~~~~~~~~~~~~~~
    at file:///p/a.ts:8:15
`,
      ),
      [
        "/p/a.ts:8: found yield* of a call that takes no time, whose answer is " +
        "VerbError | undefined (TS2488), expected the call without yield*",
      ],
    );
  });

  it("finds nothing where there is nothing", () => {
    assert.deepEqual(told(""), []);
    assert.deepEqual(told("error: Type checking failed.\n"), []);
  });
});
