"""What can be changed in a module, one small thing at a time: the mutants of its source.

Changed are comparisons, boolean and arithmetic operators, numbers, short texts, conditions, what is returned, whole
statements, keyword arguments, members of lists of exceptions and types, and calls with a natural opposite. Left alone
are texts for people (documentation, f-strings, whatever an error says), annotations, imports, `__repr__`, and what
changes no result: `slots`, `kw_only` and `repr` of dataclasses, `strict` of zip, the size of caches, `Literal` and
`cast` for the type checker.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_OPPOSITES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "all": "any",
    "any": "all",
    "floor": "ceil",
    "trunc": "floor",
    "rint": "floor",
    "zeros": "ones",
    "ones": "zeros",
    "triu_indices": "tril_indices",
}
_TRANSPARENT = {"sqrt", "abs", "sorted", "copy", "ravel"}  # calls that are replaced by what they are called on
_SAME_RESULT = {"slots", "kw_only", "repr", "strict", "maxsize"}
_NO_CODE = {"annotation", "returns", "type_comment", "ctx"}


@dataclass(frozen=True)
class Mutation:
    """One change to a parsed module.

    Attributes:
        where: the function or class around it, with dots; "module" at the top.
        change: what is changed into what, in one line.
        nth: from 1, among equal changes in one place.
        lines: first and last line of the statement around it.
        at_import: whether it is executed when the module is imported, and not only when something is called.
        apply: makes the change in the tree.
    """

    where: str
    change: str
    nth: int
    lines: tuple[int, int]
    at_import: bool
    apply: Callable[[], object]

    @property
    def key(self) -> str:
        """Its name within a file, which outlives edits elsewhere."""
        return f"{self.where}: {self.change}" + (f" (no. {self.nth})" if self.nth > 1 else "")


@dataclass(frozen=True)
class _Place:
    scope: tuple[str, ...] = ()
    in_function: bool = False
    in_raise: bool = False
    lines: tuple[int, int] = (1, 1)


_Found = tuple[_Place, str, Callable[[], object]]
_Put = Callable[[ast.AST], None]


def mutations(tree: ast.Module) -> list[Mutation]:
    """All changes that can be made to a module, each on its own, in the order of the source.

    >>> [m.key for m in mutations(ast.parse("def f(a): return a < 1"))][:3]
    ['f: return a < 1 -> return None', 'f: a < 1 -> a <= 1', 'f: a < 1 -> a >= 1']
    """
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for place, change, apply in _in_body(tree, "body", _Place()):
        where, change = ".".join(place.scope) or "module", " ".join(change.split())
        seen[where, change] += 1
        at_import = not place.in_function
        found.append(Mutation(where, change, seen[where, change], place.lines, at_import, apply))
    return found


def mutated(source: str, index: int) -> ast.Module:
    """A module with the change of this index made."""
    tree = ast.parse(source)
    mutations(tree)[index].apply()
    return ast.fix_missing_locations(tree)


def _in_body(owner: ast.AST, field: str, place: _Place) -> Iterator[_Found]:
    body = getattr(owner, field)
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        yield from _in_statement(statement, _item_of(body, i), place)


def _in_statement(node: ast.stmt, put: _Put, place: _Place) -> Iterator[_Found]:
    if isinstance(node, ast.Import | ast.ImportFrom) or _is_for_tools(node):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield from _in_definition(node, place)
        return
    nested = [name for name in ("body", "orelse", "finalbody", "handlers") if getattr(node, name, None)]
    last = max((n.end_lineno or n.lineno for n in _header(node, nested)), default=node.lineno)
    place = _Place(place.scope, place.in_function, isinstance(node, ast.Raise), (node.lineno, last))
    for change, new in _of_statement(node):
        yield place, change, partial(_put_at, put, new, node)
    yield from _in_children(node, place, skip=frozenset(nested))
    for name in nested:
        if name != "handlers":
            yield from _in_body(node, name, place)
            continue
        for handler in node.handlers:  # type: ignore[attr-defined]
            here = _Place(place.scope, place.in_function, False, (handler.lineno, handler.lineno))
            if isinstance(handler.type, ast.Tuple):
                for i, item in enumerate(handler.type.elts):
                    drop = partial(handler.type.elts.pop, i)
                    yield here, f"except: without {_short(item)}", drop
            yield from _in_body(handler, "body", here)


def _put_at(put: _Put, new: ast.AST, node: ast.AST) -> None:
    put(ast.copy_location(new, node))


def _header(node: ast.stmt, nested: list[str]) -> Iterator[ast.expr]:
    for name, value in ast.iter_fields(node):
        if name not in nested:
            for item in value if isinstance(value, list) else [value]:
                yield from (n for n in ast.walk(item) if isinstance(n, ast.expr)) if isinstance(item, ast.AST) else ()


def _is_for_tools(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        return bool(names & {"__all__", "__slots__"})
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return False


def _in_definition(node: ast.FunctionDef | ast.ClassDef, place: _Place) -> Iterator[_Found]:
    if node.name == "__repr__":
        return
    scope = (*place.scope, node.name)
    outside = _Place(scope, place.in_function, False, (node.lineno, node.body[0].lineno - 1))
    for i, decorator in enumerate(node.decorator_list):
        yield from _in_expression(decorator, _item_of(node.decorator_list, i), outside)
    if isinstance(node, ast.FunctionDef):
        yield from _in_children(node.args, outside)
    inside = _Place(scope, place.in_function or isinstance(node, ast.FunctionDef))
    yield from _in_body(node, "body", inside)


def _in_children(node: ast.AST, place: _Place, skip: frozenset[str] = frozenset()) -> Iterator[_Found]:
    for field, value in ast.iter_fields(node):
        if field in skip or field in _NO_CODE:
            continue
        if isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _in_expression(item, _item_of(value, i), place)
        elif isinstance(value, ast.AST):
            yield from _in_expression(value, _field_of(node, field), place)


def _in_expression(node: ast.AST, put: _Put, place: _Place) -> Iterator[_Found]:
    if isinstance(node, ast.JoinedStr) or _is_type(node):
        return
    if isinstance(node, ast.keyword) and node.arg in _SAME_RESULT:
        return
    for change, new in _of_expression(node, place.in_raise):
        yield place, change, partial(_put_at, put, new, node)
    if isinstance(node, ast.BoolOp):
        word = "and" if isinstance(node.op, ast.And) else "or"
        for i, item in enumerate(node.values):
            kept = node.values[:i] + node.values[i + 1 :]
            fewer = ast.copy_location(ast.BoolOp(node.op, kept) if len(kept) > 1 else kept[0], node)
            yield place, f"{word}: without {_short(item)}", partial(put, fewer)
    if isinstance(node, ast.Call) and not place.in_raise:
        for i, argument in enumerate(node.keywords):
            # Of a dataclass, leaving a flag out is the same as turning it.
            if argument.arg not in {None, *_SAME_RESULT} and _short(node.func) != "dataclass":
                change = f"{_short(node.func)}(...) without {_short(argument)}"
                yield place, change, partial(node.keywords.pop, i)
    if isinstance(node, ast.comprehension):
        for i, test in enumerate(node.ifs):
            yield place, f"no filter: if {_short(test)}", partial(node.ifs.pop, i)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        yield from _in_expression(node.args[0], _item_of(node.args, 0), place)
        yield from _of_types(node, place)
        return
    yield from _in_children(node, place)


def _of_types(call: ast.Call, place: _Place) -> Iterator[_Found]:
    types: list[ast.expr] = []
    rest = call.args[1]
    while isinstance(rest, ast.BinOp):
        types.insert(0, rest.right)
        rest = rest.left
    types.insert(0, rest)
    if len(types) > 1:
        for dropped in types:
            kept = [each for each in types if each is not dropped]
            new: ast.expr = ast.Tuple(elts=kept, ctx=ast.Load())
            change = f"{_short(call)} without {_short(dropped)}"
            yield place, change, partial(_put_at, _item_of(call.args, 1), new, call)


def _is_type(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return node.value.id in {"Literal", "NDArray", "ClassVar", "Final", "Sequence"}
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"


def _of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield f"return {_short(node.value)} -> return None", ast.Return(value=ast.Constant(None))
    elif isinstance(node, ast.Raise):
        call = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        yield f"no raise {_short(call) if call else ''}", ast.Pass()
    elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Yield):
        yield f"no {_short(node)}", ast.Pass()
    elif isinstance(node, ast.AugAssign):
        yield f"no {_short(node)}", ast.Pass()
        yield f"{_short(node)} -> =", ast.Assign(targets=[node.target], value=node.value)
    elif isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple):
        yield f"no {_short(node)}", ast.Pass()
    elif isinstance(node, ast.Continue):
        yield "continue -> break", ast.Break()
    elif isinstance(node, ast.Break):
        yield "break -> continue", ast.Continue()
    elif isinstance(node, ast.If | ast.While) and not _is_negated_elsewhere(node.test):
        opposite = deepcopy(node)
        opposite.test = ast.UnaryOp(op=ast.Not(), operand=opposite.test)
        yield f"{type(node).__name__.lower()} {_short(node.test)} -> not", opposite


def _of_expression(node: ast.AST, in_raise: bool) -> Iterator[tuple[str, ast.expr]]:
    new: ast.expr
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                new = ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)
                yield f"{_short(node)} -> {_short(new)}", new
    elif isinstance(node, ast.BoolOp):
        new = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        yield f"{'or' if isinstance(node.op, ast.And) else 'and'} in {_short(node)}", new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield f"{_short(node)} -> {_short(node.operand)}", node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        new = ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
        yield f"{_short(node)} -> {_short(new)}", new
    elif isinstance(node, ast.IfExp) and not _is_negated_elsewhere(node.test):
        new = ast.IfExp(node.test, node.orelse, node.body)
        yield f"{_short(node)} -> swapped", new
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node, in_raise)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)


def _of_constant(node: ast.Constant, in_raise: bool) -> Iterator[tuple[str, ast.expr]]:
    value = node.value
    others: list[object] = []
    if isinstance(value, bool):
        others = [not value]
    elif isinstance(value, int):
        others = [value + 1, value - 1]
    elif isinstance(value, float):
        others = [value + 1.0]
    elif isinstance(value, str) and value and " " not in value and not in_raise:
        others = ["XX" + value]
    for other in others:
        yield f"{value!r} -> {other!r}", ast.Constant(other)  # type: ignore[arg-type]


def _of_call(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    function = node.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if name in _OPPOSITES:
        other = deepcopy(function)
        setattr(other, "id" if isinstance(other, ast.Name) else "attr", _OPPOSITES[name])
        new = ast.Call(other, node.args, node.keywords)
        yield f"{_short(node)} -> {_OPPOSITES[name]}", new
    if name in _TRANSPARENT:
        inner = node.args[0] if node.args else function.value if isinstance(function, ast.Attribute) else None
        if inner is not None:
            yield f"{_short(node)} -> {_short(inner)}", inner


def _is_negated_elsewhere(test: ast.expr) -> bool:
    """Whether another mutation of the condition itself turns it around."""
    single = isinstance(test, ast.Compare) and len(test.ops) == 1
    return single or isinstance(test, ast.Constant) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _short(node: ast.AST, most: int = 90) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else text[: most - 3] + "..."


def _item_of(items: list[Any], i: int) -> _Put:
    return lambda new: items.__setitem__(i, new)


def _field_of(node: ast.AST, field: str) -> _Put:
    return lambda new: setattr(node, field, new)


__all__ = ["Mutation", "mutated", "mutations"]
