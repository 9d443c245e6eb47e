/** The C header of the library, from the table of requests. */
import { QP_CAP_WORDS, QP_FIELDS, type QpField } from "./numbers.ts";
import {
  HEAD,
  MESSAGE,
  MESSAGES,
  OBJECTS,
  POLLED,
  REPLY,
  REQUEST_NAMES,
  REQUESTS,
  SGE,
} from "./requests.ts";
import type { RequestRow } from "./requests.ts";

/** Identifies a table: a library that was built for another one is refused at its first request. */
export function tableVersion(): number {
  // FNV-1a, in 32 bits: it goes through a word of a message and through C alike.
  let hash = 0x811c9dc5;
  for (
    const char of JSON.stringify([HEAD, MESSAGE, MESSAGES, REPLY, SGE, POLLED, OBJECTS, REQUESTS])
  ) {
    hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193) >>> 0;
  }
  return hash;
}

/** `requests.h`: numbers of requests, and the place of each word, as enumerations. */
export function requestsHeader(): string {
  const requests = REQUEST_NAMES.map((name, i) => `\tREQUEST_${name} = ${i},`);
  const rows = Object.entries<RequestRow>(REQUESTS).flatMap(([name, row]) => [
    words(`ARG_${name}`, row.args),
    words(`ROW_${name}`, row.rows ?? []),
    words(`ANSWER_${name}`, row.answer ?? []),
    words(`ANSWER_ROW_${name}`, row.answerRows ?? []),
  ]);
  return [
    "/* Made from nodes/host/native/requests.ts. */",
    "#pragma once",
    `#define TABLE_VERSION ${tableVersion()}u`,
    "enum {",
    ...requests,
    "};",
    words("HEAD", HEAD),
    words("MESSAGE", MESSAGE),
    words("REPLY", REPLY),
    words("SGE", SGE),
    numbers("MESSAGE_KIND", MESSAGES),
    numbers("POLLED", POLLED),
    numbers("OBJECT", OBJECTS),
    ...rows,
    // X(word, field of ibv_qp_attr and of ib_uverbs_qp_attr, its bit of ibv_qp_attr_mask).
    each(
      "EACH_QP_FIELD",
      Object.entries<QpField>(QP_FIELDS).map(([word, { field = word, bit }]) =>
        `${word}, ${field}, ${bit}`
      ),
    ),
    each("EACH_QP_CAP", QP_CAP_WORDS),
    "",
  ].filter((line, i, all) => line !== "" || i === all.length - 1).join("\n");
}

/** A macro that applies another one to each. */
function each(name: string, of: readonly string[]): string {
  return `#define ${name}(X) ${of.map((args) => `X(${args})`).join(" ")}`;
}

/** The places of the words, and their number as `…_WORDS`. */
function words(prefix: string, names: readonly string[]): string {
  const places = names.map((name, i) => `${prefix}_${name} = ${i}`);
  return `enum { ${[...places, `${prefix}_WORDS = ${names.length}`].join(", ")} };`;
}

function numbers(prefix: string, values: Readonly<Record<string, number>>): string {
  return `enum { ${
    Object.entries(values).map(([name, value]) => `${prefix}_${name} = ${value}`).join(", ")
  } };`;
}
