// What ProcessGroup does between two ranks, and barriers.

#include <c10/util/Exception.h>

#include <thread>

#include "arguments.hpp"
#include "failure.hpp"

namespace fabring_torch {

ProcessGroup::WorkPointer ProcessGroup::message(Tensors& tensors, c10d::OpType type, int peer, int tag) {
  const bool sends = type == c10d::OpType::SEND;
  const char* const title = sends ? "send" : "recv";
  TORCH_CHECK_VALUE(tensors.size() == 1, "fabring: ", title, " takes one tensor, not ", tensors.size());
  TORCH_CHECK_VALUE(peer >= 0 || type == c10d::OpType::RECVANYSOURCE, title, ": there is no rank ", peer,
                    "; ranks are 0 to ", size_ - 1);
  Task task;
  task.type = type;
  task.title = sends ? "fabring:send" : type == c10d::OpType::RECV ? "fabring:recv" : "fabring:recvAnySource";
  fabring_operation operation =
      describe_operation(sends ? FABRING_COLLECTIVE_SEND : FABRING_COLLECTIVE_RECV, c10d::kUnsetTimeout);
  const at::Tensor buffer = sends ? to_read(tensors[0], "the tensor to send")
                                  : to_write(tensors[0], false, task.copies, "the tensor to fill");
  const Elements elements = elements_to_move(buffer);
  const at::Tensor none;
  fill(operation, sends ? buffer : none, sends ? none : buffer, elements, buffer);
  operation.root = peer;
  operation.tag = tag;
  task.kept = {buffer};
  task.outputs = tensors;
  task.operations = {operation};
  return start(std::move(task), /*asynchronous=*/true, /*counts=*/false);
}

ProcessGroup::WorkPointer ProcessGroup::send(Tensors& tensors, int to, int tag) {
  return message(tensors, c10d::OpType::SEND, to, tag);
}

ProcessGroup::WorkPointer ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  return message(tensors, c10d::OpType::RECV, from, tag);
}

ProcessGroup::WorkPointer ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return message(tensors, c10d::OpType::RECVANYSOURCE, FABRING_ANY_SOURCE, tag);
}

ProcessGroup::WorkPointer ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  Task task;
  task.type = c10d::OpType::BARRIER;
  task.title = "fabring:barrier";
  task.operations = {describe_operation(FABRING_COLLECTIVE_BARRIER, options.timeout)};
  return start(std::move(task), options.asyncOp);
}

// By the store, not by the network: it is asked for when something is stuck there. Rank 0 says who did not come.
void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const std::string id = group()->id();
  constexpr std::chrono::milliseconds time_for_the_verdict(5000);  // longer than rank 0 waits
  constexpr std::chrono::milliseconds time_to_hear(2000);
  const auto limit = options.timeout >= kNoTimeout ? options.timeout : timeout_.load();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto left = [&] {
    const auto time =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return std::max(time, std::chrono::milliseconds(1));
  };
  const auto store = request_.store->clone();  // others may use it meanwhile
  const auto came = [&](const std::string& key, std::chrono::milliseconds time) {
    try {
      store->wait({key}, time);
      return true;
    } catch (const std::exception&) {  // stores differ in how they say that time ran out
      return store->check({key});
    }
  };
  // A rank that was missing joins the next one, not one that is over.
  const auto prefix_of = [&](std::uint64_t number) { return c10::str("fabring/monitored/", id, "/", number, "/"); };
  std::uint64_t number = monitored_.fetch_add(1);
  const std::uint64_t first = number;
  while (rank_ != 0 && store->check({prefix_of(number) + "verdict"})) number = monitored_.fetch_add(1);
  const std::string prefix = prefix_of(number);
  const auto key_of = [&](int rank) { return c10::str(prefix, rank); };
  const auto heard_by = [&](int rank) { return c10::str(prefix, "heard/", rank); };
  if (rank_ != 0) {
    store->set(key_of(rank_), "here");
    if (!came(prefix + "verdict", limit + time_for_the_verdict))
      raise_lost(
          c10::str("[Rank ", rank_, "]: Rank ", rank_,
                   " successfully reached monitoredBarrier, but rank 0 did not answer within ",
                   (limit + time_for_the_verdict).count(), " ms",
                   number == first ? "" : "; the one before this is over, as rank 0 gave up waiting for this rank",
                   "; look at rank 0's output"));
    const std::string verdict = store->get_to_str(prefix + "verdict");
    store->set(heard_by(rank_), "");
    if (!verdict.empty())
      raise_lost(c10::str(
          "[Rank ", rank_, "]: Rank ", rank_,
          " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0: ",
          verdict));
    return;
  }
  std::vector<int> missing;
  std::vector<std::string> answers;
  for (int rank = 1; rank < size_; ++rank) {
    if (came(key_of(rank), left())) {
      answers.push_back(heard_by(rank));
      continue;
    }
    missing.push_back(rank);
    if (!wait_for_all) break;
  }
  std::string verdict;
  if (!missing.empty()) {
    if (limit == kNoTimeout) verdict = "Rank 0 timed out in monitoredBarrier: it was given no time to wait. ";
    verdict += missing.size() == 1 ? "Rank " : "Ranks ";
    for (std::size_t i = 0; i < missing.size(); ++i) verdict += c10::str(i == 0 ? "" : ", ", missing[i]);
    verdict += c10::str(" failed to pass monitoredBarrier in ", limit.count(), " ms");
  }
  store->set(prefix + "verdict", verdict);
  try {  // the store may be this process', which may be about to end
    if (!answers.empty()) store->wait(answers, time_to_hear);
  } catch (const std::exception&) {  // somebody has died since: no business of this barrier
  }
  if (!verdict.empty()) raise_lost("[Rank 0]: " + verdict);
  // All ranks have come to this one, so none asks for those before it any more.
  try {
    for (std::uint64_t before = monitored_kept_.exchange(number); before < number; ++before) {
      store->deleteKey(prefix_of(before) + "verdict");
      for (int rank = 1; rank < size_; ++rank) {
        store->deleteKey(c10::str(prefix_of(before), rank));
        store->deleteKey(c10::str(prefix_of(before), "heard/", rank));
      }
    }
  } catch (const std::exception&) {  // a store that cannot, or is lost: what the ranks came for is done
  }
}

}  // namespace fabring_torch
