/**
 * What is wrong with metrics in Prometheus' text format, by the rules of `promtool check metrics` and of its
 * naming guide, and whether series and histograms are whole.
 */

/** Units that stand for a base unit's part or multiple: the guide wants seconds and bytes. */
const OTHER_UNITS =
  /_(milli|micro|nano|pico|kilo|mega|kibi|mebi|ms|us|ns|ps|minutes|hours|bits|kb|mb)/;
const RESERVED = /_(total|sum|count|bucket|info)$/;

interface Family {
  readonly type: string;
  readonly series: Map<string, number>;
}

/** @returns a sentence for each problem; empty where there is none. */
export function promProblems(text: string): string[] {
  const problems: string[] = [], families = new Map<string, Family>(), helped = new Set<string>();
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const help = /^# HELP (\S+) (.*)$/.exec(line);
    if (help !== null) {
      helped.add(help[1]!);
      if (!/^[A-Z].*\.$/.test(help[2]!)) problems.push(`${help[1]}: its help is no sentence`);
      continue;
    }
    const type = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line);
    if (type !== null) {
      if (families.has(type[1]!)) problems.push(`${type[1]} is there twice`);
      families.set(type[1]!, { type: type[2]!, series: new Map() });
      continue;
    }
    const sample = /^([a-z_][a-z0-9_]*)(\{(?:[a-z_]+="(?:[^"\\]|\\.)*",?)*\})? (\S+)$/.exec(line);
    if (sample === null) {
      problems.push(`no line of the format: ${line}`);
      continue;
    }
    const [, name, labels = "", value] = sample;
    const family = families.get(name!) ?? families.get(name!.replace(RESERVED, ""));
    if (family === undefined) problems.push(`${name} has no TYPE before it`);
    else if (family.series.has(name + labels)) problems.push(`${name}${labels} is there twice`);
    else family.series.set(name + labels, Number(value));
    if (Number.isNaN(Number(value)) && value !== "NaN") problems.push(`${line}: no number`);
  }
  for (const [name, { type, series }] of families) {
    if (!helped.has(name)) problems.push(`${name} has no HELP`);
    if (!/^[a-z]+(_[a-z0-9]+)+$/.test(name)) problems.push(`${name}: no snake_case with a prefix`);
    if (OTHER_UNITS.test(name)) problems.push(`${name}: no base unit`);
    if (/_(gauge|counter|histogram|summary)/.test(name)) problems.push(`${name}: has its type`);
    if ((type === "counter") !== name.endsWith("_total")) {
      problems.push(`${name}: a ${type}, and only counters end in _total`);
    } else if (type !== "counter" && RESERVED.test(name)) {
      problems.push(`${name}: a reserved ending`);
    }
    if (type === "counter" && [...series.values()].some((value) => !(value >= 0))) {
      problems.push(`${name}: a counter below 0`);
    }
    if (type === "histogram") problems.push(...histogramProblems(name, series));
  }
  return problems;
}

/** Buckets are cumulative and end with all that was counted. */
function histogramProblems(name: string, series: ReadonlyMap<string, number>): string[] {
  const groups = new Map<string, { le: number; value: number }[]>();
  for (const [key, value] of series) {
    const le = /[{,]le="([^"]*)"/.exec(key)?.[1];
    if (!key.startsWith(`${name}_bucket`)) continue;
    if (le === undefined) return [`${key}: a bucket without le`];
    const rest = key.slice(`${name}_bucket`.length).replace(/,?le="[^"]*"/, "");
    const rows = groups.get(rest) ?? [];
    groups.set(rest, rows);
    rows.push({ le: le === "+Inf" ? Infinity : Number(le), value });
  }
  return [...groups].flatMap(([labels, rows]) => {
    const problems: string[] = [];
    if (
      rows.some(({ le, value }, i) =>
        i > 0 && (le <= rows[i - 1]!.le || value < rows[i - 1]!.value)
      )
    ) {
      problems.push(`${name}${labels}: its buckets are not cumulative`);
    }
    const all = rows.at(-1)!;
    if (all.le !== Infinity || all.value !== series.get(`${name}_count${labels}`)) {
      problems.push(`${name}${labels}: its last bucket is not all that was counted`);
    }
    if (!series.has(`${name}_sum${labels}`)) problems.push(`${name}${labels} has no sum`);
    return problems;
  });
}
