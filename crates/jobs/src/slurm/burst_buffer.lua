-- Entrepot's script for Slurm's plug-in burst_buffer/lua (22.05 and later). Written by `entrepot slurm install`.
--
-- It hands a job's number and script to the daemon of the volume and passes on what the daemon says. What is staged, and
-- when a step has succeeded, is decided there. Later versions of Slurm append arguments; those are left alone.

local ENTREPOT = "@ENTREPOT@"
local VOLUME = "@VOLUME@"

local function quoted(word)
    return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

-- The status is taken from the output: Slurm reaps children itself, so the one that Lua reports means nothing. A hook
-- that was killed writes none, which is an error.
local function hook(...)
    local line = quoted(ENTREPOT) .. " --volume " .. quoted(VOLUME) .. " slurm hook"
    for at = 1, select("#", ...) do
        line = line .. " " .. quoted((select(at, ...)))
    end
    local pipe, why = io.popen("{ " .. line .. "; echo \" status=$?\"; } 2>&1 </dev/null", "r")
    if not pipe then
        return slurm.ERROR, "entrepot cannot be run: " .. tostring(why)
    end
    local said = pipe:read("*a") or ""
    pipe:close()
    -- A lazy match of the text would take minutes for a script with long blanks, and slurmctld waits.
    local at, _, status = said:find("status=(%d+)%s*$")
    if not at then
        return slurm.ERROR, "entrepot was stopped before it could answer"
    end
    local text = said:sub(1, at - 1):match("^.*%S") or ""
    if status == "0" then
        return slurm.SUCCESS, text
    end
    return slurm.ERROR, text
end

function slurm_bb_job_process(script, ...)
    return hook("process", script)
end

-- Space is the volume's own affair, and reserved there.
function slurm_bb_pools(...)
    return slurm.SUCCESS
end

function slurm_bb_setup(id, uid, gid, pool, size, script, ...)
    return hook("setup", id, uid, gid, script)
end

function slurm_bb_data_in(id, script, ...)
    return hook("data-in", id)
end

-- Asked for by 24.05 and later while data come in or go out: the hook that waits says when it is done.
function slurm_bb_test_data_in(id, script, ...)
    return slurm.SUCCESS
end

function slurm_bb_real_size(id, ...)
    return slurm.SUCCESS
end

-- The mount is in the same place on all nodes. Scripts written for DataWarp find their directories by variables; slurmctld
-- waits for this one, so the daemon is asked for such scripts only.
function slurm_bb_paths(id, script, path_file, ...)
    local file = io.open(script, "r")
    local text = file and "\n" .. file:read("*a") or ""
    if file then
        file:close()
    end
    if not text:find("\n#DW%s") and not text:find("\n#BB%s") then
        return slurm.SUCCESS
    end
    local status, said = hook("variables", id)
    if status ~= slurm.SUCCESS then
        return status, said
    end
    local paths, why = io.open(path_file, "w")
    if not paths then
        return slurm.ERROR, "the job's variables cannot be written: " .. tostring(why)
    end
    paths:write(said, "\n")
    paths:close()
    return slurm.SUCCESS
end

function slurm_bb_pre_run(id, script, ...)
    return hook("pre-run", id)
end

function slurm_bb_post_run(id, script, ...)
    return slurm.SUCCESS
end

function slurm_bb_data_out(id, script, ...)
    return hook("data-out", id)
end

function slurm_bb_test_data_out(id, script, ...)
    return slurm.SUCCESS
end

function slurm_bb_job_teardown(id, script, hurry, ...)
    return hook("teardown", id)
end

function slurm_bb_get_status(...)
    return hook("status")
end
