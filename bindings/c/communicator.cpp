// fabring_comm: what it is, and making others of it. What it does is in run.cpp and collectives.cpp.

#include <fmt/format.h>

#include <algorithm>

#include "bindings/c/handles.hpp"
#include "bindings/c/operation.hpp"

namespace fabring::c_api {
namespace {

std::string text_or_none(const char* text) { return text == nullptr ? std::string() : std::string(text); }

/// Why a binding has refused a call.
Status refusal(const char* why) {
  const bool given = why != nullptr && *why != '\0';
  return {ErrorCode::invalid_argument, given ? why : "its program gave no reason"};
}

/// A negative colour makes no communicator: *made stays null. `refused` tells the others of a call that is not made.
template <class Refused, class Body>
fabring_status_code make_comm(fabring_comm* from, fabring_comm** made, fabring_error* error, Refused&& refused,
                              Body&& body) noexcept {
  if (made != nullptr) *made = nullptr;
  const auto refuse_it = [&](const Status& why) { return refused(from->value, why); };
  return answer_or_refuse(from, "comm", error, refuse_it, [&]() -> Status {
    if (made == nullptr) return refuse_it(null_argument("made"));
    Result<Communicator> communicator = body(from->value);
    if (!communicator) return communicator.error();
    if (*communicator) *made = std::make_unique<fabring_comm>(std::move(*communicator)).release();
    return {};
  });
}

/// A number of each rank, which is called `what` here and in the text.
fabring_status_code give_by_rank(const fabring_comm* comm, std::vector<std::int32_t> (Communicator::*ask)() const,
                                 const char* what, std::int32_t* numbers, std::size_t capacity,
                                 fabring_error* error) noexcept {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(comm, "comm"));
    if (numbers == nullptr) return null_argument(what);
    const std::vector<std::int32_t> known = (comm->value.*ask)();
    if (capacity < known.size())
      return {ErrorCode::invalid_argument, fmt::format("there is room for the {} of {} ranks, but '{}' has {}", what,
                                                       capacity, comm->value.label(), known.size())};
    std::copy(known.begin(), known.end(), numbers);
    return {};
  });
}

/// All ranks of `of` split it, by operations of theirs.
Status refused_split(Communicator& of, const Status& why) { return of.refused(Operation(), why); }

}  // namespace
}  // namespace fabring::c_api

using namespace fabring::c_api;
using fabring::Communicator;
using fabring::Status;

fabring_status_code fabring_comm_rank(const fabring_comm* comm, std::int32_t* rank, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(comm, "comm"));
    if (rank == nullptr) return null_argument("rank");
    *rank = comm->value.rank();
    return {};
  });
}

fabring_status_code fabring_comm_size(const fabring_comm* comm, std::int32_t* size, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(comm, "comm"));
    if (size == nullptr) return null_argument("size");
    *size = comm->value.size();
    return {};
  });
}

fabring_status_code fabring_comm_label(const fabring_comm* comm, char* text, std::size_t size, std::size_t* needed,
                                       fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(comm, "comm"));
    return give_text(comm->value.label(), text, size, needed);
  });
}

fabring_status_code fabring_comm_nodes(const fabring_comm* comm, std::int32_t* nodes, std::size_t capacity,
                                       fabring_error* error) {
  return give_by_rank(comm, &Communicator::nodes, "nodes", nodes, capacity, error);
}

fabring_status_code fabring_comm_members(const fabring_comm* comm, std::int32_t* members, std::size_t capacity,
                                         fabring_error* error) {
  return give_by_rank(comm, &Communicator::members, "members", members, capacity, error);
}

fabring_status_code fabring_comm_split(fabring_comm* comm, std::int32_t colour, std::int32_t key, const char* label,
                                       fabring_comm** made, fabring_error* error) {
  return make_comm(comm, made, error, refused_split,
                   [&](Communicator& of) { return of.split(colour, key, text_or_none(label)); });
}

fabring_status_code fabring_comm_split_by_node(fabring_comm* comm, const char* label, fabring_comm** made,
                                               fabring_error* error) {
  return make_comm(comm, made, error, refused_split,
                   [&](Communicator& of) { return of.split_by_node(text_or_none(label)); });
}

fabring_status_code fabring_comm_duplicate(fabring_comm* comm, const char* label, fabring_comm** made,
                                           fabring_error* error) {
  return make_comm(comm, made, error, refused_split,
                   [&](Communicator& of) { return of.duplicate(text_or_none(label)); });
}

fabring_status_code fabring_comm_with_plans(fabring_comm* comm, const char* text, std::size_t size, const char* label,
                                            fabring_comm** made, fabring_error* error) {
  return make_comm(comm, made, error, refused_split, [&](Communicator& of) -> fabring::Result<Communicator> {
    if (text != nullptr) return of.with_plans({text, size}, text_or_none(label));
    return refused_split(of, null_argument("text"));
  });
}

fabring_status_code fabring_comm_subgroup(fabring_comm* comm, const std::int32_t* ranks, std::size_t count,
                                          std::uint32_t number, const char* label, fabring_comm** made,
                                          fabring_error* error) {
  const auto refused = [&](Communicator& of, const Status& why) { return of.refused_subgroup(number, why); };
  return make_comm(comm, made, error, refused, [&](Communicator& of) -> fabring::Result<Communicator> {
    Status why;
    if (ranks == nullptr)
      why = null_argument("ranks");
    else if (count > static_cast<std::size_t>(of.size()))
      why = Status(fabring::ErrorCode::invalid_argument,
                   fmt::format("a subgroup of {} ranks, but '{}' has {}", count, of.label(), of.size()));
    if (!why.ok()) return refused(of, why);
    return of.subgroup({ranks, count}, number, text_or_none(label));
  });
}

fabring_status_code fabring_comm_shrink(fabring_comm* comm, const char* label, fabring_comm** made,
                                        fabring_error* error) {
  const auto refused = [](Communicator&, const Status& why) { return why; };  // it is agreed on without operations
  return make_comm(comm, made, error, refused, [&](Communicator& of) { return of.shrink(text_or_none(label)); });
}

fabring_status_code fabring_comm_abort(fabring_comm* comm, const char* reason, fabring_error* error) {
  return act_anyway(error, [&]() -> Status {
    FABRING_TRY(check_own(comm));
    comm->value.abort(text_or_none(reason));
    return {};
  });
}

fabring_status_code fabring_comm_refuse(fabring_comm* comm, const fabring_operation* operation, const char* why,
                                        fabring_error* error) {
  return act_anyway(error, [&]() -> Status {
    FABRING_TRY(check_own(comm));
    (void)comm->value.refused(outline_of(operation), refusal(why));
    return {};
  });
}

fabring_status_code fabring_comm_refuse_subgroup(fabring_comm* comm, std::uint32_t number, const char* why,
                                                 fabring_error* error) {
  return act_anyway(error, [&]() -> Status {
    FABRING_TRY(check_own(comm));
    (void)comm->value.refused_subgroup(number, refusal(why));
    return {};
  });
}

fabring_status_code fabring_comm_health(const fabring_comm* comm, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(comm, "comm"));
    return comm->value.health();
  });
}

fabring_status_code fabring_comm_free(fabring_comm* comm) { return free_handle(comm, "comm"); }
