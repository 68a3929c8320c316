"""Arrays of other libraries, by what they offer: ``__array__``, DLPack, and a few words of theirs.

No library is imported for it. NumPy's DLPack has no bfloat16; its bits go through as those of ints
(``capsules.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.errors import ArgumentError


def exported(array: np.ndarray, **kwargs: Any) -> Any:
    """What ``array.__dlpack__`` gives, of bfloat16 too."""
    if array.dtype != dt.bfloat16:
        return array.__dlpack__(**kwargs)
    from phix.core import capsules  # which few programs need

    return capsules.as_bfloat16(array.view(np.uint16).__dlpack__(**kwargs))


class _Relabelled:
    """An array of bfloat16 that says it is one of unsigned ints."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __dlpack__(self, **kwargs: Any) -> Any:
        from phix.core import capsules

        return capsules.as_unsigned(self.data.__dlpack__(**kwargs))

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()


def keeps_gradients(data: Any) -> bool:
    """Whether the data are a value that another library records gradients of."""
    return getattr(data, "requires_grad", False) is True and hasattr(data, "detach")


def without_gradients(data: Any) -> Any:
    """The values alone of what another library records gradients of; other data as they are."""
    return data.detach() if keeps_gradients(data) else data


def host_array(data: Any) -> np.ndarray | None:
    """The array that NumPy does not make of the data by itself; None where there is none.

    Raises:
        ArgumentError: another library records gradients of the data.
    """
    if keeps_gradients(data):
        raise ArgumentError(
            f"found a {type(data).__name__} that its library records gradients of, which would end "
            "here in silence; write x.detach() where its values are meant, or phix.to_tensor(x)"
        )
    for name in ("resolve_conj", "resolve_neg"):  # views that only say what they stand for
        data = getattr(data, name, lambda same=data: same)()
    for attempt in (np.asarray, np.from_dlpack, _from_bfloat16):
        try:
            array = attempt(data)
        except Exception:  # it asks the data many things
            continue
        if array.dtype.kind != "O":
            return array
    return None


def _from_bfloat16(data: Any) -> np.ndarray:
    return np.from_dlpack(_Relabelled(data)).view(dt.bfloat16)


# An attribute -> what its owner is, and what to write.
_WAYS = (
    ("tocsr", "a sparse matrix of SciPy: write phix.sparse.from_scipy(x), or x.toarray()"),
    ("to_dense", "not dense in its library: write x.to_dense()"),
    ("aval", "being traced by another library, and has no values yet: call phix outside of it, or "
             "through jax.pure_callback"),
)  # fmt: skip


def way(data: Any) -> str:
    """What to write for data of another library that no array is made of; "" where unknown."""
    if str(getattr(data, "dtype", "")).startswith("key<"):
        return "keys of JAX: write jax.random.key_data(x)"
    if str(getattr(data, "device", "")) == "meta":
        return "on the device meta, where nothing has values"
    is_dense = str(getattr(data, "layout", "strided")).endswith("strided")
    for name, said in _WAYS:
        if hasattr(data, name) and not (name == "to_dense" and is_dense):
            return said
    return ""
