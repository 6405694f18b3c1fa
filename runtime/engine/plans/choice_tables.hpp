#pragma once
// ChoiceTables: what an engine's communicators choose algorithms by, priced once for every shape of world. Any thread.

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/choice/table.hpp"

namespace fabring {

class ChoiceTables {
 public:
  /// `price` makes the first of this shape, while others wait.
  std::shared_ptr<const ChoiceTable> of(const WorldShape& shape, const std::function<ChoiceTable()>& price) {
    const std::lock_guard lock(mutex_);
    for (const auto& table : tables_)
      if (table->shape() == shape) return table;
    tables_.push_back(std::make_shared<const ChoiceTable>(price()));
    return tables_.back();
  }
  /// Prices have changed.
  void clear() {
    const std::lock_guard lock(mutex_);
    tables_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const ChoiceTable>> tables_;
};

}  // namespace fabring
