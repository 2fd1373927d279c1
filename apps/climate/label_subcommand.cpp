#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/climate/data/snapshot_dataset.hpp"
#include "apps/climate/heuristics/agreement.hpp"
#include "apps/climate/subcommands.hpp"
#include "apps/common/progress.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::climate {
namespace {

namespace fs = std::filesystem;

constexpr int kMaps = 2;  // labels_0 and labels_1

struct LabelOptions {
  std::string data, out, rivers = "water", cyclones = "relaxed";
  double water[kMaps] = {24, 21};
  bool wrap = false, with_data = false, overwrite = false, json = false;
  int truth = 0;
};

std::array<LabelHeuristics, kMaps> heuristics_of(const LabelOptions& o) {
  std::array<LabelHeuristics, kMaps> maps;
  for (int m = 0; m < kMaps; ++m) {
    auto& h = maps[static_cast<std::size_t>(m)];
    if (o.rivers == "flux") h.river = RiverHeuristic::of_flux();
    if (o.cyclones == "strict") h.cyclone = CycloneHeuristic::strict();
    h.river.threshold = o.water[m];
    h.river.wrap = o.wrap;
  }
  return maps;
}

/// Labels the snapshots of a rank.
class Labeller {
 public:
  Labeller(const LabelOptions& options, const SnapshotDataset& data)
      : options_(options), data_(data), heuristics_(heuristics_of(options)) {}

  void prepare_folder() const {
    if (options_.out.empty()) return;
    std::set<fs::path> targets;
    for (std::int64_t i = 0; i < data_.size(); ++i) {
      const fs::path path = target(i);
      if (!targets.insert(path).second)
        refuse(
            "--out {}: {} would be the file of two snapshots, of which one is in {}. Expected files whose names differ "
            "without their endings; label them one by one",
            options_.out, path.string(), data_.file_of(i));
      std::error_code error;
      if (fs::equivalent(path, data_.file_of(i), error))
        refuse("--out {}: {} would replace the snapshot itself; choose another folder", options_.out, path.string());
      if (fs::exists(path) && !options_.overwrite)
        refuse("--out {}: {} exists; choose another folder, or replace it with --overwrite", options_.out,
               path.string());
      fs::create_directories(path.parent_path(), error);
      if (!fs::is_directory(path.parent_path(), error))
        refuse("--out {}: cannot make the folder {}; choose one that can be written", options_.out,
               path.parent_path().string());
    }
  }

  void label(std::int64_t index) {
    const auto& l = data_.layout();
    const Grid grid{static_cast<int>(l.rows), static_cast<int>(l.columns)};
    data_x_.resize(static_cast<std::size_t>(grid.points()) * kChannels);
    data_.read_data(index, data_x_.data());
    const SnapshotFields fields{grid, data_x_};
    const auto cyclones = find_cyclones(fields, heuristics_[0].cyclone);
    candidates_ += std::ssize(cyclones);
    const auto mask = cyclone_mask(fields, cyclones, heuristics_[0].cyclone);
    std::array<std::vector<std::int32_t>, kMaps> maps;
    for (std::size_t m = 0; m < kMaps; ++m) maps[m] = combine(find_rivers(fields, heuristics_[m].river), mask);
    if (!options_.out.empty()) write(index, grid, maps);
    if (!data_.has_labels(index)) return;
    std::vector<std::int32_t> truth(static_cast<std::size_t>(grid.points()));
    data_.read_labels(index, truth.data());
    for (std::size_t m = 0; m < kMaps; ++m) agreement_[m].add(truth, maps[m]);
  }

  void reduce(Communicator& world) {
    world.allreduce(&candidates_, 1, Reduction::sum);
    for (auto& a : agreement_) a.reduce(world);
  }

  std::int64_t cyclones() const { return candidates_; }
  const std::array<Agreement, kMaps>& agreement() const { return agreement_; }

 private:
  fs::path target(std::int64_t index) const { return fs::path(options_.out) / data_.name_of(index); }

  void write(std::int64_t index, const Grid& grid, const std::array<std::vector<std::int32_t>, kMaps>& maps) const {
    AtomicFile file(target(index), Target::hdf5);
    auto f = hdf5::File::create(file.temporary().string());
    if (options_.with_data) f.write("climate/data", data_x_.data(), {grid.rows, grid.columns, kChannels});
    for (std::size_t m = 0; m < kMaps; ++m) {
      const std::vector<float> labels(maps[m].begin(), maps[m].end());
      f.write(fmt::format("climate/labels_{}", m), labels.data(), {grid.rows, grid.columns});
    }
    f.set_attribute("/", "labels",
                    fmt::format("heuristics: rivers by {} above {} and {} kg/m2; cyclones {}", options_.rivers,
                                options_.water[0], options_.water[1], options_.cyclones));
    f.close();
    file.commit();
  }

  const LabelOptions& options_;
  const SnapshotDataset& data_;
  std::array<LabelHeuristics, kMaps> heuristics_;
  std::array<Agreement, kMaps> agreement_;
  std::int64_t candidates_ = 0;
  std::vector<float> data_x_;
};

void print_json(const LabelOptions& o, const SnapshotDataset& data, const Labeller& labeller) {
  nlohmann::ordered_json j{{"data", data.describe()}, {"snapshots", data.size()}, {"cyclones", labeller.cyclones()}};
  for (int m = 0; m < kMaps; ++m) {
    const auto& a = labeller.agreement()[static_cast<std::size_t>(m)];
    nlohmann::ordered_json map{{"threshold", o.water[m]}, {"snapshots_with_truth", a.images.images()}};
    if (a.images.images() > 0) {
      for (int k = 0; k < kClasses; ++k) map["iou"][kClassNames[static_cast<std::size_t>(k)]] = a.pixels.iou(k, NAN);
      map["mean_iou_over_all_pixels"] = mean_iou(a.pixels);
      map["mean_iou_per_image"] = a.images.mean();
    }
    j[fmt::format("labels_{}", m)] = map;
  }
  fmt::print("{}\n", j.dump(2));
}

void print_table(const LabelOptions& o, const SnapshotDataset& data, const Labeller& labeller) {
  fmt::print("{}\n{} found{}\n", data.describe(), counted(labeller.cyclones(), "tropical cyclone"),
             o.out.empty() ? "" : fmt::format("; labels are in {}", o.out));
  const auto& maps = labeller.agreement();
  const double images = maps[0].images.images();
  if (images == 0) return;
  fmt::print("\nagreement with labels {} of {:.0f} snapshots, intersection over union\n{:<28}{:>10}{:>10}\n", o.truth,
             images, "", "labels_0", "labels_1");
  for (int k = 0; k < kClasses; ++k)
    fmt::print("{:<28}{:>10}{:>10}\n", kClassNames[static_cast<std::size_t>(k)], iou_text(maps[0].pixels.iou(k, NAN)),
               iou_text(maps[1].pixels.iou(k, NAN)));
  fmt::print("{:<28}{:>10.4f}{:>10.4f}\n", "mean over all pixels", mean_iou(maps[0].pixels), mean_iou(maps[1].pixels));
  fmt::print("{:<28}{:>10.4f}{:>10.4f}\n", "mean per image", maps[0].images.mean(), maps[1].images.mean());
}

ExitCode label(const LabelOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (o.data.empty()) refuse("give --data: snapshots, as a file, folder or pattern");
  const SnapshotDataset data(o.data, {.labels = o.truth, .needs_labels = false}, &world);
  Labeller labeller(o, data);
  on_first_rank(&world, [&] { labeller.prepare_folder(); });
  Interrupt::install();
  app::Progress progress("snapshot", world.size());
  std::int64_t interrupted = 0;
  on_each_rank(&world, [&] {
    const std::int64_t mine = (data.size() - world.rank() + world.size() - 1) / world.size();
    for (std::int64_t n = 0; n < mine && interrupted == 0; ++n) {
      labeller.label(n * world.size() + world.rank());
      if (world.rank() == 0 && !o.json) progress.show(n + 1, mine);
      if (n + 1 < mine && Interrupt::requested()) interrupted = 1;
    }
  });
  Interrupt::uninstall();
  world.allreduce(&interrupted, 1, Reduction::max);
  if (interrupted != 0) {
    if (world.rank() == 0) fmt::print("interrupted; start again with --overwrite\n");
    return ExitCode::interrupted;
  }
  labeller.reduce(world);
  if (world.rank() == 0) o.json ? print_json(o, data, labeller) : print_table(o, data, labeller);
  return ExitCode::done;
}

}  // namespace

void define_label(app::CommandLine& line) {
  auto o = std::make_shared<LabelOptions>();
  auto& v =
      line.subcommand("label",
                      "Label snapshots by heuristics, as the public data were labelled: rivers by moisture and shape, "
                      "cyclones by a warm core; and compare with the labels of the snapshots",
                      [o](app::Launch& launch) { return label(*o, launch); });
  v.option_without_default("--data", o->data, "Snapshots: HDF5, NetCDF or .npy file, folder or pattern", "PATH")
      .differs_between_ranks();
  v.option_without_default("--out", o->out,
                           "Folder for a file of the same name for each snapshot, with climate/labels_0 and "
                           "climate/labels_1; without --out, labels are only compared",
                           "DIR");
  v.flag("--with-data", o->with_data,
         "Also copy the snapshots' data into the files in --out, so that a network can be trained on them");
  v.flag("--overwrite", o->overwrite, "Replace files in --out");
  v.option("--water-0", o->water[0], "For labels_0: rivers have more column water than this, kg/m2", "WATER")
      .positive();
  v.option("--water-1", o->water[1], "For labels_1: rivers have more column water than this, kg/m2", "WATER")
      .positive();
  v.option("--rivers", o->rivers,
           "Quantity by which rivers are found: column water; or flux, |V850| QREFHT above its 94th percentile, for "
           "both maps")
      .one_of({"water", "flux"});
  v.flag("--wrap", o->wrap, "Let rivers continue beyond the last column");
  v.option("--cyclones", o->cyclones, "Thresholds: relaxed, as for the public labels, or strict, as in TECA")
      .one_of({"relaxed", "strict"});
  v.option("--truth", o->truth, "Compare with these labels of the snapshots", "MAP").between(0, 1);
  v.flag("--json", o->json, "Print the result as JSON");
}

}  // namespace keelson::climate
