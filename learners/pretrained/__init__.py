r"""Bundled agents; a scenario names them: ``policy: {agent: deeprm-70, args: {choose: greedy}}``.

| agent | trained on |
|---|---|
| deeprm-mixed | DeepRM's jobs at ten loads from 10 to 184 % |
| deeprm-70 | DeepRM's jobs at 70 % load |
| fitness-alibaba | jobs 0 to 1999 of CloudSimPy's table of Alibaba's jobs, for small makespans |

The first two are by the learner `ppo`, and are meant to take the likeliest action
(`choose: greedy`). They are the median ones of the three trainings of
``simkit reproduce deeprm``; these commands train them again, in nine and in two minutes of one
core::

    simkit train deeprm --learner ppo --seed 2 --set name=ppo-mixed-seed2 --iterations 150 \
        --set "workload={type: deeprm, rate: 0.379}" --set learn.held_out_every=10 \
        --set "learn.arguments={job_sets: 250, entropy: 0.02, decay: 1.0,
            loads: [0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 1.84],
            weights: [6.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]}"
    simkit train deeprm --learner ppo --seed 1 --set name=ppo-70-seed1 --iterations 40 \
        --set "workload={type: deeprm, rate: 0.379}" --set learn.held_out_every=10 \
        --set "learn.arguments={job_sets: 100, entropy: 0.01}"

The third is by the learner `fitness`, the training with seed 0 of ``simkit reproduce deepjs``; it
takes any number of machines of any size, but was trained on 4 to 8: beside the rule ``balance`` its
makespans are 0.1 to 0.3 % shorter on 3 to 6 machines and level on 7 to 20. In eight minutes of one
core::

    simkit train deepjs --learner fitness --seed 0 --set name=fitness-seed0 --iterations 30 \
        --set workload.window.jobs=0..1999 \
        --set "policy={fitness: balance, compat: cloudsimpy}" \
        --set "learn.arguments={machines: [4, 5, 6, 8], held_out: 0}"
"""
