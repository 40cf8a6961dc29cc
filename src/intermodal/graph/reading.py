"""`Reader`: the text form read from front to back. What it has read is a graph of the right form, not yet a checked one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from intermodal.dtypes import DType, as_dtype, names
from intermodal.errors import GraphError, IntermodalError
from intermodal.graph.ir import ConstantIr, GraphIr, Operand, OperationIr, Status, TensorIr
from intermodal.graph.limits import Limits
from intermodal.graph.sizes import AnySize, Size
from intermodal.graph.values import FLOAT, array_of, from_numbers, read_float

__all__ = ["BARE", "Reader"]

T = TypeVar("T")
BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
"""A name that stands without quotes."""

_SPACE: Final = re.compile(r"(?:\s+|#[^\n]*)*")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ID: Final = re.compile(r"%([0-9]{1,19})")
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_END: Final = r"(?=\s*[,:)\]])"  # what follows a value
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}" + _END)
_NUMBER: Final = re.compile(rf"(?P<real>-?{FLOAT})(?:(?P<imaginary>[+-]{FLOAT})j)?{_END}")
_TERM: Final = r"(?:[0-9]{1,19}(?:/[0-9]{1,19})?(?:\*[A-Za-z_]\w*)*|[A-Za-z_]\w*(?:\*[A-Za-z_]\w*)*)"
_SIZE: Final = re.compile(rf"-?{_TERM}(?:\s*[+-]\s*{_TERM})*", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")
_WORDS: Final[dict[str, Any]] = {"None": None, "True": True, "False": False, **{name: as_dtype(name) for name in names()}}
_KNOWN: Final = re.compile(rf"(?:{'|'.join(_WORDS)}){_END}")
_VERSION: Final = re.compile(r"v([0-9]{1,9})")
_KEYWORD: Final = re.compile(r"([A-Za-z_]\w*)\s*=", re.ASCII)


class Reader:
    """Reads the text from front to back; each method takes one part of the grammar and moves on."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text, self.limits, self.place = text, limits, 0
        self.types: dict[int, tuple[tuple[AnySize, ...], DType]] = {}

    # --- characters ----------------------------------------------------------------------------------------------

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.place) + 1

    def fail(self, wanted: str) -> NoReturn:
        self.space()
        found = self.text[self.place : self.place + 24].partition("\n")[0]
        raise GraphError(
            f"line {self.line}: {wanted} is wanted here, not {found!r}."
            if found
            else f"line {self.line}: {wanted} is wanted, but the text ends."
        )

    def space(self) -> None:
        found = _SPACE.match(self.text, self.place)
        assert found is not None  # it matches nothing, too
        self.place = found.end()

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.space()
        found = pattern.match(self.text, self.place)
        if found is not None:
            self.place = found.end()
        return found

    def sees(self, mark: str) -> bool:
        """Take a mark if it is next."""
        self.space()
        if not self.text.startswith(mark, self.place):
            return False
        self.place += len(mark)
        return True

    def mark(self, mark: str) -> None:
        if not self.sees(mark):
            self.fail(repr(mark))

    def many(self, part: Callable[[], T], close: str) -> list[T]:
        """Parts with commas between them, up to a mark; a comma may stand after the last."""
        parts: list[T] = []
        while not self.sees(close):
            parts.append(part())
            if not self.sees(","):
                self.mark(close)
                break
        return parts

    # --- the grammar ---------------------------------------------------------------------------------------------

    def graph(self) -> tuple[GraphIr, list[int]]:
        """The graph, and the line of each op."""
        self.mark("graph")
        version = self.take(_VERSION)
        if version is None:
            self.fail("a version such as v1")
        self.mark("(")
        inputs = self.many(self.named, ")")
        self.mark("->")
        self.mark("(")
        outputs = self.many(self.named, ")")
        for _, tensor in inputs:
            self.types[tensor.id] = tensor.shape, tensor.dtype
        constants: dict[int, ConstantIr | TensorIr] = {}
        operations: list[OperationIr] = []
        lines: list[int] = []
        counted, line = 0, 1
        while not self.at_end():
            self.space()
            line += self.text.count("\n", counted, self.place)
            counted = self.place
            made = self.results()
            self.mark("=")
            op = self.word("an op")
            if op == "constant":
                self.constant(made, constants)
            else:
                operations.append(self.operation(op, made))
                lines.append(line)
        if self.sees("data"):
            self.data(constants)
        self.space()
        if self.place < len(self.text):
            self.fail("the end")
        missing = next((c for c in constants.values() if isinstance(c, TensorIr)), None)
        if missing is not None:
            self.fail(f"the data of %{missing.id}")
        ir = GraphIr(
            tuple(t for _, t in inputs),
            tuple(t for _, t in outputs),
            tuple(operations),
            tuple(c for c in constants.values() if isinstance(c, ConstantIr)),
            tuple(name for name, _ in inputs if name is not None),
            tuple(name for name, _ in outputs if name is not None),
            int(version[1]),
        )
        return ir, lines

    def at_end(self) -> bool:
        self.space()
        return self.place >= len(self.text) or self.text.startswith("data", self.place)

    def named(self) -> tuple[str | None, TensorIr]:
        self.space()
        name = (
            None
            if self.text.startswith("%", self.place)
            else self.string()
            if self.text.startswith('"', self.place)
            else self.label()
        )
        return name, self.typed(Status.READ_ONLY)

    def label(self) -> str:
        found = self.take(BARE)
        if found is None:
            self.fail("a name")
        return found[0]

    def word(self, what: str) -> str:
        found = self.take(_WORD)
        if found is None:
            self.fail(what)
        return found[0]

    def string(self) -> str:
        found = self.take(_STRING)
        if found is None:
            self.fail("a text in double quotes")
        try:
            return str(json.loads(found[0]))
        except ValueError:
            self.place = found.start()
            self.fail("a text with JSON's escapes")

    def id(self) -> int:
        found = self.take(_ID)
        if found is None:
            self.fail("a tensor such as %3")
        return int(found[1])

    def typed(self, status: Status) -> TensorIr:
        number = self.id()
        self.mark(":")
        shape, dtype = self.type()
        return TensorIr(number, shape, dtype, status)

    def type(self) -> tuple[tuple[AnySize, ...], DType]:
        name = self.word("a dtype")
        if not isinstance(_WORDS.get(name), DType):
            self.place -= len(name)
            self.fail("a dtype")
        self.mark("[")
        return tuple(self.many(self.size, "]")), _WORDS[name]

    def size(self) -> AnySize:
        found = self.take(_INTEGER)
        return self.named_size() if found is None else int(found[0])

    def named_size(self) -> Size:
        found = self.take(_SIZE)
        if found is None:
            self.fail("a size")
        try:
            return Size.parse(found[0])
        except IntermodalError as error:
            self.place = found.start()
            raise GraphError(f"line {self.line}: {error}") from error

    def results(self) -> tuple[TensorIr, ...]:
        if self.sees("("):
            self.mark(")")
            return ()
        made = [self.typed(Status.NOT_YET)]
        while self.sees(","):
            made.append(self.typed(Status.NOT_YET))
        return tuple(made)

    def operation(self, op: str, made: tuple[TensorIr, ...]) -> OperationIr:
        operands: list[Operand] = []
        attrs: dict[str, Any] = {}

        def argument() -> None:
            name = self.take(_KEYWORD)
            if name is None and attrs:
                self.fail("an attribute such as axis=0")
            elif name is None:
                operands.append(self.operand())
            elif name[1] in attrs:
                self.fail(f"another attribute than {name[1]} again")
            else:
                attrs[name[1]] = self.value(0)

        self.mark("(")
        self.many(argument, ")")
        for tensor in made:
            self.types[tensor.id] = tensor.shape, tensor.dtype
        return OperationIr(op, tuple(operands), made, attrs)

    def operand(self) -> Operand:
        if self.sees("["):
            return tuple(self.many(self.use, "]"))
        self.space()
        return self.use() if self.text.startswith("%", self.place) else self.value(0)

    def use(self) -> TensorIr:
        number = self.id()
        status = Status.LAST_USE if self.sees("!") else Status.READ_ONLY
        if self.sees(":"):  # the form of one that differs from what was made, which `check` refuses
            return TensorIr(number, *self.type(), status)
        if number not in self.types:
            self.fail(f"a tensor that is made on an earlier line than %{number}")
        return TensorIr(number, *self.types[number], status)

    def value(self, depth: int) -> Any:
        if depth > self.limits.depth:
            self.fail(f"a value of at most {self.limits.depth} levels")
        if self.sees("("):
            return tuple(self.many(lambda: self.value(depth + 1), ")"))
        self.space()
        if self.text.startswith('"', self.place):
            return self.string()
        start = None if self.text.startswith(":", self.place) else self.plain()
        if not self.sees(":"):
            return start
        stop = self.slice_part()
        self.mark(":")
        return slice(start, stop, self.slice_part())

    def slice_part(self) -> Any:
        self.space()
        return None if self.text[self.place : self.place + 1] in (":", ",", ")", "") else self.plain()

    def plain(self) -> Any:
        """A number, a size, a dtype, None, True or False."""
        found = self.take(_INTEGER)
        if found is not None:
            return int(found[0])
        found = self.take(_NUMBER)
        if found is not None:
            real = _signed(found["real"])
            return real if found["imaginary"] is None else complex(real, _signed(found["imaginary"]))
        found = self.take(_KNOWN)
        return self.named_size() if found is None else _WORDS[found[0]]

    def constant(self, made: tuple[TensorIr, ...], constants: dict[int, ConstantIr | TensorIr]) -> None:
        if len(made) != 1 or made[0].id in constants:
            self.fail("one tensor that is a constant once")
        tensor = made[0]
        if self.sees("["):
            elements = self.many(self.plain, "]")
            shape = tuple(n if isinstance(n, int) else -1 for n in tensor.shape)
            try:
                constants[tensor.id] = ConstantIr(tensor.id, from_numbers(elements, tensor.dtype, shape))
            except GraphError as error:
                raise GraphError(f"line {self.line}: {error}") from error
        elif self.sees("data"):
            constants[tensor.id] = tensor
        else:
            self.fail("[ or data")
        self.types[tensor.id] = tensor.shape, tensor.dtype

    def data(self, constants: dict[int, ConstantIr | TensorIr]) -> None:
        while self.place < len(self.text):
            number = self.id()
            tensor = constants.get(number)
            if not isinstance(tensor, TensorIr):
                self.fail(f"a constant whose data is missing, other than %{number}")
            self.mark(":")
            found = self.take(_BASE64)
            assert found is not None  # it matches nothing, too
            try:
                value = array_of(base64.b64decode("".join(found[0].split()), validate=True), tensor.dtype, tensor.shape)
            except ValueError as error:  # ours too
                raise GraphError(f"line {self.line}: the data of %{number}: {error}") from error
            constants[number] = ConstantIr(number, value)
            self.space()


def _signed(text: str) -> float:
    value = read_float(text.lstrip("+-"))
    return -value if text.startswith("-") else value
