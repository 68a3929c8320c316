"""Kernels and the engines that compile them; here, what is registered and how it is found."""

from phix.core.kernels import BACKENDS as BACKENDS
from phix.core.kernels import Backend as Backend
from phix.core.kernels import Kernel as Kernel
from phix.core.kernels import KernelContext as KernelContext
from phix.core.kernels import KernelKey as KernelKey
from phix.core.kernels import find as find
from phix.core.kernels import keys as keys
from phix.core.kernels import missing as missing
from phix.core.kernels import register_kernel as register_kernel
from phix.core.kernels import unregister_kernel as unregister_kernel
from phix.core.places import Device as Device
from phix.kernels.plugins import BackendWarning as BackendWarning
from phix.kernels.plugins import register_backend as register_backend
from phix.kernels.plugins import unregister_backend as unregister_backend
