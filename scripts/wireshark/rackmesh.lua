-- Wireshark's view of what is Rackmesh's own. Made by dissector.ts: do not edit.
--   wireshark -X lua_script:scripts/wireshark/rackmesh.lua capture.pcapng
-- or put it into the folder that Help, About, Folders calls "Personal Lua Plugins".

local rackmesh = Proto("rackmesh", "Rackmesh")

-- Opcode: name, extension headers in wire order.
local rows = {
  [0x1c] = { name = "RC FLUSH", headers = { "feth", "reth" } },
  [0x1d] = { name = "RC ATOMIC WRITE", headers = { "reth" } },
  [0x81] = { name = "CNP", headers = {  } },
  [0xc6] = { name = "VENDOR WRITE PERSISTENCE FIRST", headers = { "reth", "persistEth" } },
  [0xc7] = { name = "VENDOR WRITE PERSISTENCE MIDDLE", headers = {  } },
  [0xc8] = { name = "VENDOR WRITE PERSISTENCE LAST", headers = {  } },
  [0xc9] = { name = "VENDOR WRITE PERSISTENCE LAST IMM", headers = { "immdt" } },
  [0xca] = { name = "VENDOR WRITE PERSISTENCE ONLY", headers = { "reth", "persistEth" } },
  [0xcb] = { name = "VENDOR WRITE PERSISTENCE ONLY IMM", headers = { "reth", "persistEth", "immdt" } },
  [0xd1] = { name = "VENDOR PERSISTENCE ACKNOWLEDGE", headers = { "aeth" } },
}

-- Header: size in bytes, fields as name, first bit, bits.
local headers = {
  aeth = { bytes = 4, fields = { { "syndrome", 0, 8 }, { "msn", 8, 24 } } },
  feth = { bytes = 4, fields = { { "select", 26, 2 }, { "placement", 28, 4 } } },
  immdt = { bytes = 4, fields = { { "immediate", 0, 32 } } },
  persistEth = { bytes = 4, fields = { { "flags", 0, 16 }, { "version", 24, 8 } } },
  reth = { bytes = 16, fields = { { "va", 0, 64 }, { "rkey", 64, 32 }, { "length", 96, 32 } } },
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
local roce = DissectorTable.get("udp.port"):get_dissector(4791)

function rackmesh.dissector(buffer, pinfo, tree)
  if roce then roce:call(buffer, pinfo, tree) end
  if buffer:len() < 16 then return end
  local row = rows[buffer(0, 1):uint()]
  if row == nil then return end
  local subtree = tree:add(rackmesh, buffer(), "Rackmesh: " .. row.name)
  subtree:add(fields.opcode, buffer(0, 1))
  local at = 12
  for _, name in ipairs(row.headers) do
    local header = headers[name]
    if buffer:len() < at + header.bytes + 4 then return end
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
  local payload = buffer:len() - at - padding - 4
  if payload > 0 then subtree:add(fields.payload, buffer(at, payload)) end
  subtree:add(fields.icrc, buffer(buffer:len() - 4, 4))
  local info = string.format("%s QP=0x%06x PSN=%d", row.name, buffer(5, 3):uint(), buffer(9, 3):uint())
  pinfo.cols.info:set(info)
end

DissectorTable.get("udp.port"):add(4791, rackmesh)
