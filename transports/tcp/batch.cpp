#include "transports/tcp/batch.hpp"

#include <algorithm>
#include <cstring>

namespace fabring::tcp {

void Batch::add(const Outgoing& message) {
  if (count_ == 0) begun_ = 0;
  messages_[(first_ + count_++) % most_messages] = message;
  left_ += bytes_of(message);
}

std::size_t Batch::parts(std::size_t limit, Parts& into) const {
  std::size_t count = 0;
  std::size_t skip = begun_;
  const auto part = [&](const std::byte* at, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    const std::size_t taken = std::min(bytes - skipped, limit);
    limit -= taken;
    if (taken > 0) into.at[count++] = {const_cast<std::byte*>(at) + skipped, taken};
  };
  const auto header_of = [](const Outgoing& message) {
    return FrameHeader{message.slot, static_cast<std::uint32_t>(message.from.size())};
  };
  if (count_ == 1 && begun_ == 0 && first().from.size() <= small_bytes) {
    encode(header_of(first()), into.joined.data());
    if (!first().from.empty()) std::memcpy(into.joined.data() + header_bytes, first().from.data(), first().from.size());
    part(into.joined.data(), bytes_of(first()));
    return count;
  }
  for (std::size_t i = 0; i < count_ && limit > 0; ++i) {
    const Outgoing& message = messages_[(first_ + i) % most_messages];
    const std::span header = std::span(into.headers[i]).first(header_bytes_of(message.from.size()));
    encode(header_of(message), header.data());
    std::memset(header.data() + header_bytes, 0, header.size() - header_bytes);
    part(header.data(), header.size());
    part(message.from.data(), message.from.size());
  }
  return count;
}

}  // namespace fabring::tcp
