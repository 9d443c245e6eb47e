/** Which work of the paging thread comes next. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AddressMap } from "../memory/address_map.ts";
import type { PageTable } from "../memory/page_table.ts";
import { type PageJob, Pager, type RangeJob } from "./pager.ts";

const range = (name: string, hintsOf?: number): RangeJob => ({
  ...{ kind: "range", parts: [], rights: 1, fault: true, done: name, hintsOf },
});
const fault = (name: number, hintsOf?: number): PageJob => {
  const event = {
    type: "PAGE_FAULT",
    key: name,
    first: 0,
    count: 1,
    ahead: 0,
    write: false,
  } as const;
  return { kind: "fault", event: hintsOf === undefined ? event : { ...event, hintsOf }, card: 0 };
};
const pressure: PageJob = { kind: "pressure", pages: 1 };
const take: PageJob = { kind: "take", range: { address: 0, length: 1 }, keep: true, done: "" };

/** Puts the rest of a range back behind these jobs. @returns all in their order. */
function orderOf(jobs: readonly PageJob[], rest: RangeJob): string {
  const [map, table] = [{} as AddressMap, {} as PageTable];
  const pager = new Pager({ pin: false, map, table, onWork: () => {} });
  for (const job of jobs) pager.submit(job);
  pager.putBack(rest);
  const found: string[] = [];
  for (let job = pager.nextJob(); job !== undefined; job = pager.nextJob()) {
    found.push(
      job.kind === "range" ? job.done! : job.kind === "fault" ? `${job.event.key}` : job.kind,
    );
  }
  same(pager.hasWork, false);
  return found.join(" ");
}

describe("what is left of a range", () => {
  it("waits behind the other ranges, and ahead of whatever is to be taken back", () => {
    same(orderOf([], range("rest")), "rest");
    same(orderOf([range("a"), fault(1)], range("rest")), "a 1 rest");
    same(orderOf([take], range("rest")), "rest take");
    same(orderOf([pressure], range("rest")), "rest pressure");
    same(orderOf([range("a"), pressure, take, fault(1)], range("rest")), "a rest pressure take 1");
    same(orderOf([range("a"), take, pressure], range("rest")), "a rest take pressure");
  });

  it("H-24: waits behind all that is no hint's where hints alone have named it, in its requester's turn", () => {
    same(orderOf([fault(1, 7), range("a"), take], range("rest", 7)), "a take 1 rest");
    same(orderOf([fault(1, 7), fault(2, 7), fault(3, 8)], range("rest", 8)), "1 3 2 rest");
  });
});
