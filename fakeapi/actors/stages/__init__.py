"""KWOK Stages: what becomes of objects that match, and when.

A user brings the files KWOK is run with, unmodified. `reading` judges them when they are loaded:
what is not understood is refused with file, line, Stage and field; nothing is ignored.
`selection` says which object is in which Stage, for how long and with what weight, `steps` what is
done then, `functions` what KWOK adds to templates; `player` does it.

Of jq there is the part in `..jq`, of sprig all but what `..templates.sprig` names; CEL comes with
`kubesched[cel]`.
What differs from KWOK: nodes and pods have addresses of their own instead of KWOK's, `NodeName` is
the node's name, `NodePort` is 0, and `env` and the like are refused.

Source: pkg/utils/{lifecycle,expression,gotpl} and pkg/kwok/controllers of KWOK v0.8 (172defa5).
"""

from __future__ import annotations

from fakeapi.actors.stages.errors import StageError
from fakeapi.actors.stages.player import Stages
from fakeapi.actors.stages.reading import read_stages

__all__ = ["StageError", "Stages", "read_stages"]
