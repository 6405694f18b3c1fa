#include "runtime/bootstrap/meeting_values.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fabring {

using meeting::Message;

namespace {
constexpr std::size_t waits_per_rank = 16;
}

MeetingValues::MeetingValues(int world_size)
    : most_waits_(waits_per_rank * static_cast<std::size_t>(world_size)),
      bytes_of_(static_cast<std::size_t>(world_size)) {}

Result<std::string> MeetingValues::get(const std::string& key, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto answered = [&] { return values_.contains(key) || !failure_.ok(); };
  const bool in_time = changed_.wait_until(lock, deadline, answered);
  if (!failure_.ok()) return failure_;
  if (!in_time) return Status(ErrorCode::timeout, fmt::format("no rank has published '{}' in time", key));
  return values_.at(key);
}

void MeetingValues::publish(const meeting::Pair& pair) {
  {
    const std::lock_guard lock(mutex_);
    if (!values_.emplace(pair.key, pair.value).second) return;  // the first value stays
    changed_.notify_all();
  }
  const auto waiting = waiting_.extract(pair.key);
  if (waiting.empty()) return;
  const auto frame = FrameStream::encode(meeting::type_of(Message::value), meeting::encode(pair));
  for (const Link& link : waiting.mapped()) link->send(frame);
}

bool MeetingValues::publish_of(Rank rank, const meeting::Pair& pair, std::size_t bytes) {
  std::size_t& all = bytes_of_[static_cast<std::size_t>(rank)];
  all += bytes;
  if (all > most_bytes_per_rank) return false;
  publish(pair);
  return true;
}

bool MeetingValues::answer(const Link& link, std::string_view question) {
  const auto key = meeting::decode_text(question);
  if (!key || key->size() > meeting::most_key_bytes) return false;
  if (const auto found = values_.find(*key); found != values_.end()) {
    link->send(meeting::type_of(Message::value), meeting::encode(meeting::Pair{*key, found->second}));
    return true;
  }
  if (waiting_.size() >= most_waits_) return false;
  auto& links = waiting_[*key];
  if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
  return true;
}

void MeetingValues::forget(const Link& link) {
  for (auto& [key, links] : waiting_) std::erase(links, link);
}

void MeetingValues::fail(const Status& why) {
  const std::lock_guard lock(mutex_);
  failure_ = why;
  changed_.notify_all();
}

}  // namespace fabring
