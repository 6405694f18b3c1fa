#include "runtime/base/frame_stream.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "runtime/base/wire.hpp"

namespace fabring {
namespace {
constexpr std::size_t header_bytes = 5;
constexpr std::size_t read_bytes = 16 * 1024;
constexpr int reads_per_turn = 16;  // so that one busy link does not starve the others
}  // namespace

FrameStream::FrameStream(net::Loop& loop, std::unique_ptr<net::Stream> stream, std::size_t most, Handlers handlers)
    : loop_(loop),
      stream_(std::move(stream)),
      most_payload_bytes_(most),
      handlers_(std::move(handlers)),
      remote_(stream_->remote()),
      local_(stream_->local()) {}

std::shared_ptr<FrameStream> FrameStream::open(net::Loop& loop, std::unique_ptr<net::Stream> stream, std::size_t most,
                                               Handlers handlers) {
  std::shared_ptr<FrameStream> self(new FrameStream(loop, std::move(stream), most, std::move(handlers)));
  self->wait_readable();
  return self;
}

FrameStream::Frame FrameStream::encode(std::uint8_t type, std::string_view payload) {
  WireWriter out;
  out.number(static_cast<std::uint32_t>(payload.size())).number(type).raw(payload);
  return std::make_shared<const std::string>(out.take());
}

void FrameStream::wait_readable() {
  stream_->when_readable([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->read_on();
  });
}

void FrameStream::read_on() {
  for (int turn = 0; turn < reads_per_turn && stream_; ++turn) {
    std::array<char, read_bytes> piece;
    const net::IoResult got = stream_->read(piece.data(), piece.size());
    if (got.state == net::Io::again) break;
    if (got.state == net::Io::closed) return end(in_.empty() ? "closed" : "closed in the middle of a message");
    if (got.state == net::Io::failed) return end(std::strerror(got.error));
    if (finishing_) continue;
    in_.append(piece.data(), got.bytes);
    if (!deliver()) return;
  }
  if (stream_) wait_readable();
}

bool FrameStream::deliver() {
  std::size_t at = 0;
  while (stream_ && !finishing_ && in_.size() - at >= header_bytes) {
    WireReader header(std::string_view(in_).substr(at, header_bytes));
    const auto length = header.number<std::uint32_t>();
    const auto type = header.number<std::uint8_t>();
    if (length > most_payload_bytes_) {
      nonsense_ = true;
      end(fmt::format("sent a message of {} bytes, at most {} are allowed", length, most_payload_bytes_));
      return false;
    }
    if (in_.size() - at < header_bytes + length) break;
    if (!handlers_.frame(type, std::string_view(in_).substr(at + header_bytes, length))) {
      nonsense_ = true;
      end(fmt::format("sent a message of type {} that makes no sense", type));
      return false;
    }
    at += header_bytes + length;
  }
  if (!stream_) return false;
  in_.erase(0, at);
  return true;
}

void FrameStream::send(Frame frame) {
  if (!stream_ || finishing_) return;
  queued_bytes_ += frame->size();
  out_.push_back(std::move(frame));
  if (write_planned_) return;
  write_planned_ = true;
  // Once per turn of the loop: frames sent together leave together.
  loop_.post([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->write_on();
  });
}

void FrameStream::write_on() {
  write_planned_ = false;
  while (stream_ && !out_.empty()) {
    std::array<iovec, 32> parts;
    std::size_t count = 0;
    for (const Frame& frame : out_) {
      const std::size_t skip = count == 0 ? written_ : 0;
      parts[count++] = {const_cast<char*>(frame->data()) + skip, frame->size() - skip};
      if (count == parts.size()) break;
    }
    const net::IoResult put = stream_->write(std::span<const iovec>(parts.data(), count));
    if (put.state == net::Io::again) {
      write_planned_ = true;
      stream_->when_writable([weak = weak_from_this()] {
        if (auto self = weak.lock()) self->write_on();
      });
      return;
    }
    if (put.state != net::Io::done) {
      // The reader still gets what the peer said before it went, and reports the end.
      out_.clear();
      written_ = queued_bytes_ = 0;
      return;
    }
    queued_bytes_ -= put.bytes;
    for (std::size_t left = put.bytes; left > 0;) {
      const std::size_t rest = out_.front()->size() - written_;
      if (left < rest) {
        written_ += left;
        break;
      }
      left -= rest;
      written_ = 0;
      out_.pop_front();
    }
  }
  if (stream_ && finishing_) stream_->shutdown_send();
}

void FrameStream::finish() {
  if (!stream_ || finishing_) return;
  finishing_ = true;
  if (!write_planned_) write_on();
}

void FrameStream::close_with(const Frame& last) {
  const bool in_the_middle = written_ != 0;
  if (stream_ && !in_the_middle)
    (void)stream_->write(std::vector<iovec>{{const_cast<char*>(last->data()), last->size()}});
  close();
}

void FrameStream::close() {
  stream_.reset();
  out_.clear();
  queued_bytes_ = 0;
}

void FrameStream::end(const std::string& why) {
  if (!stream_) return;
  close();
  // Moved out: the handler may drop the last reference to this stream.
  const auto ended = std::move(handlers_.ended);
  if (ended) ended(why);
}

}  // namespace fabring
