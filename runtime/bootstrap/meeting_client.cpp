#include "runtime/bootstrap/meeting_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/rank_list.hpp"
#include "runtime/bootstrap/master_address.hpp"
#include "topology/host_identity.hpp"
#include "topology/interfaces.hpp"

namespace fabring {

using meeting::Message;
using namespace std::chrono_literals;

namespace {
constexpr auto flush_limit = 200ms;
constexpr std::chrono::milliseconds first_return = 2ms, latest_return = 200ms;
/// Rank 0's own deadline is as long as ours, began a little later, and its text is better: it knows who is missing.
constexpr auto patience_for_the_reason = 1s;
}  // namespace

Result<std::unique_ptr<MeetingClient>> MeetingClient::meet(const MasterSearch& search, const meeting::Join& join,
                                                           const Log& log) {
  std::unique_ptr<MeetingClient> self(new MeetingClient(log));
  FABRING_TRY(self->join(search, join));
  return self;
}

MeetingClient::~MeetingClient() {
  if (!link_ || !link_->is_open()) return;
  if (welcome_.job_nonce != 0 && !finished_) give_up(meeting::failed_start());
  if (failure_.ok()) link_->send(meeting::type_of(Message::done), "");
  flush(flush_limit);
}

Status MeetingClient::failure() {
  loop_.poll();
  return failure_;
}

void MeetingClient::give_up(const Status& why) {
  if (!failure_.ok()) return;  // they know
  failure_ = why;
  link_->send(meeting::type_of(Message::give_up), meeting::encode(why));
  loop_.poll();
}

Status MeetingClient::join(const MasterSearch& search, meeting::Join join) {
  FABRING_TRY(loop_.status());
  const auto end = search.deadline + patience_for_the_reason;
  auto next_note = search.started + search.note_interval;
  std::string situation;
  for (auto pause = first_return;; pause = std::min(2 * pause, latest_return)) {
    const Status visited = visit_master(search, join, end);
    if (visited.code() == ErrorCode::timeout && !situation.empty())
      return {visited.code(), visited.message() + "; before that, " + situation, visited.context()};
    FABRING_TRY(visited);
    if (!std::exchange(turned_away_, false)) break;
    situation = fmt::format(
        "rank 0 at {} answers, and has let rank {} go without taking it in: it is still at an earlier meeting, or ends "
        "before it has begun; its output may say why",
        link_->remote().to_string(), search.greeting.self);
    link_.reset();
    loop_.run_for(pause);
    const auto now = std::chrono::steady_clock::now();
    if (now >= search.deadline)
      return {ErrorCode::timeout,
              fmt::format("waited {} for the other ranks: {}", duration_text(now - search.started), situation),
              meeting::about(0)};
    log_.debug(situation);
    if (now < next_note) continue;
    log_.warning(situation);
    next_note = now + search.note_interval;
  }
  if (!failure_.ok()) return failure_;
  if (welcome_.job_nonce != 0) {
    local_address_ = choose_local_address();
    return {};
  }
  std::string text = fmt::format("waited {} for the other ranks", duration_text(search.deadline - search.started));
  if (!last_note_.empty()) text += fmt::format(" (rank 0 said: {})", last_note_);
  give_up(Status(ErrorCode::timeout, text));
  return failure_;
}

/// Until all are here, or something went wrong, or rank 0 turned this rank away.
Status MeetingClient::visit_master(const MasterSearch& search, meeting::Join& join,
                                   std::chrono::steady_clock::time_point end) {
  auto found = find_master(loop_, search, log_);
  if (!found) return found.error();
  link_ = FrameStream::open(loop_, std::move(found->stream), meeting::most_payload_bytes,
                            {[this](std::uint8_t type, std::string_view payload) { return on_frame(type, payload); },
                             [this](const std::string& why) { on_end(why); }});
  join.master_addresses = reachable_elsewhere(found->addresses);
  link_->send(meeting::type_of(Message::join), meeting::encode(join));
  while (welcome_.job_nonce == 0 && failure_.ok() && !turned_away_ && std::chrono::steady_clock::now() < end)
    loop_.run_for(std::max<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now(), 0ns));
  return {};
}

std::string MeetingClient::choose_local_address() const {
  if (!welcome_.own_address.empty()) return welcome_.own_address;
  std::string came_from = link_->local().host;
  if (welcome_.master.empty()) return came_from;
  std::string source = source_address_towards(welcome_.master);
  if (source.empty()) {
    log_.warning(
        fmt::format("this host ({}) came to rank 0 at {} and has no route to {}, by which most ranks go: it uses its "
                    "address {}. If ranks cannot connect, set FABRING_MASTER_ADDR to a numeric address of rank 0 that "
                    "all hosts reach",
                    host_name(), link_->remote().host, welcome_.master, came_from));
    return came_from;
  }
  if (source != came_from)
    log_.info(fmt::format("this host came to rank 0 at {} from {}; all ranks go by the way to {}, from here {}",
                          link_->remote().host, came_from, welcome_.master, source));
  return source;
}

bool MeetingClient::on_frame(std::uint8_t type, std::string_view payload) {
  switch (static_cast<Message>(type)) {
    case Message::taken_in:
      taken_in_ = true;
      return payload.empty();
    case Message::welcome: {
      const auto welcome = meeting::decode_welcome(payload);
      if (!welcome || welcome_.job_nonce != 0) return false;
      welcome_ = *welcome;
      return true;
    }
    case Message::are_you_there:
      link_->send(meeting::type_of(Message::here), "");
      return payload.empty();
    case Message::waiting: {
      const auto text = meeting::decode_text(payload);
      if (!text) return false;
      last_note_ = *text;
      log_.warning(fmt::format("rank 0 is {}", *text));
      return true;
    }
    case Message::failed: {
      const auto status = meeting::decode_status(payload);
      if (!status) return false;
      failure_ = *status;
      return true;
    }
    case Message::value: {
      auto pair = meeting::decode_pair(payload);
      if (!pair || !asked_.contains(pair->key)) return false;
      values_[pair->key] = std::move(pair->value);
      return true;
    }
    default:
      return false;
  }
}

void MeetingClient::on_end(const std::string& why) {
  if (!failure_.ok()) return;
  if (!taken_in_) {
    turned_away_ = true;
    return;
  }
  failure_ = Status(ErrorCode::peer_lost,
                    fmt::format("rank 0 at {} is gone: its connection {} while the ranks were {}",
                                link_->remote().to_string(), why, welcome_.job_nonce == 0 ? "meeting" : "setting up"),
                    meeting::about(0));
}

Status MeetingClient::put(const std::string& key, const std::string& value) {
  loop_.poll();
  if (!failure_.ok()) return failure_;
  link_->send(meeting::type_of(Message::put), meeting::encode(meeting::Pair{key, value}));
  loop_.poll();  // on its way before the caller does something else
  return failure_;
}

Result<std::string> MeetingClient::get(const std::string& key, std::chrono::steady_clock::time_point deadline) {
  if (!values_.contains(key) && failure_.ok() && asked_.insert(key).second)
    link_->send(meeting::type_of(Message::get), meeting::encode_text(key));
  loop_.poll();
  while (!values_.contains(key) && failure_.ok() && std::chrono::steady_clock::now() < deadline)
    loop_.run_for(std::max<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(), 0ns));
  if (const auto found = values_.find(key); found != values_.end()) return found->second;
  if (!failure_.ok()) return failure_;
  return Status(ErrorCode::timeout, fmt::format("no rank has published '{}' in time", key));
}

void MeetingClient::flush(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  link_->finish();
  while (link_->is_open() && link_->queued_bytes() > 0 && std::chrono::steady_clock::now() < end) loop_.run_for(limit);
  loop_.poll();
}

}  // namespace fabring
