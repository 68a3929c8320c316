"""What NumPy's functions do with tensors: NumPy's names, arguments and defaults, phix's ops.

``np.sin(x)``, ``np.sum(x, axis=0)``, ``np.linalg.norm(x)`` of a tensor come here, by NumPy's
protocols ``__array_ufunc__`` and ``__array_function__``, so they are traced, differentiated and
batched as the ops they are made of. Dtypes are those of phix's operators, but for functions of one
array to floats, which take ints to float64, as NumPy does. ``out=`` is not offered, nor ``where=``
of ufuncs. ``phix.numpy`` has the same functions, where ints become phix's default float.

A module is loaded by whoever needs it: a method those that it is written with, ``by_name``, which
has the tables of all functions, every one.
"""
