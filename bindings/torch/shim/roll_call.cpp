#include "roll_call.hpp"

#include <c10/util/StringUtil.h>
#include <unistd.h>

#include <algorithm>

#include "failure.hpp"
#include "group.hpp"
#include "hearing.hpp"
#include "polling.hpp"

namespace fabring_torch {
namespace {

constexpr const char* published = "fabring/offer";

// Of a word only what nobody else has: the rest is for people.
std::string key_of(const std::string& word) { return word.substr(0, word.find(' ')); }

std::string entry_key(const std::string& token, const std::string& word) {
  return c10::str("fabring/", token, "/in/", key_of(word));
}

// Where one that finds that another process has answered as its rank says so: rank 0 sees only the last answer.
std::string twice_key(const std::string& token) { return c10::str("fabring/", token, "/twice"); }

// "5c1e-77ab (host b, pid 4711)"
std::string word_of_this_process() {
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '?';
  return c10::str(random_token(), " (host ", host, ", pid ", getpid(), ")");
}

// One that was started again finds the answer of its life before, so this only goes with something that failed.
std::string another_text(std::int64_t rank, const std::string& one, const std::string& other) {
  const auto who = [](const std::string& word) { return word.substr(std::min(word.find(' '), word.size())); };
  return c10::str("; rank ", rank, " came twice:", who(one), " and", who(other),
                  "; unless one of them died before the other came, give every process its own RANK");
}

std::string heard_key(const std::string& token, const std::string& word) {
  return c10::str("fabring/", token, "/heard/", key_of(word));
}

// "rank 3 of 8", "ranks 1 and 2 of 3", "ranks 1, 2 and 61 others of 64".
std::string missing_text(const std::vector<std::size_t>& ranks, int size) {
  constexpr std::size_t most_named = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const bool cut = ranks.size() > most_named;
  const std::size_t named = cut ? most_named : ranks.size();
  for (std::size_t i = 0; i < named; ++i)
    text += c10::str(i == 0 ? "" : i + 1 == named && !cut ? " and " : ", ", ranks[i]);
  if (cut) text += c10::str(" and ", ranks.size() - named, " others");
  return c10::str(text, " of ", size);
}

}  // namespace

RollCall::RollCall(const GroupRequest& request) : request_(request), word_(word_of_this_process()) {}

std::int64_t RollCall::number_in_job(std::size_t rank) const {
  const auto& ranks = request_.global_ranks;
  return ranks.empty() ? static_cast<std::int64_t>(rank) : ranks[rank];
}

// By its number in the job: ranks that disagree about who is in the group would have the same one in it.
std::string RollCall::answer_key(const std::string& token, std::size_t rank) const {
  return c10::str("fabring/", token, "/here/", number_in_job(rank));
}

void RollCall::tell(const Decision& decision) const { request_.store->set(published, decision.encode()); }

void RollCall::hold(const Decision& decision, const Limit& limit, Polling& polling) const {
  c10d::Store& store = *request_.store;
  tell(decision);
  std::vector<std::string> answers;
  for (std::size_t rank = 1; rank < static_cast<std::size_t>(request_.size); ++rank)
    answers.push_back(answer_key(decision.token, rank));
  if (answers.empty()) return;
  bool all = store.check(answers);
  while (!all && polling.again()) all = store.check(answers);
  std::vector<std::string> words;
  std::vector<std::size_t> missing;
  if (all && store.hasExtendedApi()) {
    for (const auto& value : store.multiGet(answers)) words.emplace_back(value.begin(), value.end());
  } else {
    for (std::size_t i = 0; i < answers.size(); ++i)
      if (all || store.check({answers[i]}))
        words.push_back(store.get_to_str(answers[i]));
      else
        missing.push_back(i + 1);
  }
  if (missing.empty()) return release(decision.token, words, "");
  std::string text = c10::str(missing_text(missing, request_.size), " did not come within ", limit.text(), "; look at ",
                              missing.size() == 1 ? "its" : "their", " output");
  if (const std::string twice = twice_key(decision.token); store.check({twice})) text += store.get_to_str(twice);
  release(decision.token, words, "rank 0: " + text);
  std::vector<std::string> heard;
  for (const std::string& word : words) heard.push_back(heard_key(decision.token, word));
  wait_until_heard(store, heard);
  raise_lost(c10::str("fabring: group '", request_.name, "': ", text));
}

// With a reason it does not let them in, but tells them that it will not.
void RollCall::release(const std::string& token, const std::vector<std::string>& words,
                       const std::string& refusal) const {
  std::vector<std::string> keys;
  for (const std::string& word : words) keys.push_back(entry_key(token, word));
  if (keys.empty()) return;
  const std::vector<std::uint8_t> value(refusal.begin(), refusal.end());
  if (request_.store->hasExtendedApi()) return request_.store->multiSet(keys, {keys.size(), value});
  for (const std::string& key : keys) request_.store->set(key, value);
}

std::optional<Decision> RollCall::answer(Polling& polling) {
  c10d::Store& store = *request_.store;
  if (seen_.empty() && !store.check({published})) return std::nullopt;
  if (std::string now = store.get_to_str(published); now != seen_) {
    seen_ = std::move(now);
    offer_ = Decision::decode(seen_);
    another_.clear();  // who answered the offer before may have been this rank's life before
    // Another list may be one of a life before. If it is not, MemberCheck tells.
    answered_ = offer_.number == 0 && offer_.members == members_text(request_);
    if (!answered_) return std::nullopt;
    look_for_another();
    store.set(answer_key(offer_.token, static_cast<std::size_t>(request_.rank)), word_);
    polling.hasten();
  }
  const std::string entry = entry_key(offer_.token, word_);
  if (!answered_ || !store.check({entry})) return std::nullopt;
  const std::string refusal = store.get_to_str(entry);
  if (refusal.empty()) return offer_;
  say_heard(store, heard_key(offer_.token, word_));
  raise_lost(c10::str("fabring: group '", request_.name, "': ", refusal));
}

void RollCall::look() {
  if (answered_ && another_.empty()) look_for_another();
}

void RollCall::look_for_another() {
  const std::string key = answer_key(offer_.token, static_cast<std::size_t>(request_.rank));
  if (!request_.store->check({key})) return;
  const std::string word = request_.store->get_to_str(key);
  if (word == word_) return;
  another_ = another_text(number_in_job(static_cast<std::size_t>(request_.rank)), word, word_);
  request_.store->set(twice_key(offer_.token), another_);
}

std::string RollCall::why_not() const {
  if (seen_.empty()) return "look at its output";
  if (answered_)
    return "it was there, now or before it was started again, but waits for others, or for fewer ranks than this one; "
           "look at its output" +
           another_;
  if (offer_.number != 0)
    return "if it is in this group, it works in a process group that this rank has destroyed: destroy process groups "
           "on all ranks alike";
  return c10::str("the last time it came it named the ranks ", offer_.members, ", and this rank names ",
                  members_text(request_), "; look at its output");
}

}  // namespace fabring_torch
