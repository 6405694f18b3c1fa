#pragma once
// LogSink: where an embedding program has the log of an engine instead of on stderr.
//
//   fabring::Config config;
//   config.log = "info";  // the level, as FABRING_LOG: what is written at all
//   config.log_sink = [](fabring::LogLevel level, int rank, std::string_view text) {
//     std::printf("rank %d, level %d: %s\n", rank, static_cast<int>(level), std::string(text).c_str());
//   };

#include <cstdint>
#include <functional>
#include <string_view>

#include "fabring/export.hpp"

namespace fabring {

enum class LogLevel : std::uint8_t { none, error, warning, info, debug };

/// Gets one line without its end: `level` is never none, `rank` is that of the engine, `text` lives during the call
/// only. It is called from any thread that runs Fabring's code, the program's and Fabring's own, several at once and
/// with locks held: it must be quick (heartbeats wait for it), and must neither call Fabring nor throw: an exception
/// that leaves it ends the process. It is called from Engine::create() on until that fails, or until the engine is gone
/// and so is every call on it.
using LogSink = std::function<void(LogLevel level, int rank, std::string_view text)>;

}  // namespace fabring
