#include "failure.hpp"

#include <c10/util/StringUtil.h>

namespace fabring_torch {
namespace {

constexpr c10::SourceLocation here{"fabring", __FILE__, 0};

template <class Error>
std::exception_ptr make(const std::string& text) {
  return std::make_exception_ptr(Error(here, text));
}

}  // namespace

std::exception_ptr exception_of(const fabring_error& error, const char* more) {
  const std::string text = text_of(error) + more;
  switch (error.code) {
    case FABRING_STATUS_INVALID_ARGUMENT:
      return make<RefusedByEngine>(text);
    case FABRING_STATUS_UNSUPPORTED:
      return make<c10::Error>(text);
    default:
      return make<c10::DistBackendError>(text);
  }
}

void raise(const fabring_error& error) { std::rethrow_exception(exception_of(error)); }

std::string text_of(const fabring_error& error) {
  return c10::str("fabring: ", fabring_status_name(error.code), ": ", error.message);
}

std::string text_of(const std::exception& thrown) {
  const auto* const c10s = dynamic_cast<const c10::Error*>(&thrown);
  std::string text = c10s == nullptr ? thrown.what() : c10s->what_without_backtrace();
  return text.substr(0, text.find("\nException raised from "));  // some have put those of another into their words
}

void raise_lost(const std::string& text) { throw c10::DistBackendError(here, text); }

}  // namespace fabring_torch
