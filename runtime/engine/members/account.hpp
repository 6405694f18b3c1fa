#pragma once
// Account: what a rank has done on one communicator, as it tells the others when it leaves. They see in it that what
// they wait for will never come, and that it called something else where none had to wait for the other.

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "runtime/transfer/wire.hpp"

namespace fabring {

struct Account {
  static constexpr std::size_t most_peers = 256;

  std::uint64_t communicator = 0;  ///< its id, as in Failure
  std::uint32_t sequence = 0;      ///< of the last collective that was called on it; 0: none was
  bool fine = true;                ///< it has not failed, and `last` is that call
  Signature last;
  bool all_sent = true;                              ///< `sent` has all it sent messages to
  std::vector<std::pair<Rank, std::uint32_t>> sent;  ///< how many, by rank of the world
};

struct Accounts {
  static constexpr std::size_t most_bytes = 32 * 1024;

  std::vector<Account> all;
  bool complete = true;  ///< of all communicators that it has had

  std::string encode() const;
  static std::optional<Accounts> decode(std::string_view bytes);
  /// That of this communicator; null if there is none, or several had its id one after the other.
  const Account* of(std::uint64_t communicator) const;
  /// Certainly not so many collectives.
  bool called_fewer(std::uint64_t communicator, std::uint32_t sequence) const;
  /// Certainly no more messages than these to that rank of the world.
  bool sent_at_most(std::uint64_t communicator, Rank to, std::uint32_t messages) const;
};

/// The accounts of ranks that have left. Any thread.
class Departures {
 public:
  void heard(Rank rank, Accounts accounts);
  /// Certainly not so many collectives; false also for a rank that has not left.
  bool called_fewer(Rank rank, std::uint64_t communicator, std::uint32_t sequence) const;
  /// Certainly no more messages than these to that rank of the world; likewise.
  bool sent_at_most(Rank rank, std::uint64_t communicator, Rank to, std::uint32_t messages) const;
  struct Difference {
    Rank rank;
    Signature theirs;
  };
  /// Whose last collective on this communicator had the same number as ours, and was another one.
  std::optional<Difference> differing(const Account& own) const;

 private:
  mutable std::mutex mutex_;
  std::map<Rank, Accounts> accounts_;
};

/// The accounts of communicators that are gone. Any thread.
class AccountBook {
 public:
  struct Entry {
    Account account;
    std::string label;
    Status untold;  ///< it failed by a mismatch, of which no call has told
  };
  /// For each communicator that is made: it will close() when it is gone, which may take another thread a moment longer
  /// than it is to be found.
  void open();
  /// `entry`: of one that has called or sent something.
  void close(std::optional<Entry> entry);
  std::vector<Entry> entries() const;
  /// Of the one of this id that is gone, as long as so many are there. Nothing: it is not known.
  std::optional<Account> of(std::uint32_t id, std::size_t there) const;
  /// Does it have all that are gone, if so many are there? Before entries() are read.
  bool complete(std::size_t there) const;

 private:
  static constexpr std::size_t most_entries = 256;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::size_t open_ = 0;
  bool dropped_some_ = false;
};

}  // namespace fabring
