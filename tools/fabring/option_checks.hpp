#pragma once
// What the values of options may be: checks for CLI11 that say it in words, in --help and when a value is wrong.
// CLI11's own print what the program is made of: "FLOAT in [1 - 1000]", "csv->1".

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fabring::tools {

/// A whole number within these limits, which --help shows.
CLI::Validator between(int low, int high);
CLI::Validator between(std::int64_t low, std::int64_t high);
/// A number within these limits, which --help shows.
CLI::Validator between(double low, double high);
/// A number above this one.
CLI::Validator above(double low);
/// A time as settings have it: 30, 30s, 500ms, 5m, 2h.
CLI::Validator a_duration();
/// One of these words; the option's description says what they mean.
CLI::Validator one_of(std::vector<std::string> words);

/// Adds an option whose value is one of the names, and puts what the name stands for into `value`.
template <class Value>
CLI::Option* add_choice(CLI::App& app, std::string option, Value& value,
                        std::vector<std::pair<std::string, Value>> choices, std::string description) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& [name, meaning] : choices) names.push_back(name);
  const auto take = [&value, choices = std::move(choices)](const std::string& word) {
    for (const auto& [name, meaning] : choices)
      if (name == word) value = meaning;
  };
  return app.add_option_function<std::string>(std::move(option), take, std::move(description))
      ->check(one_of(std::move(names)));
}

}  // namespace fabring::tools
