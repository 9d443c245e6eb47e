/** Numbers and places of words, as a C compiler has them: `nodes/host/native/numbers.ts` and `header.ts`. */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { WC_STATUS } from "../../fabric/wire/host_bus/cqe.ts";
import { requestsHeader, tableVersion } from "../../nodes/host/native/header.ts";
import {
  ATTR,
  CM_EVENTS,
  COMPLETED,
  ERRNO,
  EVENT_TYPES,
  MTU_CODES,
  OPTIONAL_ACCESS,
  PORT_SPACES,
  POSTED,
  QP_STATES,
  QP_TYPES,
  REREG,
  SRQ_ATTR,
} from "../../nodes/host/native/numbers.ts";
import {
  HEAD,
  MESSAGES,
  POLLED,
  REPLY,
  REQUEST_NAMES,
  type RequestRow,
  REQUESTS,
  SGE,
} from "../../nodes/host/native/requests.ts";
import * as FLAGS from "../../nodes/host/verbs/flags.ts";
import { itUnless } from "../support/skipping.ts";

const folder = await Deno.makeTempDir({ prefix: "rackmesh-numbers-" });
afterAll(() => Deno.remove(folder, { recursive: true }));

/** Values of C's expressions; a text where the compiler refuses the program. */
function valuesInC(includes: string, expressions: readonly string[]): bigint[] | string {
  const source = `${folder}/values.c`, program = `${folder}/values`;
  const values = expressions.map((each) => `(unsigned long long)(${each}),`).join("\n");
  Deno.writeTextFileSync(
    source,
    `${includes}\n#include <stdio.h>\nstatic const unsigned long long values[] = {\n${values}\n};\n` +
      `int main(void) { for (unsigned i = 0; i < sizeof values / sizeof *values; i++)\n` +
      `\tprintf("%llu\\n", values[i]);\nreturn 0; }\n`,
  );
  const args = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", folder, "-o", program, source];
  try {
    const { success, stderr } = new Deno.Command("cc", { args }).outputSync();
    if (!success) return new TextDecoder().decode(stderr);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "there is no C compiler here";
    throw error;
  }
  const { stdout } = new Deno.Command(program).outputSync();
  return new TextDecoder().decode(stdout).trim().split("\n").map(BigInt);
}

/** What rdma-core has since v46 only (FLUSH, ATOMIC WRITE): an older header is not asked. */
const NEWER = /FLUSH_(GLOBAL|PERSISTENT)|W[RC]_FLUSH$|ATOMIC_WRITE/;

/** Demands that C has these numbers for these names. */
function agrees(includes: string, numbers: ReadonlyMap<string, number>): void {
  const isOld = typeof valuesInC(includes, ["IBV_WR_FLUSH"]) === "string";
  const asked = [...numbers].filter(([name]) => !isOld || !NEWER.test(name));
  const values = valuesInC(includes, asked.map(([name]) => name));
  assert.ok(typeof values !== "string", String(values));
  assert.deepEqual(
    asked.map(([name], i) => `${name} ${values[i]}`),
    asked.map((it) => it.join(" ")),
  );
}

const plainMissing = valuesInC("", ["1"]);
const verbsMissing = valuesInC("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>", ["1"]);
const itInC = itUnless(
  typeof plainMissing === "string" ? plainMissing : undefined,
  "numbers of requests in C",
);
const itWithVerbs = itUnless(
  typeof verbsMissing === "string" ? verbsMissing.split("\n")[0] : undefined,
  "numbers of libibverbs in C",
);

describe("requestsHeader", () => {
  itInC("a C compiler has the table's numbers, places of words and version", () => {
    Deno.writeTextFileSync(`${folder}/requests.h`, requestsHeader());
    const numbers = new Map<string, number>([["TABLE_VERSION", tableVersion()]]);
    const places = (prefix: string, names: readonly string[]) => {
      names.forEach((name, i) => numbers.set(`${prefix}_${name}`, i));
      numbers.set(`${prefix}_WORDS`, names.length);
    };
    REQUEST_NAMES.forEach((name, i) => numbers.set(`REQUEST_${name}`, i));
    places("HEAD", HEAD);
    places("REPLY", REPLY);
    places("SGE", SGE);
    for (const [name, value] of Object.entries(MESSAGES)) {
      numbers.set(`MESSAGE_KIND_${name}`, value);
    }
    for (const [name, value] of Object.entries(POLLED)) numbers.set(`POLLED_${name}`, value);
    for (const [name, row] of Object.entries<RequestRow>(REQUESTS)) {
      places(`ARG_${name}`, row.args);
      places(`ROW_${name}`, row.rows ?? []);
      places(`ANSWER_${name}`, row.answer ?? []);
      places(`ANSWER_ROW_${name}`, row.answerRows ?? []);
    }
    agrees(`#include "requests.h"`, numbers);
  });
});

/** Names of a table in C's style: maxDestRdAtomic is MAX_DEST_RD_ATOMIC. */
function upper(name: string): string {
  if (name === name.toUpperCase()) return name;
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** C's name of an attribute where it is not its own in capitals. */
const ATTR_NAMES: Readonly<Record<string, string>> = {
  enSqdAsyncNotify: "EN_SQD_ASYNC_NOTIFY",
  qKey: "QKEY",
  maxRdAtomic: "MAX_QP_RD_ATOMIC",
};
const OPCODES: Readonly<Record<string, readonly [wr: string | undefined, wc: string]>> = {
  "write": ["RDMA_WRITE", "RDMA_WRITE"],
  "write-immediate": ["RDMA_WRITE_WITH_IMM", "RDMA_WRITE"],
  "send": ["SEND", "SEND"],
  "send-immediate": ["SEND_WITH_IMM", "SEND"],
  "send-invalidate": ["SEND_WITH_INV", "SEND"],
  "read": ["RDMA_READ", "RDMA_READ"],
  "compare-swap": ["ATOMIC_CMP_AND_SWP", "COMP_SWAP"],
  "fetch-add": ["ATOMIC_FETCH_AND_ADD", "FETCH_ADD"],
  "local-invalidate": ["LOCAL_INV", "LOCAL_INV"],
  "bind-mw": ["BIND_MW", "BIND_MW"],
  "flush": ["FLUSH", "FLUSH"],
  "atomic-write": ["ATOMIC_WRITE", "ATOMIC_WRITE"],
};

describe("numbers", () => {
  itInC("are Linux's for each errno", () => {
    agrees("#include <errno.h>", new Map(Object.entries(ERRNO)));
  });

  itWithVerbs("are those of <infiniband/verbs.h> and <rdma/rdma_cma.h>", () => {
    const numbers = new Map<string, number>();
    const put = (prefix: string, table: Readonly<Record<string, number>>) => {
      for (const [name, number] of Object.entries(table)) {
        numbers.set(prefix + (ATTR_NAMES[name] ?? upper(name)), number);
      }
    };
    put("IBV_QPT_", QP_TYPES);
    put("IBV_QPS_", QP_STATES);
    put("IBV_MTU_", Object.fromEntries(Object.entries(MTU_CODES)));
    put("IBV_QP_", ATTR);
    put("IBV_SRQ_", SRQ_ATTR);
    const { translation, ...others } = REREG;
    put("IBV_REREG_MR_CHANGE_", { ...others, translation });
    put("RDMA_CM_EVENT_", Object.fromEntries(Object.entries(CM_EVENTS)));
    put("RDMA_PS_", PORT_SPACES);
    put("IBV_EVENT_", Object.fromEntries(Object.entries(EVENT_TYPES)));
    // The last one is this card's own.
    const { VERIFY_ERR: _, ...statuses } = WC_STATUS;
    put("IBV_WC_", statuses);
    numbers.set("IBV_ACCESS_OPTIONAL_RANGE", OPTIONAL_ACCESS);
    for (const [name, value] of Object.entries(FLAGS)) {
      if (/^IBV_(ACCESS|SEND)_/.test(name)) numbers.set(name, Number(value));
    }
    agrees("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>", numbers);
  });

  itWithVerbs("are those of <infiniband/verbs.h> for what is posted and completed", () => {
    const numbers = new Map<string, number>();
    for (const [number, opcode] of POSTED) {
      const names = OPCODES[opcode];
      assert.ok(names !== undefined, opcode);
      numbers.set(`IBV_WR_${names[0]}`, number);
      numbers.set(`IBV_WC_${names[1]}`, COMPLETED[opcode]!);
    }
    numbers.set("IBV_WC_RECV", COMPLETED["recv"]!);
    numbers.set("IBV_WC_RECV_RDMA_WITH_IMM", COMPLETED["recv-write-immediate"]!);
    agrees("#include <infiniband/verbs.h>", numbers);
  });
});
