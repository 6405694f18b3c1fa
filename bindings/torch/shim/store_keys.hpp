#pragma once
// StoreKeys: keys of a store that belong to one group, and to one of several lives of it: a rank that comes back after
// destroy_process_group, or that is started again, finds the keys of before.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace fabring_torch {

class StoreKeys {
 public:
  /// `prefix` has what tells lives apart.
  StoreKeys(c10::intrusive_ptr<c10d::Store> store, std::string prefix);

  void put(const std::string& key, const std::string& value) const;
  /// False when nobody has put it within `limit`; 0 only looks.
  bool wait(const std::string& key, std::chrono::milliseconds limit) const;
  std::string get(const std::string& key) const;
  /// Adds to a counter that all ranks share, and returns it.
  std::int64_t count(const std::string& key, std::int64_t add) const;
  /// Throws where the store cannot.
  void erase(const std::string& key) const;

  c10d::Store& store() const { return *store_; }
  /// What a key is called in store().
  std::string name(const std::string& key) const { return prefix_ + key; }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string prefix_;
};

}  // namespace fabring_torch
