"""The device functions that generated kernels call: one text in front of every module.

It includes no header, so NVRTC needs none.
"""

from __future__ import annotations

from phix.kernels.gpu import held, matrix_units, register_tiles

_TEXT = r"""
#define PHIX_INFINITY_F __int_as_float(0x7f800000)
#define PHIX_NAN_F __int_as_float(0x7fc00000)
#define PHIX_INFINITY_D __longlong_as_double(0x7ff0000000000000LL)
#define PHIX_NAN_D __longlong_as_double(0x7ff8000000000000LL)
#define PHIX_DEVICE __device__ __forceinline__

template <typename T, int N> struct __align__(sizeof(T) * N) phix_pack { T at[N]; };

template <typename To, typename From> PHIX_DEVICE To phix_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "of one width");
  To y;
  memcpy(&y, &x, sizeof(To));
  return y;
}

// a float's bits as an unsigned int in the order of the floats: NaNs the largest, zeros equal
template <typename T> PHIX_DEVICE T phix_float_key(T bits, T sign, T infinity) {
  const T size = (T)(bits & (T)~sign);
  if (size > infinity) return (T)~(T)0;
  if (size == 0) return sign;
  return (bits & sign) ? (T)~bits : (T)(bits | sign);
}

// complex numbers, as they lie in memory
template <typename T> struct phix_complex {
  T re, im;
  PHIX_DEVICE phix_complex operator+(phix_complex y) const { return {re + y.re, im + y.im}; }
  PHIX_DEVICE phix_complex operator-(phix_complex y) const { return {re - y.re, im - y.im}; }
  PHIX_DEVICE phix_complex operator*(phix_complex y) const {
    return {re * y.re - im * y.im, re * y.im + im * y.re};
  }
  PHIX_DEVICE phix_complex operator/(T y) const { return {re / y, im / y}; }
  PHIX_DEVICE phix_complex operator/(phix_complex y) const {  // without overflow on the way
    if ((y.re < 0 ? -y.re : y.re) >= (y.im < 0 ? -y.im : y.im)) {
      const T q = y.im / y.re, d = y.re + y.im * q;
      return {(re + im * q) / d, (im - re * q) / d};
    }
    const T q = y.re / y.im, d = y.im + y.re * q;
    return {(re * q + im) / d, (im * q - re) / d};
  }
};
template <typename T> PHIX_DEVICE T phix_conjugate(T x) { return x; }
template <typename T> PHIX_DEVICE phix_complex<T> phix_conjugate(phix_complex<T> x) {
  return {x.re, -x.im};
}
template <typename T> PHIX_DEVICE T phix_real(T x) { return x; }
template <typename T> PHIX_DEVICE T phix_real(phix_complex<T> x) { return x.re; }
// what pivots are compared by: of a complex number |re| + |im|
template <typename T> PHIX_DEVICE T phix_size(T x) { return x < 0 ? -x : x; }
template <typename T> PHIX_DEVICE T phix_size(phix_complex<T> x) {
  return phix_size(x.re) + phix_size(x.im);
}

// 16-bit floats as their bits
PHIX_DEVICE float phix_from_bfloat16(unsigned short x) {
  return __uint_as_float((unsigned int)x << 16);
}
PHIX_DEVICE unsigned short phix_to_bfloat16(float x) {
  unsigned int bits = __float_as_uint(x);
  unsigned int rounded = bits + 32767u + ((bits >> 16) & 1u);
  return (unsigned short)((x != x ? (bits | 0x400000u) : rounded) >> 16);
}
#ifdef __CUDACC__
PHIX_DEVICE float phix_from_half(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
PHIX_DEVICE unsigned short phix_to_half(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
PHIX_DEVICE unsigned short phix_double_to_half(double x) {
  unsigned short y;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y) : "d"(x));
  return y;
}
#endif

// integers
template <typename T> PHIX_DEVICE T phix_quotient(T x, T y) {
  if (y == 0) return 0;
  if ((T)-1 < 0 && y == (T)-1) return (T)(0ull - (unsigned long long)x);
  return (T)(x / y);
}
template <typename T> PHIX_DEVICE T phix_rest(T x, T y) {
  if (y == 0 || ((T)-1 < 0 && y == (T)-1)) return 0;
  return (T)(x % y);
}
// Indices: not negative, and mostly of 32 bits, which divide several times faster.
PHIX_DEVICE long long phix_divide(long long x, long long y) {
  if (((x | y) >> 32) == 0) return (long long)((unsigned int)x / (unsigned int)y);
  return x / y;
}
template <typename T> PHIX_DEVICE T phix_shl(T x, T y) {
  const unsigned int width = sizeof(T) * 8;
  return (unsigned long long)y < width ? (T)((unsigned long long)x << y) : (T)0;
}
template <typename T> PHIX_DEVICE T phix_shr(T x, T y) {
  const unsigned int width = sizeof(T) * 8;
  if ((unsigned long long)y < width) return (T)(x >> y);
  return (T)(x < 0 ? -1 : 0);
}
template <typename T> PHIX_DEVICE T phix_absolute(T x) {
  return x < 0 ? (T)(0ull - (unsigned long long)x) : x;
}

// the larger and the smaller: a NaN stays, and -0 is less than 0
template <typename T> PHIX_DEVICE T phix_maximum(T x, T y) { return x < y ? y : x; }
template <typename T> PHIX_DEVICE T phix_minimum(T x, T y) { return y < x ? y : x; }
#if __CUDA_ARCH__ >= 800
template <> PHIX_DEVICE float phix_maximum(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
template <> PHIX_DEVICE float phix_minimum(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
#else
template <> PHIX_DEVICE float phix_maximum(float x, float y) {
  return x != x ? x : y != y ? y : fmaxf(x, y);
}
template <> PHIX_DEVICE float phix_minimum(float x, float y) {
  return x != x ? x : y != y ? y : fminf(x, y);
}
#endif
template <> PHIX_DEVICE double phix_maximum(double x, double y) {
  return x != x ? x : y != y ? y : fmax(x, y);
}
template <> PHIX_DEVICE double phix_minimum(double x, double y) {
  return x != x ? x : y != y ? y : fmin(x, y);
}

// conversions toward zero that saturate; NaN is 0
PHIX_DEVICE int phix_to_int32(float x) { return x != x ? 0 : __float2int_rz(x); }
PHIX_DEVICE int phix_to_int32(double x) { return x != x ? 0 : __double2int_rz(x); }
PHIX_DEVICE long long phix_to_int64(float x) { return x != x ? 0 : __float2ll_rz(x); }
PHIX_DEVICE long long phix_to_int64(double x) { return x != x ? 0 : __double2ll_rz(x); }
PHIX_DEVICE unsigned long long phix_to_uint64(float x) {
  return x < 0 ? (unsigned long long)__float2ll_rz(x) : x != x ? 0 : __float2ull_rz(x);
}
PHIX_DEVICE unsigned long long phix_to_uint64(double x) {
  return x < 0 ? (unsigned long long)__double2ll_rz(x) : x != x ? 0 : __double2ull_rz(x);
}

// reductions of a block: first in each warp, then over the warps, always in the same order
struct phix_add { template <typename T> PHIX_DEVICE T operator()(T x, T y) const {
  return (T)(x + y); } };
struct phix_mul { template <typename T> PHIX_DEVICE T operator()(T x, T y) const {
  return (T)(x * y); } };
struct phix_and { template <typename T> PHIX_DEVICE T operator()(T x, T y) const {
  return (T)(x & y); } };
struct phix_or { template <typename T> PHIX_DEVICE T operator()(T x, T y) const {
  return (T)(x | y); } };
struct phix_max { template <typename T> PHIX_DEVICE T operator()(T x, T y) const {
  return phix_maximum(x, y); } };
struct phix_min { template <typename T> PHIX_DEVICE T operator()(T x, T y) const {
  return phix_minimum(x, y); } };

// The combination of all threads' values, in every thread; blocks are whole warps.
template <typename T, typename Op> PHIX_DEVICE T phix_reduce(T value, Op combine) {
  __shared__ T of_warp[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int step = 16; step > 0; step >>= 1)
    value = combine(value, (T)__shfl_xor_sync(0xffffffffu, value, step));
  if (warps == 1) return value;
  __syncthreads();
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = of_warp[0];
  for (int k = 1; k < warps; ++k) value = combine(value, of_warp[k]);
  return value;
}

// A sum goes on by a value; what it is rounded off by is added up beside it.
template <typename T> PHIX_DEVICE void phix_carry(T &sum, T &lost, T value) {
  const T next = sum + value, added = next - sum;
  const T error = (sum - (next - added)) + (value - added);
  if (error - error == 0) lost += error;
  sum = next;
}

// The combination of the values up to this thread's; without its own in ``before``, of the whole
// block in ``total``.
template <typename T, typename Op>
PHIX_DEVICE T phix_scan(T value, Op combine, T neutral, T &before, T &total) {
  __shared__ T of_warp[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int step = 1; step < 32; step <<= 1) {
    const T lower = (T)__shfl_up_sync(0xffffffffu, value, step);
    if (lane >= step) value = combine(lower, value);
  }
  before = (T)__shfl_up_sync(0xffffffffu, value, 1);
  if (lane == 0) before = neutral;
  __syncthreads();
  if (lane == 31) of_warp[warp] = value;
  __syncthreads();
  T lower = neutral;
  total = neutral;
  for (int k = 0; k < warps; ++k) {
    if (k == warp) lower = total;
    total = combine(total, of_warp[k]);
  }
  before = combine(lower, before);
  return combine(lower, value);
}
"""
TEXT = _TEXT + held.TEXT + matrix_units.TEXT + register_tiles.TEXT
