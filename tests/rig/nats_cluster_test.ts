/**
 * A rack over servers of another owner, by the command: a cluster of which one server ends for good,
 * users with rights, TLS, credentials of NATS.
 */
import assert from "node:assert/strict";
import { nkeys } from "@nats-io/nats-core";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";
import { type ClusterOptions, NatsCluster } from "../../scripts/bench/nats_cluster.ts";
import { contentOf } from "../support/process_rack.ts";

const TLS = new URL("../support/tls", import.meta.url).pathname;
const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url);
const ONE = ["--method", "persist-opcode", "--ddio", "off"];
/** Timekeeper, two hosts, two RNICs and a switch. */
const PROCESSES = 6;
/** Ends a rack whose servers are all gone. */
const PATIENCE = { RACKMESH_NATS_PATIENCE_MS: "20000" };

describe("A rack on a cluster of nats-servers", () => {
  let rig: CommandRig;
  let cluster: NatsCluster | undefined;
  let line: string[];
  let digest: string;

  beforeEach(async () => {
    rig = await CommandRig.open();
    const input = await rig.file("data.bin", contentOf(64 * 1024));
    line = ["run", PAIR.pathname, "--input", input, ...ONE, "--json"];
    const packed = await rig.run([...line, "--pack", "all"]);
    digest = JSON.parse(packed.stdout).digest;
  });

  afterEach(async () => {
    await cluster?.close();
    cluster = undefined;
    assert.deepEqual(rig.processes(), []);
    await rig.close();
  });

  async function open(options: ClusterOptions): Promise<NatsCluster> {
    cluster = await NatsCluster.open(rig.cache, options);
    return cluster;
  }

  for (const named of [3, 1]) {
    it(`goes on when a server ends for good, of three of which it was told ${named}`, async () => {
      const { urls } = await open({ servers: 3, named });
      const command = rig.start([...line, "--delay", "3", "--nats", urls], { env: PATIENCE });
      await rig.moving();
      cluster!.server(0).kill();
      assert.equal(rig.processes().length, PROCESSES, "it was midway");
      const { code, stdout, stderr } = await command.ended;
      assert.equal(code, 0, stderr);
      assert.equal(JSON.parse(stdout).digest, digest);
    });
  }

  it("has a user for each process, over TLS, as rack nats-config writes them", async () => {
    const out = `${rig.cache}/bus`;
    const written = await rig.run(["nats-config", PAIR.pathname, "--account", "lab", "--out", out]);
    assert.equal(written.code, 0, written.stderr);
    const { urls } = await open({
      servers: 2,
      config: `tls { cert_file: "${TLS}/server.pem", key_file: "${TLS}/server.key" }
accounts { include "bus/lab.conf" }`,
    });
    const secure = [
      "--nats",
      urls,
      "--nats-users",
      `${out}/users.json`,
      "--nats-ca",
      `${TLS}/ca.pem`,
    ];
    const ran = await rig.run([...line, ...secure]);
    assert.equal(ran.code, 0, ran.stderr);
    const report = JSON.parse(ran.stdout);
    assert.equal(report.digest, digest);
    assert.doesNotMatch(cluster!.server(0).log + cluster!.server(1).log, /Violation|rror/);

    const unknown = await rig.run([...line, ...secure.slice(0, -2)]);
    assert.equal(unknown.code, 2);
    assert.match(unknown.stderr, /does not answer: .*certificate.*UnknownIssuer/);
    const other = await rig.run([...line, ...secure, "--pack", "machine"]);
    assert.equal(other.code, 64);
    assert.match(
      other.stderr,
      /no right of a to rack.*\.wire\.a\.tor.*for this scenario and --pack/,
    );
    const nobody = await rig.run([...line, "--nats", urls, "--nats-ca", `${TLS}/ca.pem`]);
    assert.equal(nobody.code, 2);
    assert.match(nobody.stderr, /refuses its credential/);
    // A server without TLS is not spoken to in clear where TLS was asked for.
    await cluster!.close();
    const clear = await open({ servers: 1 });
    const refused = await rig.run([...line, "--nats", clear.urls.replace("nats:", "tls:")]);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /server does not support 'tls'/);
  });

  it("has a credentials file of NATS, whose account an operator has signed", async () => {
    const { config, creds } = operatorAndUser();
    const { urls } = await open({ servers: 1, config });
    const path = await rig.file("rack.creds", creds);
    const ran = await rig.run([...line, "--nats", urls, "--nats-creds", path]);
    assert.equal(ran.code, 0, ran.stderr);
    assert.equal(JSON.parse(ran.stdout).digest, digest);
    const without = await rig.run([...line, "--nats", urls]);
    assert.equal(without.code, 2);
    assert.match(without.stderr, /refuses its credential/);
  });

  it("rack up: its commands go on at another server of a cluster", async () => {
    const { urls } = await open({ servers: 3, named: 1 });
    const up = await rig.run(["up", ...line.slice(1), "--nats", urls]);
    assert.equal(up.code, 0, up.stderr);
    cluster!.server(0).kill();
    const until = await rig.run(["until", "1ms"]);
    assert.equal(until.code, 0, until.stderr);
    const down = await rig.run(["down"]);
    assert.equal(down.code, 0, down.stderr);
  });
});

/** A server's configuration in operator mode and a user of it, as `nsc` makes them. */
function operatorAndUser(): { readonly config: string; readonly creds: string } {
  const operator = nkeys.createOperator(),
    account = nkeys.createAccount(),
    user = nkeys.createUser();
  const operatorKey = operator.getPublicKey(), accountKey = account.getPublicKey();
  const limits = { subs: -1, data: -1, payload: -1 };
  const operatorJwt = jwt({ type: "operator", version: 2 }, {
    subject: operatorKey,
    signer: operator,
  });
  const accountJwt = jwt({
    type: "account",
    version: 2,
    limits: { ...limits, conn: -1, imports: -1, exports: -1, wildcards: true },
  }, { subject: accountKey, signer: operator });
  const claims = { type: "user", version: 2, ...limits };
  const userJwt = jwt(claims, { subject: user.getPublicKey(), signer: account });
  return {
    config: `operator: ${operatorJwt}
resolver: MEMORY
resolver_preload: { ${accountKey}: ${accountJwt} }`,
    creds: `-----BEGIN NATS USER JWT-----
${userJwt}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
${new TextDecoder().decode(user.getSeed())}
------END USER NKEY SEED------
`,
  };
}

function jwt(
  nats: object,
  { subject, signer }: {
    readonly subject: string;
    readonly signer: ReturnType<typeof nkeys.createUser>;
  },
): string {
  const url = { alphabet: "base64url", omitPadding: true } as const;
  const part = (value: object) => new TextEncoder().encode(JSON.stringify(value)).toBase64(url);
  const issued = { jti: subject, iat: 1, iss: signer.getPublicKey(), name: "lab", sub: subject };
  const text = `${part({ typ: "JWT", alg: "ed25519-nkey" })}.${part({ ...issued, nats })}`;
  return `${text}.${signer.sign(new TextEncoder().encode(text)).toBase64(url)}`;
}
