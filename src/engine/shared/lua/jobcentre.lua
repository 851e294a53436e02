#!lua name=jobcentre

-- The functions of jobcentre: docs/redis.md says what they keep. Keys of each: meta, jobs, more,
-- servers, log. Nothing is written before everything is checked, because a function that fails does
-- not take back what it has done.

local VERSION = 6
-- Arguments of one HSET or HDEL: Lua's stack is bounded.
local PART = 7000
-- Bytes of changes that a successor has not read, beyond which it has to begin anew.
local LOG_BYTES_MAX = 64 * 1024 * 1024
-- Changes that a successor reads at once: about so many bytes, and of so many writes.
local LOG_PART_BYTES = 1024 * 1024
local LOG_PART_WRITES = 1000

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function text(number)
  return string.format('%.0f', number)
end

-- What the meta of this partition says about who leads.
local function leader_of(meta)
  local found = redis.call('HMGET', meta, 'birth', 'epoch', 'seq', 'until', 'leader', 'name',
    'paused', 'addresses', 'offered', 'successor', 'successor_until', 'successor_ready',
    'log_bytes')
  return {
    birth = found[1], epoch = tonumber(found[2] or 0), seq = tonumber(found[3] or 0),
    till = tonumber(found[4] or 0), leader = found[5] or '', name = found[6] or '',
    paused = found[7], addresses = found[8] or '', offered = tonumber(found[9] or -1),
    successor = found[10], successor_till = tonumber(found[11] or 0), is_ready = found[12] == '1',
    log_bytes = tonumber(found[13] or 0),
  }
end

-- Forgets the server that follows the leader, and what it has not read.
local function forget_successor(keys)
  redis.call('HDEL', keys[1], 'successor', 'successor_until', 'successor_ready', 'log_bytes')
  if keys[5] then
    redis.call('DEL', keys[5])
  end
end

-- Whether a server follows the leader in order to take its place.
local function is_followed(led, now)
  return led.successor and led.successor_till > now
end

-- While the partition is paused nothing is written, and no server begins to lead. Servers take this
-- error for one that passes: they try again, and refuse requests after their patience.
local function paused()
  return redis.error_reply('TRYAGAIN the engine is paused, until `jobcentre engine resume`')
end

-- Calls a command with a key and the arguments from one place to another, in parts.
local function call_in_parts(command, key, args, from, to)
  for first = from, to, PART do
    redis.call(command, key, unpack(args, first, math.min(first + PART - 1, to)))
  end
end

local function version()
  return VERSION
end

-- schema, partitions, partition, birth: makes the keys if there are none.
local function init(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then
    redis.call('HSET', keys[1], 'schema', args[1], 'partitions', args[2], 'partition', args[3],
      'birth', args[4], 'epoch', '0', 'seq', '0', 'until', '0', 'mark', '0')
    for place = 2, 4 do
      redis.call('HSET', keys[place], '-', '')
    end
  end
  local found = redis.call('HMGET', keys[1], 'schema', 'partitions', 'partition', 'birth')
  return {found[1] or '', found[2] or '', found[3] or '', found[4] or ''}
end

-- Whether another server waits than the leader.
local function has_waiting(keys, now)
  local all = redis.call('HGETALL', keys[4])
  for place = 1, #all, 2 do
    local till = tonumber(string.match(all[place + 1], '^%d+'))
    if till and till >= now then
      return true
    end
  end
  return false
end

-- server, name, lease: notes that this server is there; forgets those that are not.
local function hello(keys, args)
  local now = now_ms()
  local all = redis.call('HGETALL', keys[4])
  for place = 1, #all, 2 do
    local till = tonumber(string.match(all[place + 1], '^%d+'))
    if till and till < now then
      redis.call('HDEL', keys[4], all[place])
    end
  end
  redis.call('HSET', keys[4], args[1], text(now + tonumber(args[3])) .. ' ' .. args[2])
  local led = leader_of(keys[1])
  local is_open = led.offered == led.epoch and led.till > now and not is_followed(led, now)
  return {text(led.epoch), led.name, text(math.max(0, led.till - now)), led.addresses,
    is_open and 'yes' or 'no'}
end

-- birth, server, name, lease, epoch, addresses: leads, if no other server does, under an epoch that
-- is new, and at least this one: a server whose epoch was lost in a failover goes on under it.
-- Answers with LED, epoch, seq, mark; or HELD, the name of the leader, for how many more
-- milliseconds, its addresses, and whether it offers the lead: no, yes, or followed, if another
-- server follows it already. That one comes first, once the leader leads no more.
local function lead(keys, args)
  local now, led = now_ms(), leader_of(keys[1])
  if led.birth ~= args[1] then
    return {'GONE'}
  end
  local till, is_offered = led.till, led.offered == led.epoch and 'yes' or 'no'
  if is_followed(led, now) and led.successor ~= args[2] then
    is_offered = 'followed'
    if led.is_ready then
      till = math.max(till, led.successor_till)
    end
  end
  if till > now and led.leader ~= args[2] then
    return {'HELD', led.name, text(till - now), led.addresses, is_offered}
  end
  if led.paused then
    return paused()
  end
  local epoch = text(math.max(led.epoch + 1, tonumber(args[5])))
  redis.call('HSET', keys[1], 'epoch', epoch, 'leader', args[2], 'name', args[3],
    'until', text(now + tonumber(args[4])), 'addresses', args[6] or '')
  redis.call('HDEL', keys[1], 'offered')
  forget_successor(keys)
  redis.call('HDEL', keys[4], args[2])
  return {'LED', epoch, text(led.seq), redis.call('HGET', keys[1], 'mark') or '0'}
end

-- nil if this server leads under this epoch, or else what is wrong. After a failover that has lost
-- the begin of an epoch another server may have got the same one.
local function refusal(led, birth, server, epoch)
  if led.birth ~= birth then
    return 'GONE'
  end
  local given = tonumber(epoch)
  if led.epoch > given or (led.epoch == given and led.leader ~= server) then
    return 'FENCED'
  end
  if led.epoch < given then
    return 'GAP'
  end
  return nil
end

-- The leader offers its lead, and this is what it has changed, in order. Returns what became of the
-- offer: ready, followed, open or, if no other server is there, alone.
local function log_changes(keys, led, seq, changes)
  local now = now_ms()
  if led.offered ~= led.epoch then
    redis.call('HSET', keys[1], 'offered', text(led.epoch))
  end
  local bytes = led.log_bytes + #changes
  if not is_followed(led, now) or bytes > LOG_BYTES_MAX then
    forget_successor(keys)
    return has_waiting(keys, now) and 'open' or 'alone'
  end
  if #changes > 0 then
    redis.call('HSET', keys[5], seq, changes)
    redis.call('HSET', keys[1], 'log_bytes', text(bytes))
  end
  return led.is_ready and 'ready' or 'followed'
end

-- birth, server, epoch, seq, lease, mark, and how many arguments follow of each kind: sets of jobs,
-- sets of more, deletes of jobs, deletes of more. If the leader offers its lead, one more argument
-- has the same changes in order. The write with the last seq is there already: done.
local function write(keys, args)
  local led = leader_of(keys[1])
  local wrong, seq = refusal(led, args[1], args[2], args[3]), tonumber(args[4])
  if not wrong and led.seq ~= seq and led.seq + 1 ~= seq then
    wrong = 'GAP'
  end
  if wrong then
    return {wrong, text(led.epoch), text(led.seq), led.name}
  end
  if led.paused then
    return paused()
  end
  local till = text(now_ms() + tonumber(args[5]))
  if led.seq == seq then
    redis.call('HSET', keys[1], 'until', till)
    return {'OK'}
  end
  local from = 11
  for kind, call in ipairs({{'HSET', 2}, {'HSET', 3}, {'HDEL', 2}, {'HDEL', 3}}) do
    local to = from + tonumber(args[6 + kind]) - 1
    call_in_parts(call[1], keys[call[2]], args, from, to)
    from = to + 1
  end
  redis.call('HSET', keys[1], 'seq', args[4], 'mark', args[6], 'until', till)
  if args[from] then
    return {'OK', log_changes(keys, led, args[4], args[from])}
  end
  if led.successor then
    -- It would lack this write.
    forget_successor(keys)
  end
  return {'OK'}
end

-- birth, server, epoch, lease, which (jobs or more), cursor, count: a part of the records, and the
-- lease again.
local function read(keys, args)
  local led = leader_of(keys[1])
  local wrong = refusal(led, args[1], args[2], args[3])
  if wrong then
    return {wrong, text(led.epoch), text(led.seq), led.name}
  end
  redis.call('HSET', keys[1], 'until', text(now_ms() + tonumber(args[4])))
  local key = args[5] == 'jobs' and keys[2] or keys[3]
  local part = redis.call('HSCAN', key, args[6], 'COUNT', args[7])
  return {'OK', part[1], part[2]}
end

-- birth, server, epoch, seq of its last write: leads no more, if the node has that write. It may be
-- said twice.
local function resign(keys, args)
  local led = leader_of(keys[1])
  local server = led.leader == '' and '' or args[2]
  local wrong = refusal(led, args[1], server, args[3])
  if not wrong and args[4] and tonumber(args[4]) ~= led.seq then
    wrong = 'GAP'
  end
  if wrong then
    return {wrong, text(led.epoch), text(led.seq), led.name}
  end
  redis.call('HSET', keys[1], 'until', '0', 'leader', '', 'name', '', 'addresses', '')
  redis.call('HDEL', keys[1], 'offered')
  if not led.is_ready then
    forget_successor(keys)
  end
  return {'OK'}
end

-- What the log has behind write `from`: of as many writes as have about LOG_PART_BYTES. Returns it,
-- the last of these writes, and how many bytes it has. What is before is deleted.
local function read_log(keys, from, to)
  local parts, bytes, last, names = {}, 0, from, {}
  if redis.call('HLEN', keys[5]) > 0 then
    for seq = from - LOG_PART_WRITES + 1, from do
      table.insert(names, text(seq))
    end
    redis.call('HDEL', keys[5], unpack(names))
  end
  while last < to and last < from + LOG_PART_WRITES and bytes < LOG_PART_BYTES do
    last = last + 1
    local part = redis.call('HGET', keys[5], text(last))
    if part then
      table.insert(parts, part)
      bytes = bytes + #part
    end
  end
  return parts, last, bytes
end

-- birth, server, lease, stage, seq: a server follows a leader that offers its lead. Stage begin:
-- from now on; go-on: it knows all up to this write; ready: and has nothing more to do but to lead.
-- Answers with OK, the last write, for how many milliseconds a server leads, the last write of the
-- parts of the log that come then, and these. LOST: it has to begin anew, or another one follows.
local function follow(keys, args)
  local now, led, seq = now_ms(), leader_of(keys[1]), tonumber(args[5])
  if led.birth ~= args[1] then
    return {'GONE'}
  end
  if args[4] == 'begin' then
    if led.offered ~= led.epoch or led.till <= now or is_followed(led, now) then
      return {'LOST'}
    end
    forget_successor(keys)
    led.log_bytes, seq = 0, led.seq
  elseif led.successor ~= args[2] or led.seq < seq then
    return {'LOST'}
  end
  local parts, last, bytes = read_log(keys, seq, led.seq)
  redis.call('HSET', keys[1], 'successor', args[2], 'successor_until',
    text(now + tonumber(args[3])), 'successor_ready', args[4] == 'ready' and '1' or '0',
    'log_bytes', text(math.max(0, led.log_bytes - bytes)))
  local left = led.leader == '' and 0 or math.max(0, led.till - now)
  return {'OK', text(led.seq), text(left), text(last), parts}
end

-- 1 or 0, lease: pauses the partition, or ends that. The leader, if it is there still, leads on: it
-- has this time to write.
local function pause(keys, args)
  local led = leader_of(keys[1])
  if led.birth == false then
    return {'NONE'}
  end
  if args[1] == '1' then
    redis.call('HSET', keys[1], 'paused', text(now_ms()))
  elseif led.paused then
    redis.call('HDEL', keys[1], 'paused')
    if led.leader ~= '' then
      redis.call('HSET', keys[1], 'until', text(now_ms() + tonumber(args[2])))
    end
  end
  return {'OK', led.paused and '1' or '0', led.name}
end

-- Whether no server has begun to lead after this one, which may have given the lead back.
local function is_term(led, birth, epoch)
  return led.birth == birth and led.epoch == tonumber(epoch)
end

-- birth, epoch: removes the keys of the one that leads.
local function drop(keys, args)
  if not is_term(leader_of(keys[1]), args[1], args[2]) then
    return {'FENCED'}
  end
  for place = 1, #keys do
    redis.call('DEL', keys[place])
  end
  return {'OK'}
end

-- birth, epoch: the keys of the one that leads get the names that follow them among the keys, if
-- there are no jobs under those names, and no server leads there. Ids are not given twice.
local function adopt(keys, args)
  local led, there = leader_of(keys[1]), leader_of(keys[5])
  if not is_term(led, args[1], args[2]) then
    return {'FENCED'}
  end
  if there.till > now_ms() and there.leader ~= '' then
    return {'HELD', there.name}
  end
  if redis.call('HLEN', keys[6]) > 1 or redis.call('HLEN', keys[7]) > 1 then
    return {'TAKEN'}
  end
  local mark = redis.call('HMGET', keys[1], 'mark')[1]
  local other = redis.call('HMGET', keys[5], 'mark')[1]
  if other and tonumber(other) > tonumber(mark) then
    redis.call('HSET', keys[1], 'mark', other)
  end
  redis.call('HSET', keys[1], 'until', '0', 'leader', '', 'name', '', 'addresses', '')
  if there.paused then
    redis.call('HSET', keys[1], 'paused', there.paused)
  end
  for place = 1, 4 do
    redis.call('RENAME', keys[place], keys[place + 4])
  end
  return {'OK'}
end

-- Everything about the partition, for people.
local function status(keys)
  local servers, now = {}, now_ms()
  local all = redis.call('HGETALL', keys[4])
  for place = 1, #all, 2 do
    local till, name = string.match(all[place + 1], '^(%d+) (.*)$')
    if till and tonumber(till) >= now then
      table.insert(servers, name)
    end
  end
  return {redis.call('HGETALL', keys[1]), redis.call('HLEN', keys[2]), redis.call('HLEN', keys[3]),
    servers, text(now)}
end

redis.register_function{function_name = 'jl_version', callback = version, flags = {'no-writes'}}
redis.register_function{function_name = 'jl_init', callback = init, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_hello', callback = hello, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_lead', callback = lead, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_write', callback = write}
-- The same when memory is full: its leader has refused new jobs.
redis.register_function{function_name = 'jl_tight', callback = write, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_read', callback = read, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_resign', callback = resign, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_follow', callback = follow, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_pause', callback = pause, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_drop', callback = drop, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_adopt', callback = adopt, flags = {'allow-oom'}}
redis.register_function{function_name = 'jl_status', callback = status, flags = {'no-writes'}}
