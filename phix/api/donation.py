"""Arguments whose memory a jitted function may use for its results."""

from __future__ import annotations

from typing import Any

from phix.api.arguments import check_places, function_name
from phix.api.jitted import Jitted, Known, around, call_key
from phix.api.lowered import Traced
from phix.api.retracing import CallKind
from phix.api.signatures import P, R
from phix.api.weak_arguments import taken
from phix.core import context, donation, pytrees
from phix.core.source import at_user_line
from phix.core.tensor import Tensor, Tracer, tensor_of
from phix.core.tracebacks import leaving_phix
from phix.passes.compiled import can_run


class Donating(Jitted[P, R]):
    """A jitted function with ``donate_argnums``.

    Run by itself it ends the tensors it is given; inside a transformation they are arguments like
    others.
    """

    @leaving_phix
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        gifts = self._gifts(args)
        dynamic, static = self._split(args, kwargs)
        flat, treedef = taken(dynamic, function_name(self.function))
        if not gifts or not context.is_eager() or any(isinstance(x, Tracer) for x in flat):
            return self._call(args, kwargs)
        tensors: Any = flat
        numbers = donation.free_numbers(tensors, gifts)
        free = {id(tensors[k]) for k in numbers}
        key = call_key((treedef, static, numbers), tensors)
        found = self._known.get(key)
        if found is None:

            def ready(traced: Traced) -> Known:
                is_kept = free & set(map(id, traced.closed))
                runs = can_run(traced.compiled) and not is_kept
                return Known(traced, traced.compiled.launcher(tensors, numbers) if runs else None)

            call = CallKind(treedef, tuple([x.meta for x in tensors]), static, *around())
            found = self._found(call, ready)
            if found.launch is None:
                return self._call(args, kwargs)
            outs = self._launched(found, tensors, gifts, numbers)
            self._learn(call, found.pattern)
            self._known[key] = found
        else:
            outs = self._launched(found, tensors, gifts, numbers)
        return found.traced.rebuild([tensor_of(o) for o in outs])

    def _launched(
        self, found: Known, tensors: list[Any], gifts: list[Tensor], numbers: tuple[int, ...]
    ) -> Any:
        """Run the program. The gifts end before, however it ends: it writes into them while other
        threads run."""
        where = f"{function_name(self.function)}{at_user_line()}"
        assert found.launch is not None
        data = [x.data for x in tensors]
        for x in gifts:
            donation.end(x, where, "leave the argument out of donate_argnums")
        donation.keep_apart(data, numbers)
        return found.launch(*data)

    def _gifts(self, args: tuple[Any, ...]) -> list[Tensor]:
        """The tensors among the donated arguments; arrays, numbers and constants stay."""
        given = [args[n] for n in self.donated if -len(args) <= n < len(args)]
        if len(given) < len(self.donated):
            check_places(self.function, "donate_argnums", self.donated, len(args))
        return donation.gifts(pytrees.leaves(given))
