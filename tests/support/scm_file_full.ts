/**
 * Two lives of an SCM file on a small file system, by the first argument: `fill` commits spans until
 * the disk is full and prints the last span that it could report, and the error; `check` prints what
 * is found after that, given the span. The third argument is how many pages one span writes.
 */
import { ScmFile } from "../../nodes/host/store/scm_file.ts";
import { SUITE_BYTES } from "./scm_size.ts";

const PAGE_BYTES = 4096;
const [life, path, pages, lastReported] = Deno.args;
const file = ScmFile.open(path!, { host: "b", bytes: SUITE_BYTES });
if (life === "fill") fill(Number(pages));
else check();

/** The first span is one page; each later one, the next `pagesEach` pages. */
function fill(pagesEach: number): void {
  file.settle("unknown");
  let reported = 0;
  try {
    for (let page = 0; page < SUITE_BYTES / PAGE_BYTES;) {
      const count = reported === 0 ? 1 : pagesEach;
      const data = new Uint8Array(count * PAGE_BYTES).fill(reported + 1);
      file.commit(reported + 1, [{ offset: page * PAGE_BYTES, data }]);
      reported++;
      page += count;
    }
  } catch (error) {
    const { name, message } = error as Error;
    console.log(JSON.stringify({ reported, name, message }));
  }
}

function check(): void {
  file.settle(Number(lastReported));
  const pages = Array.from({ length: SUITE_BYTES / PAGE_BYTES }, (_, page) => {
    const values = new Set(file.readImage(page * PAGE_BYTES, PAGE_BYTES));
    return values.size === 1 ? [...values][0]! : "torn";
  });
  console.log(JSON.stringify(pages));
  file.close();
}
