#pragma once
// From what fabring.h answers to what PyTorch throws. Python sees ValueError for a call that is wrong, RuntimeError for
// one that is not possible here and torch.distributed.DistBackendError for everything that ends a group.

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "fabring/fabring.h"

namespace fabring_torch {

/// What the engine has refused for its arguments: it has told the others, which a refusal of this module's own has not.
struct RefusedByEngine : c10::ValueError {
  using c10::ValueError::ValueError;
};

/// The exception for an answer other than FABRING_STATUS_OK. `more` follows its text.
std::exception_ptr exception_of(const fabring_error& error, const char* more = "");

/// Throws it.
[[noreturn]] void raise(const fabring_error& error);

/// Throws unless `code` is success; `error` is what the same call filled in.
inline void check(fabring_status_code code, const fabring_error& error) {
  if (code != FABRING_STATUS_OK) raise(error);
}

/// "fabring: peer_lost: ...".
std::string text_of(const fabring_error& error);

/// What an exception says, without the frames of C++ that c10's carry.
std::string text_of(const std::exception& thrown);

/// Ends the group's call with DistBackendError.
[[noreturn]] void raise_lost(const std::string& text);

}  // namespace fabring_torch
