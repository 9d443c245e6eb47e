/** A scenario is a stranger's text: it reads below its own folder, and below what the command line names. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";

const PAIR = "hosts: { a: {}, b: {} }\n";
const COHERENT = "hosts: { a: { attach: coherent }, b: { attach: coherent } }\n";
const PROGRAM = "export default function* (cpu) {}\n";
const put = (file: string) => `programs:\n  - { on: a, run: put, to: b, file: ${file} }\n`;
const coherent = (words: string, more = "") =>
  `${more}\n${COHERENT}shared: [{ name: s, home: a, far: [b], memory: dram, bytes: 4KiB, ${words} }]\n`;
const own = (program: string) => `programs:\n  - { on: a, program: ${program} }\n`;

describe("What a scenario may read", () => {
  let rig: CommandRig, mine: string, secret: string;

  beforeAll(async () => {
    rig = await CommandRig.open();
    const root = await Deno.realPath(rig.cache);
    mine = `${root}/mine`, secret = `${root}/secret`;
    for (const folder of [mine, `${mine}/lib`, secret]) await Deno.mkdir(folder);
    await Deno.writeTextFile(`${secret}/shadow`, "root:HASHED\n");
    await Deno.writeTextFile(`${secret}/key.ts`, `export const key = "HASHED";\nroot HASHED;\n`);
    await Deno.writeTextFile(`${secret}/good.ts`, `export const key = "HASHED";\n`);
    await Deno.writeTextFile(`${secret}/data.json`, `{ "key": "HASHED" }\n`);
    await Deno.writeTextFile(`${secret}/program.ts`, PROGRAM);
    await Deno.writeTextFile(`${mine}/data.bin`, "data");
    await Deno.writeTextFile(`${mine}/program.ts`, PROGRAM);
    await Deno.writeTextFile(`${mine}/lib/count.ts`, "export const COUNT = 1;\n");
    await Deno.symlink(`${secret}/shadow`, `${mine}/link.bin`);
    await Deno.symlink(secret, `${mine}/away`);
    await Deno.symlink(`${mine}/data.bin`, `${mine}/inside.bin`);
  });
  afterAll(() => rig.close());

  let count = 0;
  async function scenario(text: string): Promise<string> {
    const path = `${mine}/${count++}.yaml`;
    await Deno.writeTextFile(path, `name: door\n${/^hosts:/m.test(text) ? "" : PAIR}${text}`);
    return path;
  }

  async function importing(statement: string): Promise<string> {
    const name = `importing-${count++}.ts`;
    await Deno.writeTextFile(`${mine}/${name}`, `${statement}\n${PROGRAM}`);
    return await scenario(own(`./${name}`));
  }

  it("is nothing outside of its folder, by whatever word and way it names it", async () => {
    const texts: Record<string, string> = {
      "an absolute file:": put(`${secret}/shadow`),
      "a file: upwards": put("../secret/shadow"),
      "a file: through its own folder": put("lib/../../secret/shadow"),
      "a file: that is a link": put("link.bin"),
      "a file: in a folder that is a link": put("away/shadow"),
      "a file: of a program of one's own":
        `programs:\n  - { on: a, program: ./program.ts, file: ${secret}/shadow }\n`,
      "a file: of log": `programs:\n  - { on: a, run: log, to: [b], file: ${secret}/shadow }\n`,
      "an absolute program:": own(`${secret}/program.ts`),
      "a program: upwards": own("../secret/program.ts"),
      "a program: in a folder that is a link": own("./away/program.ts"),
      "a coherence: file": coherent("placement: remote", `coherence: ${secret}/program.ts`),
      "a judge: rule": coherent(`judge: ${secret}/program.ts`),
      "a native: binary": `programs:\n  - { on: a, native: [${secret}/shadow] }\n`,
      "a recover: binary":
        `programs:\n  - { on: a, native: [/bin/true], recover: [../secret/shadow] }\n`,
    };
    const files: [string, string][] = [];
    for (const [what, text] of Object.entries(texts)) files.push([what, await scenario(text)]);
    const imports: Record<string, string> = {
      "an import of a broken file": `import { key } from "${secret}/key.ts"; key;`,
      "an import": `import { key } from "../secret/good.ts"; key;`,
      "an import by a link": `import { key } from "./away/good.ts"; key;`,
      "an import of JSON": `import data from "${secret}/data.json"; data;`,
      "an import as text": `import data from "${secret}/shadow" with { type: "text" }; data;`,
      "an import of what has no ending": `import data from "${secret}/shadow"; data;`,
      "an import of a file that is not there": `import data from "${secret}/none.ts"; data;`,
    };
    for (const [what, text] of Object.entries(imports)) files.push([what, await importing(text)]);
    const answers = await rig.each(files.map(([, file]) => ["validate", "--no-check", file]));
    for (const [i, { code, stderr, stdout }] of answers.entries()) {
      const [what] = files[i]!;
      assert.equal(code, 64, `${what}: ${stdout}${stderr}`);
      assert.match(stderr, /is outside of what this scenario may read/, what);
      assert.match(stderr, /--allow-read /, what);
      assert.doesNotMatch(stderr, /HASHED/, what);
    }
    // What the check of types says comes before.
    const checks = files.filter(([what]) =>
      what.startsWith("an import") && !/text|ending/.test(what)
    );
    const checked = await rig.each(checks.map(([, file]) => ["check", file]));
    for (const [i, { code, stderr }] of checked.entries()) {
      assert.equal(code, 64, `${checks[i]![0]}: ${stderr}`);
      assert.doesNotMatch(stderr, /HASHED/);
    }
  });

  it("does not tell what is there outside of it", async () => {
    const [there, none] = await rig.each([
      ["validate", await scenario(put(`${secret}/shadow`))],
      ["validate", await scenario(put(`${secret}/nothing`))],
    ]);
    assert.equal(
      there!.stderr.replaceAll("shadow", "nothing").replaceAll(/\/\d+\.yaml/g, ""),
      none!.stderr.replaceAll(/\/\d+\.yaml/g, ""),
    );
  });

  it("is all below its folder, and below the folders and the file of the command line", async () => {
    const lines = [
      ["validate", await scenario(put("data.bin"))],
      ["validate", await scenario(put(`${mine}/data.bin`))],
      ["validate", await scenario(put("inside.bin"))],
      ["validate", await importing(`import { COUNT } from "./lib/count.ts"; COUNT;`)],
      ["validate", "--allow-read", secret, await scenario(put(`${secret}/shadow`))],
      ["validate", "--allow-read", secret, await scenario(put("link.bin"))],
      // As by its name: a folder that is named is looked in, too.
      ["validate", "--allow-read", secret, await scenario(put("shadow"))],
      [
        "validate",
        "--no-check",
        "--allow-read",
        secret,
        await importing(
          `import { key } from "${secret}/good.ts"; key;`,
        ),
      ],
      [
        "trace",
        "--input",
        `${secret}/shadow`,
        await scenario("programs:\n  - { on: a, run: put, to: b, method: persist-opcode }\n"),
      ],
    ];
    const answers = await rig.each(lines);
    for (const [i, { code, stderr }] of answers.entries()) {
      assert.equal(code, 0, `${lines[i]!.join(" ")}: ${stderr}`);
    }
    const [none] = await rig.each([["validate", "--allow-read", `${secret}/none`, lines[0]![1]!]]);
    assert.match(none!.stderr, /--allow-read is "[^"]*none": expected a folder that is there/);
  });

  it("is no file with a rack's credentials, whoever names it", async () => {
    const run = `${rig.cache}/runs/some-run`;
    await Deno.mkdir(run, { recursive: true });
    await Deno.writeTextFile(`${run}/supervisor.json`, `{ "password": "HASHED" }`);
    const open = await scenario(
      "programs:\n  - { on: a, run: put, to: b, method: persist-opcode }\n",
    );
    await Deno.writeTextFile(
      `${mine}/import.ts`,
      `import s from "${run}/supervisor.json"; s;\n${PROGRAM}`,
    );
    const answers = await rig.each([
      ["trace", "--input", `${run}/supervisor.json`, open],
      ["validate", "--allow-read", run, await scenario(put(`${run}/supervisor.json`))],
      ["validate", "--no-check", "--allow-read", run, await scenario(own("./import.ts"))],
    ]);
    for (const { code, stderr } of answers) {
      assert.equal(code, 64, stderr);
      assert.match(stderr, /has the credentials of a rack's broker/);
    }
  });

  it("is where it writes its captures to, over no file but captures", async () => {
    const to = (place: string) => scenario(`capture: { pcap: ${place} }\n`);
    const thesis = `${mine}/thesis.txt`, trace = `${mine}/trace.json`;
    await Deno.writeTextFile(thesis, "years of work");
    const perfetto = (place: string) => scenario(`capture: { perfetto: ${place} }\n`);
    const [out, up, link, own, read, over, first] = await rig.each([
      ["run", "--pack", "all", await to(`${secret}/pcap`)],
      ["run", "--pack", "all", await to("../secret/pcap")],
      ["run", "--pack", "all", await to("away/pcap")],
      ["run", "--pack", "all", await to("pcap")],
      ["run", "--pack", "all", "--allow-read", secret, await to(`${secret}/pcap`)],
      ["run", "--pack", "all", await perfetto("thesis.txt")],
      ["run", "--pack", "all", await perfetto("trace.json")],
    ]);
    for (const { code, stderr } of [out!, up!, link!, read!]) {
      assert.equal(code, 64, stderr);
      assert.match(stderr, /A capture: .* is outside of the folder that this scenario writes to/);
    }
    assert.equal(over!.code, 64, over!.stderr);
    assert.match(over!.stderr, /thesis\.txt is there, and is no capture/);
    assert.equal(await Deno.readTextFile(thesis), "years of work");
    assert.doesNotMatch(first!.stderr, /capture/);
    assert.match(await Deno.readTextFile(trace), /traceEvents/);
    const [again] = await rig.each([["run", "--pack", "all", await perfetto("trace.json")]]);
    assert.doesNotMatch(again!.stderr, /is no capture/);
    assert.doesNotMatch(own!.stderr, /outside/);
    assert.deepEqual([...Deno.readDirSync(secret)].filter(({ name }) => name === "pcap"), []);
  });
});
