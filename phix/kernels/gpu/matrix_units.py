"""The device functions of kernels that multiply 16-bit floats on matrix units, a warp at a time.

A warp holds a 16 by 16 matrix of 16-bit floats as four registers a lane, and a 16 by 8 matrix of
sums as four floats: lane ``l`` has rows ``l / 4`` and ``l / 4 + 8``, columns ``2 * (l % 4)`` and
the next, as the PTX ISA lays them out for ``mma.m16n8k16`` and ``ldmatrix``. GPUs before compute
capability 8.0, which lack these instructions for some dtypes, do the same with shuffles.
"""

from __future__ import annotations

_UNITS = r"""
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
PHIX_DEVICE unsigned int phix_shared_address(const void *at) {
  return (unsigned int)__cvta_generic_to_shared(at);
}
// Four 8 by 8 matrices: lane l has the address of row l % 8 of matrix l / 8, and gets of each
// matrix two neighbours of row l / 4; transposed: of column l / 4.
PHIX_DEVICE void phix_load_matrices(unsigned int (&to)[4], const unsigned short *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(phix_shared_address(row)) : "memory");
}
PHIX_DEVICE void phix_load_transposed(unsigned int (&to)[4], const unsigned short *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(phix_shared_address(row)) : "memory");
}
// sums += a b: 16 by 16, times 16 by 8
#define PHIX_MULTIPLY(name, kind)                                                              \
  PHIX_DEVICE void phix_multiply_##name(float (&sums)[4], const unsigned int (&a)[4],          \
                                        unsigned int b0, unsigned int b1) {                    \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." kind "." kind ".f32 {%0, %1, %2, %3}, "       \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                        \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
  }
PHIX_MULTIPLY(float16, "f16")
PHIX_MULTIPLY(bfloat16, "bf16")
// Two floats, rounded, as one register; the first is the lower half.
#define PHIX_PAIR(name, kind)                                                                  \
  PHIX_DEVICE unsigned int phix_pair_##name(float x, float y) {                                \
    unsigned int both;                                                                         \
    asm("cvt.rn." kind "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));                    \
    return both;                                                                               \
  }
PHIX_PAIR(float16, "f16")
PHIX_PAIR(bfloat16, "bf16")
// Eight 16-bit floats, or one float, into shared memory; zeros without a look at memory where that
// is outside. They are there when the copies are awaited.
PHIX_DEVICE void phix_copy8(unsigned short *to, const unsigned short *from, bool is_inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(phix_shared_address(to)), "l"(from), "r"(is_inside ? 16 : 0) : "memory");
}
PHIX_DEVICE void phix_copy1(float *to, const float *from, bool is_inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"(phix_shared_address(to)), "l"(from), "r"(is_inside ? 4 : 0) : "memory");
}
PHIX_DEVICE void phix_await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
PHIX_DEVICE float phix_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
"""

_SHUFFLES = r"""
#elif defined(__CUDACC__) || defined(PHIX_SHUFFLES)
// not inlined: programs would be too long
static __device__ __noinline__ void phix_load_matrices(unsigned int (&to)[4],
                                                       const unsigned short *row) {
  const int lane = threadIdx.x & 31;
  for (int m = 0; m < 4; ++m) {
    const unsigned long long at =
        __shfl_sync(0xffffffffu, (unsigned long long)row, 8 * m + lane / 4);
    const unsigned short *const both = (const unsigned short *)at + lane % 4 * 2;
    to[m] = both[0] | (unsigned int)both[1] << 16;
  }
}
static __device__ __noinline__ void phix_load_transposed(unsigned int (&to)[4],
                                                         const unsigned short *row) {
  const int lane = threadIdx.x & 31;
  for (int m = 0; m < 4; ++m) {
    to[m] = 0;
    for (int k = 0; k < 2; ++k) {
      const unsigned long long at =
          __shfl_sync(0xffffffffu, (unsigned long long)row, 8 * m + lane % 4 * 2 + k);
      to[m] |= (unsigned int)((const unsigned short *)at)[lane / 4] << 16 * k;
    }
  }
}
#define PHIX_MULTIPLY(name, FROM, TO)                                                          \
  static __device__ __noinline__ void phix_multiply_##name(                                    \
      float (&sums)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {        \
    const int lane = threadIdx.x & 31;                                                         \
    const unsigned int b[2] = {b0, b1};                                                        \
    for (int half = 0; half < 2; ++half)                                                       \
      for (int t = 0; t < 4; ++t)                                                              \
        for (int j = 0; j < 4; ++j) {                                                          \
          const int of_a = (lane & 28) + t, of_b = lane % 4 * 8 + j % 2 * 4 + t;               \
          const unsigned int x = __shfl_sync(0xffffffffu, a[2 * half + j / 2], of_a);          \
          const unsigned int y = __shfl_sync(0xffffffffu, b[half], of_b);                      \
          for (int k = 0; k < 32; k += 16)                                                     \
            sums[j] = fmaf(FROM((unsigned short)(x >> k)), FROM((unsigned short)(y >> k)),     \
                           sums[j]);                                                           \
        }                                                                                      \
  }                                                                                            \
  PHIX_DEVICE unsigned int phix_pair_##name(float x, float y) {                                \
    return TO(x) | (unsigned int)TO(y) << 16;                                                  \
  }
PHIX_MULTIPLY(float16, phix_from_half, phix_to_half)
PHIX_MULTIPLY(bfloat16, phix_from_bfloat16, phix_to_bfloat16)
PHIX_DEVICE void phix_copy8(unsigned short *to, const unsigned short *from, bool is_inside) {
  typedef phix_pack<unsigned int, 4> pack;
  *(pack *)to = is_inside ? *(const pack *)from : pack{};
}
PHIX_DEVICE void phix_copy1(float *to, const float *from, bool is_inside) {
  *to = is_inside ? *from : 0.0f;
}
PHIX_DEVICE void phix_await_copies() {}
PHIX_DEVICE float phix_exp2(float x) { return exp2f(x); }
#endif
"""

_ROWS = r"""
// Rows of a matrix of SIZE columns into shared memory, by THREADS threads: COLUMNS of them, PITCH
// apart, with zeros behind the last row and the last column. Copies are still to be awaited.
template <int ROWS, int SIZE, int COLUMNS, int PITCH, int THREADS>
PHIX_DEVICE void phix_copy_rows(unsigned short *to, const unsigned short *from, long long rows) {
  constexpr int chunks = COLUMNS / 8, step = THREADS / chunks;
  const int count = rows < ROWS ? (int)rows : ROWS;
  if (SIZE % 8 == 0 && (unsigned long long)from % 16 == 0) {
    if (THREADS % chunks == 0) {  // a thread stays in its column
      const int own = threadIdx.x / chunks, c = threadIdx.x % chunks * 8;
      to += own * PITCH + c;
      from += own * SIZE + c;
      #pragma unroll
      for (int r = 0; r < ROWS; r += step)
        if (ROWS % step == 0 || own + r < ROWS)
          phix_copy8(to + r * PITCH, from + r * SIZE, own + r < count && c < SIZE);
      return;
    }
    #pragma unroll
    for (int e = threadIdx.x; e < ROWS * chunks; e += THREADS) {
      const int r = e / chunks, c = e % chunks * 8;
      phix_copy8(to + r * PITCH + c, from + r * SIZE + c, r < count && c < SIZE);
    }
    return;
  }
  for (int e = threadIdx.x; e < ROWS * COLUMNS; e += THREADS) {
    const int r = e / COLUMNS, c = e % COLUMNS;
    to[r * PITCH + c] = r < count && c < SIZE ? from[r * SIZE + c] : (unsigned short)0;
  }
}
"""

TEXT = _UNITS + _SHUFFLES + _ROWS
