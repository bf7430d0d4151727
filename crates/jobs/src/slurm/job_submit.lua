-- Entrepot's script for Slurm's plug-in job_submit/lua. Written by `entrepot slurm install`.
--
-- Slurm stops looking for directives at the first line that is no comment, and knows one word for them. So that none is
-- silently ignored, every script that holds one of Entrepot's, wherever it stands, is marked here for the plug-in
-- burst_buffer/lua, which has it checked. To keep a job_submit.lua of your own, load this file from it with
-- dofile("@FILE@") and call entrepot_submit(job_desc) in slurm_job_submit.

local WORDS = { "#STAGEIN", "#STAGEOUT", "#CHECKPOINT", "#BB_LUA%s+entrepot" }

function entrepot_submit(job_desc)
    local script = job_desc.script
    if not script or (job_desc.burst_buffer and job_desc.burst_buffer ~= "") then
        return
    end
    for _, word in ipairs(WORDS) do
        if ("\n" .. script .. "\n"):find("\n" .. word .. "%s") then
            job_desc.burst_buffer = "#STAGE entrepot"
            return
        end
    end
end
