"""The functions of printed modules for what neither Numba nor NumPy has in one word.

They do the same where Numba compiles them and where Python runs them. ``T`` stands for a dtype, so
that ``quotient_T`` becomes ``quotient_int32``; words in capitals are limits of that dtype.
"""

TEXTS = {
    "quotient": '''
def quotient_T(x, y):
    """Toward zero; 0 by 0, and the least int by -1 wraps."""
    if y == 0:
        return np.T(0)
    if y == np.T(-1):
        return np.T(-x)
    whole = np.T(x // y)
    return np.T(whole + (whole < 0 and whole * y != x))
''',
    "unsigned_quotient": '''
def quotient_T(x, y):
    """Down; 0 by 0."""
    return np.T(0) if y == 0 else np.T(x // y)
''',
    "rest": '''
def rest_T(x, y):
    """What is left of x by the quotient toward zero; 0 by 0."""
    return np.T(0) if y == 0 else np.T(x - quotient_T(x, y) * y)
''',
    "shl": '''
def shl_T(x, n):
    """x << n; by its width or more, everything is shifted out."""
    return np.T(x << n) if 0 <= n and n < BITS else np.T(0)
''',
    "shr": '''
def shr_T(x, n):
    """x >> n; by its width or more, everything but the sign is shifted out."""
    if 0 <= n and n < BITS:
        return np.T(x >> n)
    return np.T(np.T(0) - np.T(x < 0))
''',
    # One instruction, or few, where Numba compiles.
    "maximum": '''
@intrinsic
def _maximum(context, x, y):
    def generate(context, builder, signature, operands):
        kind = operands[0].type
        takes = ir.FunctionType(kind, [kind, kind])
        function = builder.module.declare_intrinsic("llvm.maximum", [kind], takes)
        return builder.call(function, operands)

    return x(x, y), generate


def maximum(x, y):
    """The larger one; NaN where one is; 0.0 is larger than -0.0. This is what Python runs."""
    if x != y:
        return x if x > y else y if y > x else x + y
    return y if np.signbit(x) else x


@overload(maximum)
def _maximum_compiled(x, y):
    return lambda x, y: _maximum(x, y)
''',
    "minimum": '''
@intrinsic
def _minimum(context, x, y):
    def generate(context, builder, signature, operands):
        kind = operands[0].type
        takes = ir.FunctionType(kind, [kind, kind])
        function = builder.module.declare_intrinsic("llvm.minimum", [kind], takes)
        return builder.call(function, operands)

    return x(x, y), generate


def minimum(x, y):
    """The smaller one; NaN where one is; -0.0 is smaller than 0.0. This is what Python runs."""
    if x != y:
        return x if x < y else y if y < x else x + y
    return x if np.signbit(x) else y


@overload(minimum)
def _minimum_compiled(x, y):
    return lambda x, y: _minimum(x, y)
''',
    "plus": '''
@njit(error_model="numpy", fastmath={"reassoc", "contract"})
def plus(x, y):
    """x + y, as a part of a sum whose order is free."""
    return x + y
''',
    "times": '''
@njit(error_model="numpy", fastmath={"reassoc"})
def times(x, y):
    """x * y, as a part of a product whose order is free."""
    return x * y
''',
    "int": '''
def T_of(x):
    """Toward zero; what does not fit becomes the nearest that does, NaN becomes 0."""
    if x != x:
        return np.T(0)
    if x >= MOST_FLOAT:
        return np.T(MOST)
    return np.T(x) if x > LEAST_FLOAT else np.T(LEAST)
''',
    "uint64": '''
def uint64_of(x):
    """Toward zero; what is negative wraps, what is too large becomes the largest, NaN 0."""
    if x < 0:
        return np.uint64(int64_of(x))
    if x >= 18446744073709551616.0:
        return np.uint64(18446744073709551615)
    return np.uint64(0) if x != x else np.uint64(x)
''',
    "from_float16": '''
def from_float16(bits):
    """The float32 of a float16, given as its bits."""
    wide = np.uint32(np.uint32(bits & 0x7FFF) << 13)
    value = wide.view(np.float32) * np.float32(2.0**112)
    if (bits & 0x7C00) == 0x7C00:
        value = np.uint32(wide | 0x7F800000).view(np.float32)
    return -value if bits & 0x8000 else value
''',
    "to_float16": '''
def to_float16(x):
    """The bits of the float16 that is nearest to a float32."""
    bits = np.int64(np.float32(x).view(np.uint32))
    size = bits & 0x7FFFFFFF
    if size >= 0x47800000:  # too large, or NaN
        half = 0x7C00 if size <= 0x7F800000 else 0x7E00
    elif size < 0x38800000:  # a multiple of 2 ** -24: adding 0.5 rounds to one
        half = np.int64(np.float32(np.abs(x) + np.float32(0.5)).view(np.uint32)) - 0x3F000000
    else:
        half = ((size + 0xFFF + ((size >> 13) & 1)) >> 13) - (112 << 10)
    return np.uint16((bits >> 16) & 0x8000 | half)
''',
    "from_bfloat16": '''
def from_bfloat16(bits):
    """The float32 of a bfloat16, given as its bits."""
    return np.uint32(np.uint32(bits) << 16).view(np.float32)
''',
    "to_bfloat16": '''
def to_bfloat16(x):
    """The bits of the bfloat16 that is nearest to a float32."""
    bits = np.int64(np.float32(x).view(np.uint32))
    if x != x:
        return np.uint16((bits | 0x400000) >> 16)
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
''',
    # Numba has no word for it: the instruction where it compiles, fractions where Python runs.
    "fma": '''
@intrinsic
def _fused(context, x, y, z):
    return x(x, y, z), lambda context, builder, signature, operands: builder.fma(*operands)


def fma(x, y, z):
    """x * y + z with one rounding, where Python runs it."""
    if type(x) is np.float32:
        return np.float32(np.float64(x) * np.float64(y) + np.float64(z))
    about = np.float64(x) * y + z
    if not np.isfinite(about):
        return about
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    return np.float64(exact) if exact else about


@overload(fma)
def _fma_compiled(x, y, z):
    return lambda x, y, z: _fused(x, y, z)
''',
    # -- what libraries do -------------------------------------------------------------------
    "rows": '''
def rows(x, at, m, n):
    """The matrix [m, n] that lies in x from element at on."""
    return x[at : at + m * n].reshape(m, n)
''',
    "complex_rows": '''
def rows_T(x, at, m, n):
    """The matrix [m, n] of complex numbers that lies in x from element at on."""
    return x[at : at + m * n].view(np.T).reshape(m, n)
''',
    "spread": '''
def copied_rows(x, at, m, n, pitch):
    """The matrix [m, n] in x from element at on, pitch elements from row to row, as a copy."""
    found = np.empty((m, n), x.dtype)
    for i in range(m):
        found[i] = x[at + i * pitch : at + i * pitch + n]
    return found
''',
    "complex_spread": '''
def copied_rows_T(x, at, m, n, pitch):
    """The complex matrix [m, n] in x from element at on, pitch elements from row to row."""
    found = np.empty((m, n), np.T)
    for i in range(m):
        for j in range(n):
            found[i, j] = complex(x[at + i * pitch + j, 0], x[at + i * pitch + j, 1])
    return found
''',
    "put": '''
def put_rows(values, add, x, at, pitch):
    """Put a matrix into x from element at on, or add it there, pitch elements from row to row."""
    m, n = values.shape
    for i in range(m):
        for j in range(n):
            x[at + i * pitch + j] = values[i, j] + (x[at + i * pitch + j] if add else 0)
''',
    "complex_put": '''
def put_rows_T(values, add, x, at, pitch):
    """Put a complex matrix into x from element at on, or add it there, pitch from row to row."""
    m, n = values.shape
    for i in range(m):
        for j in range(n):
            place = at + i * pitch + j
            x[place, 0] = values[i, j].real + (x[place, 0] if add else 0)
            x[place, 1] = values[i, j].imag + (x[place, 1] if add else 0)
''',
    "trsm": '''
def solve_triangle(a, x, upper, transpose, unit):
    """Make x the solution y of a @ y = x, or of a.T @ y = x, for one triangle of a."""
    n, k = x.shape
    for step in range(n):
        i = n - 1 - step if upper != transpose else step
        for before in range(step):
            j = n - 1 - before if upper != transpose else before
            factor = a[j, i] if transpose else a[i, j]
            for c in range(k):
                x[i, c] -= factor * x[j, c]
        if not unit:
            for c in range(k):
                x[i, c] /= a[i, i]
''',
    "potrf": '''
def cholesky(a, upper, info, at):
    """Factor in one triangle of a; info[at] is the first pivot that is not positive, or 0."""
    n = a.shape[0]
    info[at] = 0
    for j in range(n):
        for i in range(j, n):
            total = a[j, i] if upper else a[i, j]
            for k in range(j):
                total -= a[k, i] * np.conj(a[k, j]) if upper else a[i, k] * np.conj(a[j, k])
            if i == j and not total.real > 0:
                info[at] = j + 1
                return
            value = np.sqrt(total.real) + 0 * total if i == j else total / a[j, j].real
            if upper:
                a[j, i] = value
            else:
                a[i, j] = value
''',
    "getrf": '''
def lu(columns, pivots, first, info, at):
    """Factor a matrix given column by column; info[at] is the first pivot that is 0, or 0."""
    n, m = columns.shape
    info[at] = 0
    for k in range(min(m, n)):
        place, most = k, -1.0
        for i in range(k, m):
            size = abs(columns[k, i].real) + abs(columns[k, i].imag)
            if size > most:
                place, most = i, size
        pivots[first + k] = place + 1
        for j in range(n):
            columns[j, k], columns[j, place] = columns[j, place], columns[j, k]
        if columns[k, k] == 0:
            if info[at] == 0:
                info[at] = k + 1
            continue
        for i in range(k + 1, m):
            columns[k, i] /= columns[k, k]
        for j in range(k + 1, n):
            for i in range(k + 1, m):
                columns[j, i] -= columns[k, i] * columns[j, k]
''',
}

# What every module has, for Python alone.
ELEMENTS = '''
def elements(array, name, dtype, dims):
    """The elements of an argument in order; ValueError where it is another array."""
    found = np.ascontiguousarray(axes(array, name, dtype, dims))
    return found.reshape(-1, 2) if dtype.startswith("complex") else found.reshape(-1)


def axes(array, name, dtype, dims):
    """An argument with all its dims, and one of two for the parts of complex numbers."""
    array = np.asarray(array)
    if str(array.dtype) != dtype or array.shape != dims:
        raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not {dtype}{list(dims)}")
    if dtype.startswith("complex"):
        return array[..., None].view(array.real.dtype)
    bits = _BITS.get(dtype)
    return array if bits is None else array.view(bits)


_BITS = {"float16": np.uint16, "bfloat16": np.uint16, "float8_e4m3fn": np.uint8,
         "float8_e5m2": np.uint8, "int4": np.uint8}
'''
