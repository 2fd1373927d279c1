#include "search/genome/genome.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/printable.hpp"
#include "engine/optim/optimizers.hpp"
#include "search/genome/ranges.hpp"

namespace keelson::search {
namespace {

using nlohmann::json;

std::vector<std::string> texts(double from, double to, double factor) {
  std::vector<std::string> all;
  for (double value = from; value <= to * 1.01; value *= factor) all.push_back(fmt::format("{:.3g}", value));
  return all;
}

/// Whole numbers in steps of sqrt(2).
std::vector<std::string> powers(int from, int to) {
  std::vector<std::string> all;
  for (double value = from; value <= to * 1.01; value *= std::sqrt(2.0))
    all.push_back(std::to_string(std::lround(value)));
  return all;
}

const std::vector<std::string> activations = {"relu", "leaky_relu", "tanh", "gelu", "silu", "elu"};
const std::vector<std::string> kernels = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
const std::vector<std::string> dropouts = {"0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6"};

constexpr int most_layers = 100;  // stages, or dense layers, of a genome

json json_of(const std::vector<int>& values, const std::vector<Gene>& genes) {
  json out = json::object();
  for (std::size_t i = 0; i < genes.size(); ++i)
    out[genes[i].name] = genes[i].choices[static_cast<std::size_t>(values[i])];
  return out;
}

template <std::size_t n>
json json_of(const std::array<int, n>& values, const std::vector<Gene>& genes) {
  return json_of(std::vector<int>(values.begin(), values.end()), genes);
}

/// A gene of one choice may be missing; so may copies, which are then the fewest.
template <std::size_t n>
std::array<int, n> parse_part(const json& from, const std::vector<Gene>& genes) {
  std::array<int, n> values{};
  for (std::size_t i = 0; i < genes.size(); ++i) {
    const auto found = from.find(genes[i].name);
    if (found == from.end() && (genes[i].choices.size() == 1 || genes[i].name == "copies")) continue;
    if (found == from.end() || !found->is_string()) refuse("a genome without \"{}\": {}", genes[i].name, from.dump());
    values[i] = genes[i].index_of(found->get<std::string>());
  }
  return values;
}

json parse_object(const std::string& text, const char* what) {
  json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) refuse("{} is no JSON object: {}", what, text.substr(0, 200));
  return parsed;
}

/// A choice as a user writes it: "relu", 16, 0.1, true.
std::string choice_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.dump();
}

std::vector<std::string> texts_of(const json& choices) {
  std::vector<std::string> all;
  for (const auto& choice : choices) all.push_back(choice_text(choice));
  return all;
}

/// The numbers of a list, which need not be choices of the gene. In the order of their sizes, as mutation expects it.
template <class T>
std::vector<std::string> numbers_of(const Gene& gene, const json& choices, T least) {
  if (!choices.is_array()) return gene.choices;
  std::vector<std::string> all = texts_of(choices);
  for (const std::string& text : all)
    if (const auto number = parse_number<T>(text); !number || !(*number >= least))
      refuse("the gene \"{}\" has the choice \"{}\"; expected {}numbers, {} or more", gene.name, printable(text),
             std::is_integral_v<T> ? "whole " : "", least);
  std::ranges::stable_sort(all, {}, [](const std::string& text) { return *parse_number<T>(text); });
  return all;
}

/// Replaces the choices of a gene that may have others than those of Space::of().
void offer(Gene& gene, const json& choices) {
  const std::string& name = gene.name;
  if (name == "optimizer") gene.choices = optimizer_names();  // more than a search chooses by itself
  if (name == "rate" || name == "weight_decay") gene.choices = numbers_of(gene, choices, 0.0f);
  if (name == "batch" || name == "filters" || name == "units" || name == "hidden")
    gene.choices = numbers_of(gene, choices, std::int32_t{1});
  if (name == "copies") gene.choices = numbers_of(gene, choices, std::int32_t{0});
}

/// Adds the choice of a genome to the gene's, if the gene may have it.
void admit_choice(Gene& gene, const json& part) {
  const auto found = part.find(gene.name);
  if (found == part.end() || !found->is_string()) return;
  const auto text = found->get<std::string>();
  if (std::ranges::find(gene.choices, text) != gene.choices.end()) return;
  json wider = gene.choices;
  wider.push_back(text);
  Gene other = gene;
  offer(other, wider);
  if (gene.name == "options") other.choices = texts_of(wider);
  if (std::ranges::find(other.choices, text) != other.choices.end()) gene.choices = other.choices;
}

void restrict_gene(Gene& gene, const json& choices) {
  if (!choices.is_array() || choices.empty()) refuse("the space: \"{}\" must be a list of choices", gene.name);
  std::vector<int> kept;
  for (const auto& choice : choices) kept.push_back(gene.index_of(choice_text(choice)));
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  std::vector<std::string> left;
  for (const int i : kept) left.push_back(gene.choices[static_cast<std::size_t>(i)]);
  gene.choices = left;
}

void restrict_genes(std::vector<Gene>& genes, const json& part, const std::string& where, const char* count,
                    std::size_t& least, std::size_t& most) {
  if (!part.is_object()) refuse("the space: \"{}\" must be an object of lists of choices", where);
  for (const auto& [name, value] : part.items()) {
    if (count != nullptr && name == count) {
      if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() || !value[1].is_number_unsigned() ||
          value[0] > value[1] || value[1] > most_layers)
        refuse("the space: \"{}\" of \"{}\" must be two numbers, the least and the most, at most {}", name, where,
               most_layers);
      least = value[0].get<std::size_t>();
      most = value[1].get<std::size_t>();
      continue;
    }
    const auto gene = std::find_if(genes.begin(), genes.end(), [&](const Gene& g) { return g.name == name; });
    if (gene == genes.end()) {
      std::string all;
      for (const Gene& g : genes) all += (all.empty() ? "" : ", ") + g.name;
      refuse("the space: \"{}\" has no gene \"{}\"; it has {}", where, name, all);
    }
    offer(*gene, value);
    restrict_gene(*gene, value);
  }
}

/// "options" of the training: lists of settings that all optimizers of the space must have.
void restrict_training(std::vector<Gene>& genes, const json& part) {
  const auto options = part.find("options");
  if (options != part.end() && genes.size() < training_genes)
    genes.push_back({"options", options->is_array() ? texts_of(*options) : std::vector<std::string>(), false});
  std::size_t none = 0;
  restrict_genes(genes, part, "training", nullptr, none, none);
  if (genes.size() < training_genes) return;
  for (const std::string& optimizer : genes[static_cast<std::size_t>(TrainingGene::optimizer)].choices)
    for (const std::string& text : genes.back().choices) read_settings(*make_optimizer(optimizer), text);
}

/// "widths" and "copies": an object of the least and the most by layer.
std::map<std::string, LayerRange> parse_ranges(const json& part, const std::string& where) {
  std::map<std::string, LayerRange> ranges;
  if (!part.is_object())
    refuse("the space: \"{}\" must be an object of pairs of numbers, the least and the most", where);
  for (const auto& [name, value] : part.items()) {
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_integer() || !value[1].is_number_integer())
      refuse("the space: \"{}\" of \"{}\" must be two whole numbers, the least and the most", printable(name), where);
    ranges[name] = {value[0].get<std::int64_t>(), value[1].get<std::int64_t>()};
  }
  return ranges;
}

json json_of(const std::map<std::string, LayerRange>& ranges) {
  json all = json::object();
  for (const auto& [name, range] : ranges) all[name] = {range.least, range.most};
  return all;
}

json choices_of(const std::vector<Gene>& genes) {
  json all = json::object();
  for (const Gene& g : genes) all[g.name] = g.choices;
  return all;
}

}  // namespace

int Gene::index_of(const std::string& text) const {
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end()) return static_cast<int>(found - choices.begin());
  std::string all;
  for (const auto& c : choices) all += (all.empty() ? "" : ", ") + c;
  refuse("the gene \"{}\" has no choice \"{}\"; it has {}", name, text, all);
}

double Gene::number(int value) const { return std::stod(choices[static_cast<std::size_t>(value)]); }

Space Space::of(const Shape& sample, std::int64_t outputs, bool classes) {
  Space s;
  s.sample = sample;
  s.outputs = outputs;
  s.classes = classes;
  s.stage = {{"kind", {"conv", "pool", "residual", "identity"}, false},
             {"filters", powers(4, 256), true},
             {"kernel_d", kernels, true},
             {"kernel_h", kernels, true},
             {"kernel_w", kernels, true},
             {"stride", {"1", "2"}, true},
             {"padding", {"same", "valid"}, false},
             {"activation", activations, false},
             {"batch_norm", {"no", "yes"}, false},
             {"dropout", dropouts, true}};
  s.dense = {{"units", powers(16, 1024), true},
             {"activation", activations, false},
             {"batch_norm", {"no", "yes"}, false},
             {"dropout", dropouts, true}};
  s.training = {{"optimizer", {"sgd", "adam", "adamw", "lamb"}, false},
                {"rate", texts(1e-4, 0.3162, std::pow(10.0, 0.125)), true},
                {"momentum", {"0", "0.5", "0.8", "0.9", "0.95", "0.99"}, true},
                {"weight_decay", {"0", "1e-06", "1e-05", "0.0001", "0.001", "0.01"}, true},
                {"batch", {"8", "16", "32", "64", "128", "256"}, true},
                {"schedule", {"constant", "linear", "cosine"}, false},
                {"warmup", {"0", "0.05", "0.1", "0.2"}, true}};
  if (s.is_sequences()) {
    for (const char* cell : {"lstm", "gru"}) s.stage[0].choices.emplace_back(cell);
    s.stage.push_back({"hidden", powers(16, 1024), true});
  }
  if (s.spatial_dims() == 0) {
    s.least_stages = s.most_stages = 0;
    s.least_dense = 1;
    s.most_dense = 5;
  }
  return s;
}

int Space::spatial_dims() const { return sample.rank() <= 1 ? 0 : sample.rank() == 2 ? 2 : sample.rank() - 1; }

void Space::restrict(const std::string& text) {
  const json parts = parse_object(text, "the space");
  const auto names_copies = [&](const char* part) {
    return parts.contains(part) && parts[part].is_object() && parts[part].contains("copies");
  };
  if (names_copies("stages") || names_copies("dense")) add_copies(*this);
  for (const auto& [name, value] : parts.items()) {
    if (name == "stages") {
      restrict_genes(stage, value, name, "number", least_stages, most_stages);
    } else if (name == "dense") {
      restrict_genes(dense, value, name, "layers", least_dense, most_dense);
    } else if (name == "training") {
      restrict_training(training, value);
    } else if (name == "limits") {
      const auto limit = [&, &limits = value](const char* what, auto& most) {
        if (!limits.contains(what)) return;
        if (!limits[what].is_number()) refuse("the space: \"{}\" of \"limits\" must be a number", what);
        most = limits[what].get<std::remove_reference_t<decltype(most)>>();
      };
      if (!value.is_object()) refuse("the space: \"limits\" must be an object of numbers");
      limit("parameters", most_parameters);
      limit("flops", most_flops);
      limit("bytes", most_bytes);
    } else if (name == "widths") {
      widths = parse_ranges(value, name);
    } else if (name == "copies") {
      copies = parse_ranges(value, name);
    } else {
      refuse("the space has no part \"{}\"; it has stages, dense, training, widths, copies and limits", name);
    }
  }
  apply_ranges(*this);
  if (spatial_dims() == 0 && most_stages > 0) refuse("the space: samples of one dimension have no stages");
}

void Space::admit(const std::string& text) {
  const json genome = parse_object(text, "the genome");
  const auto parts = [&](const char* name) { return genome.value(name, json::array()); };
  const auto admit_parts = [](std::vector<Gene>& genes, const json& given) {
    for (const json& part : given)
      for (Gene& gene : genes)
        if (part.is_object()) admit_choice(gene, part);
  };
  for (const char* name : {"stages", "dense"})
    for (const json& part : parts(name))
      if (part.is_object() && part.contains("copies")) add_copies(*this);
  const json settings = genome.value("training", json::object());
  if (settings.is_object() && settings.contains("options") && training.size() < training_genes)
    training.push_back({"options", {""}, false});
  admit_parts(stage, parts("stages"));
  admit_parts(dense, parts("dense"));
  admit_parts(training, json::array({settings}));
}

std::string Space::to_json() const {
  json all{{"stages", choices_of(stage)}, {"dense", choices_of(dense)}, {"training", choices_of(training)}};
  all["stages"]["number"] = {least_stages, most_stages};
  all["dense"]["layers"] = {least_dense, most_dense};
  if (!widths.empty()) all["widths"] = json_of(widths);
  if (!copies.empty()) all["copies"] = json_of(copies);
  all["limits"] = {{"parameters", most_parameters}, {"flops", most_flops}, {"bytes", most_bytes}};
  return all.dump();
}

std::string to_json(const Genome& genome, const Space& space) {
  json stages = json::array(), dense = json::array();
  for (const Stage& s : genome.stages) stages.push_back(json_of(s, space.stage));
  for (const DenseLayer& d : genome.dense) dense.push_back(json_of(d, space.dense));
  return json{{"stages", stages}, {"dense", dense}, {"training", json_of(genome.training, space.training)}}.dump();
}

std::string to_json(const TrainingPart& training, const Space& space) {
  return json_of(training, space.training).dump();
}

TrainingPart parse_training(const std::string& text, const Space& space) {
  return parse_part<training_genes>(parse_object(text, "the training"), space.training);
}

Genome parse_genome(const std::string& text, const Space& space) {
  const json from = parse_object(text, "the genome");
  for (const char* part : {"stages", "dense", "training"})
    if (!from.contains(part) || from[part].is_object() != (std::string(part) == "training"))
      refuse("a genome without \"{}\": {}", part, text.substr(0, 200));
  Genome genome;
  for (const auto& s : from["stages"]) genome.stages.push_back(parse_part<stage_genes>(s, space.stage));
  for (const auto& d : from["dense"]) genome.dense.push_back(parse_part<dense_genes>(d, space.dense));
  genome.training = parse_part<training_genes>(from["training"], space.training);
  return genome;
}

}  // namespace keelson::search
