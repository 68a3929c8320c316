"""Whole networks as a property test: what ``python -m tests.random_networks`` is made of.

A model is written once, over a backend: :class:`~tests.networks.backends.Phix` runs it in phix,
:class:`~tests.networks.backends.Numpy` in NumPy, and ``Jax`` where JAX is installed. So the
reference shares no code with phix but the model itself.
"""
