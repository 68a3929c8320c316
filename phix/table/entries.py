"""One entry of an op table: its keys checked and turned into the facts of an op."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from phix.core.dtypes import BY_NAME
from phix.core.errors import OpTableError
from phix.core.op import Arg, Op, Output
from phix.core.records import dataclass
from phix.table.definition import JVP_KINDS, make_op, parse_dtypes, parse_traits
from phix.table.schema import (
    nearest,
    parse_args,
    parse_call,
    parse_forward,
    parse_outputs,
    split_top,
)
from phix.table.yaml_reader import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Keys of Paddle's table that say nothing phix could use.
IGNORED_KEYS = _words(
    "spmd_rule interfaces support_dygraph_mode support_tensor force_backend composite "
    "complex_promote drop_empty_grad extra attrs inputs outputs scalar "
    "int_array manual_signature python_api version get_expected_kernel_type"
)
_IGNORED_IN = {
    "infer_meta": frozenset({"spmd_rule", "local_shape", "global_shape"}),
    "kernel": frozenset({"force_backend", "use_gpudnn", "use_cudnn"}),
}
OLDER_SPELLING = {"api": "op", "backward_api": "backward_op"}
TEST_KEYS = _words("ref samples errors grad sweep tolerance skip elsewhere values")
# Keys that `defaults` may give to a whole file; a backward op takes the family alone.
DEFAULT_KEYS = _words("args output infer_meta kernel family jvp traits dtypes")
BACKWARD_DEFAULTS = frozenset({"family"})


@dataclass(frozen=True)
class Entry:
    """An entry of the op table: the facts of its op, its tests, and where it stands."""

    name: str
    args_text: str
    output_text: str
    facts: dict[str, Any]  # the keyword arguments of make_op, but where; and doc
    test: dict[str, Any]
    file: str
    line: int
    lines: dict[str, int]
    forward_text: str = ""
    is_backward: bool = False

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def args(self) -> tuple[Arg, ...]:
        return self.op().args

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.op().outputs

    def op(self) -> Op:
        """A new Op with these facts, not registered."""
        facts = {key: value for key, value in self.facts.items() if key != "doc"}
        return make_op(self.name, self.args_text, self.output_text, **facts, where=self.where)

    def error(self, key: str, message: str) -> OpTableError:
        """An error that points at a key of this entry."""
        return OpTableError(f"{self.file}:{self.lines.get(key, self.line)}: {message}")


class _Reader:
    """The keys of one entry, read one kind at a time; every error names file and line."""

    def __init__(self, source: Mapping, file: str) -> None:
        self.source, self.file = source, file

    def error(self, key: str, message: str) -> OpTableError:
        line = self.source.lines.get(key, self.source.line)
        return OpTableError(f"{self.file}:{line}: {message}")

    def text(self, key: str, example: str) -> str:
        value = self.source[key]
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"`{key}` is {_kind(value)}, not text; write `{key}: {example}`")
        return " ".join(value.split())

    def checked(self, key: str, example: str, parse: Callable[[str], Any]) -> Any:
        """The text under ``key`` if it parses."""
        text = self.text(key, example)
        try:
            parse(text)
        except OpTableError as error:
            raise self.error(key, f"`{key}`: {error}") from None
        return text

    def names(self, key: str) -> tuple[str, ...]:
        """``a, b`` or ``[a, b]``; ``[promote(x, y)]`` is one name though YAML splits it."""
        value = self.source[key]
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in items):
            raise self.error(
                key, f"`{key}` is {_kind(value)}, not names; write `{key}: [name, name]`"
            )
        return tuple(split_top(", ".join(items)))

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """``(x -> out), (y -> rest)``."""
        pairs = []
        for part in split_top(self.text(key, "(x -> out)")):
            match = re.match(r"\(\s*(\w+)\s*->\s*(\w+)\s*\)$", part)
            if match is None:
                raise self.error(key, f"`{key}` {part!r} is no pair; write `{key}: (x -> out)`")
            pairs.append((match[1], match[2]))
        return tuple(pairs)

    def mapping(self, key: str, known: tuple[str, ...], example: str) -> Mapping:
        value = self.source[key]
        if not isinstance(value, Mapping):
            raise self.error(
                key, f"`{key}` is {_kind(value)}, not a mapping; write `{key}: {example}`"
            )
        for inner, line in value.lines.items():
            if inner not in known and inner not in _IGNORED_IN.get(key, ()):
                raise OpTableError(
                    f"{self.file}:{line}: unknown key {inner!r} in `{key}`; "
                    f"write `{nearest(inner, known)}`"
                )
        return value


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, (Mapping, list)):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    shown = str(value).lower() if isinstance(value, bool) else value
    return f"the {type(value).__name__} {shown}"


def _infer_meta(reader: _Reader, key: str) -> tuple[str, tuple[str, ...] | None]:
    value = reader.mapping(key, ("func", "param"), "{func: UnchangedInferMeta}")
    inner = _Reader(value, reader.file)
    if "func" not in value:
        raise reader.error(key, "`infer_meta` has no func; write `{func: UnchangedInferMeta}`")
    param = inner.names("param") if "param" in value else None
    return inner.text("func", "UnchangedInferMeta"), param


_KERNEL = re.compile(r"\s*(\w+)\s*(?:\{([^{}]*)->([^{}]*)\})?\s*,?")


def _kernel(reader: _Reader, key: str) -> dict[str, Any]:
    """``func`` becomes a tuple of (name, input kinds, output kinds), one for each kernel."""
    known = ("func", "param", "data_type", "backend", "layout", "data_transform")
    value = reader.mapping(key, known, "{func: add}")
    inner = _Reader(value, reader.file)
    facts: dict[str, Any] = {}
    for name in value:
        if name == "param":
            facts[name] = inner.names(name)
        elif name == "data_transform":
            facts |= _data_transform(inner, name)
        elif name == "func":
            facts[name] = _kernel_functions(inner, inner.source[name])
        elif name in known:
            facts[name] = inner.text(name, "x")
    return facts


TRANSFORMS = ("skip_transform", "support_trans_dtype")


def _data_transform(reader: _Reader, key: str) -> dict[str, tuple[str, ...]]:
    """Which inputs kernels take as they are, and which are cast to the dtype of the kernel."""
    value = reader.mapping(key, TRANSFORMS, "{skip_transform: x}")
    inner = _Reader(value, reader.file)
    return {name: inner.names(name) for name in value}


def _kernel_functions(inner: _Reader, value: Any) -> tuple[tuple[Any, ...], ...]:
    text = ", ".join(value) if isinstance(value, list) else inner.text("func", "add")
    functions, at = [], 0
    while at < len(text):
        match = _KERNEL.match(text, at)
        if match is None:
            raise inner.error(
                "func", f"kernel `func` {text!r} does not parse; write `add {{dense -> dense}}`"
            )
        ins, outs = (tuple(split_top(group)) if group else () for group in match.groups()[1:])
        functions.append((match[1], ins, outs))
        at = match.end()
    return tuple(functions)


def _traits(reader: _Reader, key: str) -> tuple[str, ...]:
    names = tuple(name for name in reader.names(key) if "::" not in name)  # Paddle's C++ traits
    return _known(reader, key, names, parse_traits)


def _dtypes(reader: _Reader, key: str) -> tuple[str, ...]:
    return _known(reader, key, reader.names(key), parse_dtypes)


def _known(
    reader: _Reader, key: str, names: tuple[str, ...], parse: Callable[[tuple[str, ...]], Any]
) -> tuple[str, ...]:
    try:
        parse(names)
    except OpTableError as error:
        raise reader.error(key, str(error)) from None
    return names


def _jvp(reader: _Reader, key: str) -> str:
    kind = reader.text(key, "pointwise")
    if kind not in JVP_KINDS:
        raise reader.error(
            key,
            f"`jvp` is {kind!r}, not one of {', '.join(JVP_KINDS)}; "
            f"write `jvp: {nearest(kind, JVP_KINDS)}`, or register a rule in Python",
        )
    return kind


def _test(reader: _Reader, key: str) -> dict[str, Any]:
    value = reader.mapping(key, tuple(sorted(TEST_KEYS)), '{ref: "np.tanh(x)", samples: [...]}')
    inner = _Reader(value, reader.file)
    if "ref" in value:
        inner.text("ref", '"np.tanh(x)"')
    for name in ("samples", "errors"):
        samples = value.get(name, [])
        if not isinstance(samples, list) or not all(isinstance(s, Mapping) for s in samples):
            raise inner.error(
                name, f'`{name}` is no list of mappings; write `{name}: [{{x: "float[3]"}}]`'
            )
    return value


_FACTS: dict[str, Callable[[_Reader, str], Any]] = {
    "family": lambda r, k: r.text(k, "pointwise"),
    "doc": lambda r, k: r.text(k, '"What it computes, with the formula."'),
    "infer_meta": _infer_meta,
    "backward": lambda r, k: r.text(k, "tanh_grad"),
    "jvp": _jvp,
    "traits": _traits,
    "dtypes": _dtypes,
    "optional": lambda r, k: r.names(k),
    "intermediate": lambda r, k: r.names(k),
    "no_need_buffer": lambda r, k: r.names(k),
    "invoke": lambda r, k: r.checked(k, "copy(x)", parse_call),
    "inplace": lambda r, k: r.pairs(k),
    "view": lambda r, k: r.pairs(k),
    "kernel": _kernel,
    "data_transform": _data_transform,
}
KNOWN_KEYS = frozenset({"op", "backward_op", "args", "output", "forward", "test"}) | set(_FACTS)


def check_keys(source: Mapping, known: frozenset[str], file: str) -> None:
    """Raise OpTableError for a key that is neither known nor one of Paddle's ignored ones."""
    for key, line in source.lines.items():
        if key not in known and key not in IGNORED_KEYS:
            raise OpTableError(
                f"{file}:{line}: unknown key {key!r}; write `{nearest(key, known)}`, one of the "
                f"keys {', '.join(sorted(known))}"
            )


def merge_defaults(source: Mapping, defaults: Mapping, file: str) -> Mapping:
    """The entry with the defaults of its file; an empty value (``jvp: ~``, ``traits: []``) takes
    one away.

    Raises:
        OpTableError: a key that repeats its default, or is empty where there is none.
    """
    backward = "backward_op" in source
    given = {k: v for k, v in defaults.items() if not backward or k in BACKWARD_DEFAULTS}
    for key, value in source.items():
        line = source.lines[key]
        if key in given and value == given[key]:
            raise OpTableError(
                f"{file}:{line}: redundant key {key!r}: it repeats the default of line "
                f"{defaults.lines[key]}; remove it"
            )
        if value in (None, [], {}) and key not in given and key not in IGNORED_KEYS:
            raise OpTableError(f"{file}:{line}: key {key!r} is empty; give it a value or remove it")
    merged = Mapping(source.line)
    merged.lines = {**{k: defaults.lines[k] for k in given}, **source.lines}
    merged.update({k: v for k, v in {**given, **source}.items() if v not in (None, [], {})})
    return merged


def modern(source: Mapping, file: str) -> Mapping:
    """The entry with ``api`` and ``backward_api`` spelled ``op`` and ``backward_op``."""
    if not any(key in source for key in OLDER_SPELLING):
        return source
    renamed = Mapping(source.line)
    for key, value in source.items():
        name = OLDER_SPELLING.get(key, key)
        if name in renamed:
            raise OpTableError(
                f"{file}:{source.lines[key]}: {name!r} and its older spelling in one entry; "
                f"keep `{name}`"
            )
        renamed[name], renamed.lines[name] = value, source.lines[key]
    return renamed


def read_entry(source: Mapping, file: str) -> Entry:
    """An entry, its defaults merged already, as facts.

    Raises:
        OpTableError: a key missing, of the wrong type, or whose text does not parse.
    """
    check_keys(source, KNOWN_KEYS, file)
    reader = _Reader(source, file)
    backward = "backward_op" in source
    head = "backward_op" if backward else "op"
    required = [head, *(["forward"] if backward else []), "args", "output"]
    examples = {"args": "(Tensor x)", "output": "Tensor(out)", "op": "tanh"}
    examples |= {"backward_op": "tanh_grad", "forward": "tanh (Tensor x) -> Tensor(out)"}
    for key in required:
        if key not in source:
            raise reader.error(key, f"the entry has no {key!r}; write `{key}: {examples[key]}`")
    if ("op" in source) == backward or ("forward" in source) != backward:
        extra = "op" if "op" in source and backward else "forward"
        raise reader.error(
            extra,
            f"{extra!r} does not belong here; an op has `op`, a backward op has "
            "`backward_op` and `forward`",
        )
    name = reader.text(head, examples[head])
    if not name.isidentifier():
        raise reader.error(head, f"{name!r} is no name for an op; write `{head}: {examples[head]}`")
    texts = {
        "args": reader.checked("args", examples["args"], parse_args),
        "output": reader.checked("output", examples["output"], parse_outputs),
    }
    forward = reader.checked("forward", examples["forward"], parse_forward) if backward else ""
    facts = {key: read(reader, key) for key, read in _FACTS.items() if key in source}
    if backward:
        facts["forward"] = parse_forward(forward)[0]
    test = _test(reader, "test") if "test" in source else {}
    entry = Entry(
        name,
        texts["args"],
        texts["output"],
        facts,
        test,
        file,
        source.line,
        source.lines,
        forward,
        backward,
    )
    _check_names(entry)
    return entry


_CONSTANTS = {
    "backend": frozenset({"CPU", "GPU", "GPUDNN", "ALL_BACKEND"}),
    "layout": frozenset({"NCHW", "NHWC", "ALL_LAYOUT"}),
    "data_type": frozenset(name.upper() for name in BY_NAME) | {"ALL_DTYPE"},
}


def is_constant(key: str, text: str) -> bool:
    """Whether a part of ``kernel: {key: text}`` names a backend, layout or dtype, no argument."""
    return text.rpartition("::")[2].upper() in _CONSTANTS[key]


def _check_names(entry: Entry) -> None:
    """Every name that a key mentions is an argument or output of the entry."""
    args = [a.name for a in parse_args(entry.args_text)]
    tensors = [a.name for a in parse_args(entry.args_text) if a.is_tensor]
    outputs = [o.name for o in parse_outputs(entry.output_text)]
    facts = entry.facts
    mentioned = [
        ("optional", facts.get("optional", ()), tensors + outputs),
        ("intermediate", facts.get("intermediate", ()), outputs),
        ("no_need_buffer", facts.get("no_need_buffer", ()), tensors),
        *(
            ("traits", names, tensors + outputs if trait == "layout" else tensors)
            for trait, names in parse_traits(facts.get("traits", ()))[1].items()
        ),
        ("infer_meta", (facts.get("infer_meta") or ("", None))[1] or (), args),
    ]
    for key in ("inplace", "view"):
        mentioned.append((key, [a for a, _ in facts.get(key, ())], tensors))
        mentioned.append((key, [b for _, b in facts.get(key, ())], outputs))
    kernel = facts.get("kernel", {})
    mentioned.append(("kernel", kernel.get("param", ()), args))
    for where in ("kernel", "data_transform"):
        given = facts.get(where, {})
        mentioned += [(where, given.get(name, ()), args) for name in TRANSFORMS]
    for key in ("data_type", "backend", "layout"):
        parts = (part.strip() for part in kernel.get(key, "").split(">"))
        chosen = [part for part in parts if part and not is_constant(key, part)]
        mentioned.append(("kernel", chosen, args + outputs))
    for sample in [*entry.test.get("samples", []), *entry.test.get("errors", [])]:
        mentioned.append(("test", list(sample), args))
    for key, names, known in mentioned:
        for name in names:
            if name not in known:
                hint = f"write {nearest(name, known)!r}" if known else "remove it"
                raise entry.error(
                    key,
                    f"`{key}` of {entry.name!r} names {name!r}, but the entry has "
                    f"{', '.join(known) or 'none'}; {hint}",
                )
