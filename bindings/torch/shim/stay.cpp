#include "stay.hpp"

#include "engine.hpp"

namespace fabring_torch {

Stay::Stay(std::shared_ptr<SharedEngine> engine) : engine_(std::move(engine)) {}

Stay::~Stay() {
  if (origin_.is_here()) fabring_engine_leave(engine_->handle(), nullptr);
}

}  // namespace fabring_torch
