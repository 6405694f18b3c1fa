#include "runtime/bootstrap/meeting_wire.hpp"

#include <algorithm>

#include "runtime/base/wire.hpp"
#include "runtime/bootstrap/master_address.hpp"

namespace fabring::meeting {
namespace {
constexpr std::size_t most_name_bytes = 256;
constexpr std::size_t most_address_bytes = 64;
// The first byte says whether the meeting took place.
constexpr char met = '+', failed = '!';
}  // namespace

std::string encode(const Join& join) {
  WireWriter out;
  out.text(join.fingerprint, most_name_bytes).text(join.host, most_name_bytes).number(join.pid);
  const std::size_t count = std::min(join.master_addresses.size(), most_master_addresses);
  out.number(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.text(join.master_addresses[i], most_address_bytes);
  return out.take();
}

std::string encode(const StoreJoin& join) {
  return WireWriter().text(join.beacon, most_name_bytes).take() + encode(join.self);
}

std::string encode(const Welcome& welcome) {
  return WireWriter()
      .number(welcome.job_nonce)
      .number(static_cast<std::uint8_t>(welcome.all_on_this_host))
      .text(welcome.own_address, most_address_bytes)
      .text(welcome.master, most_address_bytes)
      .take();
}

std::string encode(const Pair& pair) {
  return WireWriter().text(pair.key, most_key_bytes).text(pair.value, most_value_bytes).take();
}

std::string encode(const Status& status) {
  return WireWriter()
      .number(static_cast<std::uint8_t>(status.code()))
      .number(status.context().rank)
      .text(status.context().host, most_name_bytes)
      .text(status.message(), most_text_bytes)
      .take();
}

std::string encode_text(std::string_view text) { return WireWriter().text(text, most_text_bytes).take(); }

std::string encode(const StoreMeeting& meeting) {
  return met + WireWriter()
                   .number(meeting.job_nonce)
                   .number(static_cast<std::uint8_t>(meeting.all_on_this_host))
                   .text(meeting.master, most_address_bytes)
                   .take();
}

std::string encode_failed_meeting(const Status& why) { return failed + encode(why); }

namespace {

std::optional<Join> read_join(WireReader& in) {
  Join join;
  join.fingerprint = in.text(most_name_bytes);
  join.host = printable(in.text(most_name_bytes));
  join.pid = in.number<std::uint32_t>();
  const auto count = in.number<std::uint8_t>();
  if (count > most_master_addresses) return std::nullopt;
  for (int i = 0; i < count; ++i) join.master_addresses.emplace_back(in.text(most_address_bytes));
  if (!in.complete()) return std::nullopt;
  for (const std::string& address : join.master_addresses)
    if (!is_numeric_address(address)) return std::nullopt;
  return join;
}

}  // namespace

std::optional<Join> decode_join(std::string_view payload) {
  WireReader in(payload);
  return read_join(in);
}

std::optional<StoreJoin> decode_store_join(std::string_view value) {
  WireReader in(value);
  std::string beacon(in.text(most_name_bytes));
  auto self = read_join(in);
  if (!self) return std::nullopt;
  return StoreJoin{std::move(*self), std::move(beacon)};
}

std::optional<Welcome> decode_welcome(std::string_view payload) {
  WireReader in(payload);
  Welcome welcome;
  welcome.job_nonce = in.number<std::uint64_t>();
  welcome.all_on_this_host = in.number<std::uint8_t>() != 0;
  welcome.own_address = in.text(most_address_bytes);
  welcome.master = in.text(most_address_bytes);
  if (!in.complete() || welcome.job_nonce == 0) return std::nullopt;
  for (const std::string& address : {welcome.own_address, welcome.master})
    if (!address.empty() && !is_numeric_address(address)) return std::nullopt;
  return welcome;
}

std::optional<Pair> decode_pair(std::string_view payload) {
  WireReader in(payload);
  Pair pair;
  pair.key = in.text(most_key_bytes);
  pair.value = in.text(most_value_bytes);
  if (!in.complete() || pair.key.empty()) return std::nullopt;
  return pair;
}

std::optional<Status> decode_status(std::string_view payload) {
  WireReader in(payload);
  const auto code = in.number<std::uint8_t>();
  ErrorContext context;
  context.rank = in.number<int>();
  context.host = printable(in.text(most_name_bytes));
  const std::string text = printable(in.text(most_text_bytes));
  if (!in.complete() || code == 0 || code > static_cast<std::uint8_t>(last_error_code)) return std::nullopt;
  return Status(static_cast<ErrorCode>(code), text, std::move(context));
}

std::optional<std::string> decode_text(std::string_view payload) {
  WireReader in(payload);
  std::string text = printable(in.text(most_text_bytes));
  if (!in.complete()) return std::nullopt;
  return text;
}

Result<StoreMeeting> decode_store_meeting(std::string_view value) {
  const std::string_view rest = value.substr(std::min<std::size_t>(value.size(), 1));
  if (value.starts_with(failed))
    if (const auto why = decode_status(rest)) return *why;
  WireReader in(rest);
  StoreMeeting meeting;
  meeting.job_nonce = in.number<std::uint64_t>();
  meeting.all_on_this_host = in.number<std::uint8_t>() != 0;
  meeting.master = in.text(most_address_bytes);
  if (value.starts_with(met) && in.complete() && is_numeric_address(meeting.master)) return meeting;
  return Status(ErrorCode::mismatch,
                "what rank 0 has put into the store cannot be read: another version, or another program that uses the "
                "same keys");
}

bool is_failed_meeting(std::string_view value) {
  return value.starts_with(failed) && decode_status(value.substr(1)).has_value();
}

Status failed_start() { return Status(ErrorCode::peer_lost, "its start has failed: look at its output"); }

ErrorContext about(Rank rank, std::string host) {
  ErrorContext context;
  context.rank = rank;
  context.host = std::move(host);
  return context;
}

ErrorContext blamed(const Status& why, Rank self, std::string host) {
  const ErrorContext& known = why.context();
  return known.rank >= 0 && known.rank != self ? about(known.rank, known.host) : about(self, std::move(host));
}

std::string printable(std::string_view text) {
  std::string shown(text);
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return shown;
}

}  // namespace fabring::meeting
