#pragma once
// Expressions: symbolic values of a plan check, each distinct one stored once, so that equal ids are equal expressions,
// operand order and rounding included. One store serves all ranks of a check.

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fabring/types.hpp"

namespace fabring::check {

using ExpressionId = std::uint32_t;

enum class Order : std::uint8_t {
  any,
  of_ranks,     ///< x_0, x_1, ... x_{n-1}, brackets as they like
  folded,       ///< ((x_0 x_1) ...) x_{n-1}, in as many steps as they like
  in_one_step,  ///< one reduce of x_0, x_1, ... x_{n-1}
};

/// What a reduction must look like.
struct Wanted {
  bool finished = false;  ///< divided at the very end
  Order order = Order::any;
  friend auto operator<=>(const Wanted&, const Wanted&) = default;
};

class Expressions {
 public:
  /// What was never written, or mixes different elements. Anything made of it is it.
  static constexpr ExpressionId undefined = 0;

  explicit Expressions(int ranks);
  ExpressionId input_of(Rank rank) const { return static_cast<ExpressionId>(rank) + 1; }
  /// operand 0 (op) operand 1 (op) ..., rounded once.
  ExpressionId reduced(std::span<const ExpressionId> operands);
  ExpressionId finished(ExpressionId value);

  /// Empty if `value` is the reduction of every rank's input exactly once, as wanted; else what is wrong.
  std::string complaint(ExpressionId value, Wanted wanted);
  /// "((x1+x2)+x0)/n"
  std::string text(ExpressionId value) const;

 private:
  struct Node {
    bool finish = false;
    std::vector<ExpressionId> operands;  // none: undefined or an input
    friend bool operator<(const Node& a, const Node& b) {
      return a.finish != b.finish ? a.finish < b.finish : a.operands < b.operands;
    }
  };

  ExpressionId intern(Node node);
  std::string text(ExpressionId value, int& budget) const;
  std::string look_at(ExpressionId value, Wanted wanted) const;
  bool is_fold(ExpressionId value) const;
  std::string read_inputs(ExpressionId value, std::vector<Rank>& inputs) const;

  int ranks_;
  std::vector<Node> nodes_;
  std::map<Node, ExpressionId> known_;
  std::map<std::pair<ExpressionId, Wanted>, std::string> complaints_;
};

}  // namespace fabring::check
