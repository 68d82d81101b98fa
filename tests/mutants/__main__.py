"""Plant faults in the scheduler one at a time, and count those that conformance cases notice.

    python -m tests.mutants                       # the sample of 200 of seed 1
    python -m tests.mutants --skip 50 --first 10  # a part of it
    python -m tests.mutants --only scheduler/queue/heap.py:40:lt-le
    python -m tests.mutants --list                # without running any

The first run records which cases execute which lines; a fault meets only the cases that execute its
line. Runs on systems with fork only.
"""

import argparse
import gc
from collections import Counter

from tests.mutants.coverage_map import recorded_map
from tests.mutants.faults import all_faults, sample
from tests.mutants.trial import all_cases, attempt, forget_scheduler, warm_up


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="the size of the sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of the sample")
    parser.add_argument("--first", type=int, help="run only so many")
    parser.add_argument("--cases", type=int, help="run at most so many cases for each fault")
    parser.add_argument("--only", metavar="ID", action="append", help="run this fault")
    parser.add_argument("--list", action="store_true", help="print the faults and run none")
    arguments = parser.parse_args()
    faults = sample(arguments.count, arguments.seed)[arguments.skip :][: arguments.first]
    if arguments.only:
        faults = [fault for fault in all_faults() if fault.id in arguments.only]
        if len(faults) < len(set(arguments.only)):
            parser.error("--only: no such fault")
    if arguments.list:
        for fault in faults:
            print(f"{fault.id}  {fault.function}  {fault.before!r}")
        return
    executed = recorded_map()
    warm_up()
    forget_scheduler()
    gc.freeze()
    numbers: Counter[str] = Counter()
    for fault in faults:
        trial = attempt(fault, executed.cases_for(fault, all_cases())[: arguments.cases])
        numbers[trial.result] += 1
        by = f"{trial.case}: {trial.reason}" if trial.case else f"{trial.ran} cases {trial.reason}"
        print(f"{trial.result:8}  {fault.id}  {by}", flush=True)
    print(", ".join(f"{number} {result}" for result, number in sorted(numbers.items())))
    judged = numbers.total() - numbers["broken"]
    if judged:
        print(f"{numbers['noticed']} of {judged} noticed: {numbers['noticed'] / judged:.1%}")


if __name__ == "__main__":
    main()
