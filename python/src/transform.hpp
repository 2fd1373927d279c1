#pragma once

#include <memory>
#include <string>

#include "arrays.hpp"
#include "engine/data/sample_transform.hpp"
#include "objects.hpp"

namespace keelson::python {

/// A change of training samples by a function of Python: function(sample, seed) gets the arrays of a sample by field,
/// copies, and a number that is drawn from the SampleId alone, and returns the changed arrays by field. Fields that are
/// not returned stay. The function is called in threads of the loader, with the GIL.
class FunctionTransform final : public SampleTransform {
 public:
  /// Called with the GIL. `turns`: of the parameters that are trained, which must outlive this; the function cannot
  /// compute with them.
  FunctionTransform(nb::callable function, const Turns& turns);
  ~FunctionTransform() override;
  void check(const Dataset&) const override {}
  /// Throws the function's exceptions, and InputError for results of other fields, shapes or dtypes.
  void apply(const SampleId& id, const std::vector<Field>& fields, void* const* sample) const override;
  std::string describe() const override { return description_; }

 private:
  nb::callable function_;
  const Turns& turns_;
  std::string description_;  ///< the function's module and name, the same on all ranks
};

/// The transform of the user's object: None, a SampleTransform, or a function. Throws InputError for others.
std::shared_ptr<SampleTransform> transform_of(nb::handle given, const Turns& turns);

}  // namespace keelson::python
