"""Rules of the ops by family, in files like those of ``yaml/``. Importing one registers its rules,
which happens when an op of the family is first asked for one (``core.rule_modules``)."""

import importlib
import pkgutil

from phix.core import rule_modules

# File of the op table -> modules that have rules of its ops besides that of the same name.
_BESIDES = {
    "activation": ("pointwise",),
    "arithmetic": ("pointwise",),
    "contraction": ("convolution", "einsum"),
    "control_flow": ("branches", "pointwise"),
    "filling": ("pointwise",),
    "indexing": ("along_axis",),
    "linalg": ("determinants",),
    "masked_attention": ("flash_attention",),
    "placement": ("pointwise",),
    "ragged": ("ranks",),
    "rectifier": ("pointwise",),
    "reduction": ("scan",),
    "sequence": ("alignment",),
    "shape": ("slicing", "rearrangement", "pointwise"),
    "special": ("incomplete_gamma", "pointwise"),
    "spectral": ("pointwise",),
    "statistics": ("reduction",),
    "transformation": ("collective", "ranks", "callback", "custom", "pointwise"),
}
_OF_NO_FILE = {
    rule_modules.REWRITES: ("simplifications", "index_simplifications"),
    rule_modules.PATTERNS: ("simplifications", "index_simplifications", "recognition"),
    rule_modules.JETS: ("jet", "jet_series", "jet_control_flow", "jet_linalg"),
    rule_modules.KIND_KERNELS: ("selected_rows",),
}


def _modules_of(subject: str) -> tuple[str, ...]:
    """The modules with rules of a file of the op table, or of another subject."""
    if subject == rule_modules.ALL:
        return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
    if subject in _OF_NO_FILE:
        return _OF_NO_FILE[subject]
    folder, _, file = subject.rpartition("/")
    if folder != "yaml" or not file.endswith(".yaml"):  # a table of the user's, and its line
        return ()
    name = file.removesuffix(".yaml")
    return (name, *_BESIDES.get(name, ()))


def _import_for(subject: str) -> None:
    for name in _modules_of(subject):
        importlib.import_module(f"{__name__}.{name}")


rule_modules.provide(_import_for)
