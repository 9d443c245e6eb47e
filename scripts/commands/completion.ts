/** `rack completion`: scripts with which a shell completes the command, from the command's own tree. */
import type { Command } from "commander";
import { completionNames, NAMES } from "../../console/rack/live/completion_names.ts";
import { PERFTESTS } from "../../nodes/host/programs/perftest/terms.ts";
import {
  bashScript,
  type CommandPlace,
  fishScript,
  type OptionPlace,
  type Value,
  zshScript,
} from "./completion_scripts.ts";
import { wordOf, type WordOption } from "./options.ts";
import { print } from "./output.ts";

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;
export const SHELLS = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

export function addCompletion(program: Command): void {
  program.command("completion <shell>")
    .description(`a script by which a shell completes this command: ${SHELLS.join(", ")}`)
    .addHelpText(
      "after",
      `
The script completes commands, options, methods, files, and names of nodes and runs, for which it asks
  rack completion nodes|hosts|runs

Example:
  source <(rack completion bash)                                      # in ~/.bashrc
  source <(rack completion zsh)                                       # in ~/.zshrc, behind compinit
  rack completion fish > ~/.config/fish/completions/rack.fish`,
    )
    .action(async (name: string) => {
      const word = wordOf("The shell", name, [...SHELLS, ...NAMES]);
      if (isShell(word)) print(SCRIPTS[word](placesOf(program)));
      else for (const each of await completionNames(word)) print(each);
    });
}

function isShell(word: string): word is keyof typeof SCRIPTS {
  return Object.hasOwn(SCRIPTS, word);
}

export function placesOf(command: Command, path = ""): CommandPlace[] {
  const below = command.commands.map((each) => ({ word: each.name(), each }));
  return [
    {
      path,
      about: command.description(),
      commands: below.map(({ word, each }) => ({ word, about: each.description() })),
      options: [...command.options.filter(({ hidden }) => !hidden).map(optionOf), HELP],
      values: command.registeredArguments.map((each) =>
        each.argChoices ?? byPlaceholder(each.name())
      ),
    },
    ...below.flatMap(({ word, each }) => placesOf(each, path === "" ? word : `${path} ${word}`)),
  ];
}

const HELP: OptionPlace = {
  names: ["-h", "--help"],
  about: "help and an example",
  value: undefined,
};

function optionOf(
  { short, long, flags, description, argChoices, words }: WordOption,
): OptionPlace {
  const names = [short, long].filter((name) => name !== undefined);
  const placeholder = /[<[](.+)[>\]]/.exec(flags)?.[1];
  if (placeholder === undefined) return { names, about: description, value: undefined };
  return { names, about: description, value: words ?? argChoices ?? byPlaceholder(placeholder) };
}

const BY_PLACEHOLDER: Readonly<Record<string, Value>> = {
  scenario: "scenarios",
  file: "files",
  dir: "folders",
  node: "nodes",
  target: "nodes",
  host: "hosts",
  id: "runs",
  test: PERFTESTS,
  shell: SHELLS,
};

function byPlaceholder(placeholder: string): Value {
  // `<on|off>` names its words itself.
  if (placeholder.includes("|")) return placeholder.split("|");
  return BY_PLACEHOLDER[placeholder] ?? "anything";
}
