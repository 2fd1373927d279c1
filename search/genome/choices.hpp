#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "search/genome/genome.hpp"

namespace keelson::search {

/// The place of a gene in its part of a genome, and in the list of genes of a space.
constexpr std::size_t at(StageGene gene) { return static_cast<std::size_t>(gene); }
constexpr std::size_t at(DenseGene gene) { return static_cast<std::size_t>(gene); }     ///< the same
constexpr std::size_t at(TrainingGene gene) { return static_cast<std::size_t>(gene); }  ///< the same

/// The choices of a part of a genome, as texts and numbers. `GeneName`: the enum of the part's genes.
template <class GeneName, class Part>
class Choices {
 public:
  /// Both must outlive this object.
  Choices(const Part& part, const std::vector<Gene>& genes) : part_(part), genes_(genes) {}
  bool has(GeneName gene) const {
    return static_cast<std::size_t>(gene) < genes_.size();
  }  ///< whether the space has it
  /// The choice of a gene.
  const std::string& text(GeneName gene) const {
    const auto i = static_cast<std::size_t>(gene);
    return genes_[i].choices[static_cast<std::size_t>(part_[i])];
  }
  double number(GeneName gene) const { return std::stod(text(gene)); }        ///< as a number
  std::int64_t whole(GeneName gene) const { return std::stoll(text(gene)); }  ///< as a whole number
  bool yes(GeneName gene) const { return text(gene) == "yes"; }               ///< whether the choice is "yes"

 private:
  const Part& part_;
  const std::vector<Gene>& genes_;
};

using StageChoices = Choices<StageGene, Stage>;               ///< of a stage
using DenseChoices = Choices<DenseGene, DenseLayer>;          ///< of a dense layer
using TrainingChoices = Choices<TrainingGene, TrainingPart>;  ///< of a training

}  // namespace keelson::search
