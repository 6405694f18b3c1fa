// The Python module fabring.torch._backend.

#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <algorithm>

#include "engine.hpp"
#include "group.hpp"
#include "process_group.hpp"

namespace {

using fabring_torch::GroupOptions;
using fabring_torch::GroupRequest;
using fabring_torch::ProcessGroup;

c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                         double timeout_s, std::string name, std::vector<std::int64_t> global_ranks) {
  GroupRequest request;
  request.store = store;
  request.rank = rank;
  request.size = size;
  constexpr double shortest = 1e-3, longest = 3650 * 86400.0;  // seconds; ten years, all a setting takes, is for ever
  TORCH_CHECK_VALUE(
      timeout_s >= shortest, "fabring: a process group with a timeout of ", timeout_s,
      " s could not meet anybody; give a millisecond or more, and fewer than 290 years (PyTorch counts nanoseconds)");
  timeout_s = std::min(timeout_s, longest);
  request.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(timeout_s));
  request.name = std::move(name);
  request.global_ranks = std::move(global_ranks);
  return c10::make_intrusive<ProcessGroup>(std::move(request));
}

const ProcessGroup& ours(const c10::intrusive_ptr<c10d::Backend>& backend) {
  const auto* group = dynamic_cast<const ProcessGroup*>(backend.get());
  TORCH_CHECK_VALUE(group != nullptr, "this process group has the backend ", backend->getBackendName(),
                    ", not fabring");
  return *group;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::class_<GroupOptions, c10d::Backend::Options, c10::intrusive_ptr<GroupOptions>>(module, "Options")
      .def("__deepcopy__",
           [](const GroupOptions& self, const py::object&) { return c10::make_intrusive<GroupOptions>(self); });
  // PyTorch calls perform_nocolor_split on ranks outside a new group, if the process group that it is split from is
  // bound to a GPU: NCCL's splits need every rank, ours need the members only.
  py::class_<ProcessGroup, c10d::Backend, c10::intrusive_ptr<ProcessGroup>>(module, "ProcessGroup")
      .def_property_readonly("options", &ProcessGroup::getBackendOptions)
      .def_property_readonly("job_ranks", &ProcessGroup::job_ranks)
      .def(
          "perform_nocolor_split", [](ProcessGroup&, const py::object&) {}, py::arg("device"));
  module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout_s"),
             py::arg("name"), py::arg("global_ranks"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "report", [](const c10::intrusive_ptr<c10d::Backend>& backend) { return ours(backend).report(); },
      py::arg("backend"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "setting",
      [](const c10::intrusive_ptr<c10d::Backend>& backend, const std::string& name) {
        return ours(backend).setting(name);
      },
      py::arg("backend"), py::arg("name"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "lost_rank", [](const c10::intrusive_ptr<c10d::Backend>& backend) { return ours(backend).lost_rank(); },
      py::arg("backend"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "lost_ranks", [](const c10::intrusive_ptr<c10d::Backend>& backend) { return ours(backend).lost_ranks(); },
      py::arg("backend"), py::call_guard<py::gil_scoped_release>());
  module.def("version", [] { return std::string(fabring_version()); });
  module.def(
      "abort", [](const std::string& reason) { fabring_torch::Group::abort_all(reason); }, py::arg("reason"),
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "leave",
      [](bool let_end) {
        if (let_end) fabring_torch::Work::let_end();
        fabring_torch::SharedEngine::leave_all();
        fabring_torch::Work::settle();
      },
      py::arg("let_end"), py::call_guard<py::gil_scoped_release>());
}
