-- The table of holders: what `policy::holders::table` specifies, as one script.
--
-- KEYS  1 run, epoch, opened, suspect, unsure   2 node -> connection   3 nodes by the end of their session
--       4 part of the table   5 key of a removed entry -> time, newest generation or -
-- ARGV  1 request  2 node  3 run  4 connection  5 duration of a session  6 time or ''  7... arguments
--
-- An entry: epoch, generation, flags, claim or -, holds. A claim is node:number:generation:connection, a hold is
-- node:mode:number:connection. Flags: 1 unsettled, 2 a hold was registered that was not shown, 4 the generation
-- is the newest. Modes: 0 Open, 1 Write, 2 Read, 3 Exclusive.
local request, node, link, session = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
local now = tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local state = redis.call('HMGET', KEYS[1], 'run', 'epoch', 'opened', 'suspect', 'unsure')
local epoch, opened, suspect = tonumber(state[2] or '0'), state[3] == '1', state[4] ~= '0'
local unsure, released_max = tonumber(state[5] or '0'), 65536

local function text(number) return string.format('%d', number) end
local function name(of) return string.format('%010d', of) end
local function until_of(of) return tonumber(redis.call('ZSCORE', KEYS[3], name(of)) or '-1') end
local function has_session(of) return now < until_of(of) end
local function lapsed()
  local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
  if first[1] and now >= tonumber(first[2]) then return text(tonumber(first[1])) end
end
local function is_unsure() redis.call('HSET', KEYS[1], 'unsure', text(now)) end
local function session_of()
  return {'session', text(now), opened and '1' or '0', suspect and '1' or '0', lapsed() or '-'}
end
local function renew()
  redis.call('ZADD', KEYS[3], text(now + session), name(node))
  return session_of()
end

if request == 'begin' then
  if ARGV[3] ~= state[1] then
    opened, suspect, epoch = false, true, epoch + 1
    redis.call('HSET', KEYS[1], 'run', ARGV[3], 'epoch', text(epoch), 'opened', '0', 'suspect', '1')
    redis.call('DEL', KEYS[2], KEYS[3], KEYS[5])
  end
  if tonumber(redis.call('HGET', KEYS[2], text(node)) or '0') < link then
    redis.call('HSET', KEYS[2], text(node), text(link))
    redis.call('ZADD', KEYS[3], '0', name(node))
  end
  return session_of()
end
if ARGV[3] ~= state[1] then return {'other run'} end
if redis.call('HGET', KEYS[2], text(node)) ~= text(link) then return {'unregistered'} end

-- Time of the removal of an entry, and the newest generation.
local function released(key)
  local at, newest = string.match(redis.call('HGET', KEYS[5], key) or '', '(%d+) (%S+)')
  return tonumber(at), tonumber(newest)
end

-- The entry of a file, without what belongs to earlier runs and to nodes that are over. `newest`: generation of a
-- removed entry.
local function read(value, newest)
  local entry = {epoch = epoch, generation = 0, newest = false, unsettled = suspect, holds = {}}
  if not value then
    entry.generation, entry.newest = newest or 0, newest ~= nil
    return entry
  end
  local words = {}
  for word in string.gmatch(value, '%S+') do words[#words + 1] = word end
  local flags = tonumber(words[3])
  local numbers = '(%d+):(%d+):(%d+):(%d+)'
  local function stays(of, by)
    local present = redis.call('HGET', KEYS[2], text(of))
    return present and (tonumber(present) == by or until_of(of) == 0), present
  end
  local old = tonumber(words[1]) ~= epoch
  local left = flags % 2 == 1
  if words[4] ~= '-' then
    local of, number, generation, by = string.match(words[4], numbers)
    of, number, generation, by = tonumber(of), tonumber(number), tonumber(generation), tonumber(by)
    local valid, member = stays(of, by)
    left = left or old or (not member and generation > 0)
    if valid then entry.claim = {node = of, number = number, generation = generation, link = by} end
  end
  for i = 5, #words do
    local of, mode, number, by = string.match(words[i], numbers)
    of, mode, number, by = tonumber(of), tonumber(mode), tonumber(number), tonumber(by)
    local valid, member = stays(of, by)
    left = left or (old and mode > 0) or (not member and (mode == 1 or mode == 3))
    if valid then entry.holds[#entry.holds + 1] = {node = of, mode = mode, number = number, link = by} end
  end
  if old then
    entry.holds, entry.claim, entry.unsettled = {}, nil, left or suspect
  else
    entry.generation, entry.unsettled = tonumber(words[2]), left
    entry.newest, entry.reclaimed = flags >= 4, flags % 4 >= 2
  end
  return entry
end

-- Whether no node has held a file for the duration of a session, for certain.
local function is_unheld(value, released_at)
  local function is_past(at) return now >= at + session end
  return is_past(unsure) and not value and is_past(released_at or -session)
end

local function put(key, entry)
  local owes = entry.unsettled and not suspect
  if #entry.holds == 0 and not entry.claim and not owes then
    if redis.call('HDEL', KEYS[4], key) == 0 then return end
    if redis.call('HLEN', KEYS[5]) >= released_max then
      redis.call('DEL', KEYS[5])
      is_unsure()
    end
    redis.call('HSET', KEYS[5], key, text(now) .. ' ' .. (entry.newest and text(entry.generation) or '-'))
    return
  end
  local flags = (entry.unsettled and 1 or 0) + (entry.reclaimed and 2 or 0) + (entry.newest and 4 or 0)
  local claim = entry.claim
  local words = {text(entry.epoch), text(entry.generation), text(flags), '-'}
  if claim then words[4] = string.format('%d:%d:%d:%d', claim.node, claim.number, claim.generation, claim.link) end
  table.sort(entry.holds, function(a, b) return a.node < b.node end)
  for _, hold in ipairs(entry.holds) do
    words[#words + 1] = string.format('%d:%d:%d:%d', hold.node, hold.mode, hold.number, hold.link)
  end
  redis.call('HSET', KEYS[4], key, table.concat(words, ' '))
end

local function hold_of(entry, of)
  for i, hold in ipairs(entry.holds) do if hold.node == of then return hold, i end end
end
local function set_hold(entry, mode, number)
  local hold = hold_of(entry, node)
  if not hold then
    hold = {node = node}
    entry.holds[#entry.holds + 1] = hold
  end
  hold.mode, hold.number, hold.link = mode, number, link
end
local function beside(a, b) return a == 0 or b == 0 or (a == b and a ~= 3) end
local function effective(hold)
  if hold.mode >= 2 and not has_session(hold.node) then return 1 end
  return hold.mode
end
local function mode_for(entry, writes)
  if lapsed() then return 1 end
  local any, reads = false, true
  for _, hold in ipairs(entry.holds) do
    if hold.node ~= node and hold.mode > 0 then
      any, reads = true, reads and effective(hold) == 2
    end
  end
  if writes then return any and 1 or 3 end
  return reads and 2 or 1
end
local function recall(entry, mode, holds)
  local answer = {'recall', text(mode)}
  table.sort(holds, function(a, b) return a.node < b.node end)
  for _, hold in ipairs(holds) do
    answer[#answer + 1] = text(hold.node)
    answer[#answer + 1] = text(hold.number)
  end
  return answer
end

if request == 'register' or request == 'renew' then
  if now > tonumber(ARGV[7]) or (request == 'renew' and not has_session(node)) then return {'unregistered'} end
  if request == 'register' then is_unsure() end
  return renew()
elseif request == 'open' then
  for i = 7, #ARGV do
    if until_of(tonumber(ARGV[i])) <= 0 then
      if opened then return {'done'} end
      return {'lapsed', ARGV[i]}
    end
  end
  redis.call('HSET', KEYS[1], 'opened', '1')
  return {'done'}
elseif request == 'over' then
  redis.call('HDEL', KEYS[2], ARGV[7])
  redis.call('ZREM', KEYS[3], name(tonumber(ARGV[7])))
  is_unsure()
  return {'done'}
elseif request == 'trust' then
  redis.call('HSET', KEYS[1], 'suspect', opened and '0' or '1')
  return {'done'}
elseif request == 'sweep' then
  local all = redis.call('HGETALL', KEYS[4])
  for i = 1, #all, 2 do put(all[i], read(all[i + 1])) end
  return {'done'}
end

local key = ARGV[7]
local value = redis.call('HGET', KEYS[4], key)
local released_at, newest
if not value then released_at, newest = released(key) end
local entry, unheld = read(value, newest), is_unheld(value, released_at) and '1' or '0'
local number = tonumber(ARGV[8] or '0')
local function granted(mode)
  return {'granted', text(mode), text(entry.generation), entry.newest and '1' or '0', unheld}
end

if request == 'reclaim' then
  local shown, i = hold_of(entry, node)
  if i then table.remove(entry.holds, i) end
  if ARGV[8] ~= '-' then
    local mode = tonumber(ARGV[9])
    entry.reclaimed = entry.reclaimed or (mode > 0 and not (shown and shown.number == number))
    set_hold(entry, mode, number)
  end
  if ARGV[10] ~= '-' then
    entry.claim = {node = node, number = tonumber(ARGV[10]), generation = tonumber(ARGV[11]), link = link}
  end
  put(key, entry)
  return {'done'}
elseif request == 'lower' then
  local hold, i = hold_of(entry, node)
  if not hold or hold.number ~= number then return {'done'} end
  local changes = entry.claim and entry.claim.generation > 0
  if ARGV[10] ~= '-' and hold.mode > 0 and not changes and not entry.reclaimed then
    entry.generation, entry.newest = tonumber(ARGV[10]), true
  end
  if ARGV[9] == '-' then
    table.remove(entry.holds, i)
  else
    hold.mode = math.min(hold.mode, tonumber(ARGV[9]))
  end
  put(key, entry)
  return {'done'}
elseif request == 'finish' then
  local claim = entry.claim
  if not claim or claim.node ~= node or claim.number ~= number then return {'done'} end
  entry.claim = nil
  if claim.generation > 0 then
    entry.generation, entry.unsettled = tonumber(ARGV[9]), entry.unsettled and ARGV[10] == '0'
  end
  local keeps, mode = ARGV[11] == '1' and not entry.unsettled, mode_for(entry, true)
  if keeps then set_hold(entry, mode, number) end
  put(key, entry)
  if keeps then return {'granted', text(mode), ARGV[9], '0', '0'} end
  return {'done'}
end

if not has_session(node) then return {'unregistered'} end
if not opened then return {'closed'} end

if request == 'admit' then
  if entry.claim and entry.claim.node == node and entry.claim.generation == 0 then entry.claim = nil end
  if entry.claim then return {'claimed', text(entry.claim.node)} end
  if entry.unsettled then
    put(key, entry)
    return {'unsettled'}
  end
  local mode, stronger = mode_for(entry, ARGV[9] == '1'), {}
  for _, hold in ipairs(entry.holds) do
    if hold.node ~= node and not beside(effective(hold), mode) then stronger[#stronger + 1] = hold end
  end
  if #stronger > 0 then return recall(entry, 1, stronger) end
  set_hold(entry, mode, number)
  put(key, entry)
  return granted(mode)
elseif request == 'claim' then
  local generation, claim = tonumber(ARGV[9]), entry.claim
  if claim and claim.node ~= node then return {'claimed', text(claim.node)} end
  if generation == 0 and entry.unsettled then
    entry.claim = nil
    put(key, entry)
    return {'unsettled'}
  end
  local away = lapsed()
  if away and not (claim and generation > 0) then return {'lapsed', away} end
  local others = {}
  for _, hold in ipairs(entry.holds) do
    if hold.node ~= node and hold.mode > 0 then others[#others + 1] = hold end
  end
  entry.claim = {node = node, number = number, generation = generation, link = link}
  entry.newest = entry.newest and generation == 0
  entry.reclaimed = entry.reclaimed and #others > 0
  local answer
  if #others > 0 then
    answer = recall(entry, 0, others)
  elseif generation == 0 then
    entry.claim = nil
    set_hold(entry, 3, number)
    answer = granted(3)
  else
    answer = {'drained', entry.unsettled and '1' or '0'}
  end
  put(key, entry)
  return answer
elseif request == 'holders' then
  local away = lapsed()
  if away then return {'lapsed', away} end
  if entry.claim and entry.claim.node ~= node then return {'claimed', text(entry.claim.node)} end
  local others = {}
  for _, hold in ipairs(entry.holds) do if hold.node ~= node then others[#others + 1] = hold end end
  if #others > 0 then return recall(entry, 3, others) end
  return {'done'}
end
return redis.error_reply('ERR unknown request ' .. request)
