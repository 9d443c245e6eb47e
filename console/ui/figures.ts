/**
 * Figures as text: thin spaces between thousands, units after them, as many digits as mean
 * something.
 */
import {
  NEVER,
  PS_PER_MS,
  PS_PER_NS,
  PS_PER_S,
  PS_PER_US,
  type Time,
} from "../../fabric/base/time.ts";

const THIN = "\u202f";

/** `12 345.678`; the digits after the point in groups, too. */
function grouped(digits: string): string {
  const [whole = "", fraction] = digits.split(".");
  const front = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  return fraction === undefined
    ? front
    : `${front}.${fraction.replace(/(\d{3})(?=\d)/g, `$1${THIN}`)}`;
}

/** `1 234 567`. */
export function count(value: number): string {
  return grouped(String(Math.round(value)));
}

/** `222.441 179 µs`, exact, in the unit of `like`: a clock does not jump between units. */
export function time(ps: Time, like: Time = ps): string {
  if (ps === NEVER) return "never";
  const [unit, size, digits] = unitOf(Math.abs(like));
  return `${grouped((ps / size).toFixed(digits))}${THIN}${unit}`;
}

function unitOf(ps: Time): readonly [unit: string, ps: number, digits: number] {
  if (ps >= PS_PER_S) return ["s", PS_PER_S, 9];
  if (ps >= 10 * PS_PER_MS) return ["ms", PS_PER_MS, 6];
  if (ps >= PS_PER_US) return ["µs", PS_PER_US, 6];
  if (ps >= PS_PER_NS) return ["ns", PS_PER_NS, 3];
  return ["ps", 1, 0];
}

/** `222.4 µs`: four significant digits, for labels. */
export function roughTime(ps: Time): string {
  if (ps === NEVER) return "never";
  const units = [["s", PS_PER_S], ["ms", PS_PER_MS], ["µs", PS_PER_US], ["ns", PS_PER_NS]] as const;
  const [unit, size] = units.find(([, each]) => Math.abs(ps) >= each) ?? ["ps", 1];
  return `${rough(ps / size)}${THIN}${unit}`;
}

/** Four significant digits, without zeros at the end. */
function rough(value: number): string {
  return grouped(String(Number(value.toPrecision(Math.abs(value) >= 1000 ? 6 : 4))));
}

/** A figure that may be unknown. */
export function roughOr(value: number | null): string {
  return value === null ? "–" : rough(value);
}

/** `43 %`, of a share from 0 to 1. */
export function percent(share: number): string {
  return `${count(100 * Math.max(0, Math.min(1, share)))}${THIN}%`;
}

/** `16.3 KiB`. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = value < 1024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10));
  return `${power === 0 ? count(value) : rough(Number((value / 1024 ** power).toFixed(1)))}${THIN}${
    units[power]
  }`;
}

/** `61.2 Gb/s`. */
export function bitRate(bitsPerSecond: number): string {
  const units = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];
  const power = bitsPerSecond < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bitsPerSecond) / 3));
  return `${rough(Number((bitsPerSecond / 1000 ** power).toFixed(1)))}${THIN}${units[power]}`;
}

/** Round numbers for an axis, in a span of which zero would be one: `most` and one more at most. */
export function ticks(from: number, to: number, most: number): number[] {
  const raw = (to - from) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10);
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, i) => (first + i) * step);
}

/** Both ends of a name stay. */
export function cut(name: string, most: number): string {
  if (name.length <= most) return name;
  const front = Math.ceil((most - 1) / 2);
  return `${name.slice(0, front)}…${name.slice(name.length - (most - 1 - front))}`;
}

export function plural(value: number, one: string, several: string = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : several}`;
}

/** `persist-opcode_ddio_on` as `persist-opcode, DDIO on`. */
export function wordsOfVariant(folder: string): string {
  return folder.replace(/_+ddio_+/, ", DDIO ").replaceAll("_", " ");
}

/**
 * A sentence of the server's, with times as the page writes them: `us` on a terminal is `µs` here.
 */
export function sentence(text: string): string {
  // A name may have such letters in it: `rack2us` and `b-4us` are none.
  return text.replace(/(?<![\w.-])(\d{4,}) ps(?![\w-])/g, (_, ps) => time(Number(ps))).replace(
    /(?<![\w.-])(\d+(?:\.\d+)?) ?us(?![\w-])/g,
    `$1${THIN}µs`,
  );
}

/** As the field writes them. */
const ABBREVIATIONS: Readonly<Record<string, string>> = {
  ...{ acks: "ACKs", naks: "NAKs", nacks: "NAKs", cqes: "CQEs", wqes: "WQEs", cnps: "CNPs" },
  ...Object.fromEntries(
    ["cnp", "cpu", "cqe", "dma", "ecn", "iio", "llc", "pfc", "psn", "rnr", "scm", "wqe"]
      .map((word) => [word, word.toUpperCase()]),
  ),
};

/** `dmaReads` as `DMA reads`. */
export function wordsOfCounter(name: string): string {
  return name.replace(/Ps$/, "").replace(/Bytes/, "")
    .replace(/([a-z])([A-Z])/g, (_, x, y) => `${x} ${y.toLowerCase()}`)
    .replace("blue flame", "BlueFlame")
    .replaceAll(/[a-z]+/g, (word) => ABBREVIATIONS[word] ?? word);
}

/** By the unit that ends its name. */
export function counter(name: string, value: number): string {
  if (name.endsWith("Ps")) return roughTime(value);
  if (/Bytes|bytes(?:In|Out)/.test(name)) return bytes(value);
  return Number.isInteger(value) ? count(value) : rough(value);
}

/** An instant of wall time, as this reader writes it. */
export function when(text: string): string {
  const date = new Date(text);
  return text === "" || isNaN(date.getTime())
    ? "unknown"
    : date.toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" });
}
