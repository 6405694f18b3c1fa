// The picture of `fabring topo --svg`.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/fabring/svg.hpp"
#include "tools/fabring/topo/topo_report.hpp"
#include "topology/placement.hpp"

namespace fabring::tools {
namespace {

constexpr double device_width = 86, device_height = 40, gap = 8, padding = 12, core = 9, core_gap = 2;
constexpr double ribbon_room = 34;  // between GPUs and their cards
constexpr std::size_t most_across = 8;
constexpr double most_width = 800;  // of a node's column, before its switches go below one another
constexpr std::string_view ink = "#22303f", soft = "#66788a", node_fill = "#f5f7fa", node_border = "#c3ccd6",
                           switch_fill = "#ffffff", switch_border = "#aab6c2", gpu_fill = "#dff0e2",
                           gpu_border = "#3f8f56", efa_fill = "#dce9f8", efa_border = "#2f6db3", card_fill = "#e9e6f6",
                           card_border = "#6a5aa8", down_fill = "#f2f2f2", bad = "#c8472f", usable = "#7fa8d6",
                           barred = "#dde2e8";
// Ribbons take turns, so that neighbours can be told apart.
constexpr std::string_view ribbons[] = {"#2f6db3", "#3f8f56", "#c07a1c", "#8a4fa3"};

struct Point {
  double x = 0, y = 0;
};

struct Size {
  double width = 0, height = 0;
};

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

class Picture {
 public:
  explicit Picture(const Topology& topology) : topology_(topology), groups_(device_groups(topology)) {}

  std::string draw() && {
    plan();
    Svg svg(width_, height_);
    svg.text_in(ink, 24, 36, topology_.host, Svg::Anchor::start, 20, true);
    svg.text_in(soft, 24, 56, subtitle(), Svg::Anchor::start, 12);
    for (const Column& column : columns_) draw_column(svg, column);
    draw_ribbons(svg);
    // Devices last: a ribbon ends at their border.
    for (const auto& [gpu, at] : gpus_) draw_gpu(svg, gpu, at);
    for (const auto& [nic, at] : nics_) draw_nic(svg, nic, at);
    draw_legend(svg);
    return std::move(svg).finish();
  }

 private:
  struct Column {
    const NumaNode* node = nullptr;  // null: of no node
    std::vector<const DeviceGroup*> groups;
    std::vector<Point> at;  // of the groups
    double left = 0, width = 0;
    std::size_t cores_in_row = 0;
    double cores_height = 0;
  };

  static std::size_t rows_for(std::size_t things, std::size_t in_row) { return (things + in_row - 1) / in_row; }
  static double length_of(std::size_t cells, double cell) { return static_cast<double>(cells) * cell; }
  static std::size_t rows_of(const std::vector<std::size_t>& devices) { return rows_for(devices.size(), most_across); }

  // Where no device is below a switch there is nothing to tell apart.
  double label_height() const {
    return std::any_of(groups_.begin(), groups_.end(), [](const DeviceGroup& group) { return group.bridge >= 0; }) ? 14
                                                                                                                   : 0;
  }

  Size size_of(const DeviceGroup& group) const {
    const std::size_t across = std::min(std::max({group.gpus.size(), group.nics.size(), std::size_t{1}}), most_across);
    const std::size_t rows = rows_of(group.gpus) + rows_of(group.nics);
    const double between = group.gpus.empty() || group.nics.empty() ? 0 : ribbon_room - gap;
    return {static_cast<double>(across) * (device_width + gap) - gap + 2 * padding,
            length_of(rows, device_height + gap) - gap + between + 2 * padding + label_height()};
  }

  void plan() {
    std::map<int, const NumaNode*> nodes;
    for (const NumaNode& node : topology_.numa) nodes[node.number] = &node;
    for (const auto& [number, node] : nodes) columns_.push_back({node, {}, {}, 0, 0, 0, 0});
    if (std::any_of(groups_.begin(), groups_.end(), [&](const auto& g) { return nodes.count(g.numa) == 0; }))
      columns_.push_back({});
    double left = 24, deepest = 0;
    for (Column& column : columns_) {
      for (const DeviceGroup& group : groups_)
        if (column.node ? group.numa == column.node->number : nodes.count(group.numa) == 0)
          column.groups.push_back(&group);
      plan_column(column, left);
      left += column.width + 20;
      for (std::size_t i = 0; i < column.groups.size(); ++i)
        deepest = std::max(deepest, column.at[i].y + size_of(*column.groups[i]).height);
      deepest = std::max(deepest, top_ + 74 + column.cores_height);
    }
    bottom_ = deepest + padding;
    width_ = std::max(left + 4, 700.0);
    height_ = bottom_ + 54;
  }

  void plan_column(Column& column, double left) {
    column.left = left;
    double x = 0, y = 0, row_height = 0, widest = 250;
    std::vector<Point> offsets;
    for (const DeviceGroup* group : column.groups) {
      const Size size = size_of(*group);
      if (x > 0 && x + size.width > most_width) {
        x = 0;
        y += row_height + 12;
        row_height = 0;
      }
      offsets.push_back({x, y});
      x += size.width + 12;
      widest = std::max(widest, x - 12);
      row_height = std::max(row_height, size.height);
    }
    column.width = widest + 2 * padding;
    const std::size_t cpus = column.node ? column.node->cpus.size() : 0;
    column.cores_in_row = static_cast<std::size_t>(widest / (core + core_gap));
    column.cores_height = length_of(rows_for(cpus, column.cores_in_row), core + core_gap);
    for (const Point& offset : offsets)
      column.at.push_back({left + padding + offset.x, top_ + 62 + column.cores_height + 24 + offset.y});
    for (std::size_t i = 0; i < column.groups.size(); ++i) place(*column.groups[i], column.at[i]);
  }

  void place(const DeviceGroup& group, Point at) {
    double y = at.y + padding + label_height();
    const double middle = at.x + size_of(group).width / 2;
    const auto row = [&](const std::vector<std::size_t>& devices, std::map<std::size_t, Point>& into) {
      const std::size_t across = std::min<std::size_t>(devices.size(), most_across);
      const double left = middle - (static_cast<double>(across) * (device_width + gap) - gap) / 2;
      for (std::size_t i = 0; i < devices.size(); ++i)
        into[devices[i]] = {left + length_of(i % most_across, device_width + gap),
                            y + length_of(i / most_across, device_height + gap)};
      y += length_of(rows_of(devices), device_height + gap);
    };
    row(group.gpus, gpus_);
    if (!group.gpus.empty()) y += ribbon_room - gap;
    row(group.nics, nics_);
  }

  std::string subtitle() const {
    std::string text = topology_summary(topology_);
    return text.substr(std::min(text.size(), text.find(": ") + 2));
  }

  void draw_column(Svg& svg, const Column& column) {
    svg.box(column.left, top_, column.width, bottom_ - top_, node_fill, node_border, 8);
    const double x = column.left + padding;
    if (column.node == nullptr) {
      svg.text_in(ink, x, top_ + 22, "no NUMA node known", Svg::Anchor::start, 13, true);
    } else {
      const NumaNode& node = *column.node;
      svg.text_in(ink, x, top_ + 22, fmt::format("NUMA node {}", node.number), Svg::Anchor::start, 13, true);
      const std::string model =
          node.package >= 0 ? topology_.packages[static_cast<std::size_t>(node.package)].model : "";
      svg.text_in(
          soft, x, top_ + 40,
          shortened(fmt::format("package {}, {:.0f} GiB{}{}", node.package,
                                static_cast<double>(node.memory_bytes) / (1u << 30), model.empty() ? "" : ", ", model),
                    static_cast<std::size_t>((column.width - 2 * padding) / 6.2)),
          Svg::Anchor::start, 12);
      for (std::size_t i = 0; i < node.cpus.size(); ++i) {
        const bool allowed =
            std::binary_search(topology_.allowed_cpus.begin(), topology_.allowed_cpus.end(), node.cpus[i]);
        svg.rectangle(x + length_of(i % column.cores_in_row, core + core_gap),
                      top_ + 54 + length_of(i / column.cores_in_row, core + core_gap), core, core,
                      allowed ? usable : barred);
      }
    }
    for (std::size_t i = 0; i < column.groups.size(); ++i) {
      const DeviceGroup& group = *column.groups[i];
      const Size size = size_of(group);
      const auto pci = group.bridge >= 0 ? topology_.bridges[static_cast<std::size_t>(group.bridge)].pci : std::nullopt;
      svg.box(column.at[i].x, column.at[i].y, size.width, size.height, switch_fill, switch_border, 6);
      if (label_height() > 0)
        svg.text_in(soft, column.at[i].x + padding, column.at[i].y + 17,
                    group.bridge < 0
                        ? "no switch"
                        : shortened("switch " + (pci ? text(*pci) : "?"), static_cast<std::size_t>(size.width / 6)),
                    Svg::Anchor::start, 10.5);
    }
  }

  void draw_ribbons(Svg& svg) {
    for (const auto& [gpu, from] : gpus_)
      for (const std::size_t nic : rails_for_gpu(topology_, gpu))
        ribbon(svg, {from.x + device_width / 2, from.y + device_height}, nic, gpu);
    if (!topology_.gpus.empty()) return;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Column& column = columns_[i];
      if (column.node == nullptr || !usable_here(topology_, *column.node)) continue;
      const double shown = static_cast<double>(std::min(column.node->cpus.size(), column.cores_in_row));
      for (const std::size_t nic : rails_for_cpus(topology_, column.node->cpus))
        ribbon(svg, {column.left + padding + shown * (core + core_gap) / 2, top_ + 54 + column.cores_height}, nic, i);
    }
  }

  void ribbon(Svg& svg, Point from, std::size_t nic, std::size_t turn) {
    const Point to = nics_[nic];
    svg.ribbon(from.x, from.y, to.x + device_width / 2, to.y, ribbons[turn % std::size(ribbons)], 2);
  }

  void draw_gpu(Svg& svg, std::size_t index, Point at) {
    const Gpu& gpu = topology_.gpus[index];
    svg.box(at.x, at.y, device_width, device_height, gpu_fill, gpu.link.below_best() ? bad : gpu_border, 5,
            gpu.link.below_best() ? 2.5 : 1.2);
    svg.text_in(ink, at.x + device_width / 2, at.y + 17, fmt::format("GPU {}", index), Svg::Anchor::middle, 12, true);
    svg.text_in(soft, at.x + device_width / 2, at.y + 31, text(gpu.pci), Svg::Anchor::middle, 9.5);
  }

  void draw_nic(Svg& svg, std::size_t index, Point at) {
    const Nic& nic = topology_.nics[index];
    const bool rdma = nic.kind == NicKind::efa || nic.kind == NicKind::infiniband;
    const bool down = nic.state == LinkState::down, wrong = down || nic.link.below_best();
    svg.box(at.x, at.y, device_width, device_height,
            down   ? down_fill
            : rdma ? efa_fill
                   : card_fill,
            wrong  ? bad
            : rdma ? efa_border
                   : card_border,
            5, wrong ? 2.5 : 1.2);
    const std::string label = shortened(nic.label(), 12);
    svg.text_in(ink, at.x + device_width / 2, at.y + 17, label, Svg::Anchor::middle, label.size() > 9 ? 9.5 : 11, true);
    std::string second = down ? "down" : rate_text(nic.megabits);
    if (second.empty()) second = name(nic.kind);
    svg.text_in(soft, at.x + device_width / 2, at.y + 31, second, Svg::Anchor::middle, 9.5);
  }

  void draw_legend(Svg& svg) {
    const double y = bottom_ + 18;
    double x = 24;
    const auto entry = [&](std::string_view fill, std::string_view border, std::string_view text, double width) {
      svg.box(x, y, 16, 12, fill, border, 2);
      svg.text_in(soft, x + 22, y + 10, text, Svg::Anchor::start, 11);
      x += width;
    };
    entry(usable, usable, "processor", 92);
    entry(barred, barred, "not allowed", 100);
    if (!topology_.gpus.empty()) entry(gpu_fill, gpu_border, "GPU", 62);
    entry(efa_fill, efa_border, "EFA, InfiniBand", 124);
    entry(card_fill, card_border, "other NIC", 88);
    entry(down_fill, bad, "down, or slow PCI", 130);
  }

  const Topology& topology_;
  std::vector<DeviceGroup> groups_;
  std::vector<Column> columns_;
  std::map<std::size_t, Point> gpus_, nics_;
  double top_ = 72, bottom_ = 0, width_ = 0, height_ = 0;
};

}  // namespace

std::string topology_picture(const Topology& topology) { return Picture(topology).draw(); }

}  // namespace fabring::tools
