// An outside program: a world of one, through the public headers only.
#include <cstdio>
#include <fabring/fabring.hpp>
#include <memory_resource>
#include <vector>

int main() {
  fabring::Config config;
  config.rank = 0;
  config.world_size = 1;
  auto engine = fabring::Engine::create(config);
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().to_string().c_str());
    return 1;
  }
  fabring::MappedResource mapped(**engine);
  std::pmr::memory_resource* resource = &mapped;  // what knows it as this may ask which one it is
  if (dynamic_cast<fabring::MappedResource*>(resource) == nullptr) return 1;
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out(3);
  const fabring::Status done = (*engine)->world().allreduce(in.data(), out.data(), in.size(),
                                                            fabring::DataType::float32, fabring::ReduceOp::sum);
  std::printf("%s: %g %g %g\n", done.to_string().c_str(), out[0], out[1], out[2]);
  return done.ok() && out == in ? 0 : 1;
}
