-- Wireshark's view of what is Rackmesh's own. dissector.ts makes the tables: do not edit them.
--   wireshark -X lua_script:scripts/wireshark/rackmesh.lua capture.pcapng
-- or put it into the folder that Help, About, Folders calls "Personal Lua Plugins".

local rackmesh = Proto("rackmesh", "Rackmesh")

-- tables: made by dissector.ts
-- Opcode: name, extension headers in wire order.
local rows = {
  [0x1c] = { name = "RC FLUSH", headers = { "feth", "reth" } },
  [0x1d] = { name = "RC ATOMIC WRITE", headers = { "reth" } },
  [0x81] = { name = "CNP", headers = {  } },
  [0xc4] = { name = "VENDOR HINT", headers = { "hintEth" } },
  [0xc6] = { name = "VENDOR WRITE PERSISTENCE FIRST", headers = { "reth", "persistEth" } },
  [0xc7] = { name = "VENDOR WRITE PERSISTENCE MIDDLE", headers = {  } },
  [0xc8] = { name = "VENDOR WRITE PERSISTENCE LAST", headers = {  } },
  [0xc9] = { name = "VENDOR WRITE PERSISTENCE LAST IMM", headers = { "immdt" } },
  [0xca] = { name = "VENDOR WRITE PERSISTENCE ONLY", headers = { "reth", "persistEth" } },
  [0xcb] = { name = "VENDOR WRITE PERSISTENCE ONLY IMM", headers = { "reth", "persistEth", "immdt" } },
  [0xcc] = { name = "VENDOR WRITE VERIFY FIRST", headers = { "reth", "verifyEth" } },
  [0xcd] = { name = "VENDOR WRITE VERIFY MIDDLE", headers = {  } },
  [0xce] = { name = "VENDOR WRITE VERIFY LAST", headers = { "digestEth" } },
  [0xcf] = { name = "VENDOR WRITE VERIFY ONLY", headers = { "reth", "verifyEth", "digestEth" } },
  [0xd0] = { name = "VENDOR COHERENCE REQUEST", headers = { "coherenceEth" } },
  [0xd1] = { name = "VENDOR PERSISTENCE ACKNOWLEDGE", headers = { "aeth" } },
  [0xd2] = { name = "VENDOR COHERENCE SNOOP", headers = { "coherenceEth" } },
  [0xd3] = { name = "VENDOR COHERENCE RESPONSE", headers = { "coherenceEth" } },
  [0xe4] = { name = "VENDOR UC HINT", headers = { "hintEth" } },
}

-- Header: size in bytes, fields as name, first bit, bits.
local headers = {
  aeth = { bytes = 4, fields = { { "syndrome", 0, 8 }, { "msn", 8, 24 } } },
  coherenceAdd = { bytes = 8, fields = { { "operand", 0, 64 } } },
  coherenceCounts = { bytes = 12, fields = { { "loads", 0, 32 }, { "stores", 32, 32 }, { "hits", 64, 32 } } },
  coherenceEth = { bytes = 44, fields = { { "version", 0, 8 }, { "command", 8, 8 }, { "state", 16, 3 }, { "placed", 19, 1 }, { "remote", 20, 1 }, { "change", 21, 2 }, { "stamped", 23, 1 }, { "status", 24, 8 }, { "region", 32, 32 }, { "transaction", 64, 32 }, { "life", 96, 32 }, { "homeLife", 128, 32 }, { "placementVersion", 160, 32 }, { "agent", 192, 8 }, { "offset", 200, 8 }, { "lines", 208, 16 }, { "address", 224, 64 }, { "stamp", 288, 64 } } },
  coherenceMask = { bytes = 8, fields = { { "mask", 0, 64 } } },
  coherenceRegion = { bytes = 8, fields = { { "bytes", 0, 64 } } },
  coherenceSwap = { bytes = 16, fields = { { "compare", 0, 64 }, { "swap", 64, 64 } } },
  digestEth = { bytes = 4, fields = { { "crc", 0, 32 } } },
  feth = { bytes = 4, fields = { { "select", 26, 2 }, { "placement", 28, 4 } } },
  hintEntry = { bytes = 24, fields = { { "kinds", 0, 8 }, { "operands", 8, 1 }, { "operation", 9, 7 }, { "messages", 16, 16 }, { "objects", 32, 8 }, { "sequence", 40, 24 }, { "rkey", 64, 32 }, { "length", 96, 32 }, { "va", 128, 64 } } },
  hintEth = { bytes = 16, fields = { { "magic", 0, 32 }, { "version", 32, 8 }, { "type", 40, 8 }, { "kinds", 48, 8 }, { "reason", 56, 8 }, { "sequence", 64, 32 }, { "answer", 96, 1 }, { "groups", 104, 8 }, { "bytes", 112, 16 } } },
  hintGroup = { bytes = 8, fields = { { "destQpn", 0, 24 }, { "entries", 24, 8 }, { "sourceQpn", 32, 24 } } },
  hintObject = { bytes = 8, fields = { { "identity", 0, 64 } } },
  hintOperands = { bytes = 16, fields = { { "swapAdd", 0, 64 }, { "compare", 64, 64 } } },
  hintPart = { bytes = 8, fields = { { "offset", 0, 32 }, { "length", 32, 32 } } },
  hintTrailer = { bytes = 4, fields = { { "bytes", 0, 16 } } },
  immdt = { bytes = 4, fields = { { "immediate", 0, 32 } } },
  persistEth = { bytes = 4, fields = { { "flags", 0, 16 }, { "version", 24, 8 } } },
  reth = { bytes = 16, fields = { { "va", 0, 64 }, { "rkey", 64, 32 }, { "length", 96, 32 } } },
  verifyEth = { bytes = 4, fields = { { "version", 0, 8 }, { "algorithm", 8, 8 }, { "level", 16, 8 }, { "persist", 24, 1 } } },
}

-- Opcode: bytes of its extension headers.
local extension_bytes = {
  [0x0] = 0, [0x1] = 0, [0x2] = 0, [0x3] = 4, [0x4] = 0, [0x5] = 4, [0x6] = 16, [0x7] = 0,
  [0x8] = 0, [0x9] = 4, [0xa] = 16, [0xb] = 20, [0xc] = 16, [0xd] = 4, [0xe] = 0, [0xf] = 4,
  [0x10] = 4, [0x11] = 4, [0x12] = 12, [0x13] = 28, [0x14] = 28, [0x16] = 4, [0x17] = 4, [0x1c] = 20,
  [0x1d] = 16, [0x20] = 0, [0x21] = 0, [0x22] = 0, [0x23] = 4, [0x24] = 0, [0x25] = 4, [0x26] = 16,
  [0x27] = 0, [0x28] = 0, [0x29] = 4, [0x2a] = 16, [0x2b] = 20, [0x64] = 8, [0x65] = 12, [0x80] = 0,
  [0x81] = 0, [0xc4] = 16, [0xc6] = 20, [0xc7] = 0, [0xc8] = 0, [0xc9] = 4, [0xca] = 20, [0xcb] = 24,
  [0xcc] = 20, [0xcd] = 0, [0xce] = 4, [0xcf] = 24, [0xd0] = 44, [0xd1] = 4, [0xd2] = 44, [0xd3] = 44,
  [0xe4] = 16,
}

local hint_forms = { none = 0, header = 1, payload = 2, range = 3 }
local hint_form_count, hint_magic = 4, 0x68696e74
local hint_atomics = { [3] = true, [4] = true }
local ud_send, rc_read, rc_write, uc_write = 0x64, 0xc, 0xa, 0x2a
-- Opcode: names of commands. Command: what its payload begins with, by change. Field: names of values.
local coherence_commands = {
  [0xd0] = { [0] = "GetS", [1] = "GetM", [2] = "Put", [3] = "Flush", [4] = "Read", [5] = "Write", [6] = "Hello", [7] = "Register", [8] = "Deregister", [9] = "FlushRange" },
  [0xd2] = { [0] = "Inv", [1] = "RecI", [2] = "RecS" },
  [0xd3] = { [0] = "DataS", [1] = "DataE", [2] = "WbAck", [3] = "FlushAck", [4] = "Retry", [5] = "Value", [6] = "Welcome", [7] = "InvAck", [8] = "RecIData", [9] = "RecSData", [10] = "Complete", [11] = "Dirty", [12] = "Registered", [13] = "Deregistered", [14] = "Renew", [15] = "Renewed", [16] = "Counts" },
}
local coherence_payloads = {
  Write = { [1] = "coherenceMask", [2] = "coherenceAdd", [3] = "coherenceSwap" },
  Register = { [0] = "coherenceRegion", [1] = "coherenceRegion", [2] = "coherenceRegion", [3] = "coherenceRegion" },
  Registered = { [0] = "coherenceRegion", [1] = "coherenceRegion", [2] = "coherenceRegion", [3] = "coherenceRegion" },
  Counts = { [0] = "coherenceCounts", [1] = "coherenceCounts", [2] = "coherenceCounts", [3] = "coherenceCounts" },
}
local value_names = {
  ["coherenceEth.state"] = { [0] = "none", [1] = "invalid", [2] = "shared", [3] = "exclusive", [4] = "modified" },
  ["coherenceEth.change"] = { [0] = "none", [1] = "write", [2] = "add", [3] = "compare-swap" },
  ["coherenceEth.status"] = { [0] = "ok", [1] = "lost", [2] = "refused" },
}
local bth_bytes, icrc_bytes, roce_port = 12, 4, 4791
local grh_bytes, grh_length_at = 40, 4
local roce_v1_ethertype = 0x8915
-- tables end

local names, hint_form_names = {}, {}
for code, row in pairs(rows) do names[code] = row.name end
for name, form in pairs(hint_forms) do hint_form_names[form] = name end

local fields = {
  opcode = ProtoField.uint8("rackmesh.opcode", "Opcode", base.HEX, names),
  payload = ProtoField.bytes("rackmesh.payload", "Payload"),
  icrc = ProtoField.uint32("rackmesh.icrc", "Invariant CRC", base.HEX),
  form = ProtoField.uint8("rackmesh.hint.form", "Hint form", base.DEC, hint_form_names),
  range = ProtoField.uint32("rackmesh.hint.range", "Hint at a range of bytes", base.DEC),
  message = ProtoField.string("rackmesh.coherence.message", "Message between coherent cards"),
  line = ProtoField.bytes("rackmesh.coherence.line", "Line"),
}
for name, header in pairs(headers) do
  for _, field in ipairs(header.fields) do
    local key = name .. "." .. field[1]
    local make = field[3] > 32 and ProtoField.uint64 or ProtoField.uint32
    fields[key] = make("rackmesh." .. key, key, base.HEX_DEC, value_names[key])
  end
end
rackmesh.fields = fields

-- A header's fields. Returns where it ends and its values, nothing where that is after "last".
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

-- What is behind a hint's header: queue pairs, each with entries, each with operands and objects.
local function add_groups(tree, buffer, at, last, groups)
  for _ = 1, groups do
    local group, entry
    at, group = add_header(tree, buffer, at, last, "hintGroup")
    if at == nil then return end
    for _ = 1, group.entries do
      at, entry = add_header(tree, buffer, at, last, "hintEntry")
      if at == nil then return end
      local told, atomic = entry.operands == 1, hint_atomics[entry.operation]
      if told and atomic then at = add_header(tree, buffer, at, last, "hintOperands") end
      if at == nil then return end
      for _ = 1, entry.objects do
        at = add_header(tree, buffer, at, last, "hintObject")
        if at == nil then return end
        if told and not atomic then at = add_header(tree, buffer, at, last, "hintPart") end
        if at == nil then return end
      end
    end
  end
end

local function add_carried(buffer, pinfo, tree, at, last)
  local size = headers.hintEth.bytes
  if at < bth_bytes or last < at + size or buffer(at, 4):uint() ~= hint_magic then return nil end
  local subtree = tree:add(rackmesh, buffer(), "Rackmesh: hint")
  local _, values = add_header(subtree, buffer, at, last, "hintEth")
  add_groups(subtree, buffer, at + size, last, values.groups)
  pinfo.cols.info:append(" hint")
  return subtree
end

local function dissect_carried(buffer, pinfo, tree, last)
  local opcode = buffer(0, 1):uint()
  local bits = buffer(8, 1):bitfield(1, 7)
  local form = bits % hint_form_count
  local at = bth_bytes + (extension_bytes[opcode] or 0)
  local trailer_bytes = headers.hintTrailer.bytes
  local subtree
  if form == hint_forms.none then
    if opcode == ud_send then add_carried(buffer, pinfo, tree, at, last) end
  elseif form == hint_forms.header then
    subtree = add_carried(buffer, pinfo, tree, at, last)
  elseif form == hint_forms.payload and last >= at + trailer_bytes then
    local trailer = last - trailer_bytes
    local start = trailer - buffer(trailer, 2):uint()
    if start < at then return end
    subtree = add_carried(buffer, pinfo, tree, start, trailer)
    if subtree then add_header(subtree, buffer, trailer, last, "hintTrailer") end
  elseif form == hint_forms.range and (opcode == rc_read or opcode == rc_write or opcode == uc_write) and last == at then
    subtree = tree:add(rackmesh, buffer(), "Rackmesh: hint")
    subtree:add(fields.range, buffer(8, 1), 2 ^ math.floor(bits / hint_form_count))
  end
  if subtree then subtree:add(fields.form, buffer(8, 1), form) end
end

-- A coherent card's message: its name, its payload's fields, its line. Returns its text for the list of packets.
local function add_message(tree, buffer, at, last, values)
  local name = coherence_commands[buffer(0, 1):uint()][values.command] or "unknown command " .. values.command
  local state = value_names["coherenceEth.state"][values.state]
  tree:add(fields.message, buffer(bth_bytes + 1, 1), name)
  if last > at then
    local payload = tree:add(fields.payload, buffer(at, last - at))
    local part = coherence_payloads[name] and coherence_payloads[name][values.change]
    if part then at = add_header(payload, buffer, at, last, part) end
    if at and last > at then payload:add(fields.line, buffer(at, last - at)) end
  end
  local text = " " .. name
  if values.change > 0 then text = text .. " " .. value_names["coherenceEth.change"][values.change] end
  if values.status > 0 then text = text .. " " .. (value_names["coherenceEth.status"][values.status] or "?") end
  if values.state > 0 then text = text .. " " .. (state or "?") end
  if values.lines > 0 then text = text .. " line=0x" .. values.address:tohex():gsub("^0+(.)", "%1") end
  if values.lines > 1 then text = text .. " lines=" .. values.lines end
  return text
end

-- From the BTH on.
local function dissect_transport(buffer, pinfo, tree)
  if buffer:len() < bth_bytes + icrc_bytes then return end
  local row = rows[buffer(0, 1):uint()]
  local padding = buffer(1, 1):bitfield(2, 2)
  local last = buffer:len() - icrc_bytes - padding
  if row == nil then return dissect_carried(buffer, pinfo, tree, last) end
  local subtree = tree:add(rackmesh, buffer(), "Rackmesh: " .. row.name)
  subtree:add(fields.opcode, buffer(0, 1))
  local at, values = bth_bytes, nil
  for _, name in ipairs(row.headers) do
    at, values = add_header(subtree, buffer, at, last, name)
    if at == nil then return end
  end
  local message = ""
  if row.headers[1] == "coherenceEth" then
    message = add_message(subtree, buffer, at, last, values)
  elseif last > at then
    local payload = subtree:add(fields.payload, buffer(at, last - at))
    if row.headers[1] == "hintEth" then add_groups(payload, buffer, at, last, values.groups) end
  end
  subtree:add(fields.icrc, buffer(buffer:len() - icrc_bytes, icrc_bytes))
  local info = string.format("%s QP=0x%06x PSN=%d", row.name, buffer(5, 3):uint(), buffer(9, 3):uint())
  pinfo.cols.info:set(info .. message)
end

-- Wireshark's own dissectors go first: they know everything up to the end of the BTH.
local roce = DissectorTable.get("udp.port"):get_dissector(roce_port)

function rackmesh.dissector(buffer, pinfo, tree)
  if roce then roce:call(buffer, pinfo, tree) end
  dissect_transport(buffer, pinfo, tree)
end

DissectorTable.get("udp.port"):add(roce_port, rackmesh)

-- RoCEv1: a global route header between Ethernet and BTH, which says where the packet ends.
local rackmesh_v1 = Proto("rackmesh_v1", "Rackmesh in RoCEv1")
local roce_v1 = DissectorTable.get("ethertype"):get_dissector(roce_v1_ethertype)

function rackmesh_v1.dissector(buffer, pinfo, tree)
  if roce_v1 then roce_v1:call(buffer, pinfo, tree) end
  if buffer:len() < grh_bytes then return end
  local length = buffer(grh_length_at, 2):uint()
  if buffer:len() < grh_bytes + length then return end
  dissect_transport(buffer(grh_bytes, length):tvb(), pinfo, tree)
end

DissectorTable.get("ethertype"):add(roce_v1_ethertype, rackmesh_v1)
