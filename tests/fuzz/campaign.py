"""Feed simkit random scenarios: honest ones must run and be verified, damaged ones be refused.

    python tests/fuzz/campaign.py --scenarios 2000 --simulations 1000 --combinations 1000

A *simulation* is a random small scenario that is run and then audited by `simkit verify`; a
*combination* is one in which features meet that random scenarios seldom combine. A *scenario* is a damaged file that is validated and, if simkit accepts it, run and audited too. A
case fails if it ends in anything but a result or a `SimkitError`, takes longer than its limit, or
is an honest run in which the auditor finds a violation. Failed cases are printed with the seed
that repeats them: `--first SEED --simulations 1`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from combined_scenarios import combined_scenario
from mutations import damaged
from random_scenarios import random_scenario
from ruamel.yaml import YAML

import simkit
from simkit.errors import SimkitError, SimkitWarning
from simkit.scenario.bundled import scenario_path

LIMIT_S = 60
"""Seconds after which a case counts as hanging."""
FAILED = ("crash", "hang", "violation")
READY = ("quickstart", "cloud-quickstart", "green-quickstart", "deeprm", "sofia")
"""Bundled scenarios that need no other data; damaged like the random ones."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended."""

    seed: int
    kind: str
    """verified, refused, crash, hang or violation."""
    text: str = ""


class Hang(BaseException):
    """A case took too long; no `except Exception` may stop it."""


def simulation(seed: int) -> Outcome:
    """Run and audit a random scenario."""
    return _judged(seed, random_scenario)


def combination(seed: int) -> Outcome:
    """Run and audit a random scenario that combines features."""
    return _judged(seed, combined_scenario)


def scenario(seed: int) -> Outcome:
    """Try a damaged scenario file."""
    return _judged(seed, _damaged_file)


def _damaged_file(rng: np.random.Generator, folder: Path) -> Path:
    if rng.random() < 0.2:
        name = READY[int(rng.integers(len(READY)))]
        tree = YAML(typ="safe").load(scenario_path(name))
    else:
        tree = random_scenario(rng, folder)
    path = folder / "scenario.yaml"
    path.write_text(damaged(rng, tree), encoding="utf-8", errors="surrogatepass")
    return path


def _judged(seed: int, make: Callable[[np.random.Generator, Path], Any]) -> Outcome:
    rng = np.random.default_rng(seed)
    before = signal.signal(signal.SIGALRM, _hang)
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", SimkitWarning)
        folder = Path(name)
        signal.alarm(LIMIT_S)
        try:
            simkit.simulate(make(rng, folder), output=folder / "run")
            audit = simkit.verify_run(folder / "run", inputs=[folder])
        except SimkitError as error:
            return Outcome(seed, "hang" if _was_hanging(error) else "refused", str(error))
        except Hang:
            return Outcome(seed, "hang", _where(sys.exc_info()[1]))
        except BaseException as error:
            return Outcome(seed, "crash", f"{error!r} at {_where(error)}")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    if audit.ok:
        return Outcome(seed, "verified", audit.summary())
    return Outcome(seed, "violation", f"{audit.summary()}; {audit.violations[0]}")


def _hang(*_: object) -> None:
    raise Hang


def _was_hanging(error: BaseException | None) -> bool:
    """Return whether a run was stopped for its time, which it tells as an error of its own."""
    while error is not None and not isinstance(error, Hang):
        error = error.__cause__ or error.__context__
    return error is not None


def _where(error: BaseException | None) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1] if error else None
    return f"{frame.filename}:{frame.lineno}" if frame else "?"


def outcomes(case: Callable[[int], Outcome], seeds: range, workers: int) -> Iterator[Outcome]:
    """Yield how each seed's case ended, in order."""
    if workers == 1:
        yield from map(case, seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(case, seeds, chunksize=5)


def report(title: str, found: Iterator[Outcome]) -> bool:
    """Print how the cases ended; return whether none failed."""
    begin, counts, refusals = monotonic(), Counter[str](), Counter[str]()
    for outcome in found:
        counts[outcome.kind] += 1
        if outcome.kind in FAILED:
            print(f"{title} {outcome.seed}: {outcome.kind}: {outcome.text}", flush=True)
        elif outcome.kind == "refused":
            refusals[outcome.text.splitlines()[0].partition(";")[0][-100:]] += 1
    counted = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    print(f"{title}: {counted}; {monotonic() - begin:.0f} s", flush=True)
    for text, count in refusals.most_common(5):
        print(f"  refused {count:,} x …{text}")
    return not any(counts[kind] for kind in FAILED)


def main() -> int:
    """Run the cases that the command line asks for; 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--scenarios", type=int, default=0, help="damaged scenario files")
    parser.add_argument("--simulations", type=int, default=0, help="random simulations")
    parser.add_argument("--combinations", type=int, default=0, help="random combinations")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    given = parser.parse_args()
    good = True
    for case, count in (
        (simulation, given.simulations),
        (combination, given.combinations),
        (scenario, given.scenarios),
    ):
        seeds = range(given.first, given.first + count)
        if count:
            good &= report(case.__name__, outcomes(case, seeds, given.workers))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
