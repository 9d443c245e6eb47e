/**
 * Makes `rackmesh.lua`, by which Wireshark names the packets that it does not know itself: the
 * manufacturer's range, and what is younger than Wireshark 4.0. Rows and fields come from the opcode
 * table and the headers' field tables, so the file is made anew when those change:
 *
 *     deno run scripts/wireshark/dissector.ts > scripts/wireshark/rackmesh.lua
 */
import { AETH_FIELDS } from "../../fabric/wire/aeth.ts";
import { ATOMIC_ACK_ETH_FIELDS, ATOMIC_ETH_FIELDS } from "../../fabric/wire/atomic_eth.ts";
import { BTH_BYTES } from "../../fabric/wire/bth.ts";
import { DETH_FIELDS } from "../../fabric/wire/deth.ts";
import { FETH_FIELDS } from "../../fabric/wire/feth.ts";
import { type Field, sizeOf } from "../../fabric/wire/fields.ts";
import { ICRC_BYTES } from "../../fabric/wire/icrc.ts";
import { IETH_FIELDS } from "../../fabric/wire/ieth.ts";
import { IMMDT_FIELDS } from "../../fabric/wire/immdt.ts";
import { type ExtensionHeader, OPCODE_ROWS, type OpcodeRow } from "../../fabric/wire/opcode.ts";
import { PERSIST_ETH_FIELDS } from "../../fabric/wire/persist_eth.ts";
import { RETH_FIELDS } from "../../fabric/wire/reth.ts";
import { ROCE_PORT } from "../../fabric/wire/udp.ts";

const HEADERS: Readonly<Record<ExtensionHeader, readonly Field[]>> = {
  reth: RETH_FIELDS,
  persistEth: PERSIST_ETH_FIELDS,
  aeth: AETH_FIELDS,
  deth: DETH_FIELDS,
  atomicEth: ATOMIC_ETH_FIELDS,
  atomicAckEth: ATOMIC_ACK_ETH_FIELDS,
  immdt: IMMDT_FIELDS,
  ieth: IETH_FIELDS,
  feth: FETH_FIELDS,
};

/** Opcodes of the standard that Wireshark 4.0 calls unknown (`rocev2.md` §6.1). */
const YOUNG: ReadonlySet<number> = new Set([0x1c, 0x1d, 0x81]);

/** Rows that the script names, by their codes. */
export function dissectedRows(): readonly OpcodeRow[] {
  return OPCODE_ROWS.filter(({ code, vendor }) => vendor || YOUNG.has(code));
}

/** The text of `rackmesh.lua`. */
export function dissectorText(): string {
  const rows = dissectedRows();
  const headers = [...new Set(rows.flatMap((row) => row.headers))].sort();
  return `-- Wireshark's view of what is Rackmesh's own. Made by dissector.ts: do not edit.
--   wireshark -X lua_script:scripts/wireshark/rackmesh.lua capture.pcapng
-- or put it into the folder that Help, About, Folders calls "Personal Lua Plugins".

local rackmesh = Proto("rackmesh", "Rackmesh")

-- Opcode: name, extension headers in wire order.
local rows = {
${rows.map(rowText).join("\n")}
}

-- Header: size in bytes, fields as name, first bit, bits.
local headers = {
${headers.map(headerText).join("\n")}
}

local names = {}
for code, row in pairs(rows) do names[code] = row.name end

local fields = {
  opcode = ProtoField.uint8("rackmesh.opcode", "Opcode", base.HEX, names),
  payload = ProtoField.bytes("rackmesh.payload", "Payload"),
  icrc = ProtoField.uint32("rackmesh.icrc", "Invariant CRC", base.HEX),
}
for name, header in pairs(headers) do
  for _, field in ipairs(header.fields) do
    local key = name .. "." .. field[1]
    local make = field[3] > 32 and ProtoField.uint64 or ProtoField.uint32
    fields[key] = make("rackmesh." .. key, key, base.HEX_DEC)
  end
end
rackmesh.fields = fields

-- Wireshark's own dissector goes first: it knows everything up to the end of the BTH.
local roce = DissectorTable.get("udp.port"):get_dissector(${ROCE_PORT})

function rackmesh.dissector(buffer, pinfo, tree)
  if roce then roce:call(buffer, pinfo, tree) end
  if buffer:len() < ${BTH_BYTES + ICRC_BYTES} then return end
  local row = rows[buffer(0, 1):uint()]
  if row == nil then return end
  local subtree = tree:add(rackmesh, buffer(), "Rackmesh: " .. row.name)
  subtree:add(fields.opcode, buffer(0, 1))
  local at = ${BTH_BYTES}
  for _, name in ipairs(row.headers) do
    local header = headers[name]
    if buffer:len() < at + header.bytes + ${ICRC_BYTES} then return end
    for _, field in ipairs(header.fields) do
      local first = math.floor(field[2] / 8)
      local last = math.floor((field[2] + field[3] - 1) / 8)
      local range = buffer(at + first, last - first + 1)
      local value = range:bitfield(field[2] - 8 * first, field[3])
      subtree:add(fields[name .. "." .. field[1]], range, value)
    end
    at = at + header.bytes
  end
  local padding = buffer(1, 1):bitfield(2, 2)
  local payload = buffer:len() - at - padding - ${ICRC_BYTES}
  if payload > 0 then subtree:add(fields.payload, buffer(at, payload)) end
  subtree:add(fields.icrc, buffer(buffer:len() - ${ICRC_BYTES}, ${ICRC_BYTES}))
  local info = string.format("%s QP=0x%06x PSN=%d", row.name, buffer(5, 3):uint(), buffer(9, 3):uint())
  pinfo.cols.info:set(info)
end

DissectorTable.get("udp.port"):add(${ROCE_PORT}, rackmesh)
`;
}

function rowText({ code, name, headers }: OpcodeRow): string {
  const list = headers.map((header) => `"${header}"`).join(", ");
  return `  [0x${code.toString(16)}] = { name = "${name}", headers = { ${list} } },`;
}

function headerText(name: ExtensionHeader): string {
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
