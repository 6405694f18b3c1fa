#include "process_group.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include "coalesced_work.hpp"
#include "devices.hpp"
#include "failure.hpp"
#include "first_rank.hpp"

namespace fabring_torch {
namespace {

c10::intrusive_ptr<GroupOptions> make_options(const GroupRequest& request) {
  auto options = c10::make_intrusive<GroupOptions>("fabring", request.timeout);
  options->group_name = request.name;
  options->global_ranks_in_group.assign(request.global_ranks.begin(), request.global_ranks.end());
  return options;
}

}  // namespace

ProcessGroup::ProcessGroup(GroupRequest request)
    : Backend(request.rank, request.size),
      request_(std::move(request)),
      options_(make_options(request_)),
      timeout_(request_.timeout),
      membership_(Group::open(request_)),
      open_(std::in_place) {
  init();
}

ProcessGroup::~ProcessGroup() = default;

void ProcessGroup::setTimeout(std::chrono::milliseconds timeout) {
  timeout_.store(timeout);
  options_->timeout = timeout;
}

Membership ProcessGroup::membership() const {
  origin_.check();
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(membership_.group != nullptr, "fabring: process group '", request_.name,
              "' was shut down; make a new one");
  return membership_;
}

fabring_operation ProcessGroup::describe_operation(fabring_collective collective,
                                                   std::chrono::milliseconds timeout) const {
  constexpr std::chrono::milliseconds most = std::chrono::hours(24 * 365 * 100);
  const std::chrono::milliseconds limit = std::min(timeout > kNoTimeout ? timeout : timeout_.load(), most);
  fabring_operation operation = FABRING_OPERATION_INIT;
  operation.collective = collective;
  operation.timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(limit).count());
  return operation;
}

ProcessGroup::WorkPointer ProcessGroup::start(Task task, bool asynchronous, bool counts) {
  task.device = device_of(task.kept.empty() ? task.outputs : task.kept);
  place_on(task.device, task.operations);
  task.sequence = counts ? sequence_.fetch_add(1) + 1 : sequence_.load();
  WorkPointer work = Work::start(membership(), std::move(task), !asynchronous);
  if (!asynchronous) return work;
  const std::lock_guard lock(mutex_);
  const auto coalescing = coalescing_.find(std::this_thread::get_id());
  if (coalescing != coalescing_.end()) coalescing->second.push_back(work);
  return work;
}

void ProcessGroup::startCoalescing() {
  origin_.check();
  std::vector<WorkPointer> left;  // by one that an exception has kept from its end; released without the lock
  const std::lock_guard lock(mutex_);
  left.swap(coalescing_[std::this_thread::get_id()]);
}

ProcessGroup::WorkPointer ProcessGroup::endCoalescing() {
  origin_.check();
  std::vector<WorkPointer> works;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = coalescing_.extract(std::this_thread::get_id())) works = std::move(found.mapped());
  }
  if (works.empty()) return nullptr;
  if (works.size() == 1) return works.front();
  return c10::make_intrusive<CoalescedWork>(rank_, std::move(works));
}

void ProcessGroup::check_root(std::int64_t root, const char* title) const {
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "fabring: ", title, ": there is no root ", root, "; ranks are 0 to ",
                    size_ - 1);
}

void ProcessGroup::tell_refused(const c10::Error& thrown, const fabring_operation* message) const {
  const bool for_arguments = (dynamic_cast<const c10::ValueError*>(&thrown) != nullptr ||
                              dynamic_cast<const c10::TypeError*>(&thrown) != nullptr) &&
                             dynamic_cast<const RefusedByEngine*>(&thrown) == nullptr;
  if (!for_arguments || !origin_.is_here()) return;
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(mutex_);
    group = membership_.group;
  }
  if (!group) return;
  constexpr std::string_view prefix = "fabring: ";
  std::string why = text_of(thrown);
  if (why.starts_with(prefix)) why.erase(0, prefix.size());
  fabring_comm_refuse(group->comm(), message, why.c_str(), nullptr);
}

c10d::ErrorType ProcessGroup::getError() {
  fabring_error error = FABRING_ERROR_INIT;
  switch (fabring_comm_health(group()->comm(), &error)) {
    case FABRING_STATUS_OK:
      return c10d::ErrorType::SUCCESS;
    case FABRING_STATUS_TIMEOUT:
      return c10d::ErrorType::TIMEOUT;
    case FABRING_STATUS_PEER_LOST:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

// Not by the store that comes with it: that goes by the group's name, in which PyTorch counts the groups that this rank
// is in. Members find each other by what they have in common: this group, and how many of the same ranks were split off
// from it. Tries that failed do not count, as they may have failed on some ranks only.
c10::intrusive_ptr<c10d::Backend> ProcessGroup::split(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  return make_subgroup(ranks, options ? options->group_name : request_.name + "/split",
                       options ? options->timeout : timeout_.load());
}

c10::intrusive_ptr<c10d::Backend> ProcessGroup::shrink(const std::vector<std::int64_t>& ranks_to_exclude, int flags,
                                                       const c10::intrusive_ptr<Options>& options) {
  constexpr int abort_first = 1;  // PyTorch's SHRINK_ABORT
  std::vector<int> left;
  for (int rank = 0; rank < size_; ++rank)
    if (std::find(ranks_to_exclude.begin(), ranks_to_exclude.end(), rank) == ranks_to_exclude.end())
      left.push_back(rank);
  TORCH_CHECK_VALUE(std::find(left.begin(), left.end(), rank_) != left.end(), "fabring: shrink: rank ", rank_,
                    " is to be left out and must not call it");
  if ((flags & abort_first) != 0) abort();
  return make_subgroup(left, request_.name + "/shrunk", options ? options->timeout : timeout_.load());
}

c10::intrusive_ptr<c10d::Backend> ProcessGroup::make_subgroup(const std::vector<int>& ranks, std::string name,
                                                              std::chrono::milliseconds timeout) {
  origin_.check();
  const auto self = std::find(ranks.begin(), ranks.end(), rank_);
  if (self == ranks.end()) return nullptr;
  const std::string whole = group()->id();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = splits_[ranks];
  }
  GroupRequest request;
  request.store = c10::make_intrusive<c10d::PrefixStore>(
      c10::str("fabring/split/", whole, "/", c10::Join("_", ranks), "/", number, "/"), request_.store);
  request.keys_are_new = true;
  request.rank = static_cast<int>(self - ranks.begin());
  request.size = static_cast<int>(ranks.size());
  request.timeout = timeout;
  request.name = std::move(name);
  for (const int rank : ranks) {
    TORCH_CHECK_VALUE(rank >= 0 && rank < size_, "fabring: split: there is no rank ", rank, "; ranks are 0 to ",
                      size_ - 1);
    const auto at = static_cast<std::size_t>(rank);
    request.global_ranks.push_back(request_.global_ranks.empty() ? rank : request_.global_ranks[at]);
  }
  c10::intrusive_ptr<ProcessGroup> made;
  try {
    made = c10::make_intrusive<ProcessGroup>(std::move(request));
  } catch (const FirstRankLost&) {
    const std::lock_guard lock(mutex_);
    waited_for_.insert(ranks[0]);
    throw;
  }
  const std::lock_guard lock(mutex_);
  ++splits_[ranks];
  return made;
}

#if FABRING_TORCH_ASKS_FOR_TENSORS
at::Tensor ProcessGroup::allocateTensor(long size, at::TensorOptions options) { return group()->tensor(size, options); }
#endif

void ProcessGroup::abort() {
  const std::string reason = c10::str("rank ", rank_, " called abort() on process group '", request_.name, "'");
  fabring_comm_abort(group()->comm(), reason.c_str(), nullptr);
}

void ProcessGroup::shutdown() {
  if (!origin_.is_here()) return;  // it is the parent's to end
  Membership last;
  const std::lock_guard lock(mutex_);
  last = std::exchange(membership_, {});
  open_.reset();
}

std::string ProcessGroup::report() const { return group()->report(); }

std::string ProcessGroup::setting(const std::string& name) const { return group()->setting(name); }

int ProcessGroup::lost_rank() const {
  fabring_error error = FABRING_ERROR_INIT;
  const auto group = this->group();
  if (fabring_comm_health(group->comm(), &error) != FABRING_STATUS_PEER_LOST || error.rank < 0) return -1;
  const std::int64_t lost = group->job_rank(error.rank);
  const auto& ranks = request_.global_ranks;
  if (ranks.empty()) return static_cast<int>(lost);
  const auto found = std::find(ranks.begin(), ranks.end(), lost);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

std::vector<int> ProcessGroup::lost_ranks() const {
  const int first = lost_rank();
  const std::lock_guard lock(mutex_);
  std::set<int> lost = waited_for_;
  if (first >= 0) lost.insert(first);
  return {lost.begin(), lost.end()};
}

}  // namespace fabring_torch
