#pragma once
// The instruction sets the kernels were compiled for. Tests and benchmarks that compare them force one, which changes
// the whole process (Highway keeps the choice) and is not for use while kernels run.

#include <string>
#include <vector>

namespace fabring {

/// Names of the instruction sets that this machine can run, best first: "AVX3_FP16", "AVX3_BF16", "AVX3", "AVX2",
/// "SSE4", "SCALAR".
std::vector<std::string> reduce_targets();

/// Makes every following reduce use this one; an empty name goes back to the best. False when it is not available.
bool force_reduce_target(const std::string& target);

/// The one in use has an instruction that rounds float32 to bfloat16 (AVX512_BF16), of which Highway 1.0.3 does not
/// know.
bool rounds_to_bfloat16();

/// The one in use has instructions that calculate in float16 (AVX512_FP16), of which Highway 1.0.3 does not know
/// either.
bool adds_float16();

}  // namespace fabring
