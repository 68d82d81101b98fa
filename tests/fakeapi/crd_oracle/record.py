"""Send the questions to the oracle and write its answers to recorded.jsonl.gz.

python -m tests.fakeapi.crd_oracle.record ORACLE
"""

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

from .cases import Chance

RECORDED = Path(__file__).with_name("recorded.jsonl.gz")
_QUESTIONS = 600
_DEFINITIONS = 300


def main(oracle: str) -> None:
    """Write the questions, each with its answer."""
    chance = Chance(random.Random(36))
    asked = [chance.question() for _ in range(_QUESTIONS)]
    asked += [{"CRD": chance.definition()} for _ in range(_DEFINITIONS)]
    done = subprocess.run(
        [oracle],
        input="\n".join(map(json.dumps, asked)),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    pairs = zip(asked, answers, strict=True)
    lines = [
        json.dumps({"asked": question, "answered": answer}, sort_keys=True)
        for question, answer in pairs
        if "error" not in answer and "panic" not in answer
    ]
    RECORDED.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
