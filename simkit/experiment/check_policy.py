"""The checker of policies: tells an author which rules a policy breaks.

An author's whole test:

    from simkit import check_policy

    def test_my_policy():
        check_policy(MyPolicy())

What a run enforces by itself (nothing is placed where it does not fit, nothing twice) is found
here with the rest: the policy is replayed through small workloads, each with something that trips
policies up, and all that it breaks is listed at once.

| rule | a policy … |
|---|---|
| `interface` | has ``reset(info, rng)`` and ``schedule(state)`` |
| `iterable` | yields its actions, or returns an iterable of them |
| `error` | raises nothing, also when the queue is empty or nothing fits |
| `illegal-action` | asks only for what the rules allow |
| `read-only` | changes nothing of the state by itself |
| `endless` | comes to an end, in a decision and in asking to be woken |
| `starvation` | starts every job in the end, and resumes what it suspends |
| `repeatable` | decides the same under the same generator: draws from nowhere else |
| `forgets` | decides the same again after ``reset`` |
| `lets-go` | holds no state, no task and no system of an earlier run after ``reset`` |

A loop that never yields cannot be seen from outside: it hangs here as it would in a run.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterable, Iterator

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import PolicyError
from simkit.experiment.check_cases import Case, cases
from simkit.experiment.check_trial import BrokenRule, Trial
from simkit.policy import Policy
from simkit.seeds import stream


def check_policy(policy: Policy | type[Policy] | Callable[[], Policy], *, seed: int = 0) -> None:
    """Raise PolicyError with every rule that a policy breaks; return None if it breaks none.

    Args:
        policy: a policy that has not run yet, its class, or a function that makes one. An object
            is copied where that is possible, to see whether two fresh ones decide alike.
        seed: of the workloads and of the generator that the policy gets.

    Raises PolicyError, one line a rule: ``starvation: 3 of 40 jobs of 'rigid jobs on a pool' never
    start (job 7, 9, 12); …``. Its cause is the first error that the policy raised, if it did.

    Example:
        >>> from simkit.policies.orderings import SJF
        >>> from simkit.policy.ordered import OrderedPolicy
        >>> check_policy(OrderedPolicy(SJF()))
    """
    make = _maker(policy)
    broken: dict[str, BrokenRule] = {}
    for finding in _findings(make, seed):
        broken.setdefault(finding.rule, finding)
    if broken:
        causes = [finding.__cause__ for finding in broken.values() if finding.__cause__]
        raise _report(make(), broken.values()) from (causes[0] if causes else None)


def _report(policy: object, findings: Iterable[BrokenRule]) -> PolicyError:
    lines = [f"  {finding}" for finding in findings]
    count = "a rule" if len(lines) == 1 else f"{len(lines)} rules"
    return PolicyError("\n".join([f"{type(policy).__name__} breaks {count} of policies:", *lines]))


def _maker(policy: Policy | type[Policy] | Callable[[], Policy]) -> Callable[[], Policy]:
    """Return a function that makes a fresh policy, or gives the one there is if it must.

    Raises PolicyError if it is no policy.
    """
    made = policy
    if isinstance(policy, type) or not (hasattr(policy, "reset") or hasattr(policy, "schedule")):
        if not callable(policy):
            raise _report(policy, [_no_interface(("reset", "schedule"))])
        made = policy()
    missing = tuple(m for m in ("reset", "schedule") if not callable(getattr(made, m, None)))
    if missing:
        raise _report(made, [_no_interface(missing)])
    if made is not policy:
        return policy  # type: ignore[return-value] # a class or function: it has just made one

    def fresh() -> Policy:
        try:
            return copy.deepcopy(made)  # type: ignore[return-value]
        except Exception:  # whatever its author's objects raise: some things cannot be copied
            return made  # type: ignore[return-value]

    return fresh


def _no_interface(missing: tuple[str, ...]) -> BrokenRule:
    return BrokenRule(
        "interface",
        f"has no {' and no '.join(missing)}; a policy has reset(info, rng) and schedule(state)",
    )


def _findings(make: Callable[[], Policy], seed: int) -> Iterator[BrokenRule]:
    """Yield what is found; several findings may break one rule."""
    for case in cases(seed):
        policy, other = make(), make()
        first, finding = _try(policy, case, seed)
        if finding is not None:
            yield finding
            continue
        yield from _starved(first)
        # One that is not repeatable cannot be seen to forget; one that cannot be copied is the
        # same object, and so has to forget at once.
        finding = _differs(first, other, "forgets" if other is policy else "repeatable", seed)
        finding = finding or _differs(first, policy, "forgets", seed) or _held(policy, first, seed)
        if finding is not None:
            yield finding


_REMEDIES = {
    "repeatable": "draw from the generator that reset gets, and from nothing else",
    "forgets": "forget everything in reset",
}


def _differs(first: Trial, policy: Policy, rule: str, seed: int) -> BrokenRule | None:
    """Run a case again; return a finding if it comes out differently."""
    again, finding = _try(policy, first.case, seed)
    where = first.first_difference(again) if finding is None else f"that it breaks {finding.rule}"
    if where is None:
        return None
    return BrokenRule(
        rule, f"another run of {first.case.name!r} differs, first in {where}; {_REMEDIES[rule]}"
    )


def _try(policy: Policy, case: Case, seed: int) -> tuple[Trial, BrokenRule | None]:
    trial = Trial(case, seed)
    try:
        trial.run(policy)
    except BrokenRule as finding:
        return trial, finding
    return trial, None


def _starved(trial: Trial) -> Iterator[BrokenRule]:
    """Yield a finding if jobs have not run, though each fits the empty machines."""
    jobs = trial.frame("jobs").select("job_id", "start_time_s", "status").rows()
    waiting = [
        job
        for job, start, status in jobs
        if status in ("waiting", "running") or (status == "killed" and start is None)
    ]
    if waiting:
        shown = ", ".join(map(str, sorted(waiting)[:5]))
        yield BrokenRule(
            "starvation",
            f"{len(waiting)} of {len(jobs)} jobs of {trial.case.name!r} do not run to their end "
            f"(job {shown}{', …' if len(waiting) > 5 else ''}), though each fits the empty "
            "machines; place every task in the end, and resume what is suspended",
        )


def _held(policy: Policy, earlier: Trial, seed: int) -> BrokenRule | None:
    """Return a finding if, reset for another run, the policy holds on to what it was shown."""
    case = earlier.case
    recorder = Recorder(case.workload, case.cluster.resources, Trial(case, seed))
    other = Simulation(case.workload, case.cluster, recorder)
    policy.reset(other.info, stream(seed, "policy"))
    gc.collect()
    kinds = {type(held).__name__ for ref in earlier.shown if (held := ref()) is not None}
    if not kinds:
        return None
    return BrokenRule(
        "lets-go",
        f"after reset it still holds objects of an earlier run of {case.name!r} "
        f"({', '.join(sorted(kinds))}); forget them in reset",
    )
