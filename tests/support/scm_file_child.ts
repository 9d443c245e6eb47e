/** Commits spans to the SCM file given until it is killed; prints each when it may be relied on. */
import { ScmFile } from "../../nodes/host/store/scm_file.ts";
import { SUITE_BYTES } from "./scm_size.ts";

const file = ScmFile.open(Deno.args[0]!, { host: "b", bytes: SUITE_BYTES });
file.settle("unknown");
const encoder = new TextEncoder();
for (let span = 1;; span++) {
  const data = new Uint8Array(4);
  new DataView(data.buffer).setUint32(0, span);
  file.commit(span, [{ offset: 0, data }, { offset: SUITE_BYTES - 4, data }]);
  Deno.stdout.writeSync(encoder.encode(`${span}\n`));
}
