// The hello with which every connection begins, and what a rank makes of it. The first byte: how that rank is set up.

#include "runtime/base/hello.hpp"

#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::hello {
namespace {

enum Setup : unsigned char { initiator = 1, secret = 2 };

HandshakeOptions options_of(unsigned char setup) {
  HandshakeOptions options;
  options.initiator = (setup & initiator) != 0;
  options.job_id = "job";
  options.job_nonce = 7;
  options.self = 0;
  options.world_size = 4;
  if ((setup & secret) != 0) options.secret = "sixteen bytes, and more";
  return options;
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const HandshakeOptions options = options_of(static_cast<unsigned char>(input[0]));
  const std::string_view bytes = input.substr(1);
  (void)could_be_hello(bytes);
  const auto read = decode_hello(bytes);
  if (!read) return;
  require(could_be_hello(bytes), "a hello begins like one");
  require(version_of(bytes) == read->version, "the version is told from the first bytes");
  if (read->same_byte_order) require(encode(*read) == bytes, "what is accepted is what would be written");
  const Refusal why = check_hello(options, *read);
  if (why == Refusal::none) {
    require(read->rank >= 0 && read->rank < options.world_size, "an acceptable rank is one");
  } else {
    for (const bool by_peer : {false, true})
      require(!explain_refusal(why, options, &*read, read->version, {"10.0.0.1", 80}, by_peer).ok(),
              "a refusal is an error");
  }
}

Seeds seeds() {
  Seeds all;
  for (unsigned char setup = 0; setup < 4; ++setup) {
    HandshakeOptions peer = options_of(static_cast<unsigned char>(setup ^ initiator));
    peer.self = 1;
    auto hello = make_hello(peer);
    if (!hello) continue;
    hello->challenge.fill(3);  // the same at every start
    all.push_back(static_cast<char>(setup) + encode(*hello));
    if (!hello->initiator) all.push_back(static_cast<char>(setup) + encode(without_job(*hello)));
    hello->rank = 9;
    all.push_back(static_cast<char>(setup) + encode(*hello));
  }
  return all;
}

}  // namespace fabring::fuzz::hello
