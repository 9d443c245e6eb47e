import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { addressIn, existingEnvironment, existingFrom, existingNats } from "./existing_nats.ts";

describe("addressIn", () => {
  it("reads user, password, token, host and port", () => {
    assert.deepEqual(addressIn("nats://ann:p%40ss@bus.lab:4000"), {
      url: "nats://bus.lab:4000",
      user: "ann",
      password: "p@ss",
    });
    assert.deepEqual(addressIn("nats://secret@bus.lab:80"), {
      url: "nats://bus.lab:80",
      token: "secret",
    });
    assert.deepEqual(addressIn("127.0.0.1:4223"), { url: "nats://127.0.0.1:4223" });
    assert.deepEqual(addressIn("bus.lab"), { url: "nats://bus.lab:4222" });
    assert.deepEqual(addressIn("nats://[::1]:4224"), { url: "nats://[::1]:4224" });
  });

  it("reads the servers of a cluster, whose credential is that of the first", () => {
    assert.deepEqual(addressIn("tls://ann:word@n1,tls://n2:4000,tls://ann:word@n3"), {
      url: "tls://n1:4222,tls://n2:4000,tls://n3:4222",
      user: "ann",
      password: "word",
    });
    for (const urls of ["ann:word@n1,bob:word@n2", "ann:word@n1,ann:other@n2", "one@n1,two@n2"]) {
      refused(() => addressIn(urls), /one for all servers of a cluster/);
    }
  });

  it("refuses what is no address of a server, without repeating the credential", () => {
    for (
      const url of [
        "",
        "n1,",
        "http://ann:secret@h:1",
        "nats://ann:secret@h:99999",
        "nats://h/x",
        "nats://ann:secret/word@bus.lab",
        "nats://ann:x@secret@bus.lab/x",
      ]
    ) {
      const { message } = refused(() => addressIn(url), /--nats/);
      assert.ok(!message.includes("secret"));
    }
  });
});

describe("existingNats", () => {
  let folder: string;

  beforeEach(() => {
    folder = Deno.makeTempDirSync({ prefix: "rackmesh-nats-" });
  });

  afterEach(() => Deno.removeSync(folder, { recursive: true }));

  function file(name: string, text: string): string {
    const path = `${folder}/${name}`;
    Deno.writeTextFileSync(path, text);
    return path;
  }

  const CREDS = "-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n" +
    "-----BEGIN USER NKEY SEED-----\ny\n------END USER NKEY SEED------\n";
  const users = { a: { user: "lab.a", password: "p", publish: ["x"], subscribe: ["y", "z"] } };
  const CA = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";

  it("reads users, credentials and certificates from files", () => {
    const natsUsers = file("users.json", JSON.stringify(users));
    assert.deepEqual(existingNats({ nats: "n1,n2", natsUsers, natsCa: file("ca.pem", CA) }), {
      address: { url: "nats://n1:4222,nats://n2:4222", ca: CA },
      users: { file: natsUsers, byName: users },
    });
    assert.deepEqual(existingNats({ nats: "n1", natsCreds: file("rack.creds", CREDS) }), {
      address: { url: "nats://n1:4222", creds: CREDS },
    });
    assert.equal(existingNats({}), undefined);
  });

  it("passes all of it to a child process", () => {
    const existing = existingNats({
      nats: "tls://n1,tls://n2",
      natsUsers: file("users.json", JSON.stringify(users)),
      natsCa: file("ca.pem", CA),
    })!;
    const environment = existingEnvironment(existing);
    assert.deepEqual(existingFrom((variable) => environment[variable]), existing);
  });

  it("refuses files that hold something else, two credentials, and files without a server", () => {
    const nats = "n1";
    refused(
      () => existingNats({ nats, natsUsers: file("u", "{") }),
      /no JSON in .*rack nats-config/,
    );
    refused(() => existingNats({ nats, natsUsers: file("u", '{"a":1}') }), /rack nats-config/);
    refused(() => existingNats({ nats, natsCreds: file("c", CA) }), /--nats-creds.*no JWT/);
    refused(() => existingNats({ nats, natsCa: file("p", CREDS) }), /--nats-ca.*no certificate/);
    refused(() => existingNats({ nats, natsCa: `${folder}/none` }), /--nats-ca.*can be read/);
    const natsCreds = file("c", CREDS);
    refused(() => existingNats({ nats: "ann:w@n1", natsCreds }), /in --nats and --nats-creds/);
    refused(() => existingNats({ natsCreds }), /--nats-creds.*no --nats/);
  });
});

function refused(read: () => unknown, message: RegExp): Refusal {
  let refusal: unknown;
  assert.throws(read, (error) => {
    refusal = error;
    return error instanceof Refusal && message.test(error.message);
  });
  return refusal as Refusal;
}
