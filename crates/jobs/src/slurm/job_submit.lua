-- Entrepot's script for Slurm's plug-in job_submit/lua. Written by `entrepot slurm install`.
--
-- Slurm stops looking for directives at the first line that is no comment, and knows one word for them. So that none is
-- silently ignored, every script that holds one of Entrepot's, wherever it stands, is marked here for the plug-in
-- burst_buffer/lua, which has it checked. And the queue of data jobs, which costs nothing, takes data jobs only: the parts that
-- `entrepot job submit --scheduler slurm` has just announced to the daemon of the volume. Root may put anything there.
--
-- To keep a job_submit.lua of your own, load this file from it with dofile("@FILE@"), and return what is not slurm.SUCCESS of
-- entrepot_submit(job_desc, submit_uid) in slurm_job_submit and of entrepot_modify(job_desc, modify_uid) in slurm_job_modify.

local ENTREPOT = "@ENTREPOT@"
local VOLUME = "@VOLUME@"
local DATA_QUEUE = "dataxfer"
local WORDS = { "#STAGEIN", "#STAGEOUT", "#CHECKPOINT", "#DW", "#BB", "#BB_LUA%s+entrepot" }

local function for_data(job_desc)
    return ("," .. (job_desc.partition or "") .. ","):find("," .. DATA_QUEUE .. ",", 1, true) ~= nil
end

local function refuse(why)
    slurm.log_user("entrepot: %s; nothing was submitted or changed. %s takes the data parts of "
        .. "`entrepot job submit --scheduler slurm` only: choose another partition", why, DATA_QUEUE)
    return slurm.ERROR
end

-- Whether the daemon expects this part of this user. All that goes to the shell is numbers and two known words.
local function is_announced(script, uid)
    local kind, job = (script or ""):match("^#!/bin/sh\n# The (stage%-%a+) part of job (%d+), written by Entrepot%.\n")
    if not job or (kind ~= "stage-in" and kind ~= "stage-out") then
        return false, "this is no data job of Entrepot"
    end
    local line = ("'%s' --volume '%s' slurm hook part %d %s %s"):format(ENTREPOT, VOLUME, uid, job, kind)
    local pipe = io.popen("{ " .. line .. "; echo \" status=$?\"; } 2>&1 </dev/null", "r")
    local said = pipe and pipe:read("*a") or ""
    if pipe then
        pipe:close()
    end
    -- The status is the last word. A lazy match of the text before it would be slow for long blanks.
    local at, _, status = said:find("status=(%d+)%s*$")
    local text = at and (said:sub(1, at - 1):match("^.*%S") or "")
    return status == "0", text or "entrepot cannot be run"
end

function entrepot_submit(job_desc, submit_uid)
    local script, uid = job_desc.script, submit_uid or job_desc.user_id
    if for_data(job_desc) and uid ~= 0 then
        local announced, why = is_announced(script, uid)
        if not announced then
            return refuse(why)
        end
    end
    if not script or (job_desc.burst_buffer and job_desc.burst_buffer ~= "") then
        return slurm.SUCCESS
    end
    for _, word in ipairs(WORDS) do
        if ("\n" .. script .. "\n"):find("\n" .. word .. "%s") then
            job_desc.burst_buffer = "#STAGE entrepot"
            return slurm.SUCCESS
        end
    end
    -- What is written almost right is refused with its line, instead of being a comment.
    for blank, word in ("\n" .. script):gmatch("\n#([ \t]*)([%w_-]+)") do
        local plain = word:gsub("[_-]", "")
        if (blank == "" or not word:find("%l")) and plain:upper():find("^STAG?E?[IO]%u%u?%u?$") then
            job_desc.burst_buffer = "#STAGE entrepot"
            return slurm.SUCCESS
        end
    end
    return slurm.SUCCESS
end

function entrepot_modify(job_desc, modify_uid)
    if for_data(job_desc) and modify_uid ~= 0 then
        return refuse("no job is moved there")
    end
    return slurm.SUCCESS
end
