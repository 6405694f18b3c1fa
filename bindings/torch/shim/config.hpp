#pragma once
// Config: a fabring_config, and what c10d and the environment say to it.

#include <chrono>
#include <string>

#include "fabring/fabring.h"
#include "failure.hpp"

namespace fabring_torch {

struct Config {
  Config() { check(fabring_config_create(&handle, &error), error); }
  ~Config() { fabring_config_free(handle); }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;
  void set(const std::string& name, const std::string& value) {
    check(fabring_config_set(handle, name.c_str(), value.c_str(), &error), error);
  }

  fabring_error error = FABRING_ERROR_INIT;
  fabring_config* handle = nullptr;
};

/// What the job is called here, FABRING_JOB_ID or, of torchrun's workers that have a run id, what a start without c10d
/// calls it; empty: it has no name.
std::string job_name();

/// For a rank of an engine whose operations and whose start have this timeout unless the environment says otherwise, of
/// a job of this name.
void configure(Config& config, int rank, int size, std::chrono::milliseconds timeout, const std::string& job);

}  // namespace fabring_torch
