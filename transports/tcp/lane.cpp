#include "transports/tcp/lane.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "runtime/base/check.hpp"
#include "runtime/base/copy_bytes.hpp"

namespace fabring::tcp {
namespace {

std::string errno_text(int error) { return std::generic_category().message(error); }

// Linux says so once a third of the socket's buffer is free. An error is room as well: the write will name it.
bool has_room(const net::Stream& stream) {
  pollfd asked{stream.native_handle(), POLLOUT, 0};
  return ::poll(&asked, 1, 0) != 0;
}

}  // namespace

Progress Lane::write(Ledger& ledger) {
  // Writing whenever a few packets have left would fill the socket in small pieces, which costs more than to wait.
  if (full_ && !has_room(*stream_)) return Progress::blocked;
  full_ = false;
  // What is just too long for one turn would leave a few bytes to a system call and a packet of their own.
  const std::size_t offered = batch_.left() < turn_bytes + long_message_bytes ? batch_.left() : turn_bytes;
  Batch::Parts parts;
  const std::size_t count = batch_.parts(offered, parts);
  const net::IoResult wrote = count == 1 ? stream_->write(parts.at[0].iov_base, parts.at[0].iov_len)
                                         : stream_->write(std::span(parts.at.data(), count));
  full_ = wrote.state == net::Io::again || (wrote.state == net::Io::done && wrote.bytes < offered);
  if (wrote.state == net::Io::again) return Progress::blocked;
  if (wrote.state != net::Io::done) return fail("failed: " + errno_text(wrote.error));
  ledger.counters.bytes_sent += wrote.bytes;
  batch_.advance(wrote.bytes, [&](const Outgoing& message) {
    ++ledger.counters.messages_sent;
    ledger.complete(message.context, Outcome::done, message.from.size());
  });
  if (full_) return Progress::blocked;  // the socket is full; asking again would only say so
  return batch_.empty() ? Progress::done : Progress::more;
}

void Lane::abandon_sends(Ledger& ledger, Outcome outcome) {
  batch_.clear([&](const Outgoing& message) { ledger.complete(message.context, outcome); });
}

void Lane::finish_sending() {
  if (!std::exchange(shut_, true)) stream_->shutdown_send();
}

Progress Lane::read(SlotTable& posted, Ledger& ledger) {
  if (end_ > 0) std::memcpy(staging_.data(), rest_.data(), end_);
  const Progress progress = read_staged(posted, ledger);
  if (progress == Progress::failed) return progress;
  end_ -= begin_;
  FABRING_CHECK(end_ <= rest_.size());
  if (end_ > 0) std::memcpy(rest_.data(), staging_.data() + begin_, end_);
  begin_ = 0;
  return progress;
}

Progress Lane::read_staged(SlotTable& posted, Ledger& ledger) {
  std::size_t read_bytes = 0;
  bool drained = false;
  while (true) {
    if (receiving_) {
      const std::size_t staged = std::min(end_ - begin_, expected_ - received_);
      if (staged > 0) {
        copy_bytes(incoming_.into + received_, staging_.data() + begin_, staged);
        begin_ += staged;
        received_ += staged;
      }
      if (received_ == expected_) {
        finish_receive(posted, ledger);
        if (expected_ >= long_message_bytes) return begin_ == end_ && drained ? Progress::blocked : Progress::more;
        continue;
      }
    } else if (end_ - begin_ >= header_bytes) {
      const Progress taken = take_header(posted);
      if (taken == Progress::failed) return taken;
      if (taken == Progress::done) continue;
    }
    if (drained) return Progress::blocked;
    if (read_bytes >= turn_bytes) return Progress::more;

    // Here the staging buffer holds less than a header with its padding, and nothing at all in the middle of a message.
    if (begin_ > 0) std::memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    iovec parts[2];
    std::size_t count = 0;
    const std::size_t direct = receiving_ ? std::min(expected_ - received_, turn_bytes) : 0;
    if (direct > 0) parts[count++] = {incoming_.into + received_, direct};
    // A message that does not fit here with its header takes a second system call anyway, and its kind often follow.
    const std::size_t room = header_bytes + expected_ > staging_.size() ? trailing_bytes : staging_.size() - end_;
    parts[count++] = {staging_.data() + end_, direct < turn_bytes ? room : 0};
    const std::size_t asked = parts[0].iov_len + (count > 1 ? parts[1].iov_len : 0);
    const net::IoResult got =
        count == 1 ? stream_->read(parts[0].iov_base, parts[0].iov_len) : stream_->read(std::span(parts, count));
    if (got.state == net::Io::again) return Progress::blocked;
    if (got.state == net::Io::closed) return end_of_stream();
    if (got.state != net::Io::done) return fail("failed: " + errno_text(got.error));
    ledger.counters.bytes_received += got.bytes;
    read_bytes += got.bytes;
    drained = got.bytes < asked;
    const std::size_t placed = std::min(direct, got.bytes);
    received_ += placed;
    end_ += got.bytes - placed;
  }
}

Progress Lane::take_header(SlotTable& posted) {
  const std::optional<FrameHeader> header = decode(staging_.data() + begin_);
  if (!header) return fail("broke the protocol: what should be a message header is not one");
  PostedReceive* receive = posted.find(header->slot);
  if (receive == nullptr || receive->arriving) {
    return fail("broke the protocol: a message for slot " + std::to_string(header->slot) +
                ", for which no receive is posted");
  }
  if (header->bytes > receive->capacity) {
    return fail("broke the protocol: a message of " + std::to_string(header->bytes) + " bytes for slot " +
                std::to_string(header->slot) + ", where " + std::to_string(receive->capacity) + " are expected");
  }
  const std::size_t padded = header_bytes_of(header->bytes);
  if (end_ - begin_ < padded) return Progress::more;
  begin_ += padded;
  receive->arriving = true;
  incoming_ = *receive;
  expected_ = header->bytes;
  received_ = 0;
  receiving_ = true;
  began_ = expected_ >= long_message_bytes ? std::chrono::steady_clock::now().time_since_epoch()
                                           : std::chrono::nanoseconds(0);
  return Progress::done;
}

void Lane::finish_receive(SlotTable& posted, Ledger& ledger) {
  receiving_ = false;
  posted.erase(incoming_.slot);
  ++ledger.counters.messages_received;
  Completion completion{incoming_.context, Outcome::done, static_cast<std::uint32_t>(expected_)};
  completion.began = began_;
  ledger.complete(completion);
}

void Lane::drain() {
  for (int i = 0; i < 64; ++i) {
    if (stream_->read(staging_.data(), staging_.size()).state != net::Io::done) return;
  }
}

Progress Lane::end_of_stream() {
  if (receiving_) {
    return fail("was closed in the middle of a message (" + std::to_string(received_) + " of " +
                std::to_string(expected_) + " bytes)");
  }
  if (begin_ != end_) return fail("was closed in the middle of a message header");
  read_ended_ = true;
  return Progress::ended;
}

Progress Lane::fail(std::string why) {
  failure_ = std::move(why);
  return Progress::failed;
}

}  // namespace fabring::tcp
