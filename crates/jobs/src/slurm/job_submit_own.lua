
function slurm_job_submit(job_desc, part_list, submit_uid)
    return entrepot_submit(job_desc, submit_uid)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return entrepot_modify(job_desc, modify_uid)
end

return slurm.SUCCESS
