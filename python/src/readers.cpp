#include "readers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>

#include <filesystem>
#include <optional>
#include <tuple>

#include "apps/climate/data/snapshot_dataset.hpp"
#include "apps/climate/weather/channels.hpp"
#include "apps/cosmoflow/data/symmetry.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "arrays.hpp"
#include "casters.hpp"
#include "engine/data/arrays/array_file_dataset.hpp"
#include "engine/data/tables/table_dataset.hpp"
#include "objects.hpp"
#include "texts.hpp"

namespace keelson::python {
namespace {

using cosmoflow::UniverseDataset;
using Release = nb::call_guard<nb::gil_scoped_release>;
/// Name, scale and offset of each target, for metrics.
using Targets = std::vector<std::tuple<std::string, double, double>>;

void construct_universes(UniverseDataset* self, const std::string& path, std::int64_t size, std::vector<int> channels,
                         const std::string& normalise, std::vector<int> targets, bool physical_targets,
                         std::vector<float> target_mean, std::vector<float> target_std, nb::handle comm) {
  using cosmoflow::Normalisation;
  const cosmoflow::UniverseOptions o{
      .size = size,
      .channels = std::move(channels),
      .normalisation = choose<Normalisation>(
          "normalise", normalise,
          {{"log1p", Normalisation::log1p}, {"mean", Normalisation::mean}, {"none", Normalisation::none}}),
      .targets = std::move(targets),
      .physical_targets = physical_targets,
      .target_mean = std::move(target_mean),
      .target_std = std::move(target_std)};
  const auto ranks = ranks_of(comm);
  const nb::gil_scoped_release release;
  new (self) UniverseDataset(path, o, communicator_of(ranks));
}

Targets targets_of(const UniverseDataset& data) {
  Targets targets;
  for (const auto& p : data.parameters())
    if (p.has_range)
      targets.emplace_back(p.name, (p.maximum - p.minimum) / 2, (p.maximum + p.minimum) / 2);
    else
      targets.emplace_back(p.name, 1, 0);
  return targets;
}

lm::TokenLevel level_of(const std::string& name) {
  return choose<lm::TokenLevel>("level", name, {{"word", lm::TokenLevel::word}, {"char", lm::TokenLevel::character}});
}

void construct_text(TextDataset* self, const std::vector<std::string>& files, std::int64_t streams, std::int64_t unroll,
                    const std::string& level_name, std::shared_ptr<TextDataset> like,
                    const std::optional<std::string>& vocabulary_text, std::int64_t vocab_size, std::int64_t min_count,
                    bool pad, nb::handle comm) {
  if (files.empty()) refuse("no file was given. Expected the paths of one or more texts");
  const auto level = like ? like->vocabulary->level() : level_of(level_name);
  const auto ranks = ranks_of(comm);
  const nb::gil_scoped_release release;
  auto scan = ranks ? lm::scan_text(files, level, ranks->get()) : lm::scan_text(files, level);
  auto words = like ? like->vocabulary
               : vocabulary_text
                   ? std::make_shared<const lm::Vocabulary>(lm::Vocabulary::from_text(*vocabulary_text, "vocabulary"))
                   : std::make_shared<const lm::Vocabulary>(scan, lm::VocabularyOptions{vocab_size, min_count});
  new (self) TextDataset(std::make_shared<const lm::TextCorpus>(std::move(scan)), std::move(words),
                         {.streams = streams, .unroll = unroll, .pad = pad});
}

/// Rank 0 looks for a statistics file beside the training data, as keelson-climate does. If there is none, all samples
/// are read once.
climate::ChannelRanges find_ranges(const climate::SnapshotDataset& data, Communicator* ranks) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(data.file_of(0)).parent_path();
  std::int64_t found = 0;
  if (!ranks || ranks->rank() == 0)
    found = fs::exists(folder / "stats.h5") ? 1 : fs::exists(folder / ".." / "stats.h5") ? 2 : 0;
  if (ranks) ranks->allreduce(&found, 1, Reduction::max);
  if (found == 0) return climate::measure_ranges(data, ranks);
  return climate::read_ranges(((found == 1 ? folder : folder / "..") / "stats.h5").string());
}

void construct_snapshots(climate::SnapshotDataset* self, const std::string& path, std::vector<int> channels, int labels,
                         const std::optional<std::string>& stats, std::shared_ptr<climate::SnapshotDataset> like,
                         bool normalise, nb::handle comm) {
  climate::SnapshotOptions o{.channels = std::move(channels), .labels = labels};
  if (like) o.channels = like->channels();
  const auto ranks = ranks_of(comm);
  const nb::gil_scoped_release release;
  Communicator* group = communicator_of(ranks);
  if (!normalise) {
    new (self) climate::SnapshotDataset(path, o, group);
    return;
  }
  const climate::SnapshotDataset opened(path, o, group);
  const auto ranges = like ? like->ranges() : stats ? climate::read_ranges(*stats) : find_ranges(opened, group);
  new (self) climate::SnapshotDataset(opened, ranges, stats.value_or(path));
}

/// "kind", 3, or a list of these, as texts.
std::vector<std::string> column_names(nb::handle given) {
  if (given.is_none()) return {};
  const bool is_one = nb::isinstance<nb::str>(given) || nb::isinstance<nb::int_>(given);
  std::vector<std::string> names;
  for (nb::handle one : is_one ? nb::make_tuple(given) : nb::tuple(given)) names.emplace_back(nb::str(one).c_str());
  return names;
}

void construct_table(TableDataset* self, const std::string& path, nb::handle targets, nb::handle features, bool classes,
                     bool standardise, std::optional<float> missing, const std::string& delimiter,
                     std::optional<bool> header, std::shared_ptr<TableDataset> like, nb::handle comm) {
  if (delimiter.size() > 1) refuse("the delimiter '{}': expected one character", delimiter);
  const TableOptions o{.targets = column_names(targets),
                       .features = column_names(features),
                       .classes = classes,
                       .standardise = standardise,
                       .missing = missing,
                       .delimiter = delimiter.empty() ? '\0' : delimiter[0],
                       .header = header};
  if (like && (!o.targets.empty() || !o.features.empty() || classes || standardise))
    refuse("columns and like: the columns, classes and scaling are those of like. Leave the others out");
  const auto ranks = ranks_of(comm);
  const nb::gil_scoped_release release;
  if (like)
    new (self) TableDataset(path, *like, communicator_of(ranks));
  else
    new (self) TableDataset(path, o, communicator_of(ranks));
}

void bind_tables(nb::module_& m) {
  nb::class_<TableDataset, Dataset>(
      m, "TableDataset",
      "A table in CSV or Parquet files, one sample for each row: x has the features, y the targets. path: a file, a\n"
      "folder or a pattern. targets, features: columns, by name or by number from 0 (-1: the last one); by default the "
      "last "
      "column\n"
      "is the target, and all others are features. classes: the target is a class of any name, and y its number "
      "(int32).\n"
      "standardise: features become (value - mean) / standard deviation. missing: replaces empty fields and NaN of\n"
      "features. Of CSV: delimiter: by default the one that the first row has. header: whether the first row has "
      "names;\n"
      "by default it does if no field in it is a number. like: read this table as that one was read, e.g. validation "
      "data.\n"
      "comm: ranks that parse the files together; then making it is collective.")
      .def("__init__", &construct_table, nb::arg("path"), nb::kw_only(), nb::arg("targets") = nb::none(),
           nb::arg("features") = nb::none(), nb::arg("classes") = false, nb::arg("standardise") = false,
           nb::arg("missing") = nb::none(), nb::arg("delimiter") = "", nb::arg("header") = nb::none(),
           nb::arg("like") = nb::none(), nb::arg("comm") = nb::none())
      .def_prop_ro("features", &TableDataset::features, "Names of the columns of x.")
      .def_prop_ro("targets", &TableDataset::targets, "Names of the columns of y.")
      .def_prop_ro("classes", &TableDataset::classes, "Names of the classes, by number.")
      .def_prop_ro("means", &TableDataset::means, "Mean of each feature, in the table's units.")
      .def_prop_ro("deviations", &TableDataset::deviations, "Standard deviation of each feature.");
}

void construct_array_files(ArrayFileDataset* self, const std::string& path, const std::string& x,
                           const std::optional<std::string>& y, const std::string& y_path,
                           const std::string& sample_dimension, bool one_per_file,
                           const std::optional<std::string>& layout, bool classes, std::optional<float> missing,
                           const std::vector<std::pair<std::string, std::string>>& inputs, bool standardise,
                           const std::vector<double>& means, const std::vector<double>& deviations,
                           std::shared_ptr<ArrayFileDataset> like, nb::handle comm) {
  std::vector<InputArray> more;
  for (const auto& [field, array] : inputs) more.push_back({field, array});
  const ArrayFileOptions o{.x = x,
                           .inputs = more,
                           .y = y.value_or(""),
                           .y_path = y_path,
                           .sample_dimension = sample_dimension,
                           .one_per_file = one_per_file,
                           .layout = choose<ArrayLayout>("layout", layout.value_or("none"),
                                                         {{"channels_last", ArrayLayout::channels_last},
                                                          {"channels_first", ArrayLayout::channels_first},
                                                          {"none", ArrayLayout::none}}),
                           .classes = classes,
                           .missing = missing,
                           .standardise = standardise,
                           .means = means,
                           .deviations = deviations};
  const auto ranks = ranks_of(comm);
  const nb::gil_scoped_release release;
  if (like)
    new (self) ArrayFileDataset(path, *like, y_path, communicator_of(ranks));
  else
    new (self) ArrayFileDataset(path, o, communicator_of(ranks));
}

void bind_array_files(nb::module_& m) {
  nb::class_<ArrayFileDataset, Dataset>(
      m, "ArrayFileDataset",
      "Samples in arrays of HDF5, NetCDF or NumPy files (.npy, .npz). path: a file, a folder or a pattern. x, y: "
      "names\n"
      "of arrays in each file, e.g. 'climate/data'; or, if the names end in .npy, files in the folder `path`, or\n"
      "patterns of them: x='images.npy', y='classes.npy'. y=None: there are no targets. y_path: the files\n"
      "that hold y, if others than those of x; the first of them belongs to the first file of x, and so on.\n"
      "sample_dimension: the dimension of NetCDF that counts samples; default: the first one. one_per_file: each file\n"
      "is one sample.\n"
      "layout: 'channels_last' (H, W, C), 'channels_first' (C, H, W), or None for samples without channels (H, W), "
      "which\n"
      "get one. classes: y are class numbers (int32). missing: replaces NaN, infinity and missing values of x.\n"
      "inputs: further arrays that a network reads, as pairs (field, array): [('u', 'views/u'), ('v', 'views/v')].\n"
      "standardise: x becomes (value - mean) / standard deviation, by channel, over all samples; means, deviations:\n"
      "those to take in place of the data's own. like: read these files as those ones were read, with the same means\n"
      "and deviations, e.g. validation data; then all other options but y_path are those of `like`.\n"
      "comm: ranks that open the files together; then making it is collective.")
      .def("__init__", &construct_array_files, nb::arg("path"), nb::kw_only(), nb::arg("x") = "x",
           nb::arg("y").none() = "y", nb::arg("y_path") = "", nb::arg("sample_dimension") = "",
           nb::arg("one_per_file") = false, nb::arg("layout").none() = "channels_last", nb::arg("classes") = false,
           nb::arg("missing") = nb::none(), nb::arg("inputs") = std::vector<std::pair<std::string, std::string>>(),
           nb::arg("standardise") = false, nb::arg("means") = std::vector<double>(),
           nb::arg("deviations") = std::vector<double>(), nb::arg("like") = nb::none(), nb::arg("comm") = nb::none())
      .def_prop_ro("means", &ArrayFileDataset::means, "Mean of each channel of x; empty: x is not standardised.")
      .def_prop_ro("deviations", &ArrayFileDataset::deviations, "Standard deviation of each channel of x.");
}

void bind_universes(nb::module_& m) {
  nb::class_<SampleTransform>(m, "SampleTransform", "A random change of training samples (data augmentation).")
      .def("__repr__", [](const SampleTransform& t) { return fmt::format("<keelson.data: {}>", t.describe()); });
  nb::class_<cosmoflow::RandomCubeSymmetry, SampleTransform>(
      m, "RandomCubeSymmetry", "One of the 48 symmetries of the cube, at random, for all cubic fields of a sample.")
      .def(nb::init<>());
  nb::class_<UniverseDataset, Dataset>(
      m, "UniverseDataset",
      "Simulated universes in HDF5, as keelson-cosmoflow reads them. path: a file, a folder or a pattern.\n"
      "size: edge of the cubes; stored volumes are cut into cubes of this size; 0: as stored. normalise: 'log1p', "
      "'mean', "
      "'none'.\n"
      "comm: ranks that open the files together; then making it is collective.")
      .def("__init__", &construct_universes, nb::arg("path"), nb::kw_only(), nb::arg("size") = 0,
           nb::arg("channels") = std::vector<int>(), nb::arg("normalise") = "log1p",
           nb::arg("targets") = std::vector<int>(), nb::arg("physical_targets") = false,
           nb::arg("target_mean") = std::vector<float>(), nb::arg("target_std") = std::vector<float>(),
           nb::arg("comm") = nb::none())
      .def_prop_ro("targets", &targets_of,
                   "(name, scale, offset) of each target, for keelson.metrics.MeanAbsoluteError.");
}

void bind_texts(nb::module_& m) {
  nb::class_<TextDataset, Dataset>(
      m, "TextDataset",
      "Windows of a text for truncated back-propagation through time, as keelson-lm reads them. streams: rows that "
      "are\n"
      "read side by side: the batch of all ranks together. unroll: tokens per window. level: 'word' or 'char'.\n"
      "The vocabulary is that of `like`, or of the text `vocabulary`, else made from the files. pad: also predict "
      "what\n"
      "is left of a row after whole windows (for validation).")
      .def("__init__", &construct_text, nb::arg("files"), nb::kw_only(), nb::arg("streams") = 20,
           nb::arg("unroll") = 35, nb::arg("level") = "word", nb::arg("like") = nb::none(),
           nb::arg("vocabulary") = nb::none(), nb::arg("vocab_size") = 0, nb::arg("min_count") = 1,
           nb::arg("pad") = false, nb::arg("comm") = nb::none())
      .def_prop_ro(
          "vocabulary_size", [](const TextDataset& d) { return d.vocabulary->size(); }, "Different tokens.")
      .def_prop_ro(
          "vocabulary", [](const TextDataset& d) { return d.vocabulary->to_text(); },
          "The vocabulary as text, in the form of checkpoints.")
      .def_prop_ro(
          "tokens", [](const TextDataset& d) { return d.windows.tokens(); }, "Number of tokens in the text.")
      .def(
          "decode",
          [](const TextDataset& d, const std::vector<std::int32_t>& ids) {
            std::vector<std::string> tokens;
            for (const auto id : ids) {
              if (id < 0 || id >= d.vocabulary->size())
                refuse("there is no token {}. Expected 0 to {}", id, d.vocabulary->size() - 1);
              tokens.emplace_back(d.vocabulary->token(id));
            }
            return tokens;
          },
          nb::arg("ids"), "The tokens of these numbers.")
      .def(
          "encode",
          [](const TextDataset& d, const std::vector<std::string>& tokens) {
            std::vector<std::int32_t> ids;
            for (const auto& token : tokens) ids.push_back(d.vocabulary->id(token));
            return ids;
          },
          nb::arg("tokens"), "The numbers of these tokens; unknown tokens have the number of <unk>.");
}

void bind_snapshots(nb::module_& m) {
  nb::class_<climate::SnapshotDataset, Dataset>(
      m, "SnapshotDataset",
      "Climate snapshots in HDF5, NetCDF or .npy files, as keelson-climate reads them. path: a file, a folder or a\n"
      "pattern. channels: by "
      "their\n"
      "numbers; empty: all 16. labels: which map of the files. Channels are normalised by the ranges in the file "
      "`stats`,\n"
      "or by those of the data set `like` (for validation), else by stats.h5 in the folder or beside it, else the "
      "data\n"
      "are read for them. comm: ranks that open the files together; then making it is collective.")
      .def("__init__", &construct_snapshots, nb::arg("path"), nb::kw_only(), nb::arg("channels") = std::vector<int>(),
           nb::arg("labels") = 0, nb::arg("stats") = nb::none(), nb::arg("like") = nb::none(),
           nb::arg("normalise") = true, nb::arg("comm") = nb::none())
      .def_prop_ro("channels", &climate::SnapshotDataset::channels, "The chosen channels.");
}

}  // namespace

void fit_to_reader(TrainerOptions& o, const Dataset& training, const Dataset* validation, int ranks) {
  if (const auto* text = dynamic_cast<const TextDataset*>(&training)) {
    if (text->windows.streams() != o.batch * ranks)
      refuse("the text was opened with {} streams. Expected batch * ranks = {}: give TextDataset(..., streams={})",
             text->windows.streams(), o.batch * ranks, o.batch * ranks);
    o.shuffle = false;
    o.unit = {"word", text->windows.unroll()};
    o.texts.emplace("vocabulary", text->vocabulary->to_text());
    o.config.emplace("level", text->vocabulary->level() == lm::TokenLevel::word ? "word" : "char");
    if (const auto* v = dynamic_cast<const TextDataset*>(validation))
      o.evaluation.units = static_cast<double>(v->windows.targets());
  }
  if (const auto* snapshots = dynamic_cast<const climate::SnapshotDataset*>(&training)) {
    std::vector<std::string> ranges;
    for (std::size_t c = 0; c < snapshots->ranges().size(); ++c)
      ranges.push_back(fmt::format("{}:{}", snapshots->ranges().least[c], snapshots->ranges().most[c]));
    o.config.emplace("ranges", fmt::format("{}", fmt::join(ranges, ",")));
    if (std::ssize(snapshots->channels()) != climate::kChannels)
      o.config.emplace("channels", fmt::format("{}", fmt::join(snapshots->channels(), ",")));
  }
}

void bind_readers(nb::module_& m) {
  bind_universes(m);
  bind_tables(m);
  bind_array_files(m);
  bind_texts(m);
  bind_snapshots(m);
  bind_generators(m);
}

}  // namespace keelson::python
