#pragma once
// Fast records: a record as the head of a FastMessage. What only some kinds have (a slot, a length other than that of
// the payload) travels as the payload of those that have no other.

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "runtime/transfer/wire.hpp"
#include "transports/fast_messages.hpp"

namespace fabring {

struct FastRecord {
  RecordKind kind = RecordKind::data;
  std::uint8_t takes_ticket = 0;
  std::uint16_t message = 0;
  std::uint32_t communicator = 0;
  std::uint32_t sequence = 0;
  std::uint32_t tile = 0;
  std::uint32_t consumed = 0;
  std::uint32_t layout = 0;
  std::uint64_t count = 0;
  std::uint32_t root = 0;
  std::uint8_t collective = 0;
  std::uint8_t type = 0;
  std::uint8_t op = 0;
  std::uint8_t algorithm = 0;
};
static_assert(sizeof(FastRecord) == FastMessage::head_bytes && std::has_unique_object_representations_v<FastRecord>);

struct FastExtra {
  std::uint32_t slot = 0;
  std::uint32_t bytes = 0;
};

/// May this record travel so? Nearly all may.
inline bool fits_fast(const Record& record) { return record.message <= std::numeric_limits<std::uint16_t>::max(); }

inline FastMessage::Head fast_head(const Record& record) {
  FastRecord fast;
  fast.kind = record.kind;
  fast.takes_ticket = record.takes_ticket;
  fast.message = static_cast<std::uint16_t>(record.message);
  fast.communicator = record.communicator;
  fast.sequence = record.sequence;
  fast.tile = record.tile;
  fast.consumed = record.consumed;
  fast.layout = record.signature.layout;
  fast.count = record.signature.count;
  fast.root = record.signature.root;
  fast.collective = record.signature.collective;
  fast.type = record.signature.type;
  fast.op = record.signature.op;
  fast.algorithm = record.signature.algorithm;
  FastMessage::Head head;
  std::memcpy(head.data(), &fast, sizeof fast);
  return head;
}

/// The head of records of data that differ in nothing but their sequence, their tile and what their senders have taken.
class DataHead {
 public:
  DataHead() = default;
  /// Of a record that fits_fast().
  explicit DataHead(const Record& record) : words_(std::bit_cast<Words>(fast_head(record))) {}

  FastMessage::Head with(std::uint32_t sequence, std::uint32_t tile, std::uint32_t consumed) const {
    auto fast = std::bit_cast<FastRecord>(words_);
    fast.sequence = sequence;
    fast.tile = tile;
    fast.consumed = consumed;
    return std::bit_cast<FastMessage::Head>(fast);
  }
  /// Is it one of them?
  bool is_of(const FastMessage::Head& head, std::uint32_t sequence, std::uint32_t tile) const {
    constexpr std::uint32_t any = ~std::uint32_t{0};
    constexpr FastRecord differing{.kind = RecordKind{}, .sequence = any, .tile = any, .consumed = any};
    constexpr auto varying = std::bit_cast<Words>(differing);
    const auto came = std::bit_cast<Words>(head);
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) difference |= (words_[i] ^ came[i]) & ~varying[i];
    const auto fast = std::bit_cast<FastRecord>(head);
    return difference == 0 && fast.sequence == sequence && fast.tile == tile;
  }
  static std::uint32_t consumed(const FastMessage::Head& head) { return std::bit_cast<FastRecord>(head).consumed; }

 private:
  using Words = std::array<std::uint64_t, FastMessage::head_bytes / sizeof(std::uint64_t)>;
  Words words_{};
};

/// Empty if the peer sent nonsense. A record of data has the message's payload.
inline std::optional<Record> record_of(const FastMessage& message) {
  FastRecord fast;
  std::memcpy(&fast, message.head.data(), sizeof fast);
  Record record;
  record.kind = fast.kind;
  record.takes_ticket = fast.takes_ticket;
  record.message = fast.message;
  record.communicator = fast.communicator;
  record.sequence = fast.sequence;
  record.tile = fast.tile;
  record.consumed = fast.consumed;
  record.signature.layout = fast.layout;
  record.signature.count = fast.count;
  record.signature.root = fast.root;
  record.signature.collective = fast.collective;
  record.signature.type = fast.type;
  record.signature.op = fast.op;
  record.signature.algorithm = fast.algorithm;
  if (record.kind == RecordKind::data) {
    record.bytes = static_cast<std::uint32_t>(message.payload.size());
    return record;
  }
  FastExtra extra;
  if (message.payload.size() != sizeof extra) return std::nullopt;
  std::memcpy(&extra, message.payload.data(), sizeof extra);
  record.slot = extra.slot;
  record.bytes = extra.bytes;
  return record;
}

}  // namespace fabring
