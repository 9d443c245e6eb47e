/**
 * Generates `rackmesh.lua`, by which Wireshark dissects the packets that it does not know: the
 * manufacturer's range, and opcodes newer than Wireshark 4.0. Rows and fields come from the opcode
 * table and the headers' field tables, so the file must be regenerated when those change:
 *
 *     deno run scripts/wireshark/dissector.ts > scripts/wireshark/rackmesh.lua
 */
import { BTH_BYTES } from "../../fabric/wire/roce/bth.ts";
import { type Field, sizeOf } from "../../fabric/base/fields.ts";
import { HINT_FORM_BITS, HINT_FORMS } from "../../fabric/wire/roce/hint.ts";
import {
  HINT_ENTRY_FIELDS,
  HINT_GROUP_FIELDS,
  HINT_MAGIC,
  HINT_OBJECT_FIELDS,
  HINT_TRAILER_FIELDS,
} from "../../fabric/wire/roce/hint_eth.ts";
import { ICRC_BYTES } from "../../fabric/wire/roce/icrc.ts";
import {
  EXTENSION_HEADERS,
  type ExtensionHeader,
} from "../../fabric/wire/roce/extension_headers.ts";
import { OPCODE, OPCODE_ROWS, type OpcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { ROCE_PORT } from "../../fabric/wire/roce/udp.ts";

/** The parts behind a hint's header, and the trailer of a hint at a payload's end. */
type HintPart = "hintGroup" | "hintEntry" | "hintObject" | "hintTrailer";
type Header = ExtensionHeader | HintPart;

const EXTENSION_FIELDS = Object.fromEntries(
  Object.entries(EXTENSION_HEADERS).map(([name, { fields }]) => [name, fields]),
) as Record<ExtensionHeader, readonly Field[]>;

/** Headers and message parts that the script can show, by their names in it. */
export const HEADERS: Readonly<Record<Header, readonly Field[]>> = {
  ...EXTENSION_FIELDS,
  hintGroup: HINT_GROUP_FIELDS,
  hintEntry: HINT_ENTRY_FIELDS,
  hintObject: HINT_OBJECT_FIELDS,
  hintTrailer: HINT_TRAILER_FIELDS,
};

/** Standard opcodes that Wireshark 4.0 does not know (`rocev2.md` §6.1). */
const YOUNG: ReadonlySet<number> = new Set([0x1c, 0x1d, 0x81]);

/** Opcode rows of the script, in order of their codes. */
export function dissectedRows(): readonly OpcodeRow[] {
  return OPCODE_ROWS.filter(({ code, vendor }) => vendor || YOUNG.has(code));
}

/** The text of `rackmesh.lua`. */
export function dissectorText(): string {
  return `-- Wireshark's view of what is Rackmesh's own. Made by dissector.ts: do not edit.
--   wireshark -X lua_script:scripts/wireshark/rackmesh.lua capture.pcapng
-- or put it into the folder that Help, About, Folders calls "Personal Lua Plugins".

local rackmesh = Proto("rackmesh", "Rackmesh")

${tablesText()}
${headersText()}
${hintsText()}
${packetText()}`;
}

function tablesText(): string {
  const rows = dissectedRows();
  const parts: Header[] = ["hintGroup", "hintEntry", "hintObject", "hintTrailer"];
  const headers = [...new Set([...rows.flatMap((row) => row.headers), ...parts])].sort();
  return `-- Opcode: name, extension headers in wire order.
local rows = {
${rows.map(rowText).join("\n")}
}

-- Header: size in bytes, fields as name, first bit, bits.
local headers = {
${headers.map(headerText).join("\n")}
}

-- Opcode: bytes of its extension headers.
local extension_bytes = {
${extensionBytes()}
}

local names = {}
for code, row in pairs(rows) do names[code] = row.name end

local fields = {
  opcode = ProtoField.uint8("rackmesh.opcode", "Opcode", base.HEX, names),
  payload = ProtoField.bytes("rackmesh.payload", "Payload"),
  icrc = ProtoField.uint32("rackmesh.icrc", "Invariant CRC", base.HEX),
  form = ProtoField.uint8("rackmesh.hint.form", "Hint form", base.DEC, ${formNames()}),
  range = ProtoField.uint32("rackmesh.hint.range", "Hint at a range of bytes", base.DEC),
}
for name, header in pairs(headers) do
  for _, field in ipairs(header.fields) do
    local key = name .. "." .. field[1]
    local make = field[3] > 32 and ProtoField.uint64 or ProtoField.uint32
    fields[key] = make("rackmesh." .. key, key, base.HEX_DEC)
  end
end
rackmesh.fields = fields
`;
}

function headersText(): string {
  return `-- A header's fields. Returns where it ends and its values, nothing where that is after "last".
local function add_header(tree, buffer, at, last, name)
  local header = headers[name]
  if last < at + header.bytes then return nil end
  local values = {}
  for _, field in ipairs(header.fields) do
    local first = math.floor(field[2] / 8)
    local bytes = math.floor((field[2] + field[3] - 1) / 8) - first + 1
    local range = buffer(at + first, bytes)
    local value = range:bitfield(field[2] - 8 * first, field[3])
    values[field[1]] = value
    tree:add(fields[name .. "." .. field[1]], range, value)
  end
  return at + header.bytes, values
end
`;
}

/** Dissection of hints inside other packets, or in datagrams (`fabric/wire/roce/hint.ts`). */
function hintsText(): string {
  const forms = 1 << HINT_FORM_BITS, trailerBytes = sizeOf(HINT_TRAILER_FIELDS);
  const magic = `0x${HINT_MAGIC.toString(16)}`;
  const datagram = hexByte(OPCODE["UD SEND ONLY"]);
  const read = hexByte(OPCODE["RC RDMA READ REQUEST"]);
  const write = hexByte(OPCODE["RC RDMA WRITE ONLY"]);
  return `-- What is behind a hint's header: queue pairs, each with entries, each with objects.
local function add_groups(tree, buffer, at, last, groups)
  for _ = 1, groups do
    local group, entry
    at, group = add_header(tree, buffer, at, last, "hintGroup")
    if at == nil then return end
    for _ = 1, group.entries do
      at, entry = add_header(tree, buffer, at, last, "hintEntry")
      if at == nil then return end
      for _ = 1, entry.objects do
        at = add_header(tree, buffer, at, last, "hintObject")
        if at == nil then return end
      end
    end
  end
end

local function add_carried(buffer, pinfo, tree, at, last)
  local size = headers.hintEth.bytes
  if at < ${BTH_BYTES} or last < at + size or buffer(at, 4):uint() ~= ${magic} then return nil end
  local subtree = tree:add(rackmesh, buffer(), "Rackmesh: hint")
  local _, values = add_header(subtree, buffer, at, last, "hintEth")
  add_groups(subtree, buffer, at + size, last, values.groups)
  pinfo.cols.info:append(" hint")
  return subtree
end

local function dissect_carried(buffer, pinfo, tree, last)
  local opcode = buffer(0, 1):uint()
  local bits = buffer(8, 1):bitfield(1, 7)
  local form = bits % ${forms}
  local at = ${BTH_BYTES} + (extension_bytes[opcode] or 0)
  local subtree
  if form == ${HINT_FORMS.none} then
    if opcode == ${datagram} then add_carried(buffer, pinfo, tree, at, last) end
  elseif form == ${HINT_FORMS.header} then
    subtree = add_carried(buffer, pinfo, tree, at, last)
  elseif form == ${HINT_FORMS.payload} and last >= at + ${trailerBytes} then
    local trailer = last - ${trailerBytes}
    local start = trailer - buffer(trailer, 2):uint()
    if start < at then return end
    subtree = add_carried(buffer, pinfo, tree, start, trailer)
    if subtree then add_header(subtree, buffer, trailer, last, "hintTrailer") end
  elseif form == ${HINT_FORMS.range} and (opcode == ${read} or opcode == ${write}) and last == at then
    subtree = tree:add(rackmesh, buffer(), "Rackmesh: hint")
    subtree:add(fields.range, buffer(8, 1), 2 ^ math.floor(bits / ${forms}))
  end
  if subtree then subtree:add(fields.form, buffer(8, 1), form) end
end
`;
}

function packetText(): string {
  const leastBytes = BTH_BYTES + ICRC_BYTES;
  return `-- Wireshark's own dissector goes first: it knows everything up to the end of the BTH.
local roce = DissectorTable.get("udp.port"):get_dissector(${ROCE_PORT})

function rackmesh.dissector(buffer, pinfo, tree)
  if roce then roce:call(buffer, pinfo, tree) end
  if buffer:len() < ${leastBytes} then return end
  local row = rows[buffer(0, 1):uint()]
  local padding = buffer(1, 1):bitfield(2, 2)
  local last = buffer:len() - ${ICRC_BYTES} - padding
  if row == nil then return dissect_carried(buffer, pinfo, tree, last) end
  local subtree = tree:add(rackmesh, buffer(), "Rackmesh: " .. row.name)
  subtree:add(fields.opcode, buffer(0, 1))
  local at, values = ${BTH_BYTES}, nil
  for _, name in ipairs(row.headers) do
    at, values = add_header(subtree, buffer, at, last, name)
    if at == nil then return end
  end
  if last > at then
    local payload = subtree:add(fields.payload, buffer(at, last - at))
    if row.headers[1] == "hintEth" then add_groups(payload, buffer, at, last, values.groups) end
  end
  subtree:add(fields.icrc, buffer(buffer:len() - ${ICRC_BYTES}, ${ICRC_BYTES}))
  local info = string.format("%s QP=0x%06x PSN=%d", row.name, buffer(5, 3):uint(), buffer(9, 3):uint())
  pinfo.cols.info:set(info)
end

DissectorTable.get("udp.port"):add(${ROCE_PORT}, rackmesh)
`;
}

function extensionBytes(): string {
  const cells = OPCODE_ROWS.map(({ code, headerBytes }) => `[${hexByte(code)}] = ${headerBytes}`);
  const lines: string[] = [];
  for (let i = 0; i < cells.length; i += 8) lines.push(`  ${cells.slice(i, i + 8).join(", ")},`);
  return lines.join("\n");
}

function formNames(): string {
  const names = Object.entries(HINT_FORMS).map(([name, form]) => `[${form}] = "${name}"`);
  return `{ ${names.join(", ")} }`;
}

function hexByte(code: number): string {
  return `0x${code.toString(16)}`;
}

function rowText({ code, name, headers }: OpcodeRow): string {
  const list = headers.map((header) => `"${header}"`).join(", ");
  return `  [0x${code.toString(16)}] = { name = "${name}", headers = { ${list} } },`;
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

if (import.meta.main) console.log(dissectorText().trimEnd());
