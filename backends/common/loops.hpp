#pragma once

/// Hints for compilers about the loop that follows.

/// Promises the compiler that iterations of the next loop do not depend on each other through memory. The compiler
/// cannot see this if an operation may run in place.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define KEELSON_INDEPENDENT_ITERATIONS
#elif defined(__clang__)
#define KEELSON_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define KEELSON_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define KEELSON_INDEPENDENT_ITERATIONS
#endif

/// Keeps GCC from unrolling the next loop, over a few lanes, before the vectoriser sees the loop: GCC unrolls up to 16
/// iterations.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define KEELSON_KEEP_LOOP _Pragma("GCC unroll 1")
#else
#define KEELSON_KEEP_LOOP
#endif
