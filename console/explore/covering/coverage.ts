/** The coverage of explorations at instants at which not every choice was tried, counted and in words. */
import { countOf } from "../../checks/finding.ts";
import { type Cell, WORD_BYTES } from "../choices.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { Coverage } from "./ways.ts";

export interface Covered extends Coverage {
  readonly instants: number;
}

export class CoverageCount {
  readonly #covered = new Map<string, Covered>();

  /** @param all of one instant: the weakest of them counts, of as many cells as any had. */
  add(all: readonly Coverage[]): void {
    const [weakest] = all.toSorted(byStrength);
    if (weakest === undefined) return;
    const cells = all.reduce((most, each) => Math.max(most, each.cells), 0);
    this.merge([{ ...weakest, cells, instants: 1 }]);
  }

  merge(others: readonly Covered[]): void {
    for (const other of others) {
      const { strength, inOrder, aside, unit } = other;
      const key = `${strength} ${inOrder} ${aside} ${unit}`;
      const known = this.#covered.get(key);
      this.#covered.set(key, {
        ...other,
        cells: Math.max(other.cells, known?.cells ?? 0),
        instants: other.instants + (known?.instants ?? 0),
      });
    }
  }

  all(): readonly Covered[] {
    return [...this.#covered.values()].sort(byStrength);
  }
}

function byStrength(x: Coverage, y: Coverage): number {
  return x.strength - y.strength || Number(x.inOrder) - Number(y.inOrder) || x.aside - y.aside;
}

/** The word for cells: torn pieces of 8 B are words. */
export function unitOf(cells: readonly Pick<Cell, "length">[]): Coverage["unit"] {
  if (cells.every(({ length }) => length <= WORD_BYTES)) return "words";
  return cells.every(({ length }) => length === LINE_BYTES) ? "lines" : "pieces";
}

const NUMBERS = { 2: "two", 3: "three", 4: "four" } as const;

/** `at 3 instants every three of 512 words in every combination, …` */
export function coveredText({ instants, cells, unit, strength, inOrder, aside }: Covered): string {
  const all = `${cells} ${unit}`;
  const parts = [
    ...(strength >= 2 ? [`every ${NUMBERS[strength as 2]} of ${all} in every combination`] : []),
    ...(strength === 1 ? [`each of ${all} with each content`] : []),
    ...(inOrder ? [`the first and the last of ${all} in the order of arrival`] : []),
    ...(aside === 1 ? ["each alone there and alone missing"] : []),
    ...(aside === 2 ? ["any one and any two alone there and alone missing"] : []),
  ];
  const what = parts.length > 0 ? parts.join(", ") : `of ${all} only none and all`;
  return `at ${countOf(instants, "instant")} ${what}`;
}
