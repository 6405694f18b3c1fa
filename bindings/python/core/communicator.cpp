#include "bindings/python/core/communicator.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <new>
#include <string>
#include <vector>

#include "bindings/python/core/operation.hpp"
#include "bindings/python/core/text.hpp"
#include "bindings/python/core/waiting.hpp"

namespace nb = nanobind;

namespace fabring::python {
namespace {

bool over(const Work& work) {
  int done = 0;
  fabring_error error = FABRING_ERROR_INIT;
  check(fabring_work_done(work.handle.use(), &done, &error), error);
  return done != 0;
}

// Operations that go on although their Work was dropped: by the caller, or by an exception out of a wait or right after
// they began. Guarded by the interpreter's lock; never destroyed, because at exit it would outlive the interpreter.
struct Dropped {
  Dropped(WorkHandle of, nb::object arrays) : work(std::move(of), std::move(arrays)) {}
  Work work;
  std::atomic<bool> over{false};  // by whichever thread ends it, without the interpreter's lock
};

std::list<Dropped>& dropped() {
  static auto* const list = new std::list<Dropped>();
  return *list;
}

std::atomic<std::size_t> newly_over{0};

void note_over(void* context) {
  static_cast<Dropped*>(context)->over.store(true, std::memory_order_release);  // it may be gone after this
  newly_over.fetch_add(1, std::memory_order_release);
}

// To ask each would be progress made as often as there are any, at every start.
void let_go_of_finished() {
  std::list<Dropped>& all = dropped();
  if (all.empty()) return;
  const bool of_parent = !all.front().work.handle.usable();
  if (!of_parent) (void)over(all.front().work);
  if (!of_parent && newly_over.exchange(0, std::memory_order_acquire) == 0) return;
  std::list<Dropped>
      finished;  // what they keep may run anything when it goes, other threads and this function included
  for (auto one = all.begin(); one != all.end();) {
    const auto next = std::next(one);
    if (!one->work.handle.usable() || one->over.load(std::memory_order_acquire))
      finished.splice(finished.end(), all, one);
    one = next;
  }
}

Work start(const CommHandle& comm, const Operation& operation, nb::object keep) {
  let_go_of_finished();
  const fabring_operation pointed = operation.pointed();
  fabring_work* work = nullptr;
  fabring_error error = FABRING_ERROR_INIT;
  fabring_status_code code;
  {
    fabring_comm* handle = comm.use();
    nb::gil_scoped_release others_run;
    code = fabring_start(handle, &pointed, &work, &error);
  }
  check(code, error);
  return {WorkHandle(work), std::move(keep)};
}

std::vector<std::unique_ptr<Work>> start_group(const CommHandle& comm, const std::vector<const Operation*>& operations,
                                               const std::vector<nb::object>& keep) {
  let_go_of_finished();
  std::vector<fabring_operation> pointed;
  for (const Operation* operation : operations) pointed.push_back(operation->pointed());
  std::vector<fabring_work*> works(pointed.size(), nullptr);
  fabring_error error = FABRING_ERROR_INIT;
  check(fabring_start_group(comm.use(), pointed.data(), pointed.size(), works.data(), &error), error);
  std::vector<std::unique_ptr<Work>> made;
  for (std::size_t i = 0; i < works.size(); ++i)
    made.push_back(std::make_unique<Work>(WorkHandle(works[i]), keep.at(i)));
  return made;
}

bool wait_for(Work& work, std::optional<double> limit_s) {
  if (!wait(work.handle, limit_s)) return false;
  work.keep.reset();
  let_go_of_finished();
  return true;
}

bool done(const Work& work) {
  const bool is_over = over(work);
  let_go_of_finished();
  return is_over;
}

nb::tuple received(const Work& work) {
  fabring_received got = FABRING_RECEIVED_INIT;
  fabring_error error = FABRING_ERROR_INIT;
  check(fabring_work_received(work.handle.use(), &got, &error), error);
  return nb::make_tuple(got.source, got.tag, got.count);
}

/// Runs `call(comm, &made, &error)`, which waits for other ranks. Null: this rank is in none of the parts.
template <class Call>
std::unique_ptr<CommHandle> divide(const CommHandle& comm, Call&& call) {
  fabring_comm* made = nullptr;
  fabring_error error = FABRING_ERROR_INIT;
  fabring_status_code code;
  {
    fabring_comm* from = comm.use();
    nb::gil_scoped_release others_run;
    code = call(from, &made, &error);
  }
  check(code, error);
  return made == nullptr ? nullptr : std::make_unique<CommHandle>(made);
}

std::int32_t number(const CommHandle& comm,
                    fabring_status_code (*ask)(const fabring_comm*, std::int32_t*, fabring_error*)) {
  std::int32_t value = 0;
  fabring_error error = FABRING_ERROR_INIT;
  check(ask(comm.use(), &value, &error), error);
  return value;
}

std::vector<std::int32_t> numbers_by_rank(const CommHandle& comm,
                                          fabring_status_code (*ask)(const fabring_comm*, std::int32_t*, std::size_t,
                                                                     fabring_error*)) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(number(comm, fabring_comm_size)));
  fabring_error error = FABRING_ERROR_INIT;
  check(ask(comm.use(), numbers.data(), numbers.size(), &error), error);
  return numbers;
}

void bind_work(nb::module_& module) {
  nb::class_<Work>(module, "Work")
      .def("done", done)
      .def("wait", wait_for, nb::arg("limit_s").none())
      .def("received", received);
  nb::class_<Prepared>(module, "Prepared").def("start_on", [](Prepared& prepared, std::uintptr_t stream) {
    let_go_of_finished();
    fabring_work* work = nullptr;
    fabring_error error = FABRING_ERROR_INIT;
    fabring_status_code code;
    {
      fabring_prepared* handle = prepared.handle.use();
      nb::gil_scoped_release others_run;
      code = fabring_prepared_start_on(handle, reinterpret_cast<void*>(stream), &work, &error);
    }
    check(code, error);
    return Work(WorkHandle(work), prepared.keep);
  });
}

}  // namespace

Work::~Work() {
  int done = 1;
  if (!handle.usable() || fabring_work_done(handle.use(), &done, nullptr) != FABRING_STATUS_OK || done != 0) return;
  try {
    Dropped& goes_on = dropped().emplace_back(std::move(handle), std::move(keep));
    (void)fabring_work_notify(goes_on.work.handle.use(), note_over, &goes_on, nullptr);
  } catch (const std::bad_alloc&) {
    (void)keep.release();  // for ever: better than memory that the engine writes to after it was freed
  }
}

void bind_communicator(nb::module_& module) {
  bind_work(module);
  nb::class_<CommHandle>(module, "Communicator")
      .def_prop_ro("rank", [](const CommHandle& comm) { return number(comm, fabring_comm_rank); })
      .def_prop_ro("size", [](const CommHandle& comm) { return number(comm, fabring_comm_size); })
      .def_prop_ro("label",
                   [](const CommHandle& comm) {
                     return text([&](char* to, std::size_t size, std::size_t* needed, fabring_error* error) {
                       return fabring_comm_label(comm.use(), to, size, needed, error);
                     });
                   })
      .def_prop_ro("members", [](const CommHandle& comm) { return numbers_by_rank(comm, fabring_comm_members); })
      .def_prop_ro("nodes", [](const CommHandle& comm) { return numbers_by_rank(comm, fabring_comm_nodes); })
      .def("start", start, nb::arg("operation"), nb::arg("keep").none())
      .def("start_group", start_group)
      .def("prepare",
           [](const CommHandle& comm, const Operation& operation, nb::object keep) {
             const fabring_operation pointed = operation.pointed();
             fabring_prepared* prepared = nullptr;
             fabring_error error = FABRING_ERROR_INIT;
             check(fabring_prepare(comm.use(), &pointed, &prepared, &error), error);
             return std::make_unique<Prepared>(PreparedHandle(prepared), std::move(keep));
           })
      .def("explain",
           [](const CommHandle& comm, const Operation& operation) {
             const fabring_operation pointed = operation.pointed();
             return text([&](char* to, std::size_t size, std::size_t* needed, fabring_error* error) {
               return fabring_explain(comm.use(), &pointed, to, size, needed, error);
             });
           })
      .def("split",
           [](const CommHandle& comm, int colour, int key, const std::string& label) {
             return divide(comm, [&](fabring_comm* from, fabring_comm** made, fabring_error* error) {
               return fabring_comm_split(from, colour, key, label.c_str(), made, error);
             });
           })
      .def("split_by_node",
           [](const CommHandle& comm, const std::string& label) {
             return divide(comm, [&](fabring_comm* from, fabring_comm** made, fabring_error* error) {
               return fabring_comm_split_by_node(from, label.c_str(), made, error);
             });
           })
      .def("duplicate",
           [](const CommHandle& comm, const std::string& label) {
             return divide(comm, [&](fabring_comm* from, fabring_comm** made, fabring_error* error) {
               return fabring_comm_duplicate(from, label.c_str(), made, error);
             });
           })
      .def("with_plans",
           [](const CommHandle& comm, const nb::bytes& plans, const std::string& label) {
             return divide(comm, [&](fabring_comm* from, fabring_comm** made, fabring_error* error) {
               return fabring_comm_with_plans(from, plans.c_str(), plans.size(), label.c_str(), made, error);
             });
           })
      .def("shrink",
           [](const CommHandle& comm, const std::string& label) {
             return divide(comm, [&](fabring_comm* from, fabring_comm** made, fabring_error* error) {
               return fabring_comm_shrink(from, label.c_str(), made, error);
             });
           })
      .def("subgroup",
           [](const CommHandle& comm, const std::vector<std::int32_t>& ranks, std::uint32_t number,
              const std::string& label) {
             return divide(comm, [&](fabring_comm* from, fabring_comm** made, fabring_error* error) {
               return fabring_comm_subgroup(from, ranks.data(), ranks.size(), number, label.c_str(), made, error);
             });
           })
      .def("abort",
           [](const CommHandle& comm, const std::string& reason) {
             fabring_error error = FABRING_ERROR_INIT;
             check(fabring_comm_abort(comm.use(), reason.c_str(), &error), error);
           })
      .def(
          "refuse",
          [](const CommHandle& comm, const Operation* operation, const std::string& why) {
            fabring_operation pointed = FABRING_OPERATION_INIT;
            if (operation != nullptr) pointed = operation->pointed();
            fabring_error error = FABRING_ERROR_INIT;
            check(fabring_comm_refuse(comm.use(), operation != nullptr ? &pointed : nullptr, why.c_str(), &error),
                  error);
          },
          nb::arg("operation").none(), nb::arg("why"))
      .def("refuse_subgroup",
           [](const CommHandle& comm, std::uint32_t number, const std::string& why) {
             fabring_error error = FABRING_ERROR_INIT;
             check(fabring_comm_refuse_subgroup(comm.use(), number, why.c_str(), &error), error);
           })
      .def("health", [](const CommHandle& comm) {
        fabring_error error = FABRING_ERROR_INIT;
        check(fabring_comm_health(comm.use(), &error), error);
      });
}

}  // namespace fabring::python
