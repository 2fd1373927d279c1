#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "search/genome/genome.hpp"

namespace keelson::search {

/// The choices of a part of a genome, as texts and numbers. `GeneName`: the enum of the part's genes.
template <class GeneName, class Part>
class Choices {
 public:
  Choices(const Part& part, const std::vector<Gene>& genes) : part_(part), genes_(genes) {}
  const std::string& text(GeneName gene) const {
    const auto i = static_cast<std::size_t>(gene);
    return genes_[i].choices[static_cast<std::size_t>(part_[i])];
  }
  double number(GeneName gene) const { return std::stod(text(gene)); }
  std::int64_t whole(GeneName gene) const { return std::stoll(text(gene)); }
  bool yes(GeneName gene) const { return text(gene) == "yes"; }

 private:
  const Part& part_;
  const std::vector<Gene>& genes_;
};

using StageChoices = Choices<StageGene, Stage>;
using DenseChoices = Choices<DenseGene, DenseLayer>;
using TrainingChoices = Choices<TrainingGene, TrainingPart>;

}  // namespace keelson::search
