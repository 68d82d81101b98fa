"""Records what a real kube-apiserver answers to the requests of exchanges/*.yaml.

    python -m tests.fakeapi.record_exchanges https://127.0.0.1:6443 TOKEN [NAME...]

`python -m tests.realcluster` starts such a server and prints both. The tests only read what this
command has written.
"""

import json
import random
import ssl
import sys
import time
import urllib.error
import urllib.request
from typing import Any

from . import exchange as exchanges

_PAUSE_SECONDS = 2.0


def send(url: str, token: str, request: exchanges.Exchange, filled: Any) -> tuple[int, str, Any]:
    """One request as it is written; the code, text and headers of the answer."""
    method, path = filled["request"].split(" ", 1)
    body = exchanges.raw_body(filled.get("body"))
    made = urllib.request.Request(url + path, data=body, method=method)
    made.add_header("User-Agent", filled.get("agent", exchanges.AGENT))
    made.add_header("Authorization", f"Bearer {token}")
    made.add_header("Accept", exchanges.accept(filled))
    if body is not None:
        made.add_header("Content-Type", exchanges.media_type(request))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(made, timeout=20, context=context) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def answers(url: str, token: str, name: str) -> list[exchanges.Exchange]:
    """Send the requests of one file; return the answers, without those of quiet requests."""
    namespace = f"x{random.randrange(10**8):08d}"
    script = exchanges.Script(namespace)
    body = {"metadata": {"name": namespace}}
    send(url, token, {}, {"request": "POST /api/v1/namespaces", "body": body})
    found = []
    for request in exchanges.read(name):
        answer = send(url, token, request, script.filled(request))
        while request.get("until", "") not in answer[1]:
            time.sleep(_PAUSE_SECONDS)
            answer = send(url, token, request, script.filled(request))
        if "until" in request:
            time.sleep(_PAUSE_SECONDS)  # endpoints follow a little later
        outcome = exchanges.outcome(script, request, *answer)
        if not request.get("quiet"):
            found.append(outcome)
    return found


def main() -> None:
    """Run the command."""
    url, token, *names = sys.argv[1:]
    for name in names or sorted(path.stem for path in exchanges.DIRECTORY.glob("*.yaml")):
        lines = [json.dumps(answer, sort_keys=True) for answer in answers(url, token, name)]
        path = exchanges.DIRECTORY / f"{name}.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name}: {len(lines)} answers")


if __name__ == "__main__":
    main()
