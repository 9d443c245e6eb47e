/** Page requests name each page that is absent and not asked for, and none that nobody wants. */
import { deepEqual as same, ok } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { createDevice } from "../device.ts";
import { createTable } from "../state/translation_table.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { askForPages, mapPages, type PageSpan, unmapPages } from "./page_requests.ts";
import { holdTable } from "./translation_cache.ts";

const PAGES = 12;
const right = fc.constantFrom(1 as const, 2 as const);
const span = fc.record({
  table: fc.nat(1),
  first: fc.nat(PAGES - 1),
  more: fc.nat(PAGES - 1),
});

interface Ask {
  /** Wanted at once, by table and number, with one right. */
  readonly pages: readonly { readonly table: number; readonly page: number }[];
  readonly beyond: readonly {
    readonly table: number;
    readonly first: number;
    readonly more: number;
  }[];
  readonly rights: 1 | 2;
  readonly hintsOf: number | undefined;
  /** Pages that the host takes back before, and those that it gives. */
  readonly taken: readonly number[];
  readonly given: readonly number[];
}

const ask: fc.Arbitrary<Ask> = fc.record({
  pages: fc.uniqueArray(fc.record({ table: fc.nat(1), page: fc.nat(PAGES - 1) }), {
    ...{ minLength: 1, maxLength: 6 },
    selector: ({ table, page }) => table * PAGES + page,
  }),
  beyond: fc.array(span, { maxLength: 3 }),
  rights: right,
  hintsOf: fc.option(fc.constantFrom(7, 8), { nil: undefined }),
  taken: fc.array(fc.nat(2 * PAGES - 1), { maxLength: 3 }),
  given: fc.array(fc.nat(2 * PAGES - 1), { maxLength: 3 }),
});

it("page requests: each absent page once for hints and once for requests, and no other one", () => {
  const state = fc.array(fc.constantFrom(0 as const, 1 as const, 2 as const), {
    ...{ minLength: 2 * PAGES, maxLength: 2 * PAGES },
  });
  fc.assert(
    fc.property(state, fc.array(ask, { minLength: 1, maxLength: 5 }), (there, asks) => {
      const device = createDevice("a", rnicPlan("a"), { seed: 1 });
      const tables = [0, 1].map((i) => {
        const table = createTable(0x100 + i, { pages: PAGES });
        holdTable(device, table);
        for (const [page, entry] of table.demand!.entries()) {
          {
            entry.rights = there[i * PAGES + page]!;
            if (entry.rights > 0) table.pages[page] = page * 4096;
          }
        }
        return table;
      });
      const placeOf = (table: unknown, page: number) =>
        tables.indexOf(table as typeof tables[0]) * PAGES + page;
      /** The rights with which each page is asked for, and whether by hints alone. */
      const known: { asked: 0 | 1 | 2; isHints: boolean }[] = there.map(() => (
        { asked: 0, isHints: false }
      ));
      for (const { pages, beyond: spans, rights, hintsOf, taken, given } of asks) {
        const at = (place: number) =>
          [{ table: tables[Math.floor(place / PAGES)]! }, place % PAGES] as const;
        // What was asked for stays asked for until the host answers.
        for (const place of taken) {
          const [region, first] = at(place);
          unmapPages(device, region, { first, count: 1 });
        }
        for (const place of given) {
          const [region, first] = at(place);
          mapPages(device, region, { first, pages: [4096 * place], writable: true });
          known[place] = { asked: 0, isHints: false };
        }
        const wanted = pages.map(({ table, page }) => ({ table: tables[table]!, page, rights }))
          .filter(({ table, page }) => table.demand![page]!.rights < rights)
          .sort((a, b) => placeOf(a.table, a.page) - placeOf(b.table, b.page));
        if (wanted.length === 0) continue;
        const beyond = hintsOf !== undefined
          ? []
          : spans.map(({ table, first, more }): PageSpan => (
            { table: tables[table]!, first, last: Math.min(first + more, PAGES - 1) }
          ));
        const named = new Set(
          beyond.flatMap(({ table, first, last }) =>
            Array.from({ length: last - first + 1 }, (_, i) => placeOf(table, first + i))
          ),
        );
        const due = new Set<number>();
        const want = (place: number) => {
          const its = known[place]!;
          const isNews = its.asked < rights;
          // What hints have asked for is asked for again, once, by the request that needs it.
          if (!isNews && (hintsOf !== undefined || !its.isHints)) return;
          due.add(place);
          if (isNews) its.asked = rights;
          its.isHints = isNews && hintsOf !== undefined;
        };
        for (const { table, page } of wanted) want(placeOf(table, page));
        // A message whose first page is on its way asks for its rest when that has come.
        const goesOn = due.size > 0;
        for (const place of goesOn ? named : []) {
          const [{ table }, page] = at(place);
          if (table.demand![page]!.rights < rights) want(place);
        }
        askForPages(device, wanted, { beyond, ...(hintsOf !== undefined && { hintsOf }) });
        const found = new Set<number>(), atOnce = new Set<number>();
        while (device.pageEvents.length > 0) {
          const { table, event: { first, count, ahead }, hint } = device.pageEvents.shift()!;
          // As it leaves: one that is a hint's is asked for again by a request.
          if (hint !== undefined) hint.raised = true;
          same([hint?.hintsOf, count + ahead > 0], [hintsOf, true]);
          for (let page = first; page < first + count + ahead; page++) {
            const place = placeOf(table, page);
            if (page < first + count) ok(!atOnce.has(place), "one event for each page");
            if (page < first + count) atOnce.add(place);
            found.add(place);
          }
        }
        const kept = tables.flatMap(({ demand }, i) =>
          demand!.flatMap(({ asked }, page) => asked > known[i * PAGES + page]!.asked ? [page] : [])
        );
        same(kept, [], "of no page that is there");
        same([...due].filter((place) => !found.has(place)), [], "all that is due");
        // Between pages of a range the driver finds those that are there.
        same([...found].filter((place) => !due.has(place) && !named.has(place)), [], "no more");
        same([...atOnce].filter((place) => !due.has(place)), [], "at once what is needed at once");
      }
    }),
    seeded({ numRuns: 300 }),
  );
});
