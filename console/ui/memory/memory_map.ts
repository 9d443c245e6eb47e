/**
 * A line of 64 B is a cell. Its state is one number, so that a million of them are an array of a
 * megabyte and one `putImageData`.
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { MemoryLine, MemoryPart, MemoryView } from "../../api/replay.ts";
import type { CopyPlace } from "../../api/replay_terms.ts";

/** As bits: the place of the newest copy of its worst byte, and flags. */
export type LineCode = number;

/**
 * In the order in which a power failure takes them; a line is shown as the first of its bytes'
 * places.
 */
export const STATES = [
  "never written",
  "medium",
  "write-queue",
  "llc-safe",
  "iio-safe",
  "iio",
  "llc",
  "bus",
  "card",
  "in-flight",
  "torn",
  "lost",
] as const;
export type LineState = typeof STATES[number];

const STATE_BITS = 0xf;
export const PROMISED = 0x10;
/** A part of the line is promised. */
export const PARTLY = 0x20;
/** Promised bytes would not survive a power failure now, or have not survived one. */
export const BROKEN = 0x40;

export function stateOf(code: LineCode): LineState {
  return STATES[code & STATE_BITS] ?? "never written";
}

export type Tone = "durable" | "volatile" | "flight" | "lost" | "empty";

interface Look {
  readonly tone: Tone;
  readonly letter: string;
  readonly words: string;
}

export const LOOKS: Readonly<Record<LineState, Look>> = {
  "never written": { tone: "empty", letter: "", words: "never written" },
  "medium": { tone: "durable", letter: "", words: "on the medium" },
  "write-queue": { tone: "durable", letter: "W", words: "in the write queue: survives" },
  "llc-safe": { tone: "durable", letter: "C", words: "in the cache, which survives here" },
  "iio-safe": { tone: "durable", letter: "I", words: "in the I/O controller, which survives here" },
  "iio": { tone: "volatile", letter: "I", words: "in the I/O controller: lost" },
  "llc": { tone: "volatile", letter: "C", words: "in the cache: lost without a flush" },
  "bus": { tone: "flight", letter: "B", words: "on the bus to the host: lost" },
  "card": { tone: "flight", letter: "R", words: "in the responder's RNIC: lost" },
  "in-flight": { tone: "flight", letter: "N", words: "posted, or on the network: lost" },
  "torn": { tone: "lost", letter: "T", words: "torn: a part of a write is left, or would be" },
  "lost": { tone: "lost", letter: "L", words: "lost: as it was before the write" },
};

function stateAt(place: CopyPlace, survives: boolean): LineState {
  if (place === "llc" || place === "iio") return survives ? `${place}-safe` : place;
  return place;
}

export function codeOf(
  { spans, torn }: MemoryLine,
  { writes }: Pick<MemoryView, "writes">,
): LineCode {
  let state = 0, promised = 0, bytes = 0, code = 0;
  for (const { place, survives, from, to, write, lost } of spans) {
    state = Math.max(state, STATES.indexOf(lost ? "lost" : stateAt(place, survives)));
    bytes += to - from;
    if (write === undefined || writes[write]?.standing !== "promised") continue;
    promised += to - from;
    if (!survives || lost) code |= BROKEN;
  }
  if (torn) state = STATES.indexOf("torn");
  if (promised > 0) code |= promised === bytes ? PROMISED : PROMISED | PARTLY;
  return code | state;
}

/** The worst line of the part. @param part undefined: nothing of it was written. */
export function stateOfPart(part: MemoryPart | undefined): LineState {
  if (part === undefined) return "never written";
  if (part.torn > 0) return "torn";
  if (part.gone > 0) return "lost";
  const states = (Object.entries(part.byPlace) as [CopyPlace, number][])
    .filter(([, lines]) => lines > 0)
    .map(([place]) => STATES.indexOf(stateAt(place, part.lost === 0)));
  return STATES[Math.max(0, ...states)]!;
}

/** The first line that a power failure would not find on the medium; undefined where all are. */
export function firstOpen({ codes }: LineMap): number | undefined {
  const found = codes.findIndex((code) => (code & STATE_BITS) > STATES.indexOf("medium"));
  return found < 0 ? undefined : found;
}

export function leftOf(code: LineCode): LineCode {
  const state = stateOf(code), kept = code & ~STATE_BITS;
  if (state === "never written" || state === "torn") return code;
  const left = LOOKS[state].tone === "durable" ? "medium" : "lost";
  return kept | STATES.indexOf(left);
}

export interface LineMap {
  /** Offset in SCM of the first line, a multiple of 64. */
  readonly from: number;
  readonly codes: Uint8Array;
}

/** The codes of [from, to) of a view; lines that it does not have were never written. */
export function mapOf(view: MemoryView, from: number = view.from, to: number = view.to): LineMap {
  const first = Math.floor(from / LINE_BYTES) * LINE_BYTES;
  const codes = new Uint8Array(Math.max(0, Math.ceil((to - first) / LINE_BYTES)));
  for (const line of view.lines) {
    const index = (line.at - first) / LINE_BYTES;
    if (index >= 0 && index < codes.length) codes[index] = codeOf(line, view);
  }
  return { from: first, codes };
}

export function countsOf(
  { codes }: LineMap,
): ReadonlyMap<LineState | "promised" | "broken", number> {
  const counts = new Map<LineState | "promised" | "broken", number>();
  const add = (name: LineState | "promised" | "broken") =>
    counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const code of codes) {
    add(stateOf(code));
    if ((code & PROMISED) !== 0) add("promised");
    if ((code & BROKEN) !== 0) add("broken");
  }
  return counts;
}

/** A cell of 8 px or more has a gap beside it, one of 16 px or more a letter. */
export interface Grid {
  readonly cellPx: number;
  readonly columns: number;
  readonly rows: number;
}

/** Columns in sixteens, eights or fours, so that the addresses of rows are round. */
export function gridOf(lines: number, widthPx: number, cellPx: number): Grid {
  const most = Math.max(1, Math.floor(widthPx / cellPx));
  const step = [16, 8, 4].find((each) => most >= 2 * each) ?? 1;
  const columns = most - most % step;
  return { cellPx, columns, rows: Math.ceil(lines / columns) };
}

/** The index of the line at a point; undefined beside them. */
export function lineAt(
  { cellPx, columns }: Grid,
  lines: number,
  at: { readonly x: number; readonly y: number },
): number | undefined {
  const column = Math.floor(at.x / cellPx), row = Math.floor(at.y / cellPx);
  if (column < 0 || column >= columns || row < 0) return undefined;
  const index = row * columns + column;
  return index < lines ? index : undefined;
}

/** 0xAABBGGRR, the order of bytes in an image. */
export type Palette = Readonly<Record<Tone, number>> & {
  readonly promised: number;
  readonly ground: number;
};

/** Durable lines are many, and stay unobtrusive. */
const QUIET = 0.5;

function mixed(over: number, under: number, share: number): number {
  let value = 0;
  for (const shift of [0, 8, 16]) {
    const x = (over >>> shift) & 0xff, y = (under >>> shift) & 0xff;
    value |= Math.round(x * share + y * (1 - share)) << shift;
  }
  return (value | 0xff00_0000) >>> 0;
}

/**
 * Paints rows [fromRow, toRow) into an image of the grid's width. The last pixels of a cell show
 * the line's promises; cells of less than 4 px have no room for that.
 */
export function paint(
  { codes }: LineMap,
  { cellPx, columns }: Grid,
  { pixels, widthPx, fromRow, toRow, palette }: {
    readonly pixels: Uint32Array;
    readonly widthPx: number;
    readonly fromRow: number;
    readonly toRow: number;
    readonly palette: Palette;
  },
): void {
  const inner = cellPx >= 8 ? cellPx - 2 : cellPx;
  const bar = cellPx >= 16 ? 3 : cellPx >= 4 ? 1 : 0;
  const colours = Array.from({ length: 256 }, (_, code) => {
    const state = stateOf(code), { tone } = LOOKS[state];
    return state === "medium" ? mixed(palette[tone], palette.ground, QUIET) : palette[tone];
  });
  pixels.fill(palette.ground);
  for (let row = fromRow; row < toRow; row++) {
    for (let column = 0; column < columns; column++) {
      const index = row * columns + column;
      if (index >= codes.length) return;
      const code = codes[index]!, colour = colours[code]!;
      const left = column * cellPx, top = (row - fromRow) * cellPx;
      const body = inner - ((code & PROMISED) !== 0 && bar > 0 ? bar + 1 : 0);
      for (let y = 0; y < inner; y++) {
        const at = (top + y) * widthPx + left;
        if (y < body) pixels.fill(colour, at, at + inner);
        else if (y >= inner - bar) {
          const length = (code & PARTLY) !== 0 ? Math.ceil(inner / 2) : inner;
          const said = (code & BROKEN) !== 0 ? palette.lost : palette.promised;
          pixels.fill(said, at, at + length);
        }
      }
    }
  }
}
