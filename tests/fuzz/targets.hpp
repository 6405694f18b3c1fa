#pragma once
// What is fuzzed: everything of Fabring that reads bytes which others wrote (a socket, shared memory, a file, the
// environment). One namespace and one file, NAME_fuzz.cpp, for each:
//
//   run(input)  reads the input as the program would, and ends the process where what comes of it is not as it must be:
//               what is accepted is written again and read to the same, stays in its bounds, and what is refused says
//               why. It may be anything else but slow, and must not allocate much.
//   seeds()     inputs that are accepted, made by the encoders themselves.
//
// With clang each is a program of its own around libFuzzer (preset fuzz, tools/fuzz.sh); with any compiler all are in
// fuzz_targets, which runs the seeds and mutations of them as tests.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace fabring::fuzz {

using Seeds = std::vector<std::string>;

/// Ends the process with this text, as a sanitizer would.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: not so: %s\n", what);
  std::abort();
}

// clang-format off
// What ranks say to each other before and after the handshake.
namespace hello         { void run(std::string_view input); Seeds seeds(); }
namespace handshake     { void run(std::string_view input); Seeds seeds(); }
namespace frame_stream  { void run(std::string_view input); Seeds seeds(); }
namespace meeting_wire  { void run(std::string_view input); Seeds seeds(); }
namespace control_wire  { void run(std::string_view input); Seeds seeds(); }
namespace letters       { void run(std::string_view input); Seeds seeds(); }
namespace identity      { void run(std::string_view input); Seeds seeds(); }
// Data: addresses, headers, records, shared memory.
namespace addresses     { void run(std::string_view input); Seeds seeds(); }
namespace tcp_lane      { void run(std::string_view input); Seeds seeds(); }
namespace parcels       { void run(std::string_view input); Seeds seeds(); }
namespace engine        { void run(std::string_view input); Seeds seeds(); }
namespace shm_inbox     { void run(std::string_view input); Seeds seeds(); }
namespace shm_fast      { void run(std::string_view input); Seeds seeds(); }
namespace tickets       { void run(std::string_view input); Seeds seeds(); }
// The environment and what is on disk.
namespace values        { void run(std::string_view input); Seeds seeds(); }
namespace environment   { void run(std::string_view input); Seeds seeds(); }
namespace overrides     { void run(std::string_view input); Seeds seeds(); }
namespace host_lists    { void run(std::string_view input); Seeds seeds(); }
namespace interfaces    { void run(std::string_view input); Seeds seeds(); }
namespace machine_file  { void run(std::string_view input); Seeds seeds(); }
namespace system_files  { void run(std::string_view input); Seeds seeds(); }
// The tools.
namespace plan_json     { void run(std::string_view input); Seeds seeds(); }
namespace status        { void run(std::string_view input); Seeds seeds(); }
namespace rank_state    { void run(std::string_view input); Seeds seeds(); }
namespace agent_wire    { void run(std::string_view input); Seeds seeds(); }
namespace net_facts     { void run(std::string_view input); Seeds seeds(); }
namespace measurements  { void run(std::string_view input); Seeds seeds(); }
namespace log_lines     { void run(std::string_view input); Seeds seeds(); }
// clang-format on

}  // namespace fabring::fuzz
