#pragma once
// What the opaque handles of fabring.h are. Each begins with a mark of its kind: a handle of another kind, which C lets
// pass through a cast, and usually one that was freed, is found out.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bindings/c/answer.hpp"
#include "fabring/communicator.hpp"
#include "runtime/base/fork_origin.hpp"

namespace fabring::c_api {

enum class Mark : std::uint32_t {
  freed = 0,
  config = 0x676E6F63,
  engine = 0x69676E65,
  comm = 0x6D6D6F63,
  work = 0x6B726F77,
  prepared = 0x70657270,
};

template <class T, Mark kind>
struct Handle {
  explicit Handle(T of) : value(std::move(of)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { mark.store(Mark::freed, std::memory_order_relaxed); }
  bool intact() const { return mark.load(std::memory_order_relaxed) == kind; }

  std::atomic<Mark> mark{kind};
  ForkOrigin origin;
  T value;
};

}  // namespace fabring::c_api

struct fabring_config : fabring::c_api::Handle<fabring::Config, fabring::c_api::Mark::config> {
  using Handle::Handle;
};
struct fabring_engine : fabring::c_api::Handle<std::unique_ptr<fabring::Engine>, fabring::c_api::Mark::engine> {
  using Handle::Handle;
};
struct fabring_comm : fabring::c_api::Handle<fabring::Communicator, fabring::c_api::Mark::comm> {
  using Handle::Handle;
};
struct fabring_work : fabring::c_api::Handle<fabring::Work, fabring::c_api::Mark::work> {
  using Handle::Handle;
};
struct fabring_prepared : fabring::c_api::Handle<fabring::Prepared, fabring::c_api::Mark::prepared> {
  using Handle::Handle;
};

namespace fabring::c_api {

/// "the argument 'comm' is a handle of another kind, or one that was freed"
Status wrong_handle(const char* name);

template <class H>
Status check_handle(const H* handle, const char* name) {
  if (handle == nullptr) return null_argument(name);
  return handle->intact() ? Status() : wrong_handle(name);
}

/// Likewise, for calls that answer with no Status of their own: in a child of fork() the error that others have there.
Status check_own(const fabring_engine* engine);
Status check_own(const fabring_comm* comm);
Status check_own(const fabring_work* work);

/// As answer(), of a call on `handle` that the others may wait in: with an error structure that was not initialised
/// `body` does not run either, but `refuse` tells them of it. It takes why, as a Status, and returns that.
template <class H, class Refuse, class Body>
fabring_status_code answer_or_refuse(H* handle, const char* name, fabring_error* error, Refuse&& refuse,
                                     Body&& body) noexcept {
  return act_anyway(error, [&]() -> Status {
    FABRING_TRY(check_handle(handle, name));
    if (!is_usable(error)) return refuse(error_not_initialised());
    try {
      return body();
    } catch (const std::bad_alloc&) {  // before it was called
      return refuse(no_memory());
    }
  });
}

/// Tells the others, who may wait in `operation`, that it is not called here and why; returns that, with whose fault it
/// is and in which collective.
Status refuse(fabring_comm* comm, const Operation& operation, const Status& why);

/// A handle of what was made, for the caller.
template <class H, class T>
Status give_handle(Result<T> value, H** made) {
  if (!value) return value.error();
  *made = std::make_unique<H>(std::move(*value)).release();
  return {};
}

/// Answers with what `body`, a Result of what the handle holds, makes; *made is null if it fails.
template <class H, class Body>
fabring_status_code make_handle(H** made, const char* name, fabring_error* error, Body&& body) noexcept {
  if (made != nullptr) *made = nullptr;
  return answer(error, [&]() -> Status {
    if (made == nullptr) return null_argument(name);
    return give_handle(body(), made);
  });
}

template <class H>
fabring_status_code free_handle(H* handle, const char* name) noexcept {
  return answer(nullptr, [&]() -> Status {
    if (handle == nullptr) return {};
    FABRING_TRY(check_handle(handle, name));
    delete handle;
    return {};
  });
}

/// A text for the caller, as fabring_config_get says.
Status give_text(std::string_view text, char* into, std::size_t size, std::size_t* needed);

}  // namespace fabring::c_api
