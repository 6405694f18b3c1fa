#pragma once
// Settings that every file including Highway must share, so include this before any header of it.
//
// Vectors whose length is known only at run time (SVE, RVV) cannot be members or array elements, which the folds need
// to keep several sums in registers; such machines use their fixed-length set (NEON) or scalar code. SSSE3 without
// SSE4.2 ended in 2008 and is not worth its compile time.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
