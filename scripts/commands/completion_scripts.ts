/**
 * Each script walks the words before the cursor to know where it is, by one table: which word leads
 * to a command (`runs:rm`), which option takes a value.
 */
import { NAMES, type NamesOf } from "../../console/rack/live/completion_names.ts";

/** Some words, files, or names that are asked for when they are needed. */
export type Value = readonly string[] | "files" | "folders" | "scenarios" | NamesOf | "anything";

export interface OptionPlace {
  readonly names: readonly string[];
  readonly about: string;
  readonly value: Value | undefined;
}

/** `path`: all words behind `rack`: `link cut`; "" is `rack` itself. */
export interface CommandPlace {
  readonly path: string;
  readonly about: string;
  readonly commands: readonly { readonly word: string; readonly about: string }[];
  readonly options: readonly OptionPlace[];
  readonly values: readonly Value[];
}

type Places = readonly CommandPlace[];

/** For bash 3.2 and later. */
export function bashScript(places: Places): string {
  const words = (some: readonly string[]) => quoted(some.join(" "));
  return `# Completion of rack for bash, made by: rack completion bash
_rack() {
  local IFS=$' \\t\\n' current=\${COMP_WORDS[COMP_CWORD]} at= value= count=0 word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $word != "=" ]] || continue
${walk(places)}
  done
  [[ $current != "=" ]] || current=
  if [[ -z $value && $current == -* ]]; then
    case $at in
${rows(places, ({ path, options }) => `${quoted(path)}) value=words:${words(namesOf(options))} ;;`)}
    esac
  fi
${placeValues(places, (some) => `words:${some.join(" ")}`)}
  # File names may hold blanks.
  IFS=$'\\n'
  case $value in
    words:*) COMPREPLY=($(IFS=' ' compgen -W "\${value#words:}" -- "$current")) ;;
    files) COMPREPLY=($(compgen -f -- "$current")) ;;
    folders) COMPREPLY=($(compgen -d -- "$current")) ;;
    scenarios) COMPREPLY=($(
      compgen -f -X '!*.yaml' -- "$current"
      compgen -f -X '!*.yml' -- "$current"
      compgen -d -- "$current"
    )) ;;
    ${NAMES.join(" | ")})
      COMPREPLY=($(compgen -W "$("\${COMP_WORDS[0]}" completion "$value" 2>/dev/null)" -- "$current")) ;;
    *) COMPREPLY=() ;;
  esac
  case $value in
    files | folders | scenarios) compopt -o filenames 2>/dev/null ;;
  esac
}
complete -F _rack rack`;
}

export function zshScript(places: Places): string {
  const described = (some: readonly { word: string; about: string }[]) =>
    some.map(({ word, about }) => quoted(`${word.replaceAll(":", "\\:")}:${about}`)).join(" ");
  const options = ({ path, options }: CommandPlace) => {
    const all = options.flatMap(({ names, about }) => names.map((word) => ({ word, about })));
    return `${quoted(path)}) found=(${described(all)}) ;;`;
  };
  const commands = ({ path, commands }: CommandPlace) =>
    `${quoted(path)}) found=(${described(commands)}) ;;`;
  return `#compdef rack
# Completion of rack for zsh, made by: rack completion zsh
_rack() {
  local current=\${words[CURRENT]} at= value= count=0 word i
  local -a found
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
${walk(places)}
  done
  if [[ -z $value && $current == -* ]]; then
    case $at in
${rows(places, options)}
    esac
    _describe -o option found
    return
  fi
  if [[ -z $value && $count == 0 ]]; then
    case $at in
${rows(places.filter(({ commands }) => commands.length > 0), commands)}
    esac
    if ((\${#found})); then
      _describe command found
      return
    fi
  fi
${placeValues(places, (some) => `words:${some.join(" ")}`)}
  case $value in
    words:*) compadd -- \${=value#words:} ;;
    files) _files ;;
    folders) _files -/ ;;
    scenarios) _files -g '*.(yaml|yml)' ;;
    ${NAMES.join("|")}) compadd -- \${(f)"$(\${words[1]} completion $value 2>/dev/null)"} ;;
  esac
}
if [[ \${funcstack[1]-} == _rack ]]; then _rack "$@"; else compdef _rack rack; fi`;
}

function rows(places: Places, row: (place: CommandPlace) => string): string {
  return places.map((place) => `      ${row(place)}`).join("\n");
}

function walk(places: Places): string {
  const enter = entrances(places).map(quoted).join(" | ");
  const takes = takers(places).map(({ key, value }) =>
    `      ${quoted(key)}) value=${quoted(shellValue(value))} ;;`
  );
  return `    if [[ -n $value ]]; then
      value=
      continue
    fi
    case $at:$word in
      ${enter})
        at=\${at:+$at }$word
        count=0 ;;
${takes.join("\n")}
      *:-*) ;;
      *) count=$((count + 1)) ;;
    esac`;
}

function placeValues(places: Places, ofWords: (words: readonly string[]) => string): string {
  const cases = places.flatMap(({ path, commands, values }) => [
    ...(commands.length === 0 ? [] : [
      `      ${quoted(`${path}:0`)}) value=${quoted(ofWords(commands.map(({ word }) => word)))} ;;`,
    ]),
    ...values.map((value, i) =>
      `      ${quoted(`${path}:${i}`)}) value=${quoted(shellValue(value))} ;;`
    ),
  ]);
  return `  if [[ -z $value ]]; then
    case $at:$count in
${cases.join("\n")}
    esac
  fi`;
}

/** `link:cut`: in the command before the colon, this word leads to another. */
function entrances(places: Places): string[] {
  return places.flatMap(({ path, commands }) => commands.map(({ word }) => `${path}:${word}`));
}

function takers(places: Places): { readonly key: string; readonly value: Value }[] {
  return places.flatMap(({ path, options }) =>
    options.flatMap(({ names, value }) =>
      value === undefined ? [] : names.map((name) => ({ key: `${path}:${name}`, value }))
    )
  );
}

function namesOf(options: readonly OptionPlace[]): string[] {
  return options.flatMap(({ names }) => names);
}

function shellValue(value: Value): string {
  return typeof value === "string" ? value : `words:${value.join(" ")}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function fishScript(places: Places): string {
  const lines = places.flatMap(({ path, commands, options, values }) => {
    const at = (count: string | number) =>
      `complete -c rack -n ${fish(`__rack_at ${fish(`${path}:${count}`)}`)}`;
    return [
      ...commands.map(({ word, about }) => `${at(0)} -a ${fish(word)} -d ${fish(about)}`),
      ...values.map((value, i) => `${at(i)} ${fishValue(value)}`),
      ...options.map(({ names, about, value }) => {
        const flags = names.map((name) =>
          name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`
        );
        const takes = value === undefined ? "" : ` -r ${fishValue(value)}`;
        return `${at("*")} ${flags.join(" ")}${takes} -d ${fish(about)}`;
      }),
    ];
  });
  return `# Completion of rack for fish, made by: rack completion fish
function __rack_at --description 'whether this is the command, and the number of its argument'
  set -l words (commandline -opc)
  set -l at ''
  set -l count 0
  set -l skip 0
  for word in $words[2..]
    if test $skip = 1
      set skip 0
      continue
    end
    switch "$at:$word"
      case ${entrances(places).map(fish).join(" ")}
        set at (string trim -- "$at $word")
        set count 0
      case ${takers(places).map(({ key }) => fish(key)).join(" ")}
        set skip 1
      case '*:-*'
      case '*'
        set count (math $count + 1)
    end
  end
  string match -q -- $argv[1] "$at:$count"
end
complete -c rack -f
${lines.join("\n")}`;
}

function fishValue(value: Value): string {
  if (typeof value !== "string") return `-f -a ${fish(value.join(" "))}`;
  if (value === "files" || value === "folders") return "-F";
  if (value === "scenarios") {
    return `-f -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .yml)'`;
  }
  if (value === "anything") return "-f";
  return `-f -a '(rack completion ${value} 2>/dev/null)'`;
}

function fish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
