"""The page: a template with the style, the script and the content in it. It loads nothing else."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Template

_FILES: Final = Path(__file__).parent
#: Inside a script element only `<` can end the element.
_ESCAPED: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def static_page(content: bytes, *, title: str) -> str:
    """Return a page with its content, which needs no network; `content` is of `report_data`."""
    return _page(content, title=title, live="")


def live_page() -> str:
    """Return the page that polls the content from `ui/state` and `ui/pods/NAMESPACE/NAME`."""
    return _page(b"null", title="kubesched", live="ui")


def _page(content: bytes, *, title: str, live: str) -> str:
    style, script = _text("page.css"), _text("page.js") + _text("steps.js")
    return _template().render(
        title=title,
        live=live,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        content=Markup(content.decode().translate(_ESCAPED)),  # noqa: S704 - escaped
    )


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FILES), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html")


@functools.cache
def _text(name: str) -> Markup:
    text = (_FILES / name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - a file of this package


def _hash(text: str) -> str:
    """Return the hash by which the page's content security policy allows an inline element."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
