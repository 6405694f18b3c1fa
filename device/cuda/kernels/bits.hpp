#pragma once
// What the kernels' arithmetic is written in: functions that a GPU and a processor compile alike, so that a test
// without a GPU runs the very code; and the sixteen bytes that a thread loads and stores at once. C++17, and nothing of
// the standard library: it is compiled for GPUs, too.

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define FABRING_EVERYWHERE __host__ __device__ __forceinline__
#define FABRING_UNROLL _Pragma("unroll")
#define FABRING_ROLLED _Pragma("unroll 1")
#else
#define FABRING_EVERYWHERE inline
#define FABRING_UNROLL
#define FABRING_ROLLED
#endif

namespace fabring::cuda::kernels {

/// Sixteen bytes, little-endian.
struct Pack {
  std::uint32_t word[4];
};

template <class To, class From>
FABRING_EVERYWHERE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same number of bits");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

/// Element i of a pack, as its bits; i is known when this is compiled, so a pack stays in registers.
template <class Bits>
FABRING_EVERYWHERE Bits element(const Pack& pack, int i) {
  if constexpr (sizeof(Bits) == 8) {
    return static_cast<Bits>(pack.word[2 * i] | static_cast<std::uint64_t>(pack.word[2 * i + 1]) << 32);
  } else {
    constexpr int in_word = 4 / static_cast<int>(sizeof(Bits));
    return static_cast<Bits>(pack.word[i / in_word] >> (i % in_word * 8 * static_cast<int>(sizeof(Bits))));
  }
}

/// Adds element i to a pack that was all zeros there.
template <class Bits>
FABRING_EVERYWHERE void put_element(Pack& pack, int i, Bits bits) {
  if constexpr (sizeof(Bits) == 8) {
    pack.word[2 * i] = static_cast<std::uint32_t>(bits);
    pack.word[2 * i + 1] = static_cast<std::uint32_t>(bits >> 32);
  } else {
    constexpr int in_word = 4 / static_cast<int>(sizeof(Bits));
    pack.word[i / in_word] |= static_cast<std::uint32_t>(bits) << (i % in_word * 8 * static_cast<int>(sizeof(Bits)));
  }
}

// Memory. A GPU must be told that an address is aligned, or it goes byte by byte; a processor must not be told that
// floats are integers.
template <class T>
FABRING_EVERYWHERE T load(const unsigned char* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const T*>(from);
#else
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
#endif
}

template <class T>
FABRING_EVERYWHERE void store(unsigned char* to, T value) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<T*>(to) = value;
#else
  __builtin_memcpy(to, &value, sizeof value);
#endif
}

/// Sixteen bytes at once, from an address that is a multiple of sixteen.
FABRING_EVERYWHERE Pack load_pack(const unsigned char* from) {
#ifdef __CUDA_ARCH__
  const uint4 four = *reinterpret_cast<const uint4*>(from);
  return {{four.x, four.y, four.z, four.w}};
#else
  return load<Pack>(from);
#endif
}

FABRING_EVERYWHERE void store_pack(unsigned char* to, const Pack& pack) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<uint4*>(to) = make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]);
#else
  store(to, pack);
#endif
}

}  // namespace fabring::cuda::kernels
