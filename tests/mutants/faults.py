"""The list of faults: each is one small change of one place in the scheduler's decisions.

The changes: a comparison or an operator becomes its neighbour, an integer grows by one, a boolean
is flipped, a condition is negated, a filter of a comprehension is dropped, a statement is dropped.

Left out: text of logs and errors, type checks, assertions, docstrings, annotations, decorators,
code that only explains decisions to people, checks of invariants, and the validation of
configurations (a scheduler that does not start is no case).
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("scheduler/plugins", "scheduler/queue", "scheduler/preemption")

#: The plugins of old releases, which no default profile enables, and code that only explains.
_LEFT_OUT = (
    "scheduler/plugins/legacy/",
    "scheduler/plugins/dynamic_resources/explanation.py",
    "scheduler/queue/invariants.py",
)
#: Texts, checks of our own invariants, and refused configurations, which no case can expect.
_SILENT_FUNCTIONS = {
    "__repr__",
    "__str__",
    "_label_text",
    "_unmet",
    "complaints",
    "remedies",
}
#: Keyword arguments that change no decision: sizes of caches, checks of lengths.
_SILENT_KEYWORDS = {"maxsize", "strict", "stacklevel"}

_COMPARISONS: dict[type[ast.cmpop], tuple[str, type[ast.cmpop]]] = {
    ast.Lt: ("lt-le", ast.LtE),
    ast.LtE: ("le-lt", ast.Lt),
    ast.Gt: ("gt-ge", ast.GtE),
    ast.GtE: ("ge-gt", ast.Gt),
    ast.Eq: ("eq-ne", ast.NotEq),
    ast.NotEq: ("ne-eq", ast.Eq),
    ast.In: ("in-notin", ast.NotIn),
    ast.NotIn: ("notin-in", ast.In),
    ast.Is: ("is-isnot", ast.IsNot),
    ast.IsNot: ("isnot-is", ast.Is),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, type[ast.operator]]] = {
    ast.Add: ("add-sub", ast.Sub),
    ast.Sub: ("sub-add", ast.Add),
    ast.Mult: ("mul-floordiv", ast.FloorDiv),
    ast.Div: ("div-mul", ast.Mult),
    ast.FloorDiv: ("floordiv-mul", ast.Mult),
    ast.Mod: ("mod-mul", ast.Mult),
    ast.BitAnd: ("bitand-bitor", ast.BitOr),
    ast.BitOr: ("bitor-bitand", ast.BitAnd),
}
_DROPPED: dict[type[ast.stmt], str] = {
    ast.Expr: "drop-call",
    ast.Assign: "drop-assign",
    ast.AugAssign: "drop-assign",
    ast.Delete: "drop-delete",
    ast.Break: "drop-break",
    ast.Continue: "drop-continue",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One change at one place. `number` counts the faults of its file.

    `lines` are those that a case must execute to meet the fault, and `around` those of its whole
    statement. `function` is empty if the place is executed on import.
    """

    id: str
    file: str
    number: int
    function: str
    before: str
    lines: range
    around: range

    @property
    def module(self) -> str:
        """The name of the file's module."""
        parts = Path(self.file).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def all_faults() -> list[Fault]:
    """Return the faults of all files, in the order of files and lines."""
    files = sorted(
        path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py")
    )
    return [
        fault
        for file in files
        if not file.startswith(_LEFT_OUT)
        for fault in faults_of((ROOT / file).read_text(encoding="utf-8"), file)
    ]


def sample(count: int, seed: int) -> list[Fault]:
    """Return `count` faults in an order that the seed decides.

    The order depends on a fault's function and text, not on its line: an edit elsewhere in the file
    leaves most of the sample as it is.
    """
    same: Counter[str] = Counter()
    ranked = []
    for fault in all_faults():
        place = f"{seed}/{fault.file}/{fault.function}/{fault.id.split(':')[2]}/{fault.before}"
        same[place] += 1
        digest = hashlib.sha256(f"{place}/{same[place]}".encode()).hexdigest()
        ranked.append((digest, fault))
    return [fault for _, fault in sorted(ranked, key=lambda pair: pair[0])[:count]]


def faults_of(source: str, file: str) -> list[Fault]:
    """Return the faults of one file."""
    same: Counter[str] = Counter()
    found = []
    for number, site in enumerate(_Sites(ast.parse(source)).sites):
        id_ = f"{file}:{site.node.lineno}:{site.operator}"
        same[id_] += 1
        found.append(
            Fault(
                id=id_ if same[id_] == 1 else f"{id_}:{same[id_]}",
                file=file,
                number=number,
                function=site.function,
                before=ast.unparse(site.node),
                lines=_lines(site.node),
                around=_lines(site.statement),
            )
        )
    return found


def planted(source: str, fault: Fault) -> ast.Module:
    """Return the syntax tree of the file with the fault."""
    tree = ast.parse(source)
    _Sites(tree).sites[fault.number].plant()
    return ast.fix_missing_locations(tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """A place in a syntax tree, and a function that changes the tree there."""

    operator: str
    node: ast.expr | ast.stmt
    statement: ast.stmt
    function: str
    plant: Callable[[], None]


class _Sites(ast.NodeVisitor):
    """Finds the places, in the order of the text."""

    def __init__(self, tree: ast.Module) -> None:
        self.sites: list[_Site] = []
        self._scopes: list[str] = []
        self._functions = 0
        self._statement: ast.stmt = tree.body[0]
        self._block(tree.body)

    def visit(self, node: ast.AST) -> None:
        """Visit a node; statements are visited by `_block`."""
        if isinstance(node, ast.stmt):
            self._statement = node
        super().visit(node)

    def _block(self, body: list[ast.stmt]) -> None:
        for index, statement in enumerate(body):
            self._statement = statement
            if _is_silent(statement):
                continue
            if _is_droppable(statement) and self._functions:
                self._add(
                    _DROPPED[type(statement)], statement, lambda index=index: _drop(body, index)
                )
            self.visit(statement)

    def _add(self, operator: str, node: ast.expr | ast.stmt, plant: Callable[[], None]) -> None:
        self.sites.append(
            _Site(
                operator=operator,
                node=node,
                statement=self._statement,
                function=".".join(self._scopes) if self._functions else "",
                plant=plant,
            )
        )

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list"}:
                continue
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self._block(value)
            elif isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.AST):
                        self.visit(item)
            elif isinstance(value, ast.AST):
                self.visit(value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any("Protocol" in ast.unparse(base) for base in node.bases):
            return
        self._scopes.append(node.name)
        self._block(node.body)
        self._scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        returns = ast.unparse(node.returns) if node.returns is not None else ""
        if node.name in _SILENT_FUNCTIONS or returns == "list[FieldError]":
            return
        self._scopes.append(node.name)
        self.visit(node.args)
        self._functions += 1
        self._block(node.body)
        self._functions -= 1
        self._scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _SILENT_KEYWORDS:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, operator in enumerate(node.ops):
            name, other = _COMPARISONS[type(operator)]
            self._add(name, node, _replacing(node.ops, index, other()))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._arithmetic(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._arithmetic(node)
        self.generic_visit(node)

    def _arithmetic(self, node: ast.BinOp | ast.AugAssign) -> None:
        found = _ARITHMETIC.get(type(node.op))
        if found is not None:
            name, other = found
            self._add(name, node, _setting(node, "op", other()))

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        is_and = isinstance(node.op, ast.And)
        other = ast.Or() if is_and else ast.And()
        self._add("and-or" if is_and else "or-and", node, _setting(node, "op", other))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("flip-bool", node, _setting(node, "value", not node.value))
        elif isinstance(node.value, int):
            self._add("int-plus-1", node, _setting(node, "value", node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        self._condition(node)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node)
        self.generic_visit(node)

    def _condition(self, node: ast.If | ast.IfExp) -> None:
        if not _is_type_check(node.test):
            negated = ast.UnaryOp(op=ast.Not(), operand=node.test)
            self._add("negate-if", node.test, _setting(node, "test", negated))

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for index, test in enumerate(node.ifs):
            if not _is_type_check(test):
                self._add("drop-filter", test, _replacing(node.ifs, index, ast.Constant(True)))
        self.generic_visit(node)


def _is_silent(node: ast.stmt) -> bool:
    """True for statements that decide nothing: errors, logs, docstrings, imports for types."""
    if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or ast.unparse(node.value).startswith("_log.")
    return False


def _is_droppable(node: ast.stmt) -> bool:
    """True if the function can still run without the statement: no name is left unbound."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return type(node) in _DROPPED


def _is_type_check(test: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        for node in ast.walk(test)
    )


def _lines(node: ast.expr | ast.stmt) -> range:
    """Return the lines of a node; of a statement with a block those before it."""
    end = node.end_lineno or node.lineno
    block: Sequence[ast.stmt] | None = getattr(node, "body", None)
    if isinstance(node, ast.stmt) and block:
        end = max(node.lineno, block[0].lineno - 1)
    return range(node.lineno, end + 1)


def _drop(body: list[ast.stmt], index: int) -> None:
    body[index] = ast.copy_location(ast.Pass(), body[index])


def _setting(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def _replacing(items: list[Any], index: int, value: object) -> Callable[[], None]:
    def plant() -> None:
        items[index] = value

    return plant
