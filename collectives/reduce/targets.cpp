#include "collectives/reduce/targets.hpp"

#include <atomic>

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

constexpr const char* with_bfloat16 = "AVX3_BF16";
std::atomic<bool> bfloat16_allowed{true};

// Every processor that has it has what Highway calls AVX3.
bool has_bfloat16() {
#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX3)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}
}  // namespace

const char* reduce_target() {
  return rounds_to_bfloat16() ? with_bfloat16 : hwy::TargetName(HWY_DYNAMIC_DISPATCH(this_target)());
}

bool rounds_to_bfloat16() { return bfloat16_allowed.load(std::memory_order_relaxed) && has_bfloat16(); }

std::vector<std::string> reduce_targets() {
  std::vector<std::string> names;
  if (has_bfloat16()) names.emplace_back(with_bfloat16);
  for (std::int64_t left = available_targets(); left != 0; left &= left - 1) {
    names.emplace_back(hwy::TargetName(left & -left));
  }
  return names;
}

bool force_reduce_target(const std::string& target) {
  bool found = target.empty() || (target == with_bfloat16 && has_bfloat16());
  bfloat16_allowed.store(found);
  for (std::int64_t left = available_targets(); left != 0 && !found; left &= left - 1) {
    found = target == hwy::TargetName(left & -left);
    if (found) hwy::SetSupportedTargetsForTest(left & -left);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return found;
}

}  // namespace fabring
#endif
