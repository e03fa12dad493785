r"""Bundled agents; a scenario names them: ``policy: {agent: deeprm-70}``.

| agent | learner | trained on |
|---|---|---|
| deeprm-70 | deeprm | DeepRM's jobs at 70 % load |
| deeprm-130 | deeprm | DeepRM's jobs at 130 % load |

They are the trainings with seed 0 of ``simkit reproduce deeprm``, as they were after 400
iterations, not the best of several, made at commit c61dfcc: these commands train agents like them,
but no longer the same, as the learner now draws its first weights and rounds in another way. Each
alone takes about six minutes of one core::

    simkit train deeprm --seed 0 --set name=deeprm-70-seed0 --iterations 400 \
        --set "workload={type: deeprm, rate: 0.379}" --learner deeprm
    simkit train deeprm --seed 0 --set name=deeprm-130-seed0 --iterations 400 \
        --set "workload={type: deeprm, rate: 0.705}" --learner deeprm
"""
