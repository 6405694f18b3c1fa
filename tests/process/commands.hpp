#pragma once
// Commands: what one rank of a process test does, a line each: a verb and key=value words. They come as arguments of
// the program or, after `serve`, from stdin. One thread, besides what `background` starts.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fabring/fabring.hpp"

namespace rank_program {

enum class Exit : int { fine = 0, wrong = 1, usage = 2, failed = 3 };

/// "loop steps=3 sizes=4,1024": the words after the verb.
class Words {
 public:
  explicit Words(std::string_view line);
  const std::string& verb() const { return verb_; }
  std::string text(std::string_view key, std::string_view otherwise) const;
  std::int64_t number(std::string_view key, std::int64_t otherwise) const;
  std::vector<std::size_t> sizes(std::string_view key) const;

 private:
  std::string verb_;
  std::map<std::string, std::string, std::less<>> values_;
};

class Commands {
 public:
  explicit Commands(fabring::Engine& engine);
  ~Commands();

  /// Runs one line; reports what happened as events.
  Exit run(std::string_view line);

 private:
  Exit loop(const Words& words);        // steps (0: until an error), sizes, type, op, seed, every, on
  Exit async(const Words& words);       // the same, `window` of them queued at a time
  Exit background(const Words& words);  // `async` in a thread, until an error
  Exit split(const Words& words);       // name, colour, key
  Exit subgroup(const Words& words);    // name, ranks, number, on
  Exit shrink(const Words& words);      // name, on
  Exit drop(const Words& words);        // name
  Exit abort(const Words& words);       // on
  Exit buffers(const Words& words);     // wrong buffers, each refused; a right one afterwards
  Exit call(const Words& words);        // see calls.hpp; on
  Exit call_v(const Words& words);      // of blocks, of lengths of their own or of count: see calls.hpp; on
  Exit health(const Words& words);      // waits until it is not good any more, on
  Exit exchange(const Words& words);    // blocks, messages, crossed, crowd: steps, unit (elements), on
  Exit rough(const Words& words);       // type, op, sizes (bytes), mapped, on
  Exit work(const Words& words);        // ms of something else
  Exit stuck(const Words& words);       // an allreduce whose reduction does not return, on
  Exit serve();                         // commands from stdin until its end
  Exit leave();
  fabring::Communicator on(const Words& words) const;

  fabring::Engine& engine_;
  std::map<std::string, fabring::Communicator, std::less<>> communicators_;
  std::vector<std::thread> threads_;
};

}  // namespace rank_program
