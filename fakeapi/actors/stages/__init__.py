"""KWOK Stages: changes of the objects that match a selector, after a delay.

The files are KWOK's, unmodified. `reading` checks them when they are loaded: an error has file,
line, Stage and field; no field is ignored. `selection` has selectors, delays and weights, `steps`
the changes, `functions` KWOK's functions of templates; `player` makes the changes.

jq needs `kubesched[kwok]`, CEL `kubesched[cel]`. Nothing imports this package until a Stage is
loaded. Differences from KWOK: nodes and pods have addresses of their own, `NodeName` is the node's
name, `NodePort` is 0, and sprig's functions are refused, except `default` and `dict`.

Source: pkg/utils/{lifecycle,expression,gotpl} and pkg/kwok/controllers of KWOK v0.8 (172defa5).
"""

from __future__ import annotations

from fakeapi.actors.stages.fields import StageError
from fakeapi.actors.stages.player import Stages
from fakeapi.actors.stages.reading import read_stages

__all__ = ["StageError", "Stages", "read_stages"]
