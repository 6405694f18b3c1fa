#pragma once
// Landings: of one peer, the memory that is kept posted for its long payloads (LandingRules), and what is known of the
// peer's own, for ours. Payload n comes into landing n % count, and may be sent once the peer has said, in the header
// of a parcel, that what came there before is used. Its record says where it is; either may come first. Bookkeeping
// only: Transfer posts what this names.

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>

#include "runtime/transfer/wire.hpp"

namespace fabring {

class Landings {
 public:
  explicit Landings(const LandingRules& rules);
  ~Landings();
  Landings(const Landings&) = delete;
  Landings& operator=(const Landings&) = delete;

  std::size_t held_bytes() const { return rules_.count * rules_.bytes; }

  // Ours to them.
  bool has_room() const { return sent_ - returned_ < rules_.count && !being_sent_[index_of(sent_)]; }
  /// The number of the payload that is sent now, and where it goes.
  std::uint32_t take_room();
  /// It is not sent after all: the last one.
  void give_room_back() { being_sent_[index_of(--sent_)] = false; }
  static std::uint32_t slot_of(std::uint32_t index) { return first_landing_slot + index; }
  std::uint32_t index_of(std::uint32_t number) const { return number % rules_.count; }
  /// The endpoint has let go of what was sent to this landing.
  void let_go(std::uint32_t index) { being_sent_[index] = false; }
  /// It has not yet of this payload, whatever was sent before or after it.
  bool is_on_its_way(std::uint32_t number) const {
    return being_sent_[index_of(number)] && sent_to_[index_of(number)] == number;
  }
  /// It has of this payload and all before it.
  bool are_let_go(std::uint32_t last) const;
  /// They have emptied so many, in all, of which these are the low bits. An older count may come late.
  void heard_emptied(std::uint8_t count);

  // Theirs to us.
  std::span<std::byte> memory(std::uint32_t index) const { return {memory_ + index * rules_.bytes, rules_.bytes}; }
  void came(std::uint32_t index, std::size_t bytes) { came_[index] = bytes; }
  enum class Find : std::uint8_t { there, to_come, impossible };
  /// The payload of a record that names this slot; `bytes` long as the record says.
  Find find(std::uint32_t slot, std::size_t bytes, std::span<const std::byte>& payload) const;
  /// What came there stays, and belongs to one record: another one that names this slot waits for what comes next.
  void keep(std::uint32_t index) { came_[index].reset(); }
  /// What came there was used, and it is posted again.
  void empty(std::uint32_t index);
  void posted_again(std::uint32_t index);
  /// How many were emptied, in all, without a gap: the low bits.
  std::uint8_t emptied() const { return static_cast<std::uint8_t>(emptied_); }
  /// The peer has been told.
  void told_emptied() { told_ = emptied_; }
  /// Must the peer be told although nothing else goes to it? It has none left.
  bool owes() const { return rules_.count > 0 && emptied_ - told_ >= rules_.count; }

 private:
  const LandingRules rules_;
  std::byte* const memory_;
  std::uint32_t sent_ = 0;
  std::uint32_t returned_ = 0;
  std::array<bool, most_landings> being_sent_{};
  std::array<std::uint32_t, most_landings> sent_to_{};  // the number of what went there last
  std::array<std::optional<std::size_t>, most_landings> came_{};
  std::array<bool, most_landings> emptied_out_of_turn_{};
  std::uint32_t emptied_ = 0;
  std::uint32_t told_ = 0;
};

}  // namespace fabring
