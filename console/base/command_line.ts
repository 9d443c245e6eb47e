/** Words of a command, as a person can paste them into a shell. */

/** A word, in quotes where a shell would make something else of it. */
export function quoted(word: string): string {
  return /^[\w./:=+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** `--name value` for each option that has a value. */
export function optionWords(options: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(options).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : [`--${name}`, quoted(String(value))]
  );
}
