// Makes the text of CUDA kernels compile as C++ on a CPU, to be run block by block.
//
// The threads of a block that meets a barrier are contexts that hand over to each other at
// barriers and shuffles; those of a block without one simply run one after the other, from the
// first or from the last.
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utility>
#include <vector>

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__

struct phix_dim { unsigned int x, y, z; };
static phix_dim threadIdx, blockIdx, blockDim, gridDim;

// -- intrinsics --
static inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static inline float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static inline unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }

template <typename To> static inline To saturated(double x, To low, To high, double above) {
  return x <= (double)low ? low : x >= above ? high : (To)x;
}
#define SATURATED(name, from, to, low, high, above) \
  static inline to name(from x) { return saturated<to>(x, low, high, above); }
SATURATED(__float2int_rz, float, int, INT32_MIN, INT32_MAX, 0x1p31)
SATURATED(__double2int_rz, double, int, INT32_MIN, INT32_MAX, 0x1p31)
SATURATED(__float2ll_rz, float, long long, INT64_MIN, INT64_MAX, 0x1p63)
SATURATED(__double2ll_rz, double, long long, INT64_MIN, INT64_MAX, 0x1p63)
SATURATED(__float2ull_rz, float, unsigned long long, 0, UINT64_MAX, 0x1p64)
SATURATED(__double2ull_rz, double, unsigned long long, 0, UINT64_MAX, 0x1p64)
static inline float phix_from_half(unsigned short x) {
  _Float16 y; memcpy(&y, &x, 2); return (float)y;
}
template <typename T> static inline unsigned short half_bits(T x) {
  const _Float16 y = (_Float16)x; unsigned short bits; memcpy(&bits, &y, 2); return bits;
}
static inline unsigned short phix_to_half(float x) { return half_bits(x); }
static inline unsigned short phix_double_to_half(double x) { return half_bits(x); }

// -- threads --
enum State { READY, AT_BARRIER, AT_WARP, DONE };
#ifdef __x86_64__  // swapcontext asks the kernel for the mask of signals, each time
typedef void *Context;  // the stack, with the registers that a call keeps on top
__attribute__((naked, noinline)) static void hand_over(Context *, Context *) {
  asm volatile("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n\t"
               "movq %rsp, (%rdi); movq (%rsi), %rsp\n\t"
               "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret");
}
static void begin(Context *context, void *stack, size_t size, void (*function)()) {
  uint64_t *top = (uint64_t *)(((uintptr_t)stack + size) & ~(uintptr_t)15);
  top[-2] = (uint64_t)(uintptr_t)function;  // returned to, as if from a call: 8 off 16
  for (int k = 3; k < 9; ++k) top[-k] = 0;
  *context = top - 8;
}
#else
typedef ucontext_t Context;
static void hand_over(Context *from, Context *to) { swapcontext(from, to); }
static void begin(Context *context, void *stack, size_t size, void (*function)()) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = size;
  context->uc_link = nullptr;
  makecontext(context, function, 0);
}
#endif

struct Thread { Context context; State state; void *stack; };
static Thread threads[1024];
static Context scheduler;
static unsigned running;
static uint64_t slots[1024];
static void (*entry)(void **);
static void **entry_arguments;
static bool is_plain;
static bool is_backward;  // the last thread goes first: what lacks a barrier shows

static void pause_as(State state) {
  if (is_plain) abort();  // a barrier in a kernel said to have none
  threads[running].state = state;
  const unsigned own = running;
  hand_over(&threads[own].context, &scheduler);
  threadIdx.x = own;
}
static void __syncthreads() { pause_as(AT_BARRIER); }

template <typename T> static T exchanged(T value, int from) {
  const unsigned own = running;
  uint64_t word = 0;
  memcpy(&word, &value, sizeof(T));
  slots[own] = word;
  pause_as(AT_WARP);
  T result = value;
  if (from >= 0 && from < 32) {
    word = slots[(own & ~31u) + (unsigned)from];
    memcpy(&result, &word, sizeof(T));
  }
  pause_as(AT_WARP);
  return result;
}
template <typename T> static T __shfl_xor_sync(unsigned, T value, int mask) {
  return exchanged(value, (int)(running & 31u) ^ mask);
}
template <typename T> static T __shfl_sync(unsigned, T value, int from) {
  return exchanged(value, from & 31);
}
template <typename T> static T __shfl_up_sync(unsigned, T value, int by) {
  return exchanged(value, (int)(running & 31u) - by);
}
template <typename T> static unsigned __match_any_sync(unsigned, T value) {
  unsigned found = 0;
  for (int lane = 0; lane < 32; ++lane) {  // all take part
    const T other = exchanged(value, lane);
    found |= (unsigned)(other == value) << lane;
  }
  return found;
}
static void __syncwarp() { pause_as(AT_WARP); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
template <typename T> static T atomicAdd(T *to, T value) {
  const T before = *to;
  *to = before + value;
  return before;
}

// -- matrices that a warp holds, as the PTX ISA lays them out: element by element --
#ifndef PHIX_SHUFFLES
static uint32_t held[1024][6];
static const uint16_t *row_at[1024];

static inline float number(uint16_t bits, bool is_half) {
  return is_half ? phix_from_half(bits) : __uint_as_float((unsigned)bits << 16);
}
static inline uint16_t half_of(uint32_t both, int which) { return (uint16_t)(both >> 16 * which); }

// ldmatrix: where element (row, column) of matrix m lies is known to lane 8 m + row.
static void load_matrices(unsigned (&to)[4], const unsigned short *row, bool is_transposed) {
  if ((uintptr_t)row % 16) abort();
  const unsigned own = running, warp = own & ~31u, lane = own & 31u;
  row_at[own] = row;
  pause_as(AT_WARP);
  for (int m = 0; m < 4; ++m) {
    uint32_t both = 0;
    for (int k = 0; k < 2; ++k) {
      const int outer = lane / 4, inner = 2 * (lane % 4) + k;
      const int r = is_transposed ? inner : outer, c = is_transposed ? outer : inner;
      both |= (uint32_t)row_at[warp + 8 * m + r][c] << 16 * k;
    }
    to[m] = both;
  }
  pause_as(AT_WARP);
}
static void phix_load_matrices(unsigned (&to)[4], const unsigned short *row) {
  load_matrices(to, row, false);
}
static void phix_load_transposed(unsigned (&to)[4], const unsigned short *row) {
  load_matrices(to, row, true);
}

// mma.m16n8k16: the matrices are put together from all lanes' registers, then multiplied.
static void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, bool h) {
  const unsigned own = running, warp = own & ~31u, lane = own & 31u;
  memcpy(held[own], a, 16);
  held[own][4] = b0;
  held[own][5] = b1;
  pause_as(AT_WARP);
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + (i >= 2 ? 8 : 0), column = lane % 4 * 2 + (i & 1);
    float sum = sums[i];
    for (int k = 0; k < 16; ++k) {
      const int in_a = (row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0), in_b = k >= 8 ? 5 : 4;
      const unsigned of_a = warp + row % 8 * 4 + k % 8 / 2, of_b = warp + column * 4 + k % 8 / 2;
      sum = fmaf(number(half_of(held[of_a][in_a], k % 2), h),
                 number(half_of(held[of_b][in_b], k % 2), h), sum);
    }
    sums[i] = sum;
  }
  pause_as(AT_WARP);
}
static void phix_multiply_float16(float (&c)[4], const unsigned (&a)[4], unsigned x, unsigned y) {
  multiply(c, a, x, y, true);
}
static void phix_multiply_bfloat16(float (&c)[4], const unsigned (&a)[4], unsigned x, unsigned y) {
  multiply(c, a, x, y, false);
}
static unsigned phix_pair_float16(float x, float y) {
  return half_bits(x) | (unsigned)half_bits(y) << 16;
}
static unsigned short bfloat16_bits(float x) {
  const unsigned bits = __float_as_uint(x);
  return (unsigned short)(x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static unsigned phix_pair_bfloat16(float x, float y) {
  return bfloat16_bits(x) | (unsigned)bfloat16_bits(y) << 16;
}
static float phix_exp2(float x) { return exp2f(x); }

// A copy happens at any time until it is awaited: here at once, or at the last moment.
struct Copy { void *to; const void *from; size_t size; };
static std::vector<Copy> copies[1024];
static void copy_now(Copy c) {
  if (c.from) memcpy(c.to, c.from, c.size);
  else memset(c.to, 0, c.size);
}
static void start_copy(void *to, const void *from, bool is_inside, size_t size) {
  if ((uintptr_t)to % size || (is_inside && (uintptr_t)from % size)) abort();
  const Copy copy = {to, is_inside ? from : nullptr, size};
  if (is_backward) copies[running].push_back(copy);
  else copy_now(copy);
}
static void phix_copy8(unsigned short *to, const unsigned short *from, bool is_inside) {
  start_copy(to, from, is_inside, 16);
}
static void phix_copy1(float *to, const float *from, bool is_inside) {
  start_copy(to, from, is_inside, 4);
}
static void phix_await_copies() {
  for (const Copy &c : copies[running]) copy_now(c);
  copies[running].clear();
}
#endif

static void thread_main() {
  entry(entry_arguments);
  threads[running].state = DONE;
  hand_over(&threads[running].context, &scheduler);
}

static bool release(unsigned begin, unsigned end, State from) {
  for (unsigned k = begin; k < end; ++k)
    if (threads[k].state == READY) return false;
  bool found = false;
  for (unsigned k = begin; k < end; ++k)
    if (threads[k].state == from) { threads[k].state = READY; found = true; }
  return found;
}

static void run_block(unsigned count) {
  const size_t size = 128 << 10;
  for (unsigned k = 0; k < count; ++k) {
    Thread &t = threads[k];
    if (!t.stack) t.stack = malloc(size);
    begin(&t.context, t.stack, size, thread_main);
    t.state = READY;
  }
  for (;;) {  // each warp as far as it comes without the others: what lacks a barrier shows
    for (unsigned w = 0; w < count; w += 32) {
      const unsigned first = is_backward ? (count - 1 - w) / 32 * 32 : w;
      const unsigned end = first + 32 < count ? first + 32 : count;
      do
        for (unsigned j = first; j < end; ++j) {
          const unsigned k = is_backward ? first + end - 1 - j : j;
          while (threads[k].state == READY) {
            running = threadIdx.x = k;
            hand_over(&scheduler, &threads[k].context);
          }
        }
      while (release(first, end, AT_WARP));
    }
    if (!release(0, count, AT_BARRIER)) return;
  }
}

template <typename... P, size_t... I>
static void invoke(void (*kernel)(P...), void **a, std::index_sequence<I...>) {
  kernel(*(P *)a[I]...);
}
template <typename... P> static void invoke(void (*kernel)(P...), void **a) {
  invoke(kernel, a, std::index_sequence_for<P...>());
}
static void run_grid(void (*f)(void **), unsigned grid, unsigned block, int plain, void **a) {
  entry = f;
  entry_arguments = a;
  is_plain = plain & 1;
  is_backward = plain & 2;
  gridDim = {grid, 1, 1};
  blockDim = {block, 1, 1};
  for (unsigned b = 0; b < grid; ++b) {
    blockIdx.x = is_backward ? grid - 1 - b : b;
    if (!is_plain) { run_block(block); continue; }
    for (unsigned k = 0; k < block; ++k) {
      threadIdx.x = is_backward ? block - 1 - k : k;
      f(a);
    }
  }
}
#define PHIX_LAUNCHER(name)                                                            \
  static void call_##name(void **a) { invoke(name, a); }                               \
  extern "C" void launch_##name(unsigned grid, unsigned block, int plain, void **a) {  \
    run_grid(call_##name, grid, block, plain, a);                                      \
  }
