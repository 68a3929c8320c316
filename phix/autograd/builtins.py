"""Python's own: tensors in lists, tuples and dicts need no others."""

import builtins as _builtins

dict, isinstance, list = _builtins.dict, _builtins.isinstance, _builtins.list
tuple, type = _builtins.tuple, _builtins.type

__all__ = ["dict", "isinstance", "list", "tuple", "type"]
