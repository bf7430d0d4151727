//! Changes that the server makes as a whole, as scripts in Lua.

/// A number above that of the sequence and above `ARGV[2]`.
pub(super) const NEXT_ABOVE: &str = "\
    local last = math.max(tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0'), tonumber(ARGV[2])) + 1 \
    redis.call('HSET', KEYS[1], ARGV[1], string.format('%d', last)) \
    return last";

/// Replaces the value `ARGV[3]`; without that argument, sets a missing value.
pub(super) const SWAP: &str = "\
    if (redis.call('HGET', KEYS[1], ARGV[1]) or nil) ~= ARGV[3] then return 0 end \
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) \
    return 1";

/// Records a target unless it is known, and counts its number as drawn.
pub(super) const REMEMBER: &str = "\
    if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then \
      if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then return 0 end \
      redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) \
      redis.call('HSET', KEYS[2], ARGV[2], ARGV[1]) \
      redis.call('HSET', KEYS[3], ARGV[1], 'ok -') \
      redis.call('SET', KEYS[5], ARGV[3]) \
    end \
    if tonumber(redis.call('HGET', KEYS[4], 'target') or '0') < tonumber(ARGV[1]) then \
      redis.call('HSET', KEYS[4], 'target', ARGV[1]) \
    end \
    return 1";

/// Sets the state of a target that is known.
pub(super) const SET_STATE: &str = "\
    if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then \
      redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) \
      redis.call('SET', KEYS[2], ARGV[3]) \
    end \
    return 1";

/// Sets the state of a known target by an operator's order: the later of two orders counts. Returns the resulting
/// state.
pub(super) const ORDER: &str = "\
    if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return {} end \
    local last = tonumber(redis.call('HGET', KEYS[3], ARGV[4]) or '0') \
    local given = tonumber(ARGV[5]) \
    if given > last then \
      redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) \
      redis.call('SET', KEYS[2], ARGV[3]) \
      redis.call('HSET', KEYS[3], ARGV[4], string.format('%d', given)) \
    end \
    return {redis.call('HGET', KEYS[1], ARGV[1]), redis.call('HGET', KEYS[3], ARGV[4])}";

/// Forgets a target and its garbage.
pub(super) const FORGET: &str = "\
    local name = redis.call('HGET', KEYS[1], ARGV[1]) \
    if name then redis.call('HDEL', KEYS[2], name) end \
    redis.call('HDEL', KEYS[1], ARGV[1]) \
    redis.call('HDEL', KEYS[3], ARGV[1]) \
    redis.call('HDEL', KEYS[6], ARGV[5]) \
    redis.call('ZREMRANGEBYLEX', KEYS[4], ARGV[2], ARGV[3]) \
    redis.call('SET', KEYS[5], ARGV[4]) \
    return 1";
