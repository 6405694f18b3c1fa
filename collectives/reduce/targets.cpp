#include "collectives/reduce/targets.hpp"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "collectives/reduce/highway.hpp"
#include "collectives/reduce/reduce.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/targets.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {
std::int64_t this_target() { return HWY_TARGET; }
}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(this_target);

namespace {
// The scalar code runs everywhere, but Highway does not list it among what the processor supports.
std::int64_t available_targets() {
  hwy::SetSupportedTargetsForTest(0);
  return (hwy::SupportedTargets() | HWY_STATIC_TARGET) & HWY_TARGETS;
}

// What a processor with AVX3 may have besides, each with what stands before it, where it has that.
enum class Beyond { nothing, bfloat16, float16 };
struct Extension {
  const char* target;
  Beyond beyond;
};
constexpr Extension extensions[] = {{"AVX3_FP16", Beyond::float16}, {"AVX3_BF16", Beyond::bfloat16}};
std::atomic<Beyond> allowed{Beyond::float16};

#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX3)
// Asked once: under a hypervisor the instruction takes its time. Clang 14 has no name for it.
bool processor_has_float16() {
  static const bool has = [] {
    constexpr unsigned float16 = 1u << 23;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & float16) != 0 &&
           __builtin_cpu_supports("avx512bw") != 0;
  }();
  return has;
}
#endif

bool has(Beyond instructions) {
#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX3)
  return instructions == Beyond::float16 ? processor_has_float16() : __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

bool uses(Beyond instructions) { return allowed.load(std::memory_order_relaxed) >= instructions && has(instructions); }
}  // namespace

const char* reduce_target() {
  for (const Extension& extension : extensions) {
    if (uses(extension.beyond)) return extension.target;
  }
  return hwy::TargetName(HWY_DYNAMIC_DISPATCH(this_target)());
}

bool rounds_to_bfloat16() { return uses(Beyond::bfloat16); }
bool adds_float16() { return uses(Beyond::float16); }

std::vector<std::string> reduce_targets() {
  std::vector<std::string> names;
  for (const Extension& extension : extensions) {
    if (has(extension.beyond)) names.emplace_back(extension.target);
  }
  for (std::int64_t left = available_targets(); left != 0; left &= left - 1) {
    names.emplace_back(hwy::TargetName(left & -left));
  }
  return names;
}

bool force_reduce_target(const std::string& target) {
  bool found = target.empty();
  Beyond beyond = found ? Beyond::float16 : Beyond::nothing;
  for (const Extension& extension : extensions) {
    if (target != extension.target || !has(extension.beyond)) continue;
    found = true;
    beyond = extension.beyond;
  }
  allowed.store(beyond);
  for (std::int64_t left = available_targets(); left != 0 && !found; left &= left - 1) {
    found = target == hwy::TargetName(left & -left);
    if (found) hwy::SetSupportedTargetsForTest(left & -left);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return found;
}

}  // namespace fabring
#endif
