/**
 * Marks of the time line as they are drawn: marks whose strokes would touch are one, so a line has
 * no more than it has room for.
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { Mark } from "../data/timeline.ts";
import { plural, time } from "../figures.ts";

/** Width in px; so are the lengths below. */
export const STROKE = 3;
const NEAR = 6;
const NAMED = 8;
const ROOM_LEAST = 40;
const LETTER = 6.5;

export interface DrawnMark {
  readonly at: Time;
  readonly x: number;
  /** Where the last fault ends that ends by itself. */
  readonly endX: number | undefined;
  readonly title: string;
  readonly label: { readonly x: number; readonly isLeft: boolean; readonly text: string } | null;
}

interface Group {
  readonly marks: Mark[];
  readonly x: number;
}

/**
 * @param marks in the order of their instants.
 * @param line the bounds of the drawing, and the position of a time, in px.
 * @returns at most one for each {@link STROKE} of its width. Marks outside of it are left out.
 */
export function drawnMarks(
  marks: readonly Mark[],
  { left, right, x }: {
    readonly left: number;
    readonly right: number;
    readonly x: (at: Time) => number;
  },
): DrawnMark[] {
  const groups: Group[] = [];
  for (const mark of marks) {
    const place = x(mark.at), end = mark.to === undefined ? place : x(mark.to);
    if (place > right || end < left) continue;
    // A mark may begin before the line and reach into it.
    const from = Math.max(place, left - STROKE), last = groups.at(-1);
    if (last !== undefined && from - last.x < STROKE) last.marks.push(mark);
    else groups.push({ marks: [mark], x: from });
  }
  let first = 0;
  return groups.map(({ marks: own, x: place }, i) => {
    while (place - groups[first]!.x >= NEAR) first++;
    const room = (groups[i + 1]?.x ?? right) - place - 8;
    const before = place - (first === 0 ? left : groups[first - 1]!.x) - 8;
    const near = namesOf(groups.slice(first, i + 1).flatMap(({ marks }) => marks));
    // At the end of the line a label that does not fit has its room on the left.
    const fits = LETTER * near.length <= room;
    const isLeft = !fits && i === groups.length - 1 && before > Math.max(room, 4 * ROOM_LEAST);
    const ends = own.flatMap(({ to }) => to === undefined ? [] : [x(to)]);
    const [one] = own as [Mark], last = own.at(-1)!;
    const when = one.at === last.at
      ? `at ${time(one.at)}`
      : `from ${time(one.at)} to ${time(last.at)}`;
    return {
      at: one.at,
      x: place,
      endX: ends.length === 0 ? undefined : Math.max(...ends),
      title: own.length === 1
        ? `${one.text} ${when}`
        : `${plural(own.length, "mark")} ${when}: ${namesOf(own)}`,
      label: room <= ROOM_LEAST && !isLeft ? null : {
        x: isLeft ? groups[first]!.x - 6 : place + 6,
        isLeft,
        text: begunIn(near, Math.floor((isLeft ? before : room) / LETTER)),
      },
    };
  });
}

function begunIn(text: string, letters: number): string {
  return text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
}

function namesOf(marks: readonly Mark[]): string {
  const more = marks.length - NAMED;
  const named = marks.slice(0, NAMED).map(({ text }) => text).join(", ");
  return more > 0 ? `${named} and ${more} more` : named;
}
