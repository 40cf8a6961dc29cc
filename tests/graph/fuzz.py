"""Changes that turn a graph, its bytes or its text into something that nobody would write."""

from __future__ import annotations

import random
import re
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import msgpack
import numpy as np

from intermodal import dtypes
from intermodal.graph.binary import MAGIC
from intermodal.graph.ir import GraphIr, Status, TensorIr
from intermodal.graph.sizes import Size
from intermodal.graph.text import to_text
from intermodal.ops.table import TABLE

NAMES = tuple(TABLE)
LEAVES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 10_000, 2**31, 2**40, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400, 0.0, -0.0, 1.5, 1e308,
    float("nan"), float("inf"), 1j, "", "n", "float32", "constant", "a" * 70, "x" * 20_000, "\ud800", "\0", b"", b"\x00" * 64,
    (), (0,), (0, 0), (1,) * 70, (2**40,) * 64, ((),) * 40, (1, (2, (3, (4, (5, (6, (7, (8, (9, (10, 11)))))))))),
    [], [1], {}, {"size": "n"}, {"size": "a" * 900 + "!"}, {"slice": [0, 1, 0]}, {"tensor": 0}, {"dtype": "int4"}, {"complex": [0.0, 1.0]},
    slice(None), slice(0, 2**62, 1), slice(None, None, 0), slice(None, None, -1), slice("a"), Size.named("n"), Size.named("zz"),
    Size({}), Size({("n",) * 40: Fraction(10**18)}), Size({("no name",): Fraction(1)}), Size({("n",): Fraction(1, 7)}),
    dtypes.float32, dtypes.int64, dtypes.bool_, dtypes.int4, np.float64(1), np.zeros(2), np.zeros(3, "M8[s]"), object(), int,
    TensorIr(0, (2, 3), dtypes.float32), TensorIr(1, (2**40,), dtypes.int64, Status.LAST_USE), Status.LAST_USE, NAMES[0],
)  # fmt: skip


def bent(value: Any, draw: random.Random, depth: int = 0) -> Any:
    """A value with one part of it changed."""
    if depth > 40 or draw.random() < 0.12:
        return draw.choice(LEAVES)
    if is_dataclass(value) and not isinstance(value, type):
        name = draw.choice([f.name for f in fields(value)])
        if name == "op":
            return replace(value, op=draw.choice(NAMES))
        return replace(value, **{name: bent(getattr(value, name), draw, depth + 1)})
    if isinstance(value, (tuple, list)):
        parts = list(value)
        kind = draw.randrange(6)
        if kind == 0 or not parts:
            parts.insert(draw.randint(0, len(parts)), draw.choice(LEAVES))
        elif kind == 1:
            del parts[draw.randrange(len(parts))]
        elif kind == 2:
            parts.append(draw.choice(parts))
        elif kind == 3:
            draw.shuffle(parts)
        else:
            place = draw.randrange(len(parts))
            parts[place] = bent(parts[place], draw, depth + 1)
        return type(value)(parts)
    if isinstance(value, dict) and value:
        name = draw.choice(list(value))
        rest = {k: v for k, v in value.items() if k != name}
        return draw.choice([rest, {**rest, name: bent(value[name], draw, depth + 1)}, {**value, "axis": 1}])
    if type(value) is int:
        return draw.choice([value + 1, value - 1, -value, value * 1000, 2**40, draw.choice(LEAVES)])
    return draw.choice(LEAVES)


HOSTILE = (-1, 0, 1, 2, 3, 5, 64, 1000, 99_999, 2**31, 2**40 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1, -(2**63))
WORDS = ("constant", "reflect", "mean", "none", "same", "valid", "ij,jk->ik", "...ij->...ji", "a" * 100, "", "add", "nearest")


def leaned(value: Any, draw: random.Random) -> Any:
    """A value of the same type with one number or word in it changed: what looks right until the rule of the op sees it."""
    if isinstance(value, tuple):
        if value and draw.random() < 0.7:
            place = draw.randrange(len(value))
            return (*value[:place], leaned(value[place], draw), *value[place + 1 :])
        return draw.choice([(*value, 0), (*value, *value), value[1:], value * 200, (*value, draw.choice(HOSTILE))])
    if isinstance(value, slice):
        parts = [value.start, value.stop, value.step]
        parts[draw.randrange(3)] = draw.choice((None, *HOSTILE))
        return slice(*parts)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice((value + 1, value - 1, *HOSTILE))
    if isinstance(value, (float, complex)):
        return draw.choice((0.0, -1.0, 1e308, 5e-324, float("nan"), float("-inf"), 1e15))
    if isinstance(value, str):
        return draw.choice(WORDS)
    return draw.choice(dtypes.ALL) if isinstance(value, dtypes.DType) else draw.choice((None, 0, *HOSTILE, (0,), "sum", 1.5))


def leaned_graph(ir: GraphIr, draw: random.Random) -> GraphIr:
    """A graph of the right form whose attributes, sizes or dtypes do not fit, or hardly; or whose op is another."""
    operations = list(ir.operations)
    place = draw.randrange(len(operations)) if operations else None
    kind = draw.randrange(4)
    if kind < 2 and place is not None and operations[place].attrs:
        name = draw.choice(list(operations[place].attrs))
        attrs = {**operations[place].attrs, name: leaned(operations[place].attrs[name], draw)}
        operations[place] = replace(operations[place], attrs=attrs)
        return replace(ir, operations=tuple(operations))
    if kind == 2 and place is not None:
        mine = TABLE[operations[place].op]
        others = [r.name for r in TABLE.values() if [p.role for p in r.params] == [p.role for p in mine.params]]
        chosen = TABLE[draw.choice(others)]
        values = [operations[place].attrs[p.name] for p in mine.params if p.name in operations[place].attrs]
        wanted = [p.name for p in chosen.params if p.role.value == "attribute" and p.name != "device"]
        operations[place] = replace(operations[place], op=chosen.name, attrs=dict(zip(wanted, values, strict=False)))
        return replace(ir, operations=tuple(operations))
    tensors = [t for t in ir.inputs if t.shape]
    if not tensors:
        return ir
    chosen_id, shape, dtype = (
        (t := draw.choice(tensors)).id,
        leaned(t.shape, draw),
        draw.choice((t.dtype, draw.choice(dtypes.ALL))),
    )

    def changed(value: Any) -> Any:
        if isinstance(value, TensorIr):
            return replace(value, shape=shape, dtype=dtype) if value.id == chosen_id else value
        return tuple(map(changed, value)) if isinstance(value, tuple) else value

    return replace(
        ir,
        inputs=changed(ir.inputs),
        outputs=changed(ir.outputs),
        operations=tuple(replace(o, inputs=changed(o.inputs)) for o in operations),
    )


def bent_graph(ir: GraphIr, draw: random.Random) -> GraphIr:
    """A graph with one to three changes. Statuses are put right in half of them, so that the later checks are reached."""
    if draw.random() < 0.6:
        return leaned_graph(ir, draw)
    for _ in range(draw.randint(1, 3)):
        field = draw.choices(["operations", *(f.name for f in fields(ir))], [6, *[1] * len(fields(ir))])[0]
        ir = replace(ir, **{field: bent(getattr(ir, field), draw)})
    try:
        return ir.with_status() if draw.random() < 0.5 else ir
    except Exception:  # what is no tuple of tensors has no statuses
        return ir


def bent_bytes(data: bytes, draw: random.Random) -> bytes:
    """Bytes with some changed, cut or moved; or read, changed as values, and written again; or of no meaning at all."""
    kind = draw.randrange(8)
    if kind == 0:
        return (MAGIC + b"\x01\x00" if draw.random() < 0.8 else b"") + draw.randbytes(draw.randrange(200))
    if kind in (1, 2):
        raw = bytearray(data)
        for _ in range(draw.randint(1, 8)):
            place = draw.randrange(10 if draw.random() < 0.9 else 0, len(raw))
            raw[place : place + draw.randrange(3)] = draw.choice(
                [bytes([draw.randrange(256)]), b"\xdd\xff\xff\xff\xff", b"\xdb\x7f\xff\xff\xff", b"\xc7\x03\x01abc", b"\xdf\x00\x01\x00\x00", b"\x91" * 300, raw[:40]]
            )  # fmt: skip
        return bytes(raw[: draw.randrange(len(raw))]) if draw.random() < 0.2 else bytes(raw)
    unpacker = msgpack.Unpacker(raw=False)
    unpacker.feed(data[10:])
    lists = list(unpacker)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(lists))
        lists[place] = bent(lists[place], draw) if kind < 6 else _leaned_list(lists[place], draw)
    return data[:10] + b"".join(_packed(part) for part in lists)


def _leaned_list(value: Any, draw: random.Random) -> Any:
    if isinstance(value, list) and value:
        place = draw.randrange(len(value))
        return [*value[:place], _leaned_list(value[place], draw), *value[place + 1 :]]
    return leaned(value, draw)


def _packed(value: Any) -> bytes:
    try:
        packed: bytes = msgpack.packb(value, default=lambda other: repr(other)[:50], unicode_errors="surrogatepass")
    except (ValueError, OverflowError):
        return b"\xc0"
    return packed


_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)


def bent_text(given: tuple[GraphIr, str], draw: random.Random) -> str:
    """The text of a bent graph, or a text with some of its words and marks changed, taken out, doubled or moved."""
    ir, text = given
    if draw.random() < 0.5:
        return to_text(leaned_graph(ir, draw))
    tokens = _TOKEN.findall(text)
    for _ in range(draw.randint(1, 5)):
        if not tokens:
            break
        place = draw.randrange(len(tokens))
        kind = draw.randrange(5)
        if kind == 0:
            del tokens[place]
        elif kind == 1:
            tokens.insert(place, draw.choice(tokens))
        elif kind == 2:
            tokens[place] = draw.choice(
                ['"', "(" * 2000, "9" * 5000, "-", "%", "nan(", "1e999", "1/0*n", "a" * 900 + "!", "::", "\0", "é", "#", "data"]
            )
        elif kind == 3:
            tokens[place] = draw.choice(NAMES)
        else:
            tokens[place] = str(draw.choice((0, 1, 5, 2**40, 2**64, -3, 0.5, None, True)))
    return "".join(tokens)
