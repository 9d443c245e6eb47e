/** Quotes a word that a shell would expand or split. */
export function quoted(word: string): string {
  return /^[\w./:=+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** `--name value` for each option that has a value. */
export function optionWords(options: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(options).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : [`--${name}`, quoted(String(value))]
  );
}
