/** The completion scripts of a part of the command, in the shells that are here. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { Command } from "commander";
import { PACKINGS, PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { PUT_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { PERFTESTS } from "../../nodes/host/programs/perftest/terms.ts";
import { addCables } from "./cables.ts";
import { addChaos } from "./chaos.ts";
import { addCompose } from "./compose.ts";
import { addConsole } from "./console.ts";
import { addFio } from "./fio/fio.ts";
import { addPerftest } from "./perftest/perftest.ts";
import { addPower } from "./power.ts";
import { addRun } from "./run.ts";
import { addRuns } from "./runs.ts";
import { placesOf } from "./completion.ts";
import { bashScript, fishScript, zshScript } from "./completion_scripts.ts";

function program(): Command {
  const rack = new Command("rack").option("-V, --version", "which version it is");
  const all = [addRun, addPower, addCables, addRuns, addPerftest, addFio];
  for (const add of [...all, addChaos, addCompose, addConsole]) add(rack);
  return rack;
}

const places = placesOf(program());
let folder: string;

beforeAll(async () => {
  folder = await Deno.makeTempDir({ prefix: "rackmesh-completion-" });
  for (const name of ["my rack.yaml", "other.yml", "data.bin"]) {
    await Deno.writeTextFile(`${folder}/${name}`, "");
  }
  await Deno.mkdir(`${folder}/sub`);
  // Stands for the command where a script asks it for names.
  const asked = '#!/bin/sh\n[ "$1" = completion ] && printf "%s\\n" "$2-one" "$2-two"\n';
  await Deno.writeTextFile(`${folder}/rack`, asked, { mode: 0o755 });
});

afterAll(() => Deno.remove(folder, { recursive: true }));

function isHere(shell: string): boolean {
  try {
    return new Deno.Command(shell, { args: ["--version"] }).outputSync().success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** What a shell answers to a script on its standard input. */
async function answer(shell: string, script: string): Promise<string[]> {
  const env = { PATH: `${folder}:${Deno.env.get("PATH")}` };
  const file = `${folder}/script.${shell}`;
  await Deno.writeTextFile(file, script);
  const { success, stdout, stderr } = await new Deno.Command(shell, {
    args: [file],
    cwd: folder,
    env,
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "").sort();
}

const METHODS = PUT_METHODS.filter((method) => method.startsWith("persist-"));

/** Words of a command line, the last of which is completed. */
const CASES: readonly (readonly [words: readonly string[], answers: readonly string[]])[] = [
  [["rack", "r"], ["run", "runs"]],
  [["rack", "--v"], ["--version"]],
  [["rack", "run", "--me"], ["--method"]],
  [["rack", "run", "--method", "persist-"], METHODS],
  [["rack", "run", "--ddio", ""], ["on", "off"]],
  [["rack", "run", "--ddio", "on", "--pack", "m"], ["machine"]],
  [["rack", "run", "--pack", ""], PACKINGS],
  [["rack", "perftest", "--pack", ""], PACKINGS],
  [["rack", "chaos", "--pack", ""], PROCESS_PACKINGS],
  [["rack", "compose", "--pack", ""], PROCESS_PACKINGS],
  [["rack", "console", "--pack", ""], PROCESS_PACKINGS],
  [["rack", "run", ""], ["my rack.yaml", "other.yml", "sub"]],
  [["rack", "run", "--input", "d"], ["data.bin"]],
  [["rack", "run", "my rack.yaml", "--pc"], ["--pcap"]],
  [["rack", "link", "c"], ["cut", "corrupt"]],
  [["rack", "link", "cut", ""], ["nodes-one", "nodes-two"]],
  [["rack", "link", "cut", "--at", "5us", ""], ["nodes-one", "nodes-two"]],
  [["rack", "link", "cut", "--ru"], ["--run"]],
  [["rack", "link", "cut", "--run", ""], ["runs-one", "runs-two"]],
  [["rack", "runs", "r"], ["release", "rm"]],
  [["rack", "runs", "rm", ""], ["runs-one", "runs-two"]],
  [["rack", "perftest", "ib_w"], PERFTESTS.filter((test) => test.startsWith("ib_w"))],
  [["rack", "perftest", "-n", "5", "ib_atomic"], ["ib_atomic_lat", "ib_atomic_bw"]],
  [["rack", "perftest", "ib_write_lat", "o"], ["other.yml"]],
  [["rack", "fio", "o"], ["other.yml"]],
  [["rack", "fio", "other.yml", "d"], ["data.bin"]],
  [["rack", "fio", "other.yml", "data.bin", "--memory", "s"], ["scm"]],
  [["rack", "kill", "nodes-t"], ["nodes-two"]],
];

describe("bashScript", () => {
  for (const [words, answers] of CASES) {
    it(`${words.join(" ")}…: ${answers.join(", ")}`, async () => {
      const script = `${bashScript(places)}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")})
COMP_CWORD=${words.length - 1}
_rack
printf '%s\\n' "\${COMPREPLY[@]}"`;
      assert.deepEqual(await answer("bash", script), [...answers].sort());
    });
  }
});

const missing = ["fish", "zsh"].filter((shell) => !isHere(shell));
if (missing.length > 0) {
  console.log(`completion is SKIPPED: there is no ${missing.join(", no ")} here`);
}

describe("fishScript", { skip: missing.includes("fish") }, () => {
  const plain = CASES.filter(([words]) => !words.some((word) => word.includes(" ")));
  for (const [words, answers] of plain) {
    it(`${words.join(" ")}…: ${answers.join(", ")}`, async () => {
      const line = words.join(" ");
      const script = `${fishScript(places)}
complete -C '${line}' | string replace -r '\\t.*' '' | string trim -r -c /
true`;
      const found = (await answer("fish", script)).map((word) => word.replaceAll("\\", ""));
      // Fish offers what matches in another way, too; and of files those that fit first, but all.
      const begun = found.filter((word) => word.startsWith(words.at(-1)!));
      const fitting = answers.includes("sub")
        ? begun.filter((word) => answers.includes(word))
        : begun;
      assert.deepEqual(fitting, [...answers].sort());
    });
  }
});

describe("zshScript", { skip: missing.includes("zsh") }, () => {
  for (const [words, answers] of CASES) {
    it(`${words.join(" ")}…: ${answers.join(", ")}`, async () => {
      const file = `${folder}/_rack.zsh`;
      await Deno.writeTextFile(file, zshScript(places));
      const script = `
compdef() { : }
_describe() { [[ $1 == -o ]] && shift; shift; print -l -- "\${(@)\${(P@)1}%%:*}" }
compadd() { shift; print -l -- "$@" }
_files() {
  case $2 in
    '') print -l -- *(N) ;;
    *) print -l -- *.(yaml|yml)(N) *(N/) ;;
  esac
}
source ${file}
words=(${words.map((word) => `'${word}'`).join(" ")})
CURRENT=${words.length}
_rack`;
      const found = await answer("zsh", script);
      const begun = found.filter((word) => word.startsWith(words.at(-1)!));
      assert.deepEqual(begun, [...answers].sort());
    });
  }
});

describe("placesOf", () => {
  const scripts = [bashScript(places), fishScript(places), zshScript(places)];

  it("has every command and option, and each script names them all", () => {
    const paths = places.map(({ path }) => path);
    assert.ok(paths.includes("link cut") && paths.includes("runs prune"));
    for (const { path, options } of places) {
      for (const { names } of options) {
        const long = names.at(-1)!.replace(/^--/, "");
        for (const script of scripts) assert.ok(script.includes(long), `${path} --${long}`);
      }
      for (const script of scripts) assert.ok(script.includes(path), path);
    }
  });
});
