#pragma once
// RollCall: the ranks that make an engine make sure that they mean the same one, and that all of them are alive now. A
// store may outlive processes, as torchrun's does, so it may have the keys of ranks that died anywhere on their way: no
// rank can count its lives alike with the others. So rank 0 publishes a new token under a key that is always the same
// and every other rank answers to it with a word of its own, again for every token that it sees there. When all have
// answered rank 0 lets those words in; a rank whose word is not among them, as rank 0 has heard one that died in its
// place, or was itself one that died, goes on looking for the next token. One or two values of the store a rank.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decision.hpp"
#include "limit.hpp"

namespace fabring_torch {

class Polling;

class RollCall {
 public:
  /// Keeps the request by reference.
  explicit RollCall(const GroupRequest& request);

  /// Rank 0: publishes the decision and returns when every rank has answered. Throws when they do not.
  void hold(const Decision& decision, const Limit& limit, Polling& polling) const;
  /// Rank 0: only publishes, for those who find nothing else and would not know why.
  void tell(const Decision& decision) const;

  /// Another rank: what rank 0 has decided, once this rank is let in. Throws if rank 0 has given up.
  std::optional<Decision> answer(Polling& polling);
  /// Another rank, while it waits: does another process answer as this one?
  void look();
  /// Which one has, before this one or after it, for people, behind what has failed; empty: none, as far as is known.
  const std::string& another() const { return another_; }
  /// Why it was not let in, for people.
  std::string why_not() const;
  /// Did rank 0 call, as far as this rank can tell?
  bool has_answered() const { return answered_; }

 private:
  void look_for_another();
  std::int64_t number_in_job(std::size_t rank) const;
  std::string answer_key(const std::string& token, std::size_t rank) const;
  void release(const std::string& token, const std::vector<std::string>& words, const std::string& refusal) const;

  const GroupRequest& request_;
  const std::string word_;  // of this rank, here and now: something that nobody else has, and who it is, for people
  std::string seen_;        // what is published, as it was read last
  Decision offer_;          // the same
  bool answered_ = false;   // to offer_
  std::string another_;     // has answered as this rank
};

}  // namespace fabring_torch
