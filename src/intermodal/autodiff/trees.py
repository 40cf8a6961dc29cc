"""Trees: dicts, lists, tuples and dataclasses with tensors at their ends, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from intermodal.errors import ArgumentError
from intermodal.tensor import Tensor

__all__ = ["leaves", "map_leaves", "paths"]


def children(tree: Any) -> list[tuple[str, Any]] | None:
    """The parts of a tree with the text that leads to each; None for what has no parts."""
    if isinstance(tree, dict):
        return [(f"[{key!r}]", value) for key, value in tree.items()]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [(f".{name}", getattr(tree, name)) for name in tree._fields]
    if isinstance(tree, (list, tuple)):
        return [(f"[{i}]", value) for i, value in enumerate(tree)]
    if is_dataclass(tree) and not isinstance(tree, type):
        return [(f".{f.name}", getattr(tree, f.name)) for f in fields(tree)]
    return None


def rebuild(tree: Any, parts: list[Any]) -> Any:
    """A tree of the same kind with other parts."""
    if isinstance(tree, dict):
        return type(tree)(zip(tree, parts, strict=True))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*parts)
    if isinstance(tree, (list, tuple)):
        return type(tree)(parts)
    made = object.__new__(type(tree))  # not by __init__, whose parameters need not be the fields
    for field, part in zip(fields(tree), parts, strict=True):
        object.__setattr__(made, field.name, part)
    return made


def parts_of(tree: Any) -> list[Any] | None:
    """The parts of a tree, without the text that leads to each, which takes longer to make."""
    kind = type(tree)
    if kind is list or kind is tuple:
        return list(tree)
    if kind is dict:
        return list(tree.values())
    if _is_record(tree):
        return [getattr(tree, f.name) for f in fields(tree)]
    found = children(tree)
    return None if found is None else [part for _, part in found]


def _is_record(tree: Any) -> bool:
    return hasattr(type(tree), "__dataclass_fields__") and not isinstance(tree, (dict, list, tuple))


def map_leaves(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree with each tensor replaced by the function's answer; other trees of the same form give further arguments."""
    if isinstance(tree, Tensor):
        return function(tree, *others)
    parts = parts_of(tree)
    if parts is None:
        return tree
    if not others:
        return rebuild(tree, [map_leaves(function, part) for part in parts])
    rest = [_matching(tree, other) for other in others]
    return rebuild(tree, [map_leaves(function, *column) for column in zip(parts, *rest, strict=True)])


def _matching(tree: Any, other: Any) -> list[Any]:
    if type(other) is type(tree) and _is_record(tree):
        return parts_of(other) or []
    parts, found = children(tree) or [], children(other)
    if found is None or [path for path, _ in found] != [path for path, _ in parts]:
        raise ArgumentError(
            f"two trees differ: a {type(tree).__name__} with {[p for p, _ in parts]} stands against a {type(other).__name__}."
        )
    return [value for _, value in found]


def leaves(tree: Any) -> list[Tensor]:
    """The tensors of a tree, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for part in parts_of(tree) or () for leaf in leaves(part)]


def paths(tree: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a tree, each with the text that leads to it: ``['layers'][0].weight``."""
    if isinstance(tree, Tensor):
        yield path, tree
    else:
        for step, part in children(tree) or ():
            yield from paths(part, path + step)
