/**
 * Writes the tables of `rackmesh.lua`, by which Wireshark dissects packets of the manufacturer's
 * range, and opcodes newer than Wireshark 4.0. To be run again when the opcode table or the
 * headers' fields change:
 *
 *     deno run --allow-read --allow-write scripts/wireshark/dissector.ts
 */
import { BTH_BYTES } from "../../fabric/wire/roce/bth.ts";
import { type Field, sizeOf } from "../../fabric/base/fields.ts";
import {
  COHERENCE_CHANGES,
  COHERENCE_COMMANDS,
  COHERENCE_PAYLOAD_FIELDS,
  COHERENCE_STATES,
  COHERENCE_STATUS,
  type CoherenceClass,
  type CoherencePayload,
  coherencePayloadName,
} from "../../fabric/wire/roce/coherence_eth.ts";
import { HINT_FORM_BITS, HINT_FORMS } from "../../fabric/wire/roce/hint.ts";
import {
  HINT_ATOMICS,
  HINT_ENTRY_FIELDS,
  HINT_GROUP_FIELDS,
  HINT_MAGIC,
  HINT_OBJECT_FIELDS,
  HINT_OPERANDS_FIELDS,
  HINT_OPERATIONS,
  HINT_PART_FIELDS,
  HINT_TRAILER_FIELDS,
} from "../../fabric/wire/roce/hint_eth.ts";
import { ETHERTYPE_ROCE_V1, GRH_BYTES, GRH_FIELDS } from "../../fabric/wire/roce/grh.ts";
import { ICRC_BYTES } from "../../fabric/wire/roce/icrc.ts";
import {
  EXTENSION_HEADERS,
  type ExtensionHeader,
} from "../../fabric/wire/roce/extension_headers.ts";
import { OPCODE, OPCODE_ROWS, type OpcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { ROCE_PORT } from "../../fabric/wire/roce/udp.ts";

type HintPart =
  | "hintGroup"
  | "hintEntry"
  | "hintOperands"
  | "hintObject"
  | "hintPart"
  | "hintTrailer";
type Header = ExtensionHeader | HintPart | CoherencePayload;

const EXTENSION_FIELDS = Object.fromEntries(
  Object.entries(EXTENSION_HEADERS).map(([name, { fields }]) => [name, fields]),
) as Record<ExtensionHeader, readonly Field[]>;

export const HEADERS: Readonly<Record<Header, readonly Field[]>> = {
  ...EXTENSION_FIELDS,
  hintGroup: HINT_GROUP_FIELDS,
  hintEntry: HINT_ENTRY_FIELDS,
  hintOperands: HINT_OPERANDS_FIELDS,
  hintObject: HINT_OBJECT_FIELDS,
  hintPart: HINT_PART_FIELDS,
  hintTrailer: HINT_TRAILER_FIELDS,
  ...COHERENCE_PAYLOAD_FIELDS,
};

/** Wireshark 4.0 does not know these standard ones (`rocev2.md` §6.1). */
const YOUNG: ReadonlySet<number> = new Set([0x1c, 0x1d, 0x81]);

export function dissectedRows(): readonly OpcodeRow[] {
  return OPCODE_ROWS.filter(({ code, vendor }) => vendor || YOUNG.has(code));
}

export function withTables(script: string): string {
  const begin = "-- tables: made by dissector.ts\n", end = "-- tables end\n";
  const from = script.indexOf(begin) + begin.length;
  return `${script.slice(0, from)}${tablesText()}${script.slice(script.indexOf(end))}`;
}

function tablesText(): string {
  const rows = dissectedRows();
  const rowTexts = rows.map(({ code, name, headers }) => {
    const list = headers.map((header) => `"${header}"`).join(", ");
    return `  [${hexByte(code)}] = { name = "${name}", headers = { ${list} } },`;
  });
  const parts = (Object.keys(HEADERS) as Header[]).filter((name) => !(name in EXTENSION_FIELDS));
  const headers = [...new Set([...rows.flatMap((row) => row.headers), ...parts])].sort();
  const forms = Object.entries(HINT_FORMS).map(([name, form]) => `${name} = ${form}`);
  const atomics = [...HINT_ATOMICS].map((name) => `[${HINT_OPERATIONS.indexOf(name)}] = true`);
  const opcodes =
    (["UD SEND ONLY", "RC RDMA READ REQUEST", "RC RDMA WRITE ONLY", "UC RDMA WRITE ONLY"] as const)
      .map((name) => hexByte(OPCODE[name]));
  return `-- Opcode: name, extension headers in wire order.
local rows = {
${rowTexts.join("\n")}
}

-- Header: size in bytes, fields as name, first bit, bits.
local headers = {
${headers.map(headerText).join("\n")}
}

-- Opcode: bytes of its extension headers.
local extension_bytes = {
${extensionBytes()}
}

local hint_forms = { ${forms.join(", ")} }
local hint_form_count, hint_magic = ${1 << HINT_FORM_BITS}, 0x${HINT_MAGIC.toString(16)}
local hint_atomics = { ${atomics.join(", ")} }
local ud_send, rc_read, rc_write, uc_write = ${opcodes.join(", ")}
${coherenceText()}
local bth_bytes, icrc_bytes, roce_port = ${BTH_BYTES}, ${ICRC_BYTES}, ${ROCE_PORT}
local grh_bytes, grh_length_at = ${GRH_BYTES}, ${PAYLOAD_LENGTH_AT}
local roce_v1_ethertype = 0x${ETHERTYPE_ROCE_V1.toString(16)}
`;
}

/**
 * A coherent card's messages, and the fields at the begin of their payloads: the rest is a line.
 */
function coherenceText(): string {
  const classes = OPCODE_ROWS.filter(({ operation }) => operation in COHERENCE_COMMANDS);
  const commands = classes.map(({ code, operation }) => {
    const names = COHERENCE_COMMANDS[operation as CoherenceClass].map((name, i) =>
      `[${i}] = "${name}"`
    );
    return `  [${hexByte(code)}] = { ${names.join(", ")} },`;
  });
  const all = Object.values(COHERENCE_COMMANDS).flat();
  const payloads = all.flatMap((name) => {
    const parts = COHERENCE_CHANGES.map((_, change) => coherencePayloadName(name, change));
    const given = parts.flatMap((part, i) => part === undefined ? [] : [`[${i}] = "${part}"`]);
    return given.length === 0 ? [] : [`  ${name} = { ${given.join(", ")} },`];
  });
  const names = Object.entries({
    state: COHERENCE_STATES,
    change: COHERENCE_CHANGES,
    status: COHERENCE_STATUS,
  }).map(([field, texts]) => {
    const list = texts.map((text, i) => `[${i}] = "${text}"`);
    return `  ["coherenceEth.${field}"] = { ${list.join(", ")} },`;
  });
  return `-- Opcode: names of commands. Command: what its payload begins with, by change. Field: names of values.
local coherence_commands = {
${commands.join("\n")}
}
local coherence_payloads = {
${payloads.join("\n")}
}
local value_names = {
${names.join("\n")}
}`;
}
const PAYLOAD_LENGTH_AT = sizeOf(
  GRH_FIELDS.slice(0, GRH_FIELDS.findIndex(([name]) => name === "payloadLength")),
);

function extensionBytes(): string {
  const cells = OPCODE_ROWS.map(({ code, headerBytes }) => `[${hexByte(code)}] = ${headerBytes}`);
  const lines: string[] = [];
  for (let i = 0; i < cells.length; i += 8) lines.push(`  ${cells.slice(i, i + 8).join(", ")},`);
  return lines.join("\n");
}

function hexByte(code: number): string {
  return `0x${code.toString(16)}`;
}

function headerText(name: Header): string {
  const fields: string[] = [];
  let bit = 0;
  for (const [field, bits] of HEADERS[name]) {
    if (field !== "" && field !== "reserved") fields.push(`{ "${field}", ${bit}, ${bits} }`);
    bit += bits;
  }
  const bytes = sizeOf(HEADERS[name]);
  return `  ${name} = { bytes = ${bytes}, fields = { ${fields.join(", ")} } },`;
}

export const SCRIPT = new URL("./rackmesh.lua", import.meta.url);

if (import.meta.main) {
  await Deno.writeTextFile(SCRIPT, withTables(await Deno.readTextFile(SCRIPT)));
}
