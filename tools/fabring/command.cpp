#include "tools/fabring/command.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>

#include "runtime/base/nearest_name.hpp"

namespace fabring::tools {

void complain(const std::string& subcommand, const std::string& text) {
  const std::string line = "fabring " + subcommand + ": " + text + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

std::string unknown_option(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string word = argument.substr(0, argument.find('='));
  return "unknown option " + word + did_you_mean(word, known);
}

Output::~Output() {
  if (file_ != stdout) std::fclose(file_);
}

Status Output::open(const std::string& path, const std::string& option) {
  if (path.empty() || path == "-") return {};
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    return {ErrorCode::unavailable, option + " " + path + ": cannot write: " + std::strerror(errno)};
  file_ = file;
  path_ = path;
  return {};
}

void Output::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

Status Output::finish() {
  if (std::fflush(file_) != 0 || std::ferror(file_) != 0)
    return {ErrorCode::unavailable, (path_.empty() ? "stdout" : path_) + ": cannot write: " + std::strerror(errno)};
  return {};
}

}  // namespace fabring::tools
