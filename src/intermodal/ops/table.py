"""The op table: one row per op, and the decorators that write a row. What an op *does* lives in the family files.

A row is a function. Its signature is the public signature, its docstring the documentation, its body the
decomposition into other ops; a primitive has no body. Which parameters are tensors is read off the annotations::

    @op(infer=rules.elementwise(FLOAT))
    def logit(x: Operand, /) -> Tensor:
        '''The inverse of the logistic function, log(x / (1 - x)).'''
        return log(x) - log1p(-x)

The decorator hands back the public function. It reaches the engines through `connect`, which dispatch calls,
so that this layer knows none of the layers above it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from intermodal.dtypes import DType, Scalar
from intermodal.errors import InvalidValueError

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

__all__ = ["TABLE", "ByAttribute", "Inferred", "NotDifferentiable", "Op", "Param", "Role", "Spec", "connect", "op", "primitive"]

F = TypeVar("F", bound=Callable[..., object])
Shape: TypeAlias = tuple[int, ...]
Operand: TypeAlias = "Tensor | bool | int | float | complex"


class Spec(NamedTuple):
    """What is known of a tensor without its data. A size is None where it depends on the data (``nonzero``)."""

    shape: Any  # tuple[int, ...]; Any because a data-dependent size is None and every rule but five would have to say so
    dtype: DType

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        total = 1
        for n in self.shape:
            total *= n
        return total


class Inferred(NamedTuple):
    """What an op's ``infer`` found: the results, the attributes in normal form, the dtypes its operands are brought to.

    One dtype in ``operands`` is for all of them; a tuple has one for each, None for what stays as it is.
    """

    outputs: tuple[Spec, ...]
    attrs: Mapping[str, object]
    operands: DType | tuple[DType | None, ...] | None = None


class Infer(Protocol):
    """A rule: specs (or scalars, None, lists of specs) in the order of the tensor parameters, attributes by name."""

    def __call__(self, *operands: Any, **attrs: Any) -> Inferred | Spec | tuple[Spec, ...]: ...


class NotDifferentiable(NamedTuple):
    """The mark of a row that has no derivative, with the reason that the user is told."""

    reason: str


class ByAttribute(NamedTuple):
    """Derivatives that an attribute chooses among, so that each saves only what it needs itself."""

    attribute: str
    cases: Mapping[object, Mapping[str, Callable[..., object] | None]]


# For each tensor parameter the derivative by it, or one function for all: see `intermodal.autodiff.rules`.
Vjp: TypeAlias = Mapping[str, Callable[..., object] | None] | Callable[..., object] | ByAttribute
View: TypeAlias = "Callable[..., Tensor]"


class Role(Enum):
    """What a parameter of an op takes."""

    ATTRIBUTE = "attribute"
    TENSOR = "tensor"
    OPERAND = "operand"  # a tensor or a Python scalar
    OPTIONAL = "optional"  # a tensor, a scalar or None
    SEQUENCE = "sequence"  # a list of tensors
    VARIADIC = "variadic"  # *tensors


_ROLES: Final = {
    "Tensor": Role.TENSOR,
    "Operand": Role.OPERAND,
    "Tensor | None": Role.OPTIONAL,
    "Operand | None": Role.OPTIONAL,
    "Sequence[Tensor]": Role.SEQUENCE,
}
_REQUIRED: Final = object()
_MODULES: Final = re.compile(r"\b\w+\.")
_VARARGS: Final = 0x04  # inspect.CO_VARARGS, without importing inspect


class Param(NamedTuple):
    """One parameter of an op's signature."""

    name: str
    role: Role
    place: str  # "/" positional-only, "" either, "*" keyword-only, "*args" variadic
    default: object = _REQUIRED
    annotation: str = ""

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    def __str__(self) -> str:
        return self.name if self.required else f"{self.name}={self.default!r}"


class Op:
    """A row of the op table.

    Attributes:
        name: the op's name, unique in the table.
        namespace: where users find it: ``""`` for the main namespace, ``"linalg"``, ``"fft"``, ``"nn"``, ``"random"``.
        params: the signature.
        infer: shape and dtype of the results; None where it is derived from the decomposition.
        decompose: the op in terms of other ops; None for a primitive, which every engine provides.
        vjp: the derivative in ops of the table, or the mark that there is none.
        movement: moves elements without computing, so it takes dtypes that an engine can only store.
        view: the result shares the operand's elements; how the operand looks when the result is written to.
        data_dependent: the result's shape depends on the data.
        autocast: multiplies matrices, so it computes in the low dtype inside `im.autocast`.
        multiple: the op returns a tuple, of however many tensors.
        result: the named tuple of an op with several results.
        function: the public function.
    """

    __slots__ = ("_bind", "autocast", "data_dependent", "decompose", "doc", "family", "function", "infer", "movement", "multiple", "name", "namespace", "params", "result", "takes_device", "takes_seed", "template", "tensor_params", "view", "vjp")  # fmt: skip

    def __init__(
        self,
        template: FunctionType,
        *,
        infer: Infer | None,
        decompose: Callable[..., object] | None,
        namespace: str,
        vjp: Vjp | NotDifferentiable | None,
        movement: bool,
        view: View | None,
        data_dependent: bool,
        autocast: bool,
        result: Callable[..., tuple[object, ...]] | None,
        name: str | None,
    ) -> None:
        self.name = name or template.__name__.rstrip("_")
        self.family = template.__module__.rpartition(".")[2]
        self.namespace = namespace
        self.params = tuple(_read_signature(template))
        self.tensor_params = tuple(p for p in self.params if p.role is not Role.ATTRIBUTE)
        self.takes_device = any(p.name == "device" for p in self.params)
        self.takes_seed = any(p.name == "seed" for p in self.params)
        self.infer = infer
        self.decompose = decompose
        self.vjp = vjp
        self.movement = movement
        self.view = view
        self.data_dependent = data_dependent
        self.autocast = autocast
        self.multiple = _annotations(template).get("return") != "Tensor"
        self.result = result
        self.doc = template.__doc__ or ""
        self.template = template
        self.function: Callable[..., Any] = template
        self._bind: Callable[..., tuple[tuple[object, ...], dict[str, object]]] | None = None

    @property
    def is_primitive(self) -> bool:
        return self.decompose is None

    @property
    def qualified_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def signature(self) -> str:
        """The public signature as text: ``sum(x, /, *, axis=None, dtype=None, keepdims=False)``."""
        return f"{self.name}({_signature_text(self.params, str)})"

    def bind(self, *args: object, **kwargs: object) -> tuple[tuple[object, ...], dict[str, object]]:
        """The tensor arguments in order, and every attribute by name, defaults filled in."""
        if self._bind is None:
            self._bind = _compile_bind(self)
        return self._bind(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<op {self.qualified_name}: {'primitive' if self.is_primitive else 'decomposed'}>"


def _read_signature(template: FunctionType) -> Iterator[Param]:
    # The code object says all that inspect.signature would, at a tenth of the time: three hundred rows are read at import.
    code: CodeType = template.__code__
    names, count, only = code.co_varnames, code.co_argcount, code.co_posonlyargcount
    defaults: tuple[object, ...] = template.__defaults__ or ()
    annotations = _annotations(template)
    for i, name in enumerate(names[:count]):
        j = i - (count - len(defaults))
        yield _param(name, "/" if i < only else "", defaults[j] if j >= 0 else _REQUIRED, annotations)
    end = count + code.co_kwonlyargcount
    if code.co_flags & _VARARGS:
        yield Param(names[end], Role.VARIADIC, "*args", _REQUIRED, annotations.get(names[end], ""))
    for name in names[count:end]:
        yield _param(name, "*", (template.__kwdefaults__ or {}).get(name, _REQUIRED), annotations)


def _annotations(template: FunctionType) -> dict[str, str]:
    """The annotations as text, which says what is a tensor; a file without text ones must not make attributes of its tensors."""
    found = {}
    for name, given in template.__annotations__.items():
        text = given.__name__ if isinstance(given, type) else given
        if not isinstance(text, str):
            raise InvalidValueError(
                f"{template.__name__}: the annotation of {name} is {given!r}, not text. Write from __future__ import annotations at the top of the file."
            )
        text = text.strip("'\"")  # quotes say nothing where all annotations are text
        found[name] = _MODULES.sub("", text) if "." in text else text  # im.Tensor is a Tensor too
    return found


def _param(name: str, place: str, default: object, annotations: Mapping[str, str]) -> Param:
    annotation = annotations.get(name, "")
    return Param(name, _ROLES.get(annotation, Role.ATTRIBUTE), place, default, annotation)


def _signature_text(params: tuple[Param, ...], show: Callable[[Param], str]) -> str:
    parts: list[str] = []
    for i, p in enumerate(params):
        if p.place == "*args":
            parts.append(f"*{p.name}")
        else:
            if p.place == "*" and (i == 0 or params[i - 1].place not in ("*", "*args")):
                parts.append("*")
            parts.append(show(p))
        if p.place == "/" and (i + 1 == len(params) or params[i + 1].place != "/"):
            parts.append("/")
    return ", ".join(parts)


def _compile_bind(row: Op) -> Callable[..., tuple[tuple[object, ...], dict[str, object]]]:
    # Python binds arguments faster than any loop of ours and words its own complaints well: let it, once per row, on first use.
    scope: dict[str, Any] = {f"_default_{p.name}": p.default for p in row.params}
    signature = _signature_text(row.params, lambda p: p.name if p.required else f"{p.name}=_default_{p.name}")
    tensors = "".join(f"{p.name}, " for p in row.tensor_params)
    attrs = ", ".join(f"{p.name!r}: {p.name}" for p in row.params if p.role is Role.ATTRIBUTE)
    exec(f"def {row.name}({signature}): return ({tensors}), {{{attrs}}}", scope)  # noqa: S102  # our own text, from the row
    return cast("Callable[..., tuple[tuple[object, ...], dict[str, object]]]", scope[row.name])


class Table(Mapping[str, Op]):
    """All rows by name. Reading it is free; a row is added by the decorators alone."""

    def __init__(self) -> None:
        self._rows: dict[str, Op] = {}

    def add(self, row: Op) -> None:
        if row.name in self._rows:
            raise InvalidValueError(
                f"the op table has a row {row.name!r} already, in {self._rows[row.name].family}. Choose another name."
            )
        self._rows[row.name] = row

    def remove(self, name: str) -> None:
        """Take a row out again; for tests and for plugins that unload."""
        del self._rows[name]

    def __getitem__(self, name: str) -> Op:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


TABLE: Final = Table()


def _unconnected(row: Op, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    raise RuntimeError(f"{row.name}: no dispatch is connected; import intermodal, not intermodal.ops alone.")


_call: Callable[[Op, tuple[object, ...], dict[str, object]], Any] = _unconnected


def connect(call: Callable[[Op, tuple[object, ...], dict[str, object]], Any]) -> None:
    """Tell the public functions where calls go."""
    global _call
    _call = call


def _publish(row: Op, template: FunctionType) -> Callable[..., Any]:
    def function(*args: object, **kwargs: object) -> Any:
        return _call(row, args, kwargs)

    function.__name__ = function.__qualname__ = row.name
    function.__module__ = f"intermodal.{row.namespace}" if row.namespace else "intermodal"
    function.__doc__ = template.__doc__
    function.__annotations__ = template.__annotations__
    function.__wrapped__ = template  # type: ignore[attr-defined]  # what inspect.signature follows
    return function


def _row(
    *,
    has_body: bool,
    infer: Infer | None,
    namespace: str,
    vjp: Vjp | NotDifferentiable | None,
    movement: bool,
    view: View | None,
    data_dependent: bool,
    autocast: bool,
    result: Callable[..., tuple[object, ...]] | None,
    name: str | None,
) -> Callable[[F], F]:
    def write(template: F) -> F:
        function = cast("FunctionType", template)
        row = Op(
            function,
            infer=infer,
            decompose=function if has_body else None,
            namespace=namespace,
            vjp=vjp,
            movement=movement,
            view=view,
            data_dependent=data_dependent,
            autocast=autocast,
            result=result,
            name=name,
        )
        TABLE.add(row)
        row.function = _publish(row, function)
        return cast("F", row.function)

    return write


def op(
    *,
    infer: Infer | None = None,
    namespace: str = "",
    vjp: Vjp | NotDifferentiable | None = None,
    movement: bool = False,
    view: View | None = None,
    data_dependent: bool = False,
    autocast: bool = False,
    result: Callable[..., tuple[object, ...]] | None = None,
    name: str | None = None,
) -> Callable[[F], F]:
    """Write a row whose body is its decomposition into other ops.

    Args:
        infer: the rule for shape and dtype; without it the decomposition is run on shapes alone.
        namespace: where users find it.
        vjp: the derivative, in ops of the table.
        movement: moves elements without computing.
        view: the result shares the operand's elements: from the operand, the result's new value and the attributes, the operand's new value.
        data_dependent: the result's shape depends on the data.
        autocast: inside `im.autocast`, its floating-point operands are brought to the low dtype.
        result: the named tuple of several results.
        name: the row's name where it differs from the function's.
    """
    return _row(
        has_body=True,
        infer=infer,
        namespace=namespace,
        vjp=vjp,
        movement=movement,
        view=view,
        data_dependent=data_dependent,
        autocast=autocast,
        result=result,
        name=name,
    )


def primitive(
    *,
    infer: Infer,
    namespace: str = "",
    vjp: Vjp | NotDifferentiable | None = None,
    movement: bool = False,
    view: View | None = None,
    data_dependent: bool = False,
    autocast: bool = False,
    result: Callable[..., tuple[object, ...]] | None = None,
    name: str | None = None,
) -> Callable[[F], F]:
    """Write a row that every engine provides itself; its function has no body. Arguments as in `op`."""
    return _row(
        has_body=False,
        infer=infer,
        namespace=namespace,
        vjp=vjp,
        movement=movement,
        view=view,
        data_dependent=data_dependent,
        autocast=autocast,
        result=result,
        name=name,
    )


def public_names(module: str) -> list[str]:
    """The public functions that a family file defines, for its ``__all__``."""
    family = module.rpartition(".")[2]
    return sorted(row.template.__name__ for row in TABLE.values() if row.family == family)


ScalarOrSpec: TypeAlias = Spec | Scalar
