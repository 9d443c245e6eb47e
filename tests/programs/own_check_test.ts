/** What a user's `check` is told of power failures, and what the commands say of it: in every packing the same. */
import { deepStrictEqual as same, match, strictEqual as equal } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { CommandRig } from "../support/command.ts";

/** Counts in SCM and says so, in each life of its host. The wrong one leaves its counts in the cache. */
const counting = (kind: "right" | "wrong") => `
const PLACE = ${kind === "right" ? 0 : 4096};
const word = (value) => Uint8Array.of(value, 0, 0, 0, 0, 0, 0, 0);
export default function* ({ cpu }) {
  const address = cpu.scm.address + PLACE;
  for (let i = 0; i < 3; i++) {
    const count = cpu.load(address, 1)[0] + 1;
    cpu.store(address, word(count));
    ${kind === "right" ? "yield* cpu.flush(address, 8);" : ""}
    cpu.report("counted", { by: "${kind}", count });
    yield* cpu.sleep(10_000_000);
  }
}
export function* recover({ cpu }) {
  return cpu.load(cpu.scm.address + PLACE, 1)[0];
}
export function check({ cut, hosts, reports }) {
  return Object.entries(hosts).flatMap(([host, { recovered }]) => {
    if (recovered === undefined) return [];
    const boot = reports.findLast(({ node, topic, value }) =>
      node === host && topic === "recovered" && value.program.includes("${kind}")
    );
    const until = cut.includes(host) ? Infinity : boot.time;
    const said = reports.findLast(({ node, time, topic, value }) =>
      node === host && time < until && topic === "counted" && value.by === "${kind}"
    )?.value.count ?? 0;
    return recovered < said ? [\`\${host} said \${said} and has \${recovered}\`] : [];
  });
}
`;

/** Fails in a life that is over when the run ends. */
const FAILS = `
export default function* () { throw new Error("no such luck"); }
`;

/** Recovers and does not check. */
const RECOVERS = `
export default function* () {}
export function* recover({ host }) {
  if (host === "c") throw new Error("no log");
}
`;

const scenario = (kinds: readonly string[], faults: string) => `
name: counting
defaults: { services: none, scm: { size: 64KiB } }
hosts: { b: {}, c: {} }
programs: [${
  kinds.map((kind) => `{ on: [b, c], program: ./${kind}.ts, at: 100us, restart: true }`)
}]
faults: [${faults}]
`;

const BACK_AND_DOWN = "{ at: 125us, kill: b }, { at: 140us, start: b }, { at: 115us, kill: c }";

describe("a user's check", () => {
  let rig: CommandRig;

  beforeAll(async () => {
    rig = await CommandRig.open();
    for (const kind of ["right", "wrong"] as const) await rig.file(`${kind}.ts`, counting(kind));
    await rig.file("fails.ts", FAILS);
    await rig.file("recovers.ts", RECOVERS);
  });

  afterAll(() => rig.close());

  it("P-41: judges a host that is back, and one that is down, the same in every packing", async () => {
    const kinds = ["right", "wrong", "fails", "recovers"];
    const all = await rig.file("all.yaml", scenario(kinds, BACK_AND_DOWN));
    for (const pack of PACKINGS) {
      const { code, stdout, stderr } = await rig.run(["run", all, "--pack", pack, "--json"]);
      equal(code, 1, stderr);
      const { checks } = JSON.parse(stdout);
      same(
        checks.flatMap(({ name, holds, detail }: Record<string, unknown>) =>
          holds ? [] : [`${name}: ${detail}`]
        ),
        [
          "protocol-holds: counting: ./wrong.ts: b said 3 and has 0; counting: ./wrong.ts: c said 2 and has 0; counting: ./recovers.ts: recover failed on c: no log (recovers.ts:4:27)",
          "programs-run-through: counting: b: no such luck; counting: c: no such luck; counting: b: no such luck",
        ],
        pack,
      );
    }
  });

  it("P-41: holds of a right protocol, whoever is back or down, and rack explore calls it safe", async () => {
    const right = await rig.file("right.yaml", scenario(["right"], BACK_AND_DOWN));
    const ran = await rig.run(["run", right, "--pack", "all"]);
    equal(ran.code, 0, `${ran.stdout}${ran.stderr}`);
    match(ran.stdout, /^ok {3}protocol-holds \(\.\/right\.ts\)$/m);
    const explored = await rig.run(["explore", right]);
    equal(explored.code, 0, `${explored.stdout}${explored.stderr}`);
    match(explored.stdout, /^safe /);
  });

  it("P-41: of a wrong protocol is seen again by the command that rack explore names", async () => {
    const wrong = await rig.file("wrong.yaml", scenario(["wrong"], ""));
    const explored = await rig.run(["explore", wrong]);
    equal(explored.code, 1, explored.stderr);
    match(explored.stdout, /check: b said 1 and has 0/);
    const command = /^ {2}rack (.*)$/m.exec(explored.stdout)![1]!.split(" ");
    for (const pack of [[], ["--pack", "node"]]) {
      const again = await rig.run([...command, ...pack]);
      equal(again.code, 1, `${again.stdout}${again.stderr}`);
      match(again.stdout, /FAIL protocol-holds: counting: \.\/wrong\.ts: b said 1 and has 0/);
    }
  });
});
