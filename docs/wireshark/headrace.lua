-- Headrace, wire format version 2, for Wireshark and tshark 4.0 or newer. Fields, offsets and names
-- are those of docs/WIRE.md; tests/dissector.rs compares what this says with the Rust parser.
--
--   tshark -X lua_script:docs/wireshark/headrace.lua -o udp.try_heuristic_first:TRUE -r FILE
--
-- For good: copy it to the directory of personal Lua plugins (Help, About, Folders) and switch on
-- "Try heuristic sub-dissectors first" of UDP. The source port of a packet is its entropy value,
-- any number, so a look at ports first takes some packets for another protocol's.

--
-- Packets to another UDP port than 4797 (headrace --udp-port): -o headrace.port:N, or the
-- protocol's preferences. Payload of sealed packets is deciphered with the file that a host wrote
-- with --key-log: -o headrace.key_log:FILE.

local VERSION = 2

local headrace = Proto("headrace", "Headrace transport")

headrace.prefs.port = Pref.uint("UDP port", 4797, "UDP port at which hosts listen")
headrace.prefs.key_log = Pref.string("Key log", "", "File that headrace --key-log wrote")

local KINDS = {
   [0] = "DATA", [1] = "ACK", [2] = "NACK", [3] = "CREDIT", [4] = "REQUEST", [5] = "PARITY",
   [6] = "BLOCK_NACK", [7] = "NOTE", [8] = "REPORT", [9] = "PRESENCE",
}

local STEPS = {
   [0] = "UNKNOWN", [1] = "FORGOTTEN", [2] = "KEEP", [3] = "PROVE", [4] = "PROOF", [5] = "REFUSED",
}

local MATCH_STEPS = { [0] = "request", [1] = "grant", [2] = "acceptance", [3] = "return" }

local SEALS = { [0] = "authenticated", [1] = "encrypted" }
local SEAL_LENGTH = 32

local CLASSES = { [0] = "Control", [1] = "ProbeAck", [2] = "Probe" }

local fields = {
   sealed = ProtoField.bool("headrace.sealed", "Sealed", 8, nil, 0x80),
   version = ProtoField.uint8("headrace.version", "Version", base.DEC, nil, 0x70),
   kind = ProtoField.uint8("headrace.kind", "Kind", base.DEC, KINDS, 0x0F),
   seal_tag = ProtoField.bytes("headrace.seal.tag", "Tag of the seal"),
   seal_mode = ProtoField.uint8("headrace.seal.mode", "Payload", base.DEC, SEALS),
   seal_key = ProtoField.uint8("headrace.seal.key", "Shared key", base.DEC),
   seal_number = ProtoField.uint64("headrace.seal.number", "Number", base.DEC),
   seal_start = ProtoField.uint64("headrace.seal.start", "Start of the derived key (ns)", base.DEC),
   flags = ProtoField.uint8("headrace.flags", "Flags", base.HEX),
   open = ProtoField.bool("headrace.flags.open", "OPEN extension", 8, nil, 0x01),
   tagged = ProtoField.bool("headrace.flags.tag", "TAG extension", 8, nil, 0x02),
   again = ProtoField.bool("headrace.flags.retransmission", "Retransmission", 8, nil, 0x04),
   demands = ProtoField.bool("headrace.flags.demand", "DEMAND extension", 8, nil, 0x08),
   coded = ProtoField.bool("headrace.flags.code", "CODE extension", 8, nil, 0x10),
   measured = ProtoField.bool("headrace.flags.int", "INT extension", 8, nil, 0x20),
   halved = ProtoField.bool("headrace.flags.half", "HALF extension", 8, nil, 0x40),
   echoed = ProtoField.bool("headrace.flags.echo", "INT extension", 8, nil, 0x08),
   written = ProtoField.bool("headrace.flags.hops", "INT extension", 8, nil, 0x01),
   advised = ProtoField.bool("headrace.flags.advice", "ADVICE extension", 8, nil, 0x10),
   ce = ProtoField.bool("headrace.flags.ce", "Segment arrived with CE", 8, nil, 0x01),
   duplicate = ProtoField.bool("headrace.flags.duplicate", "Segment had arrived before", 8, nil, 0x02),
   decoded = ProtoField.bool("headrace.flags.decoded", "Block is decoded", 8, nil, 0x04),
   ev = ProtoField.uint16("headrace.ev", "Entropy value", base.DEC),
   dst_flow = ProtoField.uint32("headrace.dst_flow", "Flow at the receiver", base.HEX),
   key = ProtoField.uint64("headrace.key", "Key of the flow", base.HEX),
   src_flow = ProtoField.uint32("headrace.src_flow", "Flow at the sender", base.HEX),
   psn = ProtoField.uint32("headrace.psn", "PSN", base.DEC),
   msg = ProtoField.uint32("headrace.msg", "Message", base.DEC),
   offset = ProtoField.uint32("headrace.offset", "Offset", base.DEC),
   sent_at = ProtoField.uint32("headrace.sent_at", "Sent at (1024 ps)", base.DEC),
   msg_len = ProtoField.uint32("headrace.msg_len", "Message length", base.DEC),
   tag = ProtoField.uint64("headrace.tag", "Tag", base.HEX),
   demand = ProtoField.uint32("headrace.demand", "Demand", base.DEC),
   code = ProtoField.uint8("headrace.code", "Code", base.DEC, { [1] = "MDS" }),
   block_data = ProtoField.uint8("headrace.block_data", "Data packets of a full block", base.DEC),
   block_parity = ProtoField.uint8("headrace.block_parity", "Parity packets of a block", base.DEC),
   block_packet = ProtoField.uint8("headrace.block_packet", "Packet of its block", base.DEC),
   half = ProtoField.uint8("headrace.half", "Receiver's half of the controller", base.DEC),
   advice_number = ProtoField.uint16("headrace.advice_number", "Number of the advice", base.DEC),
   advice_value = ProtoField.uint32("headrace.advice_value", "Value of the advice", base.DEC),
   int_room = ProtoField.uint8("headrace.int_room", "Room for hops", base.DEC),
   int_used = ProtoField.uint8("headrace.int_used", "Hops written", base.DEC),
   int_flags = ProtoField.uint8("headrace.int_flags", "Telemetry flags", base.HEX),
   int_cut = ProtoField.bool("headrace.int_flags.cut", "Path longer than the room", 8, nil, 0x01),
   reserved = ProtoField.uint8("headrace.reserved", "Reserved", base.HEX),
   reserved_word = ProtoField.uint32("headrace.reserved_word", "Reserved", base.HEX),
   hop_time = ProtoField.uint32("headrace.hop_time", "Time (ns)", base.DEC),
   hop_sent = ProtoField.uint32("headrace.hop_sent", "Sent (64 octets)", base.DEC),
   hop_waiting = ProtoField.uint32("headrace.hop_waiting", "Waiting (64 octets)", base.DEC),
   hop_rate = ProtoField.uint16("headrace.hop_rate", "Rate (100 Mb/s)", base.DEC),
   hop_port = ProtoField.uint16("headrace.hop_port", "Port", base.DEC),
   hop_room = ProtoField.bytes("headrace.hop_room", "Room for more hops"),
   missing = ProtoField.uint64("headrace.missing", "Missing", base.HEX),
   cumulative = ProtoField.uint32("headrace.cumulative", "Cumulative PSN", base.DEC),
   sack = ProtoField.uint64("headrace.sack", "SACK", base.HEX),
   echo_sent_at = ProtoField.uint32("headrace.echo_sent_at", "Echo of sent_at (1024 ps)", base.DEC),
   held = ProtoField.uint32("headrace.held", "Held (1024 ps)", base.DEC),
   sharers = ProtoField.uint16("headrace.sharers", "Sharers", base.DEC),
   upto = ProtoField.uint32("headrace.upto", "Up to", base.DEC),
   step = ProtoField.uint8("headrace.step", "Step", base.DEC, STEPS),
   cookie = ProtoField.uint64("headrace.cookie", "Cookie", base.HEX),
   named = ProtoField.uint32("headrace.named", "Flow that was named", base.HEX),
   first = ProtoField.uint32("headrace.first", "First PSN", base.DEC),
   arrived = ProtoField.bytes("headrace.arrived", "Arrived"),
   class = ProtoField.uint8("headrace.class", "Class", base.DEC, CLASSES),
   protocol = ProtoField.uint8("headrace.protocol", "Protocol", base.DEC),
   length = ProtoField.uint8("headrace.length", "Length", base.DEC),
   reserved = ProtoField.uint8("headrace.reserved", "Reserved", base.HEX),
   octets = ProtoField.bytes("headrace.octets", "Octets"),
   pod_term = ProtoField.uint16("headrace.pod_term", "Term of the scheduler", base.DEC),
   pod_epoch = ProtoField.uint32("headrace.pod_epoch", "Epoch", base.DEC),
   pod_flags = ProtoField.uint8("headrace.pod_flags", "Parts", base.HEX),
   pod_to = ProtoField.uint16("headrace.pod_to", "Destination", base.HEX),
   pod_total = ProtoField.uint32("headrace.pod_total", "Bytes so far", base.DEC),
   pod_arrived = ProtoField.uint32("headrace.pod_arrived", "Cells that arrived", base.HEX),
   pod_mice = ProtoField.uint8("headrace.pod_mice", "Mice", base.DEC),
   pod_mouse = ProtoField.uint16("headrace.pod_mouse", "Mouse", base.HEX),
   pod_agg = ProtoField.uint8("headrace.pod_agg", "Aggregation switch", base.DEC, nil, 0x1f),
   pod_layer = ProtoField.uint8("headrace.pod_layer", "Core of that switch", base.DEC, nil, 0xe0),
   pod_cells = ProtoField.uint16("headrace.pod_cells", "Cells, 0 for 32", base.DEC, nil, 0xf800),
   pod_granted_cells_to = ProtoField.uint16("headrace.pod_granted_cells_to",
      "Destination of the grant", base.HEX, nil, 0x7ff),
   pod_proof = ProtoField.uint64("headrace.pod_proof", "Proof", base.HEX),
   pod_run = ProtoField.uint16("headrace.pod_run", "Run", base.DEC),
   pod_hosts = ProtoField.uint16("headrace.pod_hosts", "Hosts of the pod", base.DEC, nil, 0x07ff),
   pod_epoch_cells = ProtoField.uint16("headrace.pod_epoch_cells", "Cells of an epoch (0: 32)",
      base.DEC, nil, 0xf800),
   pod_payload = ProtoField.uint16("headrace.pod_payload", "Payload of a cell", base.DEC),
   pod_cell = ProtoField.uint16("headrace.pod_cell", "Length of a cell", base.DEC),
   pod_control = ProtoField.uint16("headrace.pod_control", "Length of a control cell", base.DEC),
   pod_kbps = ProtoField.uint32("headrace.pod_kbps", "Rate of links, kbit/s", base.DEC),
   pod_hop = ProtoField.uint32("headrace.pod_hop", "Propagation, ns", base.DEC),
   pod_guard = ProtoField.uint32("headrace.pod_guard", "Guard, ns", base.DEC),
   pod_delay = ProtoField.uint32("headrace.pod_delay", "Decision, ns", base.DEC),
   pod_early = ProtoField.uint32("headrace.pod_early", "Lateness of a host, ns", base.DEC),
   pod_reserved = ProtoField.uint16("headrace.pod_reserved", "Reserved", base.HEX),
   pod_arrived_in = ProtoField.uint16("headrace.pod_arrived_in", "Epochs of these cells", base.HEX),
   pod_also = ProtoField.uint16("headrace.pod_also", "Epochs with the same receipt", base.HEX),
   pod_further = ProtoField.uint8("headrace.pod_further", "Further epochs granted", base.DEC),
   pod_rest = ProtoField.uint8("headrace.pod_rest", "Reserved", base.HEX),
   pod_late = ProtoField.uint16("headrace.pod_late", "Lateness of a request three epochs before", base.HEX),
   pod_sent_in = ProtoField.uint16("headrace.pod_sent_in", "Epoch of the receipt", base.DEC),
   pod_granted_to = ProtoField.uint16("headrace.pod_granted_to", "Destination of the standing",
      base.HEX),
   pod_granted = ProtoField.uint32("headrace.pod_granted", "Bytes granted so far", base.DEC),
   pod_paused = ProtoField.uint32("headrace.pod_paused", "Pods that get no cells", base.HEX),
   pod_host = ProtoField.uint16("headrace.pod_host", "Host of the delivered cells", base.DEC),
   pod_flow = ProtoField.uint32("headrace.pod_flow", "Flow of the delivered cells", base.HEX),
   pod_first = ProtoField.uint32("headrace.pod_first", "First PSN", base.DEC),
   pod_delivered = ProtoField.uint32("headrace.pod_delivered", "Delivered", base.HEX),
   pod_delivered_few = ProtoField.uint16("headrace.pod_delivered_few", "Delivered, the first 16",
      base.HEX),
   pod_delivered_more = ProtoField.uint16("headrace.pod_delivered_more",
      "Delivered, the 16 behind them", base.HEX),
   pod_again = ProtoField.uint32("headrace.pod_again", "To be sent again", base.HEX),
   pod_again_few = ProtoField.uint16("headrace.pod_again_few", "To be sent again, the first 16",
      base.HEX),
   pod_again_more = ProtoField.uint16("headrace.pod_again_more",
      "To be sent again, the 16 behind them", base.HEX),
   sim_number = ProtoField.uint32("headrace.sim_number", "Number of the SIM", base.DEC),
   sim_nonce = ProtoField.uint32("headrace.sim_nonce", "Nonce", base.HEX),
   match_step = ProtoField.uint8("headrace.match_step", "Step of the matching", base.DEC,
      MATCH_STEPS),
   match_channels = ProtoField.uint8("headrace.match_channels", "Channels", base.DEC),
   match_early = ProtoField.uint8("headrace.match_early", "Channels used early", base.DEC),
   match_reserved = ProtoField.uint8("headrace.match_reserved", "Reserved", base.HEX),
   match_round = ProtoField.uint32("headrace.match_round", "Round of the request", base.DEC),
   match_stage = ProtoField.uint32("headrace.match_stage", "Half round of the host", base.DEC),
   match_left = ProtoField.uint32("headrace.match_left", "Segments of the shortest flow", base.DEC),
   match_flow = ProtoField.uint32("headrace.match_flow", "Flow at the source", base.HEX),
   match_place = ProtoField.uint32("headrace.match_place", "Place of the source", base.DEC),
   match_asked = ProtoField.uint32("headrace.match_asked", "Nonce of the receiver", base.HEX),
   match_granted = ProtoField.uint32("headrace.match_granted", "Nonce of the source", base.HEX),
   payload = ProtoField.bytes("headrace.payload", "Payload"),
   deciphered = ProtoField.bool("headrace.deciphered", "Payload is deciphered"),
   payload_len = ProtoField.uint16("headrace.payload_len", "Payload length", base.DEC),
   trimmed = ProtoField.bool("headrace.trimmed", "Trimmed"),
}
headrace.fields = fields

local truncated = ProtoExpert.new("headrace.truncated", "Ends before its header",
   expert.group.MALFORMED, expert.severity.ERROR)
local malformed = ProtoExpert.new("headrace.malformed", "Not what docs/WIRE.md allows",
   expert.group.MALFORMED, expert.severity.ERROR)
headrace.experts = { truncated, malformed }

local udp_length = Field.new("udp.length")
local udp_source = Field.new("udp.srcport")
local addresses = {
   { Field.new("ip.src"), Field.new("ip.dst") }, { Field.new("ipv6.src"), Field.new("ipv6.dst") },
}

-- Reads a packet from front to back.
local Reader = {}
Reader.__index = Reader

function Reader.new(buffer, tree)
   return setmetatable({ buffer = buffer, tree = tree, at = 0 }, Reader)
end

function Reader:add(field, length)
   local range = self.buffer(self.at, length)
   self.at = self.at + length
   return self.tree:add(field, range), range
end

function Reader:refuse(item, what)
   item:add_proto_expert_info(malformed, what)
end

-- Index in the low 20 bits, generation in the high 12, which is 0 for a flow not known yet.
function Reader:flow(field, may_be_unknown, may_be_host)
   local item, range = self:add(field, 4)
   local value = range:uint()
   if value == 1 and may_be_host then
      item:append_text(" (the host, with a key)")
      return item, range
   end
   if value == 0 then
      item:append_text(" (unknown)")
   else
      item:append_text(string.format(" (index %d, generation %d)", value % 0x100000,
         math.floor(value / 0x100000)))
   end
   if value < 0x100000 and not (may_be_unknown and value == 0) then
      self:refuse(item, "a flow has a generation of 1 to 4095")
   end
   return item, range
end

function Reader:not_zero(field, length, what)
   local item, range = self:add(field, length)
   if range:bytes():tohex():match("^0*$") then
      self:refuse(item, what .. " is not 0")
   end
end

-- The octet of flags: those known, and what is allowed.
function Reader:flags(known, names)
   local item, range = self:add(fields.flags, 1)
   for _, name in ipairs(names) do
      item:add(fields[name], range)
   end
   if range:uint() >= known then
      self:refuse(item, "unknown flags must be 0")
   end
   return range:uint()
end

local function has(flags, bit)
   return math.floor(flags / bit) % 2 == 1
end

-- A place in a block. Says whether it is that of parity.
function Reader:code()
   local item, code = self:add(fields.code, 1)
   local _, data = self:add(fields.block_data, 1)
   local _, parity = self:add(fields.block_parity, 1)
   local place, packet = self:add(fields.block_packet, 1)
   local packets = data:uint() + parity:uint()
   if code:uint() == 0 or code:uint() > 15 then
      self:refuse(item, "codes have numbers 1 to 15")
   elseif data:uint() == 0 or packets > 64 or packet:uint() >= packets then
      self:refuse(place, "a block has 1 to 64 packets, and data")
   end
   return packet:uint() >= data:uint()
end

function Reader:reserved()
   local item, octet = self:add(fields.reserved, 1)
   if octet:uint() ~= 0 then
      self:refuse(item, "reserved octets must be 0")
   end
end

-- HALF: which half of the controller the receiver has.
function Reader:half()
   self:not_zero(fields.half, 1, "a half")
   self:reserved()
end

-- ADVICE: the advice of that half.
function Reader:advice()
   self:half()
   self:add(fields.advice_number, 2)
   self:add(fields.advice_value, 4)
   self:add(fields.advice_value, 4)
end

-- INT: telemetry of the ports on the path.
function Reader:telemetry()
   local room_item, room = self:add(fields.int_room, 1)
   local used_item, used = self:add(fields.int_used, 1)
   local item, flags = self:add(fields.int_flags, 1)
   item:add(fields.int_cut, flags)
   self:reserved()
   if room:uint() == 0 or room:uint() > 8 then
      self:refuse(room_item, "there is room for 1 to 8 hops")
   end
   if used:uint() > room:uint() then
      self:refuse(used_item, "more hops than room")
   end
   if flags:uint() > 1 or flags:uint() == 1 and used:uint() ~= room:uint() then
      self:refuse(item, "flag 1, and only without room left")
   end
   for _ = 1, math.min(used:uint(), room:uint()) do
      self:add(fields.hop_time, 4)
      self:add(fields.hop_sent, 4)
      self:add(fields.hop_waiting, 4)
      self:not_zero(fields.hop_rate, 2, "a rate")
      self:add(fields.hop_port, 2)
   end
   local left = math.max(room:uint() - used:uint(), 0) * 16
   if left > 0 then
      local rest, octets = self:add(fields.hop_room, left)
      if not octets:bytes():tohex():match("^0*$") then
         self:refuse(rest, "room for hops is 0")
      end
   end
end

local function data(reader, kind)
   local flags = reader:flags(128,
      { "open", "tagged", "again", "demands", "coded", "measured", "halved" })
   reader:flow(fields.dst_flow, true)
   reader:add(fields.key, 8)
   local _, psn = reader:add(fields.psn, 4)
   local _, msg = reader:add(fields.msg, 4)
   local _, offset = reader:add(fields.offset, 4)
   reader:add(fields.sent_at, 4)
   if has(flags, 1) then
      reader:flow(fields.src_flow, false)
      reader:not_zero(fields.msg_len, 4, "the length of a message")
   end
   if has(flags, 2) then
      reader:not_zero(fields.tag, 8, "a tag")
   end
   if has(flags, 8) then
      reader:not_zero(fields.demand, 4, "a demand")
   end
   local parity = has(flags, 16) and reader:code()
   if parity ~= (kind == 5) then
      reader.tree:add_proto_expert_info(malformed, "parity is of kind PARITY, and nothing else")
   end
   if has(flags, 64) then
      reader:half()
   end
   if has(flags, 32) then
      reader:telemetry()
   end
   local again = has(flags, 4) and ", again" or ""
   return string.format("PSN %u, message %u at %u%s", psn:uint(), msg:uint(), offset:uint(), again)
end

local function ack(reader)
   local flags = reader:flags(32, { "ce", "duplicate", "decoded", "echoed", "advised" })
   if has(flags, 2) and has(flags, 4) then
      reader.tree:add_proto_expert_info(malformed, "flags 2 and 4 exclude each other")
   end
   reader:flow(fields.dst_flow, true)
   reader:add(fields.key, 8)
   reader:flow(fields.src_flow, false)
   local _, psn = reader:add(fields.psn, 4)
   local _, cumulative = reader:add(fields.cumulative, 4)
   reader:add(fields.sack, 8)
   reader:add(fields.echo_sent_at, 4)
   reader:add(fields.held, 4)
   reader:add(fields.sharers, 2)
   if has(flags, 16) then
      reader:advice()
   end
   if has(flags, 8) then
      reader:telemetry()
   end
   return string.format("PSN %u, all before %u", psn:uint(), cumulative:uint())
end

local function block_nack(reader)
   reader:flags(1, {})
   reader:flow(fields.dst_flow, true)
   reader:add(fields.key, 8)
   reader:flow(fields.src_flow, false)
   local _, psn = reader:add(fields.psn, 4)
   reader:not_zero(fields.missing, 8, "what is missing")
   return string.format("block from PSN %u", psn:uint())
end

local function allowance(reader)
   reader:flags(1, {})
   reader:flow(fields.dst_flow, true)
   reader:add(fields.key, 8)
   reader:flow(fields.src_flow, false)
   local item, upto = reader:add(fields.upto, 4)
   if upto:uint() == 0 then
      reader:refuse(item, "a place of credited bytes is not 0")
   end
   return string.format("up to %u", upto:uint())
end

local function report(reader)
   reader:flags(1, {})
   reader:flow(fields.dst_flow, true)
   reader:add(fields.key, 8)
   local item, first = reader:add(fields.first, 4)
   reader:add(fields.arrived, 32)
   if first:uint() % 64 ~= 0 then
      reader:refuse(item, "a report begins at a multiple of 64")
   end
   return string.format("256 PSNs from %u", first:uint())
end

-- A request to the scheduler of a pod.
local function rts(reader)
   reader:add(fields.pod_term, 2)
   local _, epoch = reader:add(fields.pod_epoch, 4)
   local _, octet = reader:add(fields.pod_flags, 1)
   local _, mice = reader:add(fields.pod_mice, 1)
   reader:add(fields.pod_to, 2)
   reader:add(fields.pod_total, 4)
   reader:add(fields.pod_arrived, 4)
   if has(octet:uint(), 64) then
      reader:add(fields.pod_arrived_in, 2)
   end
   for _ = 1, mice:uint() do
      reader:add(fields.pod_mouse, 2)
   end
   return string.format("RTS, epoch %u", epoch:uint())
end

-- A request of a Core.
local function core_rts(reader)
   reader:add(fields.pod_term, 2)
   local _, epoch = reader:add(fields.pod_epoch, 4)
   local _, octet = reader:add(fields.pod_flags, 1)
   reader:add(fields.pod_reserved, 1)
   reader:add(fields.pod_to, 2)
   reader:add(fields.pod_total, 4)
   reader:add(fields.pod_paused, 4)
   reader:add(fields.pod_host, 2)
   reader:add(fields.pod_flow, 4)
   reader:add(fields.pod_first, 4)
   reader:add(has(octet:uint(), 128) and fields.pod_again or fields.pod_delivered, 4)
   return string.format("RTS of a Core, epoch %u", epoch:uint())
end

-- The introduction of a host to a scheduler that is a process of its own.
local function join(reader)
   local _, run = reader:add(fields.pod_run, 2)
   reader:add(fields.pod_term, 2)
   local _, sizes = reader:add(fields.pod_hosts, 2)
   reader.tree:add(fields.pod_epoch_cells, sizes)
   reader:add(fields.pod_payload, 2)
   reader:add(fields.pod_cell, 2)
   reader:add(fields.pod_control, 2)
   reader:add(fields.pod_kbps, 4)
   reader:add(fields.pod_hop, 4)
   reader:add(fields.pod_guard, 4)
   reader:add(fields.pod_delay, 4)
   reader:add(fields.pod_early, 4)
   return string.format("JOIN, run %u", run:uint())
end

-- An invitation of the scheduler of a pod.
local function invite(reader)
   reader:add(fields.pod_proof, 8)
   return "INVITE"
end

-- An answer of the scheduler of a pod.
local function schd(reader)
   reader:add(fields.pod_term, 2)
   local _, epoch = reader:add(fields.pod_epoch, 4)
   local _, octet = reader:add(fields.pod_flags, 1)
   local flags = octet:uint()
   local _, route = reader:add(fields.pod_agg, 1)
   reader.tree:add(fields.pod_layer, route)
   reader:add(fields.pod_late, 2)
   local _, to = reader:add(fields.pod_granted_cells_to, 2)
   reader.tree:add(fields.pod_cells, to)
   reader:add(fields.pod_total, 4)
   local delivered = has(flags, 16)
   -- An answer with a second receipt has no standing.
   local again = has(flags, 8)
   if delivered and not has(flags, 4) then
      reader:add(again and fields.pod_again_more or fields.pod_delivered_more, 2)
   else
      reader:add(fields.pod_sent_in, 2)
   end
   reader:add(fields.pod_arrived, 4)
   if delivered then
      reader:add(fields.pod_flow, 4)
      reader:add(fields.pod_first, 4)
      reader:add(again and fields.pod_again_few or fields.pod_delivered_few, 2)
   else
      reader:add(fields.pod_granted_to, 2)
      reader:add(fields.pod_granted, 4)
      reader:add(fields.pod_also, 2)
      reader:add(fields.pod_further, 1)
      reader:add(fields.pod_rest, 1)
   end
   local cells = math.floor(to:uint() / 2048)
   if has(flags, 1) and cells == 0 then
      cells = 32
   end
   return string.format("SCHD, epoch %u, %u cells", epoch:uint(), cells)
end

-- What goes ahead of a segment of DCsim, or its answer.
local function sim(reader)
   local _, number = reader:add(fields.sim_number, 4)
   reader:add(fields.sim_nonce, 4)
   reader:flow(fields.src_flow, false)
   return string.format("%u", number:uint())
end

-- What hosts of dcPIM say while they match.
local function offer(reader)
   local step_item, step = reader:add(fields.match_step, 1)
   local _, channels = reader:add(fields.match_channels, 1)
   local early_item, early = reader:add(fields.match_early, 1)
   local reserved_item, reserved = reader:add(fields.match_reserved, 1)
   local _, round = reader:add(fields.match_round, 4)
   reader:add(fields.match_stage, 4)
   reader:add(fields.match_left, 4)
   reader:add(fields.match_flow, 4)
   reader:add(fields.match_place, 4)
   reader:add(fields.match_asked, 4)
   reader:add(fields.match_granted, 4)
   local name = MATCH_STEPS[step:uint()]
   if name == nil then
      reader:refuse(step_item, "steps are 0 to 3")
   end
   if early:uint() > channels:uint() then
      reader:refuse(early_item, "more channels are early than there are")
   end
   if reserved:uint() ~= 0 then
      reader:refuse(reserved_item, "reserved octets are 0")
   end
   return string.format("%s of %u channels, round %u", name or "step", channels:uint(),
      round:uint())
end

-- The reader of a note whose protocol, class and length are those of DCsim, of dcPIM, or of a
-- request or an answer in a pod; and what precedes its summary.
local function of_known(reader, class, protocol, length)
   if protocol == 213 and length == 12 and class ~= 0 then
      return sim, class == 2 and "SIM " or "SIM-ACK "
   end
   if class ~= 0 then
      return nil
   end
   if protocol == 209 and length == 32 then
      return offer, "dcPIM: "
   end
   if protocol == 82 and length == 32 then
      return core_rts
   end
   if protocol == 83 and length == 32 then
      return join
   end
   if protocol == 84 and length == 8 then
      return invite
   end
   if protocol == 81 and length == 32 then
      return schd
   end
   if protocol ~= 80 or length < 18 then
      return nil
   end
   local flags = reader.buffer(reader.at + 6, 1):uint()
   local mice = reader.buffer(reader.at + 7, 1):uint()
   local fixed = has(flags, 64) and 20 or 18
   return length == fixed + 2 * mice and rts or nil
end

local function note(reader)
   local flags = reader:flags(2, { "written" })
   local named = reader.buffer(reader.at, 4):uint() ~= 0
   reader:flow(fields.dst_flow, true, true)
   local class_item, class = reader:add(fields.class, 1)
   local _, protocol = reader:add(fields.protocol, 1)
   local length_item, length = reader:add(fields.length, 1)
   local reserved_item, reserved = reader:add(fields.reserved, 1)
   if named then
      reader:add(fields.key, 8)
   end
   if CLASSES[class:uint()] == nil then
      reader:refuse(class_item, "a note is of class 0 to 2")
   end
   if length:uint() > 32 or length:uint() % 2 ~= 0 then
      reader:refuse(length_item, "a note has an even number of octets, at most 32")
   end
   local said
   if length:uint() > 0 and length:uint() <= 32 and length:uint() % 2 == 0 then
      local read, name = of_known(reader, class:uint(), protocol:uint(), length:uint())
      if read then
         said = (name or "") .. read(reader)
      else
         reader:add(fields.octets, length:uint())
      end
   end
   if reserved:uint() ~= 0 then
      reader:refuse(reserved_item, "reserved octets are 0")
   end
   if has(flags, 1) and length:uint() <= 32 then
      reader:telemetry()
   end
   if said then
      return said
   end
   return string.format("protocol %u, %u octets", protocol:uint(), length:uint())
end

local function presence(reader)
   local item, step = reader:add(fields.flags, 1)
   item:add(fields.step, step)
   local to_item, to = reader:flow(fields.dst_flow, true)
   reader:add(fields.key, 8)
   local name = STEPS[step:uint()]
   if name == "PROVE" or name == "PROOF" then
      reader:add(fields.cookie, 8)
      if to:uint() == 0 then
         reader:refuse(to_item, "names a flow at its sender")
      end
      return name
   end
   local named_item, named = reader:flow(fields.named, true)
   local reserved_item, reserved = reader:add(fields.reserved_word, 4)
   if name == nil then
      reader:refuse(item, "steps are 0 to 5")
      return "unknown step"
   end
   local names = name == "UNKNOWN" or name == "FORGOTTEN"
   if names == (to:uint() ~= 0) then
      reader:refuse(to_item, "KEEP and REFUSED name a flow here, the others none")
   end
   if names == (named:uint() == 0) then
      reader:refuse(named_item, "UNKNOWN and FORGOTTEN repeat a name, the others do not")
   end
   if reserved:uint() ~= 0 then
      reader:refuse(reserved_item, "reserved octets must be 0")
   end
   return name
end

-- By kind: the function that reads it, and octets without extensions.
local READERS = {
   [0] = { data, 30 }, [1] = { ack, 44 }, [2] = { ack, 44 },
   [3] = { allowance, 22 }, [4] = { allowance, 22 }, [5] = { data, 30 }, [6] = { block_nack, 30 },
   [7] = { note, 10 }, [8] = { report, 50 }, [9] = { presence, 22 },
}

-- Octets of extensions by flag, and the flag of INT, which is the last and as long as its room says.
local DATA_EXTENSIONS = { [1] = 8, [2] = 8, [8] = 4, [16] = 4, [64] = 2 }
local ACK_EXTENSIONS = { [16] = 12 }
local EXTENSIONS = {
   [0] = { DATA_EXTENSIONS, 32 }, [1] = { ACK_EXTENSIONS, 8 }, [2] = { ACK_EXTENSIONS, 8 },
   [5] = { DATA_EXTENSIONS, 32 }, [7] = { {}, 1 },
}

-- Octets of the header, extensions included.
local function header_length(buffer, kind)
   local length = READERS[kind][2]
   if kind == 7 and buffer:len() >= 9 then
      local key = buffer(2, 4):uint() == 0 and 0 or 8
      length = length + key + math.min(buffer(8, 1):uint(), 32)
   end
   local extensions = EXTENSIONS[kind]
   if extensions and buffer:len() >= 2 then
      local flags = buffer(1, 1):uint()
      for bit, more in pairs(extensions[1]) do
         length = length + (has(flags, bit) and more or 0)
      end
      if has(flags, extensions[2]) then
         local room = buffer:len() > length and buffer(length, 1):uint() or 0
         length = length + 4 + 16 * math.min(room, 8)
      end
   end
   return length
end

local function is_sealed(buffer)
   return buffer(0, 1):uint() >= 128
end

local function version_of(buffer)
   return math.floor(buffer(0, 1):uint() / 16) % 8
end

-- What UDP says follows its header, also where a switch has cut it off, without a seal.
local function length_as_sent(buffer)
   local length = udp_length()
   local sent = length and length.value - 8 or buffer:reported_len()
   return sent - (is_sealed(buffer) and SEAL_LENGTH or 0)
end

-- AES-128 in the counter mode of GCM (FIPS 197; NIST SP 800-38D), enough to decipher payload. Tags
-- are not checked: damaged payload gives other octets.
local bxor, rshift = bit.bxor, bit.rshift
local SBOX, MIX = {}, { {}, {}, {}, {} }

local function doubled(octet)
   return bxor(octet * 2 % 256, octet >= 128 and 0x1B or 0)
end

local function fill_tables()
   -- Powers of 3, which are all octets but 0.
   local power, logarithm, octet = {}, {}, 1
   for exponent = 0, 254 do
      power[exponent], logarithm[octet] = octet, exponent
      octet = bxor(octet, doubled(octet))
   end
   for value = 0, 255 do
      local turned = value == 0 and 0 or power[(255 - logarithm[value]) % 255]
      local sum = bxor(turned, 0x63)
      for _ = 1, 4 do
         turned = turned * 2 % 256 + math.floor(turned / 128)
         sum = bxor(sum, turned)
      end
      SBOX[value] = sum
      local twice = doubled(sum)
      local word = ((twice * 256 + sum) * 256 + sum) * 256 + bxor(twice, sum)
      for column = 1, 4 do
         MIX[column][value] = bit.ror(word, 8 * (column - 1))
      end
   end
end

-- Octet `place` of a word, 0 the highest.
local function octet_of(word, place)
   return rshift(word, 24 - 8 * place) % 256
end

local function substituted(word)
   local sum = 0
   for place = 0, 3 do
      sum = sum * 256 + SBOX[octet_of(word, place)]
   end
   return sum
end

-- The 44 words of the round keys.
local function round_keys(hex)
   local words, constant = {}, 1
   for at = 0, 3 do
      words[at] = tonumber(hex:sub(8 * at + 1, 8 * at + 8), 16)
   end
   for at = 4, 43 do
      local word = words[at - 1]
      if at % 4 == 0 then
         word = bxor(substituted(bit.rol(word, 8)), constant * 0x1000000)
         constant = doubled(constant)
      end
      words[at] = bxor(words[at - 4], word)
   end
   return words
end

-- The four words of a block, enciphered.
local function enciphered(keys, block)
   local state = {}
   for at = 0, 3 do
      state[at] = bxor(block[at], keys[at])
   end
   for round = 1, 10 do
      local fresh = {}
      for at = 0, 3 do
         local word
         if round < 10 then
            word = 0
            for place = 0, 3 do
               word = bxor(word, MIX[place + 1][octet_of(state[(at + place) % 4], place)])
            end
         else
            word = 0
            for place = 0, 3 do
               word = word * 256 + SBOX[octet_of(state[(at + place) % 4], place)]
            end
         end
         fresh[at] = bxor(word, keys[4 * round + at])
      end
      state = fresh
   end
   return state
end

-- The octets of `hex`, deciphered, of the packet of this number: its high 16 bits and its low 32.
local function deciphered(keys, number, hex)
   local out, counter, stream = {}, 2, nil
   for from = 1, #hex, 8 do
      local word = (from - 1) / 8 % 4
      if word == 0 then
         stream = enciphered(keys, { [0] = 0, [1] = number[1], [2] = number[2], [3] = counter })
         counter = counter + 1
      end
      local octets = hex:sub(from, from + 7)
      local padded = tonumber(octets .. ("0"):rep(8 - #octets), 16)
      out[#out + 1] = bit.tohex(bxor(padded, stream[word])):sub(1, #octets)
   end
   return ByteArray.new(table.concat(out))
end

-- Derived keys by their names, in hexadecimal digits; round keys once they have been used.
local logged, rounds = {}, {}

local function read_key_log()
   logged, rounds = {}, {}
   local file = headrace.prefs.key_log ~= "" and io.open(headrace.prefs.key_log)
   if not file then
      return
   end
   if not SBOX[0] then
      fill_tables()
   end
   for line in file:lines() do
      local name, key = line:lower():match("^headrace_seal_1 (%x+) (%x+)%s*$")
      if name and #name == 98 and #key == 32 then
         logged[name] = key
      end
   end
   file:close()
end

headrace.init = read_key_log

-- The source and the destination address of the packet, 16 octets each.
local function addresses_of_packet()
   for _, version in ipairs(addresses) do
      local source, destination = { version[1]() }, { version[2]() }
      if #source > 0 and #destination > 0 then
         local both = { source[#source], destination[#destination] }
         for at, field in ipairs(both) do
            local hex = field.range:bytes():tohex():lower()
            both[at] = hex .. ("0"):rep(32 - #hex)
         end
         return both[1] .. both[2]
      end
   end
   return ""
end

-- What deciphers the payload of a sealed packet whose key is logged: a function of its octets.
local function cipher_of(buffer, seal)
   if seal(16, 1):uint() ~= 1 or next(logged) == nil or buffer:len() < 14 then
      return nil
   end
   local flow, start = buffer(6, 8):bytes():tohex(), seal(24, 8):bytes():tohex()
   local name = "01" .. addresses_of_packet() .. (flow .. start):lower()
   if not logged[name] then
      return nil
   end
   rounds[name] = rounds[name] or round_keys(logged[name])
   local number = { seal(18, 2):uint(), seal(20, 4):uint() }
   return function(range)
      return deciphered(rounds[name], number, range:bytes():tohex()):tvb("Payload, deciphered")
   end
end

-- The packet in front of its seal, which is shown, and what deciphers its payload; a trimmed packet
-- has no seal left.
local function unsealed(buffer, tree)
   local ends = length_as_sent(buffer)
   if not is_sealed(buffer) or buffer:len() < ends + SEAL_LENGTH then
      return buffer
   end
   tree:add(fields.seal_tag, buffer(ends, 16))
   tree:add(fields.seal_mode, buffer(ends + 16, 1))
   tree:add(fields.seal_key, buffer(ends + 17, 1))
   tree:add(fields.seal_number, buffer(ends + 18, 6))
   tree:add(fields.seal_start, buffer(ends + 24, 8))
   return buffer(0, ends):tvb(), cipher_of(buffer, buffer(ends, SEAL_LENGTH))
end

local function payload(reader, kind)
   local there = reader.buffer:len() - reader.at
   local sent = length_as_sent(reader.buffer) - reader.at
   if kind ~= 0 and kind ~= 5 then
      if sent > 0 then
         reader.tree:add_proto_expert_info(malformed, "only DATA and PARITY have a payload")
      end
      return ""
   end
   local trimmed = reader.buffer:reported_len() - reader.at < sent
   if there > 0 and reader.cipher then
      local plain = reader.cipher(reader.buffer(reader.at, there))
      reader.tree:add(fields.payload, plain(0, there))
      reader.tree:add(fields.deciphered, true):set_generated()
   elseif there > 0 then
      reader:add(fields.payload, there)
   end
   reader.tree:add(fields.payload_len, math.max(sent, 0)):set_generated()
   reader.tree:add(fields.trimmed, trimmed):set_generated()
   if sent < 1 then
      reader.tree:add_proto_expert_info(malformed, "DATA and PARITY have a payload")
   end
   return string.format(", %d octets%s", sent, trimmed and " (trimmed)" or "")
end

local function dissect(buffer, pinfo, tree)
   if buffer:len() == 0 then
      return 0
   end
   pinfo.cols.protocol = "Headrace"
   local subtree = tree:add(headrace, buffer())
   local first = buffer(0, 1)
   local kind = first:uint() % 16
   subtree:add(fields.sealed, first)
   local version = subtree:add(fields.version, first)
   local kind_item = subtree:add(fields.kind, first)
   local name = KINDS[kind]
   if version_of(buffer) ~= VERSION then
      version:add_proto_expert_info(malformed, "this dissector knows version 2")
      return buffer:len()
   elseif name == nil then
      kind_item:add_proto_expert_info(malformed, "version 2 has no such kind")
      return buffer:len()
   end
   if buffer:len() < header_length(buffer, kind) then
      subtree:add_proto_expert_info(truncated)
      pinfo.cols.info = name .. " (truncated)"
      return buffer:len()
   end
   local plain, cipher = unsealed(buffer, subtree)
   local reader = Reader.new(plain, subtree)
   reader.cipher = cipher
   reader.at = 1
   local source = udp_source()
   if source then
      subtree:add(fields.ev, source.value):set_generated()
   end
   local info = READERS[kind][1](reader, kind) .. payload(reader, kind)
   subtree:append_text(": " .. name .. " " .. info)
   pinfo.cols.info = name .. " " .. info
   return buffer:len()
end

headrace.dissector = dissect

-- Ours by port and version, whatever the source port says.
local function is_headrace(buffer, pinfo, tree)
   if pinfo.dst_port ~= headrace.prefs.port or buffer:len() == 0 or version_of(buffer) ~= VERSION then
      return false
   end
   dissect(buffer, pinfo, tree)
   return true
end

headrace:register_heuristic("udp", is_headrace)

local ports = DissectorTable.get("udp.port")
local registered = headrace.prefs.port
ports:add(registered, headrace)

function headrace.prefs_changed()
   ports:remove(registered, headrace)
   registered = headrace.prefs.port
   ports:add(registered, headrace)
   read_key_log()
end
