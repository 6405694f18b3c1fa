#pragma once
// Status and Result<T>: how every fallible call of Fabring answers. We never throw. A Status is one pointer: null is
// success and costs nothing; a failure carries a code (what the caller can do next), a sentence (what, where, what to
// do) and, where known, the rank at fault. Result<T> has std::expected's names, so that one day it can be one.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "fabring/export.hpp"

namespace fabring {

/// Few codes, told apart by what the caller does next; docs/errors.md has a row for each.
enum class ErrorCode : std::uint8_t {
  ok,
  invalid_argument,  ///< the call is wrong; fix it. The communicator stays usable.
  mismatch,          ///< ranks called different things; fix the program.
  unsupported,       ///< not possible here; choose another type, transport or algorithm. Stays usable.
  unavailable,       ///< a resource or service is missing (port, name, provider); fix the environment.
  timeout,           ///< a deadline passed; the text says who was waited for.
  peer_lost,         ///< a rank died or cannot be reached; go on without it by shrink(), or start again.
  aborted,           ///< abort() was called, here or on another rank.
  out_of_memory,     ///< the memory budget or the machine is exhausted.
  transport_error,   ///< the fabric failed in a way that names no dead rank.
  internal,          ///< a bug in Fabring; please report it.
  device_error,      ///< a GPU failed, or its memory is not what it should be; look at the program's work on it.
};
/// The last one: numbers from elsewhere are none of ours beyond it.
inline constexpr ErrorCode last_error_code = ErrorCode::device_error;

/// "invalid_argument", "peer_lost", ...
FABRING_API std::string_view name(ErrorCode code);

/// What was going on when an error happened; a field that is not known keeps its default.
struct ErrorContext {
  int rank = -1;               ///< the rank at fault (not the one that reports), by its number in the job
  std::string host;            ///< its host
  std::string collective;      ///< "allreduce"; of what makes a communicator its name: "duplicate"
  std::uint64_t sequence = 0;  ///< number of the operation on its communicator, from 1; split and the like take several
  std::uint64_t bytes = 0;     ///< size of the operation
};

class [[nodiscard]] FABRING_API Status {
 public:
  Status() = default;  // success
  Status(ErrorCode code, std::string message, ErrorContext context = {});

  bool ok() const { return detail_ == nullptr; }
  explicit operator bool() const { return ok(); }
  ErrorCode code() const { return detail_ ? detail_->code : ErrorCode::ok; }
  /// One sentence or a few: what, where, what to do. Empty on success.
  const std::string& message() const;
  const ErrorContext& context() const;
  /// "peer_lost: rank 2 (host b) ..."; "ok" on success.
  std::string to_string() const;
  /// The same error with words in front: "allreduce #4 failed: " + message.
  Status with_prefix(std::string_view prefix) const;
  Status with_context(ErrorContext context) const;

 private:
  struct Detail {
    ErrorCode code;
    std::string message;
    ErrorContext context;
  };
  std::shared_ptr<const Detail> detail_;
};

/// Says on stderr that somebody took the value of a Result that is this error, and ends the program (abort).
[[noreturn]] FABRING_API void end_without_value(const Status& error);

/// Look first (`if (!result)`): value(), * and -> of an error end the program with its text. error() of a value is a
/// success.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}       // NOLINT: as std::expected
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & { return held(*this); }
  const T& value() const& { return held(*this); }
  T&& value() && { return std::move(held(*this)); }
  T& operator*() & { return held(*this); }
  const T& operator*() const& { return held(*this); }
  T&& operator*() && { return std::move(held(*this)); }
  T* operator->() { return &held(*this); }
  const T* operator->() const { return &held(*this); }
  const Status& error() const {
    static const Status none;
    const Status* const error = std::get_if<1>(&state_);
    return error != nullptr ? *error : none;
  }
  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(other));
  }

 private:
  template <class Self>
  static auto& held(Self& self) {
    auto* const value = std::get_if<0>(&self.state_);
    if (value == nullptr) end_without_value(self.error());
    return *value;
  }

  std::variant<T, Status> state_;
};

}  // namespace fabring

/// Returns the error of a Status expression to the caller.
#define FABRING_TRY(expression)                                                                                   \
  do {                                                                                                            \
    if (::fabring::Status fabring_try_status = (expression); !fabring_try_status.ok()) return fabring_try_status; \
  } while (false)
