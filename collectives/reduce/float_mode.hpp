#pragma once
// DefaultFloatMode: as long as it lives, this thread calculates as IEEE 754 says by default: to nearest even,
// subnormals kept, without traps. A program may have set another mode for its own threads (torch.set_flush_denormal(),
// libraries built with -ffast-math), and which thread reduces is a matter of time: ranks would get different bits.

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace fabring {

class DefaultFloatMode {
 public:
  DefaultFloatMode() : before_(read()) {
    if (is_other()) write(usual);
  }
  ~DefaultFloatMode() {
    if (is_other()) write(before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
#if defined(__SSE2__)
  using Register = std::uint32_t;
  static constexpr Register usual = 0x1f80;            // all exceptions masked
  static constexpr Register matters = 0xffff & ~0x3f;  // but for the flags of what has happened
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = std::uint64_t;
  static constexpr Register usual = 0;
  static constexpr Register matters = 0x7ff9f07;  // FIZ, AH, NEP, traps, FZ16, rounding, FZ, DN, AHP
  static Register read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
  using Register = std::uint32_t;
  static constexpr Register usual = 0, matters = 0;
  static Register read() { return 0; }
  static void write(Register) {}
#endif

  bool is_other() const { return (before_ & matters) != (usual & matters); }

  Register before_;
};

}  // namespace fabring
