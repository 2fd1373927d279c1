#include "search/genome/ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/printable.hpp"
#include "search/genome/choices.hpp"
#include "search/genome/design.hpp"
#include "search/genome/extents.hpp"

namespace keelson::search {
namespace {

using Ranges = std::map<std::string, LayerRange>;

constexpr std::int64_t most_units = 1'000'000, most_copies = 100;

const LayerRange* find_range(const Ranges& ranges, const std::string& layer) {
  for (const std::string& name : {layer, std::string("*")})
    if (const auto found = ranges.find(name); found != ranges.end()) return &found->second;
  return nullptr;
}

/// The choice within the range that is nearest to the wanted one; apply_ranges() has made both ends choices.
int nearest_within(const LayerRange& range, const Gene& gene, int wanted) {
  const auto inside = std::clamp(std::llround(gene.number(wanted)), static_cast<long long>(range.least),
                                 static_cast<long long>(range.most));
  return gene.index_of(std::to_string(inside));
}

void keep_copies(int& copies, const std::vector<Gene>& genes, std::size_t place, const std::string& layer,
                 const Space& space) {
  if (space.copies.empty()) return;
  const LayerRange* range = find_range(space.copies, layer);
  copies = nearest_within(range ? *range : LayerRange{}, genes[place], copies);
}

/// Whether a network of the space can have a layer of this name.
bool can_have(const Space& space, const std::string& name, bool recurrent) {
  if (name == "*") return true;
  const auto is_one_of = [&](const std::string& prefix, const std::string& suffix, std::size_t most) {
    for (std::size_t i = 1; i <= most; ++i)
      if (name == fmt::format("{}{}{}", prefix, i, suffix)) return true;
    return false;
  };
  if (recurrent && space.is_sequences())
    for (const char* suffix : {"_lstm1", "_gru1"})
      if (is_one_of("stage", suffix, space.most_stages)) return true;
  return is_one_of("stage", "", space.most_stages) || is_one_of("dense", "", space.most_dense);
}

std::string names_of(const Space& space, bool recurrent) {
  std::string text;
  if (space.most_stages > 0) text += fmt::format("stage1 to stage{}, ", space.most_stages);
  if (recurrent && space.is_sequences()) text += "stage1_lstm1 and stage1_gru1 (recurrent stages) and so on, ";
  if (space.most_dense > 0) text += fmt::format("dense1 to dense{}, ", space.most_dense);
  return text + "and \"*\" for all others";
}

void check(const Ranges& ranges, const char* what, std::int64_t least, std::int64_t most, const Space& space) {
  const bool recurrent = &ranges == &space.widths;
  for (const auto& [name, range] : ranges) {
    if (!can_have(space, name, recurrent))
      refuse("{} of \"{}\": no network of the search has this layer; expected {}", what, printable(name),
             names_of(space, recurrent));
    if (range.least < least || range.most < range.least || range.most > most)
      refuse("{} of \"{}\" from {} to {}: expected two whole numbers from {} to {}, the least and the most", what, name,
             range.least, range.most, least, most);
  }
}

/// Entries for one gene: those of the layers that have it, and "*".
enum class Part : std::uint8_t { filters, hidden, dense };

bool is_of(const std::string& name, Part part) {
  if (name == "*") return true;
  if (name.starts_with("dense") || part == Part::dense) return name.starts_with("dense") && part == Part::dense;
  return (name.find('_') != std::string::npos) == (part == Part::hidden);
}

void set_choices(Gene& gene, const std::set<std::int64_t>& numbers) {
  gene.choices.clear();
  for (const std::int64_t n : numbers) gene.choices.push_back(std::to_string(n));
}

/// Both ends of each range, and those of the choices that a layer can have.
void fit_widths(Gene& gene, const Ranges& ranges, Part part) {
  std::set<std::int64_t> numbers;
  const bool any = !ranges.contains("*");
  for (const std::string& text : gene.choices) {
    const std::int64_t n = std::stoll(text);
    const auto has = [&](const auto& r) { return is_of(r.first, part) && r.second.least <= n && n <= r.second.most; };
    if (any || std::ranges::any_of(ranges, has)) numbers.insert(n);
  }
  for (const auto& [name, range] : ranges)
    if (is_of(name, part)) numbers.insert({range.least, range.most});
  set_choices(gene, numbers);
}

/// All numbers of the ranges.
void fit_copies(Gene& gene, const Ranges& ranges, Part part) {
  std::set<std::int64_t> numbers;
  if (!ranges.contains("*")) numbers.insert(0);
  for (const auto& [name, range] : ranges)
    for (std::int64_t n = range.least; n <= range.most && is_of(name, part); ++n) numbers.insert(n);
  set_choices(gene, numbers);
}

/// Units by the names of a network's layers.
std::map<std::string, std::int64_t> units_of(const Genome& genome, const Space& space) {
  std::map<std::string, std::int64_t> units;
  for (std::size_t i = 0; i < genome.stages.size(); ++i) {
    const StageChoices choices(genome.stages[i], space.stage);
    const StageKind kind = kind_of(genome.stages[i], space);
    if (kind == StageKind::conv || is_recurrent(kind))
      units[layer_name(genome.stages[i], i, space)] =
          choices.whole(kind == StageKind::conv ? StageGene::filters : StageGene::hidden);
  }
  for (std::size_t i = 0; i < genome.dense.size(); ++i)
    units[dense_name(i)] = DenseChoices(genome.dense[i], space.dense).whole(DenseGene::units);
  return units;
}

std::int64_t scaled(const LayerWidth& width, std::int64_t of_start) {
  if (width.units > 0) return width.units;
  return std::max<std::int64_t>(1, std::llround(width.times * static_cast<double>(of_start)));
}

/// The choice that is nearest to another gene's.
int nearest_choice(const Gene& gene, double number) {
  const auto distance = [&](int i) { return std::abs(gene.number(i) - number); };
  int nearest = 0;
  for (int i = 1; i < static_cast<int>(gene.choices.size()); ++i)
    if (distance(i) < distance(nearest)) nearest = i;
  return nearest;
}

/// A genome of another space that differs in choices of units and copies alone.
Genome moved(Genome genome, const Space& from, const Space& to) {
  const auto move = [](auto& part, auto gene, const std::vector<Gene>& old_genes, const std::vector<Gene>& genes) {
    const std::size_t place = at(gene);
    if (place >= genes.size()) return;
    const double number = place < old_genes.size() ? old_genes[place].number(part[place]) : 0;
    part[place] = nearest_choice(genes[place], number);
  };
  for (Stage& stage : genome.stages)
    for (const StageGene gene : {StageGene::filters, StageGene::hidden, StageGene::copies})
      move(stage, gene, from.stage, to.stage);
  for (DenseLayer& dense : genome.dense)
    for (const DenseGene gene : {DenseGene::units, DenseGene::copies}) move(dense, gene, from.dense, to.dense);
  return genome;
}

bool counts_in_start(const LayerWidth& width) { return width.units == 0; }

}  // namespace

std::string layer_name(const Stage& stage, std::size_t index, const Space& space) {
  const StageKind kind = kind_of(stage, space);
  const char* suffix = kind == StageKind::lstm ? "_lstm1" : kind == StageKind::gru ? "_gru1" : "";
  return fmt::format("stage{}{}", index + 1, suffix);
}

std::string dense_name(std::size_t index) { return fmt::format("dense{}", index + 1); }

void keep_within(Stage& stage, std::size_t index, const Space& space) {
  const StageKind kind = kind_of(stage, space);
  const std::string layer = layer_name(stage, index, space);
  if (kind == StageKind::conv || is_recurrent(kind)) {
    const std::size_t gene = at(kind == StageKind::conv ? StageGene::filters : StageGene::hidden);
    if (const LayerRange* range = find_range(space.widths, layer))
      stage[gene] = nearest_within(*range, space.stage[gene], stage[gene]);
  }
  if (kind == StageKind::conv || kind == StageKind::residual)
    keep_copies(stage[at(StageGene::copies)], space.stage, at(StageGene::copies), layer, space);
}

void keep_within(DenseLayer& dense, std::size_t index, const Space& space) {
  const std::string layer = dense_name(index);
  int& units = dense[at(DenseGene::units)];
  if (const LayerRange* range = find_range(space.widths, layer))
    units = nearest_within(*range, space.dense[at(DenseGene::units)], units);
  keep_copies(dense[at(DenseGene::copies)], space.dense, at(DenseGene::copies), layer, space);
}

void add_copies(Space& space) {
  const auto add = [](std::vector<Gene>& genes, std::size_t place) {
    if (genes.size() <= place) genes.push_back({"copies", {"0"}, true});
  };
  if (space.stage.size() <= at(StageGene::hidden)) space.stage.push_back({"hidden", {"16"}, true});
  add(space.stage, at(StageGene::copies));
  add(space.dense, at(DenseGene::copies));
}

void apply_ranges(Space& space) {
  check(space.widths, "units", 1, most_units, space);
  check(space.copies, "copies", 0, most_copies, space);
  if (!space.widths.empty()) {
    fit_widths(space.stage[at(StageGene::filters)], space.widths, Part::filters);
    if (space.is_sequences()) fit_widths(space.stage[at(StageGene::hidden)], space.widths, Part::hidden);
    fit_widths(space.dense[at(DenseGene::units)], space.widths, Part::dense);
  }
  if (space.copies.empty()) return;
  add_copies(space);
  fit_copies(space.stage[at(StageGene::copies)], space.copies, Part::filters);
  fit_copies(space.dense[at(DenseGene::copies)], space.copies, Part::dense);
}

void restrict_by(Space& space, const GrowthOptions& blueprint, Genome* start) {
  const Space before = space;
  const auto units = start ? units_of(*start, space) : std::map<std::string, std::int64_t>();
  const auto add = [&](const std::string& layer, const WidthRange& range, std::int64_t of_start) {
    space.widths[layer] = {scaled(range.least, of_start), scaled(range.most, of_start)};
  };
  for (const auto& [name, range] : blueprint.widths) {
    if (!counts_in_start(range.most) && (!counts_in_start(range.least) || !start)) {
      add(name, range, 1);
    } else if (!start) {
      refuse(
          "units of \"{}\" as a multiple: a search has no network to count in; give numbers of units, or the network "
          "with --start",
          printable(name));
    } else {
      for (const auto& [layer, count] : units)
        if (name == layer || (name == "*" && !blueprint.widths.contains(layer))) add(layer, range, count);
    }
  }
  for (const auto& [name, range] : blueprint.depth) space.copies[name] = {range.least, range.most};
  if (blueprint.parameters) {
    if (counts_in_start(*blueprint.parameters) && !start)
      refuse(
          "parameters as a multiple: a search has no network to count in; give a number, or the network with --start");
    space.most_parameters = scaled(*blueprint.parameters, start ? cost_of(*start, space).parameters : 1);
  }
  apply_ranges(space);
  if (start) *start = repaired(moved(*start, before, space), space);
}

}  // namespace keelson::search
