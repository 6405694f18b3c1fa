#include "failure.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <pthread.h>

#include <atomic>

namespace fabring_torch {
namespace {

std::atomic<bool> connected{false}, forked{false};

const bool watching_forks = [] {
  pthread_atfork(nullptr, nullptr, [] { forked.store(connected.load()); });
  return true;
}();

constexpr c10::SourceLocation here{"fabring", __FILE__, 0};

template <class Error>
std::exception_ptr make(const std::string& text) {
  return std::make_exception_ptr(Error(here, text));
}

}  // namespace

std::exception_ptr exception_of(const fabring_error& error) {
  const std::string text = c10::str("fabring: ", fabring_status_name(error.code), ": ", error.message);
  switch (error.code) {
    case FABRING_STATUS_INVALID_ARGUMENT:
      return make<c10::ValueError>(text);
    case FABRING_STATUS_UNSUPPORTED:
      return make<c10::Error>(text);
    default:
      return make<c10::DistBackendError>(text);
  }
}

void raise(const fabring_error& error) { std::rethrow_exception(exception_of(error)); }

void raise_lost(const std::string& text) { throw c10::DistBackendError(here, text); }

void note_connections() { connected.store(true); }

bool is_forked() { return forked.load(std::memory_order_relaxed); }

void check_not_forked() {
  if (is_forked())
    throw c10::Error(here,
                     "fabring: this process is a child of fork(), and the connections are its parent's; make process "
                     "groups only in processes that call init_process_group themselves");
}

}  // namespace fabring_torch
