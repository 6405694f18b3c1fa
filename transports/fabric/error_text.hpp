#pragma once
// libfabric's error numbers as sentences and as our few codes. Completion queues report positive numbers, calls
// negative ones; both are accepted here.

#include <cstdint>
#include <string>

#include "fabring/status.hpp"

struct fi_cq_err_entry;

namespace fabring::fabric {

/// "Connection reset by peer (104)"
std::string error_text(std::int64_t error);

/// A failed call that is no peer's fault: "fi_cq_open failed: ...".
Status call_failed(const char* call, std::int64_t error);

/// Why an operation that we did not end ourselves failed, from its completion entry.
Status operation_failed(const fi_cq_err_entry& entry);

}  // namespace fabring::fabric
