"""What LLVM makes of the programs of a test: all it can, or little, in a third of the time.

Most of the time of tests goes into LLVM. A test that is not about what its optimiser makes of
phix's code is marked ``unoptimised``: its programs are the same, and so is the text that LLVM is
given, but LLVM keeps close to that text. One such test in so many has them optimised all the same,
another one for each seed of the run, and all have under ``--optimise``. Of the tests of what phix
prints for the CPU these are more: ``unoptimised(4)`` is one in four. What LLVM is told of wraps,
aliases and alignment is used in optimised code alone.

Nor is a marked test about single passes over loops: its programs are verified at the end of the
passes for an engine, for what is wrong then was wrong after a pass. Where one breaks a rule,
``--optimise`` verifies after each pass, and names it. Tests without the mark, and those marked
``each_pass`` beside it, verify after each: those of the passes, and of programs drawn at random.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pytest

SHARE = 100  # one in so many of the tests that are marked is optimised


def is_optimised(item: pytest.Item) -> bool:
    """Whether LLVM does all it can for a test; those of one group go together."""
    mark = item.get_closest_marker("unoptimised")
    if not mark or item.config.option.optimise:
        return True
    share = mark.args[0] if mark.args else SHARE
    option = item.config.option
    seed = option.prove_seed if option.prove else option.seed
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group else item.nodeid
    return zlib.crc32(f"{seed} {name} optimised".encode()) % share == 0


STORES = ("plans", "mixed", "over_graphs", "programs")  # of eager calls
_own: dict[str, dict[Any, Any]] = {}  # those in unoptimised code
_forgotten = 0


@contextmanager
def unoptimised(each_pass: bool = True) -> Iterator[None]:
    """Inside a with block, LLVM leaves code much as it is; none is taken for optimised code.

    Without ``each_pass``, loops are verified at the end of the passes for an engine alone.
    """
    from phix.interpreters.eager import EAGER
    from phix.kernels.cpu import compiler, jit
    from phix.kernels.loops import verifier

    global _forgotten
    identity, known = jit.identity(), compiler.object_of
    if identity.endswith(_MARK):
        yield
        return
    if _forgotten != EAGER.forgotten:  # kernels or places are others now
        _own.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "identity", lambda: identity + _MARK)
        patch.setattr(
            compiler, "object_of", lambda t, final: known(t, True) if final else _object(t)
        )
        if not each_pass:
            patch.setattr(verifier, "verify", _at_ends(verifier.verify))
        for name in STORES:
            patch.setattr(EAGER, name, _own.setdefault(name, {}))
        _forgotten = EAGER.forgotten
        try:
            yield
        finally:
            _own.update({name: getattr(EAGER, name) for name in STORES})
    if _forgotten != EAGER.forgotten:
        for name in STORES:
            getattr(EAGER, name).clear()
    _forgotten = EAGER.forgotten


_MARK = " unoptimised"


@lru_cache
def _ends(_: frozenset[str]) -> set[str]:
    """The last passes that are made for each engine, where these rewrites are left out."""
    from phix.core import rewrites
    from phix.kernels.schedule.pipeline import PIPELINES

    lists = (rows for name, rows in PIPELINES.items() if name != "every engine")
    made = ([r.name for r in rows if r.always or rewrites.is_on(r.name)] for rows in lists)
    return {names[-1] for names in made if names}


def _at_ends(verify: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    """The verifier, silent but after the last pass for an engine."""
    from phix.core.context import context

    def verify_at_ends(after: str, program: Any) -> None:
        if after in _ends(context.rewrites_left_out):
            verify(after, program)

    return verify_at_ends


def _object(text: str) -> bytes:
    """A module with its variables in registers, else as it is."""
    from llvmlite import binding as llvm

    from phix.kernels.cpu import compiler

    module = compiler.parsed(text)
    builder = llvm.create_pass_builder(_machine(), llvm.create_pipeline_tuning_options())
    with compiler._disposed(llvm.create_new_function_pass_manager()) as few:
        few.add_sroa_pass()
        few.add_simplify_cfg_pass()
        for function in module.functions:
            if not function.is_declaration:
                few.run(function, builder)
    compiler.join(module, _machine(), text)
    return bytes(_machine().emit_object(module))


@lru_cache(maxsize=1)
def _machine() -> Any:
    """The machine of the run, for which code is chosen line by line."""
    from llvmlite import binding as llvm

    from phix.kernels.cpu.level import level

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=level().cpu, features=level().features, opt=0, jit=True, codemodel="jitdefault"
    )
