"""Building blocks of neural networks: functions of tensors, and layers, trees of parameters.

``phix.nn.functional`` has the functions, under Paddle's names, ``phix.nn.initializers`` what draws
weights, under JAX's. A layer is a frozen dataclass whose
tensors are leaves of a tree, so that it goes through ``grad``, ``jit``, ``vmap``, optimizers and
``phix.save`` as it is, and that is called as a function::

    layer = phix.nn.Linear.create(phix.random.key(0), 3, 2)
    y = layer(x)
    slopes = phix.grad(lambda layer: layer(x).sum())(layer)  # a Linear, too

``create`` draws the weights from a key; the class itself is called with weights that are there.
What is no tensor is static: it belongs to the structure. :func:`module` makes one's own.
"""

import importlib as _importlib
import typing as _typing

from phix.core.faces import face
from phix.core.faces import missing_name as _missing_name
from phix.nn import functional, initializers

if _typing.TYPE_CHECKING:
    from phix.nn.modules.attention import KVCache as KVCache
    from phix.nn.modules.attention import MultiHeadAttention as MultiHeadAttention
    from phix.nn.modules.base import module as module
    from phix.nn.modules.base import parameter_count as parameter_count
    from phix.nn.modules.base import static as static
    from phix.nn.modules.convolutions import Conv1d as Conv1d
    from phix.nn.modules.convolutions import Conv2d as Conv2d
    from phix.nn.modules.convolutions import Conv3d as Conv3d
    from phix.nn.modules.convolutions import ConvTranspose1d as ConvTranspose1d
    from phix.nn.modules.convolutions import ConvTranspose2d as ConvTranspose2d
    from phix.nn.modules.convolutions import ConvTranspose3d as ConvTranspose3d
    from phix.nn.modules.layers import Dropout as Dropout
    from phix.nn.modules.layers import Embedding as Embedding
    from phix.nn.modules.layers import Function as Function
    from phix.nn.modules.layers import Linear as Linear
    from phix.nn.modules.layers import Sequential as Sequential
    from phix.nn.modules.normalisations import BatchNorm as BatchNorm
    from phix.nn.modules.normalisations import BatchNormState as BatchNormState
    from phix.nn.modules.normalisations import GroupNorm as GroupNorm
    from phix.nn.modules.normalisations import LayerNorm as LayerNorm
    from phix.nn.modules.normalisations import RMSNorm as RMSNorm
    from phix.nn.modules.recurrent import GRU as GRU
    from phix.nn.modules.recurrent import LSTM as LSTM
    from phix.nn.modules.recurrent import RNN as RNN
    from phix.nn.modules.recurrent import GRUCell as GRUCell
    from phix.nn.modules.recurrent import LSTMCell as LSTMCell
    from phix.nn.modules.recurrent import RNNCell as RNNCell

__all__ = [
    "GRU", "LSTM", "RNN", "BatchNorm", "BatchNormState", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Dropout", "Embedding", "Function",
    "GRUCell", "GroupNorm", "KVCache", "LSTMCell", "LayerNorm", "Linear", "MultiHeadAttention",
    "RMSNorm", "RNNCell", "Sequential", "functional", "initializers", "module",
    "parameter_count", "static",
]  # fmt: skip
__dir__ = face(__all__)

# The layers are imported when one of them is first used.
_LATER = {
    "attention": ("KVCache", "MultiHeadAttention"),
    "base": ("module", "parameter_count", "static"),
    "convolutions": (
        "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    ),
    "layers": ("Dropout", "Embedding", "Function", "Linear", "Sequential"),
    "normalisations": ("BatchNorm", "BatchNormState", "GroupNorm", "LayerNorm", "RMSNorm"),
    "recurrent": ("GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"),
}  # fmt: skip
_FILE_OF = {name: file for file, names in _LATER.items() for name in names}

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _FILE_OF:
            raise _missing_name("phix.nn", name)
        found = getattr(_importlib.import_module(f"phix.nn.modules.{_FILE_OF[name]}"), name)
        globals()[name] = found
        return found
