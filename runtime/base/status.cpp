#include "fabring/status.hpp"

#include <cstdio>
#include <cstdlib>

namespace fabring {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::ok: return "ok";
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::mismatch: return "mismatch";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::peer_lost: return "peer_lost";
    case ErrorCode::aborted: return "aborted";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::transport_error: return "transport_error";
    case ErrorCode::internal: return "internal";
    case ErrorCode::device_error: return "device_error";
  }
  return "unknown";
}

Status::Status(ErrorCode code, std::string message, ErrorContext context)
    : detail_(code == ErrorCode::ok ? nullptr
                                    : std::make_shared<const Detail>(
                                          Detail{code, std::move(message), std::move(context)})) {}

const std::string& Status::message() const {
  static const std::string none;
  return detail_ ? detail_->message : none;
}

const ErrorContext& Status::context() const {
  static const ErrorContext none;
  return detail_ ? detail_->context : none;
}

std::string Status::to_string() const {
  return detail_ ? std::string(name(detail_->code)) + ": " + detail_->message : "ok";
}

Status Status::with_prefix(std::string_view prefix) const {
  return detail_ ? Status(detail_->code, std::string(prefix) + detail_->message, detail_->context) : *this;
}

Status Status::with_context(ErrorContext context) const {
  return detail_ ? Status(detail_->code, detail_->message, std::move(context)) : *this;
}

void end_without_value(const Status& error) {
  std::fprintf(stderr, "fabring: the value of a Result was taken, but it is an error (look before: `if (!result)`): %s\n",
               error.to_string().c_str());
  std::abort();
}

}  // namespace fabring
