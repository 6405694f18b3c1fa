#include "transports/tcp/batch.hpp"

#include <algorithm>
#include <cstring>

namespace fabring::tcp {

void Batch::add(const Outgoing& message) {
  Message& added = messages_[(first_ + count_) % most_messages];
  added.outgoing = message;
  const bool alone = count_++ == 0;
  left_ += added.bytes();
  if (alone) {
    begun_ = 0;
    started_ = message.from.size() <= small_bytes;
  }
  std::byte* const header = alone && started_ ? start_.data() : added.header.data();
  encode({message.slot, static_cast<std::uint32_t>(message.from.size())}, header);
  if (alone && started_ && !message.from.empty())
    std::memcpy(start_.data() + header_bytes, message.from.data(), message.from.size());
}

std::size_t Batch::parts(std::size_t limit, Parts& into) const {
  std::size_t count = 0;
  std::size_t skip = begun_;
  const auto part = [&](const std::byte* at, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    const std::size_t taken = std::min(bytes - skipped, limit);
    limit -= taken;
    if (taken > 0) into[count++] = {const_cast<std::byte*>(at) + skipped, taken};
  };
  for (std::size_t i = 0; i < count_ && limit > 0; ++i) {
    const Message& message = messages_[(first_ + i) % most_messages];
    if (i == 0 && started_) {
      part(start_.data(), message.bytes());
    } else {
      part(message.header.data(), header_bytes_of(message.outgoing.from.size()));
      part(message.outgoing.from.data(), message.outgoing.from.size());
    }
  }
  return count;
}

}  // namespace fabring::tcp
