/** Protocols that did nothing: each verdict on them is `unchecked`, with the reason (never "safe" by mistake). */
import { match, strictEqual as equal } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";

/** Its server forgets to listen, and its client says nothing of the refusal. */
const FORGETS = `
import { must, type Check, type ProgramContext, type Recover, type Steps } from "rackmesh";
export default function* forgets({ cpu, device, options }: ProgramContext): Steps<void> {
  const { allocPd, createCq, connect, refused } = device.verbs;
  if (options.role === "server") return;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 4 }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
  const connection = yield* connect(device, { to: "b", service: "log", qp });
  if (refused(connection)) return;
  cpu.report("promised", { count: 1 });
}
export const recover: Recover = function* ({ cpu }) {
  return cpu.load(cpu.scm.address, 1)[0];
};
export const check: Check = ({ cut, hosts, reports }) =>
  reports.some(({ topic }) => topic === "promised") &&
    cut.some((host) => hosts[host]!.recovered !== 1)
    ? "lost"
    : undefined;
`;

/** The same by librdmacm's calls. */
const FORGETS_RDMA = FORGETS.replace(
  / {2}const \{ allocPd[^]*?\n\}\n/,
  `  if (options.role === "server") return;
  const { rdmaCreateEventChannel, rdmaCreateId, rdmaResolveAddr, rdmaResolveRoute } = device.verbs;
  const { allocPd, createCq, rdmaCreateQp, rdmaConnect, rdmaGetCmEvent, rdmaAckCmEvent } = device.verbs;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 4 }));
  const channel = rdmaCreateEventChannel(device);
  const id = must(rdmaCreateId(channel, { ps: "tcp" }));
  must(rdmaResolveAddr(id, { to: "b", port: 7 }));
  must(rdmaAckCmEvent(must(yield* rdmaGetCmEvent(channel))));
  must(rdmaResolveRoute(id));
  must(rdmaAckCmEvent(must(yield* rdmaGetCmEvent(channel))));
  must(yield* rdmaCreateQp(id, pd, { sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 }));
  must(yield* rdmaConnect(id));
  if (must(yield* rdmaGetCmEvent(channel)).event !== "ESTABLISHED") return;
  cpu.report("promised", { count: 1 });
}
`,
);

const SCENARIO = `
name: nothing
hosts: { a: {}, b: {} }
programs:
  - { on: b, program: ./forgets.ts, role: server }
  - { on: a, program: ./forgets.ts, role: client, at: 100us }
`;

/** Notes and reports nothing; its check looks at what it has stored. */
const LOCAL = `
import type { Check, ProgramContext, Steps } from "rackmesh";
const AT = 128 * 1024;
export default function* local({ cpu }: ProgramContext): Steps<void> {
  cpu.ntstore(cpu.scm.address + AT, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  yield* cpu.sfence();
}
export const check: Check = ({ hosts }) => hosts.a!.scm(AT, 1)[0] === 1 ? undefined : "lost";
`;
const LOCAL_SCENARIO = `
name: local
hosts: { a: {}, b: {} }
programs: [{ on: a, program: ./local.ts, at: 200us }]
`;
const REFUSED = /a's connection to b was refused: .*invalid service ID/;

describe("a protocol that did nothing", () => {
  let rig: CommandRig, scenario: string, rdma: string;

  beforeAll(async () => {
    rig = await CommandRig.open();
    await rig.file("forgets.ts", FORGETS);
    await rig.file("rdma.ts", FORGETS_RDMA);
    scenario = await rig.file("nothing.yaml", SCENARIO);
    rdma = await rig.file("rdma.yaml", SCENARIO.replaceAll("forgets.ts", "rdma.ts"));
  });
  afterAll(() => rig.close());

  it("is unchecked by rack explore, though it has a check", async () => {
    const { code, stdout, stderr } = await rig.run(["explore", scenario]);
    equal(code, 2, `${stdout}${stderr}`);
    match(stdout, /^unchecked nothing: .*; no program wrote to SCM or reported anything; /m);
    match(stdout, REFUSED);
  });

  it("is unchecked by rack run, by either way to connect, in every packing, though no check fails", async () => {
    for (const [path, pack] of [[scenario, "node"], [rdma, "all"]] as const) {
      const { code, stdout, stderr } = await rig.run(["run", path, "--pack", pack]);
      equal(code, 2, `${stdout}${stderr}`);
      match(stdout, /^unchecked nothing: /m);
      match(stdout, REFUSED);
    }
  });

  it("is unchecked in each combination of a sweep", async () => {
    const { code, stdout, stderr } = await rig.run([
      ...["sweep", scenario, "--vary", "seed=1,2", "--jobs", "1"],
    ]);
    equal(code, 2, `${stdout}${stderr}`);
    match(stderr, /^0 of 2 done, 2 unchecked in /m);
    match(stderr, REFUSED);
  });

  it("gives a round of chaos no result", async () => {
    const { code, stdout, stderr } = await rig.run([
      ...["chaos", scenario, "--rounds", "1", "--seed", "3"],
    ]);
    equal(code, 2, `${stdout}${stderr}`);
    match(stdout, /0 held, 0 broken, 1 gave no result/);
    match(stderr, REFUSED);
  });

  it("is checked where it has stored, also on a host that has lost its power and what it counted", async () => {
    await rig.file("local.ts", LOCAL);
    const kill = "{ at: 400us, kill: a }";
    for (const [pack, faults] of [["node", kill], ["all", `${kill}, { at: 600us, start: a }`]]) {
      const path = await rig.file(`${pack}.yaml`, `${LOCAL_SCENARIO}faults: [${faults}]\n`);
      const { code, stdout, stderr } = await rig.run(["run", path, "--pack", pack!]);
      equal(code, 0, `${pack}: ${stdout}${stderr}`);
    }
  });

  it("is unchecked where a scenario has no program at all: a new directory is no program's", async () => {
    const bare = await rig.file("bare.yaml", "name: bare\nhosts: { a: {}, b: {} }\n");
    equal((await rig.run(["run", bare, "--pack", "all"])).code, 2);
  });
});
