#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engine/tensor/shape.hpp"

/// Searching for networks: what a network can be (genome/), how new networks come from old ones (breed/), what is known
/// so far (log/), and the loop of a worker (run/). docs/search.md explains the parts.
namespace keelson::search {

/// What can be chosen for one gene. A gene's value is the number of a choice, from 0.
struct Gene {
  std::string name;                  ///< "filters"
  std::vector<std::string> choices;  ///< as texts: "4", "6", "8"; or "relu", "tanh"
  bool ordered = false;              ///< choices are numbers in rising order: mutation prefers near ones

  /// The number of a choice as text. Throws InputError, naming gene and choices, for a text that is none of them.
  int index_of(const std::string& text) const;
  double number(int value) const;  ///< the choice as a number
};

/// The genes of one stage: a convolution with what follows it, a pooling, a residual block, a recurrent layer, or
/// nothing.
enum class StageGene : std::uint8_t {
  kind,
  filters,
  kernel_d,
  kernel_h,
  kernel_w,
  stride,
  padding,
  activation,
  batch_norm,
  dropout,
  hidden,  ///< units of a recurrent layer; only spaces of sequences, and those with copies, have this gene
  copies   ///< how often a convolution or a residual block is repeated; only spaces that name it have this gene
};
/// The genes of one dense layer.
enum class DenseGene : std::uint8_t {
  units,
  activation,
  batch_norm,
  dropout,
  copies  ///< how often the layer is repeated; only spaces that name it have this gene
};
/// The genes of the training.
enum class TrainingGene : std::uint8_t {
  optimizer,
  rate,
  momentum,
  weight_decay,
  batch,
  schedule,
  warmup,
  options  ///< settings of the optimizer, as keelson::read_settings() reads them; only spaces that name them have this
           ///< gene
};

constexpr std::size_t stage_genes = 12;    ///< number of StageGene
constexpr std::size_t dense_genes = 5;     ///< number of DenseGene
constexpr std::size_t training_genes = 8;  ///< number of TrainingGene

/// Values of the genes of a stage, in the order of StageGene.
using Stage = std::array<int, stage_genes>;
using DenseLayer = std::array<int, dense_genes>;       ///< the same of DenseGene
using TrainingPart = std::array<int, training_genes>;  ///< the same of TrainingGene

/// A network and its training, as a search changes them: stages, dense layers behind them, settings of the training.
/// The output layer and the loss follow from the data.
struct Genome {
  std::vector<Stage> stages;      ///< in the order of the data's way
  std::vector<DenseLayer> dense;  ///< behind the stages
  TrainingPart training{};        ///< settings of the training
  bool operator==(const Genome&) const = default;
};

/// The least and the most units, or copies, of a layer.
struct LayerRange {
  std::int64_t least = 0;  ///< at least
  std::int64_t most = 0;   ///< at most
};

/// All networks of a search: the data's shapes, the choices of each gene, and limits.
struct Space {
  Shape sample;              ///< of x, without the batch: (features), (C, H, W), (C, D, H, W), or (rows, columns)
  std::int64_t outputs = 1;  ///< classes, or numbers to predict
  bool classes = false;      ///< y is the number of a class; else numbers

  std::vector<Gene> stage, dense, training;  ///< in the order of the enums; without the last ones that no value needs
  std::size_t least_stages = 1;              ///< of a genome
  std::size_t most_stages = 8;               ///< of a genome
  std::size_t least_dense = 0;               ///< of a genome
  std::size_t most_dense = 3;                ///< of a genome

  /// Filters, hidden units and units by layer_name(), dense_name(); "*": of all layers without an entry. A layer
  /// without either has any of the gene's choices.
  std::map<std::string, LayerRange> widths;
  /// Copies, in the same way; not empty: layers without an entry have no copies.
  std::map<std::string, LayerRange> copies;

  std::int64_t most_parameters = 10'000'000;        ///< larger networks are not trained
  double most_flops = 1e11;                         ///< of a forward pass of one sample; the same
  std::int64_t most_bytes = std::int64_t{4} << 30;  ///< of an estimate of the memory of a step; the same

  /// All choices of the genes. A sample of one dimension has no stages, and 1 to 5 dense layers; stages of samples of
  /// two dimensions may be recurrent.
  static Space of(const Shape& sample, std::int64_t outputs, bool classes);
  /// Reads choices and limits from JSON; what is left out stays. {"stages": [1, 4], "dense": {"layers": [1, 3],
  /// "units": [16, 32]}, "training": {"optimizer": ["adam"]}, "limits": {"parameters": 100000}, "widths": {"stage1":
  /// [8, 64]}, "copies": {"*": [0, 2]}}. Numbers of units and copies need not be choices of this space. Throws
  /// InputError, naming the entry, for names and choices that this space does not have.
  void restrict(const std::string& json);
  std::string to_json() const;  ///< as restrict() reads it
  /// Makes the numbers of a genome, as to_json() writes it, choices of the genes that may have any number (units,
  /// copies, rate, weight decay, batch), and its optimizer one of the optimizers. Throws InputError for numbers that no
  /// space may have.
  void admit(const std::string& genome);

  int spatial_dims() const;                                 ///< of x; 0: features alone
  bool is_sequences() const { return sample.rank() == 2; }  ///< x is (steps, features)
};

/// One line of JSON: {"stages":[{"kind":"conv","filters":"16",...}],"dense":[...],"training":{...}}.
std::string to_json(const Genome& genome, const Space& space);
/// The settings of the training alone: {"optimizer":"adam",...}.
std::string to_json(const TrainingPart& training, const Space& space);
TrainingPart parse_training(const std::string& json, const Space& space);  ///< throws as parse_genome()
/// Throws InputError for anything else than to_json() writes.
Genome parse_genome(const std::string& json, const Space& space);

/// The genome whose network can be built: stages that cannot be are made smaller or left out (a kernel no larger than
/// what it reads, extents of at least 1), and genes that make no difference have their first value. Two genomes with
/// the same result are the same network and training.
Genome repaired(const Genome& genome, const Space& space);

}  // namespace keelson::search
