
function slurm_job_submit(job_desc, part_list, submit_uid)
    entrepot_submit(job_desc)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
