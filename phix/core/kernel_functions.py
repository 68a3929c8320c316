"""Kernels as functions: what a kernel is made of may be other kernels, as in PHI."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import context, dispatch, kernel_calls, kernel_selection, libraries, places
from phix.core import dtypes as dt
from phix.core.errors import DeviceError, DTypeError, KernelError, KernelNotFoundError, described
from phix.core.given import TEXT, Kind, takes
from phix.core.graph import flat, map_entries
from phix.core.kernel_arguments import ANY, KernelKey
from phix.core.kernel_context import KernelContext, Unsized
from phix.core.kernel_registry import BACKENDS, Kernel, argument_names
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import Place, as_place
from phix.core.records import dataclass
from phix.core.rules import get_op
from phix.core.tensor import tensor_of


@dataclass(frozen=True)
class KernelFunction:
    """The kernel of an op, callable as ``function(ctx, *inputs, *attrs, *outputs)``.

    Inputs and outputs are storage of the place of ``ctx``; the outputs are filled. ``kernel`` is
    None of a composite that is run as the ops it is made of.
    """

    op: Op
    kernel: Kernel | None
    library: str | None = None

    @property
    def key(self) -> KernelKey | None:
        """Backend, layout and dtype of the kernel."""
        return None if self.kernel is None else self.kernel.key

    @property
    def function(self) -> Any:
        """The function that was registered; None where an engine has the code."""
        return None if self.kernel is None else self.kernel.function

    def __call__(self, ctx: KernelContext, *args: Any) -> None:
        op, kernel, names = self.op, self.kernel, argument_names(self.op)
        if len(args) != len(names):
            raise KernelError(
                f"the kernel of {op.name!r} takes (ctx, {', '.join(names)}), found {len(args)} "
                "arguments after ctx"
            )
        self._check(ctx, dict(zip(names, args)))
        inputs, outputs = args[: -len(op.outputs)], args[-len(op.outputs) :]
        by_name = dict(zip(names, inputs))
        given = tuple([by_name.get(a.name, a.default) for a in op.args])
        tensors, attrs = op.split(given)
        if kernel is not None and self._runs_here(kernel, ctx, tensors, attrs):
            kernel_calls.run_args(kernel, op, ctx, inputs, outputs)
            return
        with (
            context.active(context.base()),
            libraries.pinning(self.library),
            places.device(ctx.place),
        ):
            found = dispatch.bind(op, map_entries(tensor_of, tensors), attrs)
        for out, result in zip(flat(outputs), flat(found if type(found) is tuple else (found,))):
            _fill(ctx, out, result.data)

    def _check(self, ctx: KernelContext, given: dict[str, Any]) -> None:
        """Refuse what is no storage of the place or the host, of a dtype of phix."""
        if not isinstance(ctx, KernelContext):
            raise KernelError(
                f"the kernel of {self.op.name!r} takes a phix.kernels.KernelContext first, found "
                f"{described(ctx)}"
            )
        storage = places.device_of(ctx.place.kind).storage
        attrs = set(self.op.attr_names)
        for name, entry in given.items():
            odd = [x for x in flat((entry,)) if not isinstance(x, (storage, np.ndarray, Unsized))]
            odd += [x for x in flat((entry,)) if getattr(x, "dtype", None) not in dt.NATIVE]
            if odd and name not in attrs:
                raise KernelError(
                    f"the kernel of {self.op.name!r}: {name} must be {storage.__name__} on "
                    f"{ctx.place}, of a dtype of phix, found {described(odd[0])}"
                )

    def _runs_here(
        self, kernel: Kernel, ctx: KernelContext, inputs: tuple[Any, ...], attrs: tuple[Any, ...]
    ) -> bool:
        """Whether it is a function of storage on the place, without further ado, that is for these
        inputs and attributes."""
        kind = BACKENDS[kernel.key.backend].place_kind
        if kernel.function is None or not kernel.is_plain or kind != ctx.place.kind:
            return False
        if kernel.fits is None:
            return True
        metas = map_entries(lambda x: MetaTensor(tuple(x.shape), x.dtype), inputs)
        return kernel.fits(metas, attrs, ctx)


def _fill(ctx: KernelContext, out: Any, result: Any) -> None:
    """Put what was computed into the memory of an output."""
    if isinstance(out, np.ndarray):
        made = places.to_host(result)
        if out.shape != made.shape or out.dtype != made.dtype or not out.flags.writeable:
            raise KernelError(
                f"the kernel fills {made.dtype}{list(made.shape)}, found an output of "
                f"{out.dtype}{list(out.shape)}{'' if out.flags.writeable else ', read-only'}"
            )
        np.copyto(out, made)
        return
    result = places.moved(result, ctx.place)
    try:
        places.device_of(ctx.place.kind).copy(out, result)
    except NotImplementedError:
        op, key = get_op("reshape"), KernelKey("", ANY, out.dtype)
        kernel = kernel_selection.available(op, key, ctx.place.kind)
        if kernel is None or kernel.function is None:
            raise DeviceError(
                f"nothing copies memory on {ctx.place}: its Device has no copy(target, source), "
                "and there is no kernel of reshape"
            ) from None
        kernel_calls.run_args(kernel, op, ctx, (result, tuple(out.shape)), (out,))


_WHERE = TEXT | Kind("a Place or a KernelKey", lambda v: isinstance(v, (Place, KernelKey)))


@takes(place=_WHERE)
def find(
    op: str, place: KernelKey | Place | str, dtype: Any = None, layout: str = ANY, *,
    library: str | None = None,
) -> KernelFunction:  # fmt: skip
    """The kernel of an op as a function, for kernels that are made of kernels.

    Args:
        op: the name of an op, a composite too.
        place: where it is to run, as in ``ctx.place``; or a KernelKey, which names the backend.
        dtype: the dtype that kernels are chosen by; of most ops that of the first input.
        layout: ``"NCHW"``, ``"NHWC"`` or ``"any"``.
        library: whose kernel is preferred: see ``phix.library``.

    Returns:
        ``kernel(ctx, *inputs, *attrs, *outputs)``, which fills the outputs, with the ``key`` of
        what was chosen, as calls of the op on that place choose. Where an engine has the code, or
        another place, a program of the one op runs, and its results are copied. A kernel that finds
        itself does not end: name a library.

    Raises:
        UnknownOpError: no such op.
        KernelNotFoundError: nothing has a kernel of the primitive; or none is of the KernelKey.

    >>> import numpy as np
    >>> import phix
    >>> ctx = phix.kernels.KernelContext(phix.Place("cpu"))
    >>> x, out = np.ones(2, "f"), np.empty(2, "f")
    >>> multiply = phix.kernels.find("multiply", ctx.place, "float32")
    >>> multiply(ctx, x, 3 * x, out)
    >>> out
    array([3., 3.], dtype=float32)
    """
    found = get_op(op)
    if isinstance(place, KernelKey):
        return KernelFunction(found, kernel_selection.find(found, place), library)
    if dtype is None:
        raise DTypeError(
            f"find: the dtype that a kernel of {op!r} is for must be given, found None"
        )
    here = as_place(place)
    key = KernelKey("", layout, dt.as_dtype(dtype))
    libraries.checked(library, "phix.kernels.find")
    with libraries.pinning(library or libraries.pinned()):
        try:
            kernel = kernel_selection.choose(found, key, (here or places.CPU).kind)
        except KernelNotFoundError:
            if found.is_primitive:
                raise
            kernel = None
        return KernelFunction(found, kernel, libraries.pinned())
