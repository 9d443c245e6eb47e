/** Quotes a word that a shell would expand or split. */
export function quoted(word: string): string {
  return /^[\w./:=+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** `--name value` for each option that has a value, several times for a list. */
export function optionWords(options: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(options).flatMap(([name, value]) =>
    value === undefined || value === null
      ? []
      : [value].flat().flatMap((each) => [`--${name}`, quoted(String(each))])
  );
}
