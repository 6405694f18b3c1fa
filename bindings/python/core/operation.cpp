#include "bindings/python/core/operation.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace nb = nanobind;

namespace fabring::python {
namespace {

using Lengths = std::vector<std::size_t>;
using Addressed = std::tuple<std::uintptr_t, std::uintptr_t, std::size_t>;  // a tensor: input, output, elements

constexpr double longest_s = 3.2e8;  // ten years: no limit

const std::size_t* or_null(const Lengths& lengths) { return lengths.empty() ? nullptr : lengths.data(); }

}  // namespace

fabring_operation Operation::pointed() const {
  fabring_operation made = value;
  made.counts = or_null(counts);
  made.out_counts = or_null(out_counts);
  made.tensors = tensors.empty() ? nullptr : tensors.data();
  made.tensor_count = tensors.size();
  return made;
}

void bind_operation(nb::module_& module) {
  nb::class_<Operation>(module, "Operation")
      .def(
          "__init__",
          [](Operation* made, int collective, std::uintptr_t in, std::uintptr_t out, std::size_t count, int type,
             int op, int root, int tag, double factor, std::int64_t whole_factor, Lengths counts, Lengths out_counts,
             std::uintptr_t stream, int memory, int wire_type, const std::vector<Addressed>& tensors) {
            new (made) Operation();
            made->value.collective = collective;
            made->value.in = reinterpret_cast<const void*>(in);
            made->value.out = reinterpret_cast<void*>(out);
            made->value.count = count;
            made->value.type = type;
            made->value.op = op;
            made->value.root = root;
            made->value.tag = tag;
            made->value.factor = factor;
            made->value.whole_factor = whole_factor;
            made->value.stream = reinterpret_cast<void*>(stream);
            made->value.memory = memory;
            made->counts = std::move(counts);
            made->out_counts = std::move(out_counts);
            made->value.wire_type = wire_type;
            for (const auto& [from, to, elements] : tensors)
              made->tensors.push_back({reinterpret_cast<const void*>(from), reinterpret_cast<void*>(to), elements});
          },
          nb::arg("collective"), nb::arg("input") = 0, nb::arg("output") = 0, nb::arg("count") = 0, nb::arg("type") = 1,
          nb::arg("op") = 0, nb::arg("root") = 0, nb::arg("tag") = 0, nb::arg("factor") = 1.0,
          nb::arg("whole_factor") = 1, nb::arg("counts") = Lengths(), nb::arg("out_counts") = Lengths(),
          nb::arg("stream") = 0, nb::arg("memory") = 0, nb::arg("wire_type") = 0,
          nb::arg("tensors") = std::vector<Addressed>())
      .def_prop_rw(
          "timeout_s", [](const Operation& of) { return static_cast<double>(of.value.timeout_ns) / 1e9; },
          [](Operation& of, double seconds) {
            of.value.timeout_ns = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, longest_s) * 1e9);
          });

  // Numbers by name, as the library spells them.
  const auto numbers = [&](const char* name, int count, const char* (*spelled)(std::int32_t)) {
    nb::dict made;
    for (int i = 0; i < count; ++i) made[spelled(i)] = i;
    module.attr(name) = made;
  };
  numbers("TYPES", FABRING_TYPE_BOOLEAN + 1, fabring_data_type_name);
  numbers("OPS", FABRING_OP_PREMUL_SUM + 1, fabring_reduce_op_name);  // not `user`: a function in C
  numbers("COLLECTIVES", FABRING_COLLECTIVE_RECV + 1, fabring_collective_name);
  module.def("supports", [](int type, int op) { return fabring_supports(type, op) != 0; });
  module.def("size_of", [](int type) { return fabring_data_type_size(type); });
}

}  // namespace fabring::python
