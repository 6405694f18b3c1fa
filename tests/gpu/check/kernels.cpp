// Kernels on the device against the processor's, bit for bit, and their speed against copies.

#include <algorithm>
#include <cstring>
#include <random>

#include "collectives/reduce/reduce.hpp"
#include "tests/gpu/check/device_under_test.hpp"

namespace fabring::gpu_check {
namespace {

constexpr std::size_t most_sources = 9;
constexpr std::size_t room = 64;  // bytes, for buffers that begin askew

// Any bits at all, and numbers of moderate size, whose sums are rounded and not infinite.
void fill(DataType type, std::byte* at, std::size_t count, std::mt19937_64& random) {
  const std::size_t width = size_of(type);
  const int exponent_bits = type == DataType::float64                                    ? 11
                            : type == DataType::float32 || type == DataType::bfloat16    ? 8
                            : type == DataType::float16 || type == DataType::float8_e5m2 ? 5
                            : type == DataType::float8_e4m3                              ? 4
                                                                                         : 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    if (exponent_bits > 0 && bits % 4 != 0) {
      const int total = 8 * static_cast<int>(width), fraction = total - 1 - exponent_bits;
      const std::uint64_t one = ((std::uint64_t{1} << (exponent_bits - 1)) - 1) << fraction;
      const std::uint64_t sign = (bits >> 40 & 1) << (total - 1);
      bits = sign | (one + ((bits >> 50 & 3) << fraction)) | (bits >> 2 & ((std::uint64_t{1} << fraction) - 1));
    }
    std::memcpy(at + i * width, &bits, width);
  }
}

class Checker {
 public:
  Checker(DeviceUnderTest& gpu, std::size_t most)
      : gpu_(gpu), most_(most), pinned_(gpu.allocate_pinned(most * 8 + room)) {
    for (std::size_t i = 0; i < most_sources; ++i) sources_.push_back(gpu.allocate(most * 8 + room));
    to_ = gpu.allocate(most * 8 + room);
    host_.assign(most_sources, std::vector<std::byte>(most * 8));
  }

  bool check_type(DataType type, const std::vector<std::size_t>& counts, const std::vector<std::size_t>& numbers) {
    bool right = true;
    for (int o = 0; o < reduce_op_count; ++o) {
      const auto op = static_cast<ReduceOp>(o);
      if (!supports(type, op) || op == ReduceOp::user) continue;
      for (const std::size_t number : numbers)
        for (const std::size_t count : counts)
          for (int where = 0; where < 4; ++where) right = right && check(type, op, number, count, where % 2, where / 2);
    }
    return right && (!supports(type, ReduceOp::premul_sum) || check_scaling(type, counts.back()));
  }
  std::size_t cases() const { return cases_; }

 private:
  // The sources lie at the same distance from a multiple of 16, or each at another.
  std::byte* place(std::byte* block, std::size_t i, bool askew, std::size_t width) const {
    return block + (askew ? i * 4 % 16 / width * width : 8 % (2 * width) == 0 ? width : 0);
  }

  bool check(DataType type, ReduceOp op, std::size_t number, std::size_t count, bool askew, bool in_place) {
    const std::size_t width = size_of(type), bytes = count * width;
    std::vector<const std::byte*> on_device;
    std::vector<const void*> on_host;
    for (std::size_t i = 0; i < number; ++i) {
      fill(type, host_[i].data(), count, random_);
      std::byte* const at = place(sources_[i], i, askew, width);
      std::memcpy(pinned_, host_[i].data(), bytes);
      gpu_.copy(at, pinned_, bytes);
      gpu_.finish();
      on_device.push_back(at);
      on_host.push_back(host_[i].data());
    }
    std::byte* const to = in_place ? const_cast<std::byte*>(on_device[number / 2]) : place(to_, number, askew, width);
    const int ranks = static_cast<int>(number) + 1;
    require(gpu_.queue->post_reduce({type, op, to, on_device, count, ranks}), "a reduction");
    gpu_.copy(pinned_, to, bytes);
    std::vector<std::byte> right(bytes);
    reduce(type, op, right.data(), on_host, count);
    if (op == ReduceOp::avg) finish_average(type, right.data(), count, ranks);
    gpu_.finish();
    ++cases_;
    if (std::memcmp(pinned_, right.data(), bytes) == 0) return true;
    const auto wrong =
        static_cast<std::size_t>(std::mismatch(right.begin(), right.end(), pinned_).first - right.begin());
    std::printf("WRONG %s of %s, %zu x %zu%s%s: element %zu\n", std::string(name(op)).c_str(),
                std::string(name(type)).c_str(), number, count, askew ? ", askew" : "", in_place ? ", in place" : "",
                wrong / width);
    return false;
  }

  bool check_scaling(DataType type, std::size_t count) {
    const std::size_t width = size_of(type), bytes = count * width;
    fill(type, host_[0].data(), count, random_);
    std::uint64_t factor = 0;
    const float number = 0.375f;
    fill(type, reinterpret_cast<std::byte*>(&factor), 1, random_);
    if (is_floating_point(type) && width <= 2) std::memcpy(&factor, &number, sizeof number);
    std::memcpy(pinned_, host_[0].data(), bytes);
    gpu_.copy(sources_[0], pinned_, bytes);
    require(gpu_.queue->post_scale(type, to_ + width, sources_[0], &factor, count), "a scaling");
    gpu_.finish();
    gpu_.copy(pinned_, to_ + width, bytes);
    std::vector<std::byte> right(bytes);
    scale(type, right.data(), host_[0].data(), &factor, count);
    gpu_.finish();
    ++cases_;
    if (std::memcmp(pinned_, right.data(), bytes) == 0) return true;
    std::printf("WRONG scaling of %s\n", std::string(name(type)).c_str());
    return false;
  }

  DeviceUnderTest& gpu_;
  const std::size_t most_;
  std::byte* const pinned_;
  std::vector<std::byte*> sources_;
  std::byte* to_ = nullptr;
  std::vector<std::vector<std::byte>> host_;
  std::mt19937_64 random_{1};
  std::size_t cases_ = 0;
};

// Small copies by one kernel: down and up again, in pieces, beside bytes that nobody may change.
bool check_small_copies(DeviceUnderTest& gpu) {
  constexpr std::size_t room_each = 128 << 10;
  std::byte* const there = gpu.allocate(2 * room_each);
  std::byte* const down = gpu.allocate_pinned(room_each);
  std::byte* const up = gpu.allocate_pinned(room_each);
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    for (std::size_t i = 0; i < room_each; ++i) up[i] = static_cast<std::byte>(random());
    gpu.copy(there, up, room_each);
    gpu.finish();
    std::memset(down, 0xee, room_each);
    std::vector<std::byte> right(down, down + room_each);
    std::vector<DeviceCopy> copies;
    const std::size_t unit = std::size_t{1} << random() % 5;
    for (std::size_t at = 0; copies.size() < 1 + random() % 16 && at < room_each / 2;) {
      const std::size_t bytes = random() % 6000 / unit * unit;
      copies.push_back({down + at, there + at / 2 / unit * unit, bytes});
      std::memcpy(right.data() + at, up + at / 2 / unit * unit, bytes);
      at += bytes + random() % 64 / unit * unit;
    }
    gpu.copy_at_once(copies);
    bool good = std::memcmp(down, right.data(), room_each) == 0;
    for (DeviceCopy& copy : copies) copy = {there + room_each + (copy.to - down), copy.to, copy.bytes};
    gpu.copy_at_once(copies);
    for (const DeviceCopy& copy : copies) {
      gpu.copy(up, copy.to, copy.bytes);
      gpu.finish();
      good = good && std::memcmp(up, copy.from, copy.bytes) == 0;
    }
    if (!good) {
      std::printf("WRONG %zu small copies in units of %zu bytes\n", copies.size(), unit);
      return false;
    }
  }
  return true;
}

// Of one call among many, one after the other.
template <class Post>
double microseconds(DeviceUnderTest& gpu, std::size_t bytes, Post&& post) {
  const int calls = static_cast<int>(std::clamp<std::size_t>((std::size_t{8} << 30) / bytes, 10, 300));
  for (int i = 0; i < 3; ++i) post();
  gpu.finish();
  const auto begun = Clock::now();
  for (int i = 0; i < calls; ++i) post();
  gpu.finish();
  return std::chrono::duration<double, std::micro>(Clock::now() - begun).count() / calls;
}

// What an operation on small data does twice: down to the host, and up again. In pieces a kernel brings all of them.
void measure_small_copies(DeviceUnderTest& gpu, std::byte* there) {
  std::byte* const pinned = gpu.allocate_pinned(64 << 10);
  const auto per_round = [&](auto&& once) {
    constexpr int rounds = 1000;
    for (int i = 0; i < 10; ++i) once();
    const auto first = Clock::now();
    for (int i = 0; i < rounds; ++i) once();
    return std::chrono::duration<double, std::micro>(Clock::now() - first).count() / rounds;
  };
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{4} << 10, std::size_t{32} << 10, std::size_t{64} << 10})
    for (const std::size_t pieces : {1, 2, 4})
      for (const bool up : {false, true}) {
        std::vector<DeviceCopy> copies;
        for (std::size_t i = 0; i < pieces; ++i) {
          const std::size_t length = bytes / pieces, at = i * length;
          copies.push_back(up ? DeviceCopy{there + at, pinned + at, length}
                              : DeviceCopy{pinned + at, there + at, length});
        }
        const double by_driver = per_round([&] {
          for (const DeviceCopy& copy : copies) gpu.copy(copy.to, copy.from, copy.bytes);
          gpu.finish();
        });
        std::printf("# %zu bytes in %zu %s %s the host, seen to be there: copied %.2f us, as small ones are %.2f us\n",
                    bytes, pieces, pieces == 1 ? "piece" : "pieces", up ? "from" : "to", by_driver,
                    per_round([&] { gpu.copy_at_once(copies); }));
      }
}

// What bounds all that is staged: each direction alone, and both at once.
void measure_copies_with_host(DeviceUnderTest& gpu, std::byte* one, std::byte* other) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  std::byte* const pinned[] = {gpu.allocate_pinned(bytes), gpu.allocate_pinned(bytes)};
  const auto rate = [](double time, std::size_t all) { return static_cast<double>(all) / time / 1e3; };
  const auto down = [&](DeviceQueue& queue) { require(queue.post_copy(pinned[0], one, bytes), "a copy"); };
  const auto up = [&](DeviceQueue& queue) { require(queue.post_copy(other, pinned[1], bytes), "a copy"); };
  const double alone[] = {microseconds(gpu, bytes, [&] { down(*gpu.queue); }),
                          microseconds(gpu, bytes, [&] { up(*gpu.queue); })};
  const auto second = required(gpu.runtime->open_queue(gpu.device), "a queue");
  constexpr int rounds = 20;
  const auto begun = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    down(*gpu.queue);
    up(*second);
  }
  require(second->post_mark(), "a mark");
  gpu.finish();
  while (required(second->reached(), "waiting for the GPU") < 1) std::this_thread::yield();
  const double both = std::chrono::duration<double, std::micro>(Clock::now() - begun).count() / rounds;
  std::printf("# 64 MiB copied to the host %.1f GB/s, from the host %.1f, both at once %.1f in all\n",
              rate(alone[0], bytes), rate(alone[1], bytes), rate(both, 2 * bytes));
}

}  // namespace

int check_kernels(bool quick) {
  DeviceUnderTest gpu(0);
  const std::vector<std::size_t> counts =
      quick ? std::vector<std::size_t>{1, 300} : std::vector<std::size_t>{1, 37, 1000, 100'003};
  const std::vector<std::size_t> numbers =
      quick ? std::vector<std::size_t>{1, 3, 9} : std::vector<std::size_t>{1, 2, 3, 4, 5, 8, 9};
  Checker checker(gpu, counts.back());
  bool right = true;
  for (int t = 0; t < data_type_count; ++t) {
    const bool this_one = checker.check_type(static_cast<DataType>(t), counts, numbers);
    std::printf("%s  %s\n", this_one ? "ok" : "WRONG", std::string(name(static_cast<DataType>(t))).c_str());
    right = right && this_one;
  }
  const bool copied = check_small_copies(gpu);
  std::printf("%s  small copies\n", copied ? "ok" : "WRONG");
  right = right && copied;
  std::printf("%zu kernels' results compared with the processor's on %s: %s\n", checker.cases(),
              gpu.facts[0].name.c_str(), right ? "the same bits" : "SOME ARE WRONG");
  return right ? 0 : 1;
}

int measure_kernels() {
  DeviceUnderTest gpu(0);
  constexpr std::size_t most = std::size_t{256} << 20;
  std::vector<std::byte*> buffers;
  for (int i = 0; i < 9; ++i) buffers.push_back(gpu.allocate(most));
  std::printf("# %s; GB/s = bytes read and written / time; of copy = that against a copy on the device\n",
              gpu.facts[0].name.c_str());
  std::printf("# type          sources       bytes        us      GB/s  of copy\n");
  for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{4} << 20, std::size_t{64} << 20, most}) {
    const double copy = microseconds(gpu, bytes, [&] { gpu.copy(buffers[0], buffers[1], bytes); });
    const double rate = 2 * static_cast<double>(bytes) / copy;
    std::printf("  %-13s %7s %11zu %9.2f %9.1f\n", "copy", "1", bytes, copy, rate / 1e3);
    for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::float16, DataType::float8_e4m3,
                                DataType::float64, DataType::int8})
      for (const std::size_t number : {2, 4, 8}) {
        const std::vector<const std::byte*> sources(buffers.begin() + 1,
                                                    buffers.begin() + 1 + static_cast<long>(number));
        const double time = microseconds(gpu, bytes * (number + 1) / 2, [&] {
          require(gpu.queue->post_reduce({type, ReduceOp::sum, buffers[0], sources, bytes / size_of(type)}),
                  "a reduction");
        });
        const double got = static_cast<double>((number + 1) * bytes) / time;
        std::printf("  %-13s %7zu %11zu %9.2f %9.1f   %4.0f%%\n", std::string(name(type)).c_str(), number, bytes, time,
                    got / 1e3, 100 * got / rate);
      }
  }
  const std::vector<const std::byte*> two{buffers[1], buffers[2]};
  const auto begun = Clock::now();
  constexpr int rounds = 1000;
  for (int i = 0; i < rounds; ++i) {
    require(gpu.queue->post_reduce({DataType::float32, ReduceOp::sum, buffers[0], two, 2}), "a reduction");
    gpu.finish();
  }
  std::printf("# a kernel on 8 bytes, launched and seen to be over: %.2f us\n",
              std::chrono::duration<double, std::micro>(Clock::now() - begun).count() / rounds);
  measure_small_copies(gpu, buffers[0]);
  measure_copies_with_host(gpu, buffers[0], buffers[1]);
  return 0;
}

}  // namespace fabring::gpu_check
